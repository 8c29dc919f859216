// Oracle runs kept on disk, one file per problem hash.
#pragma once

#include "harness/judge/oracle.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace clusterbench {

/// Where the program keeps them. Children must not look into it; see hide_folder().
std::filesystem::path oracle_cache_folder();

/// The run stored under `hash`, or nothing if there is none or its file is damaged.
/// hash: file-name characters only, [A-Za-z0-9._-]; throws std::invalid_argument otherwise.
std::optional<OracleRun> load_oracle_run(const std::filesystem::path& cache,
                                         const std::string& hash);

/// Stores `run` under `hash`: written to a temporary file that is then renamed, so that a reader
/// sees all of it or nothing. Creates the folder. Throws std::runtime_error if it cannot.
void store_oracle_run(const std::filesystem::path& cache, const std::string& hash,
                      const OracleRun& run);

/// The cached run of `problem`, computed and stored if need be.
/// hash: of everything that determines the answer: data in the precision T, k, initial state,
/// stop rule, fuzzifier, family.
template <typename T>
OracleRun cached_oracle_run(const std::filesystem::path& cache, const std::string& hash,
                            Family family, const Problem<T>& problem);

} // namespace clusterbench
