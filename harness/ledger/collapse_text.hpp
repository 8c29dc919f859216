// A collapse of fuzzy c-means in words.
#pragma once

#include "harness/ledger/row.hpp"

#include <string>

namespace clusterbench {

/// That the centres of a row's answer coincide, as an end of a sentence; empty where they do not.
std::string collapse_text(const Row& row);

} // namespace clusterbench
