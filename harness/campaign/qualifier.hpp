// Qualifies variants: before its first cell each has to solve the small awkward problems.
#pragma once

#include "harness/problem/registry.hpp"
#include "harness/worker/worker.hpp"

#include <map>
#include <string>
#include <utility>

namespace clusterbench {

/// How a variant came through: `ok`, or the status of its row, with why.
struct Qualification {
  std::string status = "ok", message;
  std::string last_words; ///< what its process printed last
};

/// Asks each variant once in each precision, and remembers.
class Qualifier {
public:
  /// options: of the processes, but for their descriptors.
  explicit Qualifier(WorkerOptions options) : options_(std::move(options)) {}

  /// Runs the variant on all problems that its description does not exclude, in one process, and
  /// judges each answer. The variant must be available.
  template <typename T>
  Qualification qualify(const KnownVariant& variant);

private:
  WorkerOptions options_;
  std::map<std::string, Qualification> known_; ///< by variant and precision
};

} // namespace clusterbench
