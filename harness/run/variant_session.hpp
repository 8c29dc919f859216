// One variant on one shape, with all that is the harness's and not the variant's: memory where the
// variant computes, copies to and from it, the poison, and the clock.
#pragma once

#include "harness/run/memory_place.hpp"
#include "impls/contract.hpp"

#include <memory>
#include <span>
#include <string>

namespace clusterbench {

/// Prepares a variant and runs it. Times are seconds of a steady clock, or of a program's own clock
/// where the variant runs in another program.
template <typename T>
class VariantSession {
public:
  VariantSession(const Meta& meta, std::unique_ptr<Variant<T>> variant, const Shape& shape);

  Variant<T>& variant() { return *variant_; }
  std::string refuse() const { return variant_->refuse(shape_); }

  /// Brings the points, [n, d] in host memory, to where the variant computes, and prepares it. They
  /// must outlive the session. Throws what the variant throws.
  void prepare(std::span<const T> points);

  /// Poisons the answer, runs from `start` (host memory), waits for the whole device, and copies the
  /// answer into `answer` (host memory). What the variant writes later is never seen. Throws what the
  /// variant throws.
  void run(const Start<T>& start, Result<T>& answer, Observer<T>& observer);

  double upload_seconds() const { return upload_seconds_; }
  double prepare_seconds() const { return prepare_seconds_; }
  double run_seconds() const { return run_seconds_; }           ///< of the last run
  double download_seconds() const { return download_seconds_; } ///< of the last run's answer

private:
  Shape shape_;
  MemoryPlace place_;
  bool has_memberships_;
  // The variant goes first: it may still refer to the memory.
  PlacedArray<T> points_, start_, centroids_, memberships_;
  PlacedArray<std::int32_t> labels_;
  std::unique_ptr<Variant<T>> variant_;
  double upload_seconds_ = 0.0, prepare_seconds_ = 0.0, run_seconds_ = 0.0, download_seconds_ = 0.0;
};

} // namespace clusterbench
