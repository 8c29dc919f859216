// Which problems a variant from outside is judged on, and which variants stand beside it.
#pragma once

#include "harness/problem/registry.hpp"
#include "harness/problem/table.hpp"

#include <cstddef>
#include <vector>

namespace clusterbench {

/// The default problems of the variant's family: the first five of results/judge/<family>.json that
/// the variant declares to take and that fit the memory, each as a table's problem. Throws
/// datasets::InputError if the file is missing or wrong.
Table default_problems(const KnownVariant& variant);

/// The two fastest variants of this build and the fastest installed program of another ecosystem
/// that are of the variant's family and device, have the precision and can run here, by the order
/// of results/judge/<family>.json. One that claims no exact labels is no measure for one that does.
/// weighted: whether they have to take weights.
std::vector<const KnownVariant*> usual_company(const KnownVariant& variant, Precision precision,
                                               bool weighted);

} // namespace clusterbench
