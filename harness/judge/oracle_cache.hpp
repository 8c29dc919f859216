// Oracle runs kept on disk, one file per problem.
#pragma once

#include "harness/judge/oracle.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace clusterbench {

/// Where the program keeps them; empty where nothing says which folder that is, and none are kept.
/// No variant may reach it.
std::filesystem::path oracle_cache_folder();

/// The run stored under `key`, or nothing if there is none, or if the file is damaged or another
/// problem's. Throws std::invalid_argument if `key` holds other characters than [A-Za-z0-9._-].
std::optional<OracleRun> load_oracle_run(const std::filesystem::path& cache,
                                         const std::string& key);

/// Stores `run` under `key`: written to a temporary file that is then renamed, so that a reader
/// sees all of it or nothing. Creates the folder. Throws std::runtime_error if it cannot.
void store_oracle_run(const std::filesystem::path& cache, const std::string& key,
                      const OracleRun& run);

/// The cached run of `problem`, computed and stored if need be; a file that does not fit is written
/// anew. key: problem_key() of it. Throws what run_oracle() throws.
template <typename T>
OracleRun cached_oracle_run(const std::filesystem::path& cache, const std::string& key,
                            Family family, const Problem<T>& problem,
                            const OracleOptions& options = {});

} // namespace clusterbench
