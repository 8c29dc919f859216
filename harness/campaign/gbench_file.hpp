// The file of a ledger's samples that Google Benchmark's own tools read.
#pragma once

#include "harness/ledger/row.hpp"

#include <filesystem>
#include <vector>

namespace clusterbench {

/// Writes the rows that have times into `path`: their context, and one benchmark per raw sample,
/// times in ms. Without such a row no file is written. Throws datasets::OutputError.
void write_gbench(const std::filesystem::path& path, const std::vector<Row>& rows);

} // namespace clusterbench
