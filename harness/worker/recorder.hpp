// The observer of a recording run.
#pragma once

#include "harness/worker/placed_array.hpp"
#include "impls/contract.hpp"

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace clusterbench {

/// Keeps the centroids of every pass, and everything else that it is told. Phases on a GPU are
/// timed by events of the stream that they are put into, others by a steady clock.
template <typename T>
class Recorder final : public Observer<T> {
public:
  /// device: where the centroids lie, for Place::device
  explicit Recorder(Place place, int device = 0) : place_(place), device_(device) {}

  bool recording() const override { return true; }
  void pass(std::span<const T> centroids) override {
    const std::size_t before = passes_.size();
    passes_.resize(before + centroids.size());
    if (place_ == Place::device) {
      device_calls().synchronize();
      device_calls().download(device_, passes_.data() + before, centroids.data(),
                              centroids.size_bytes());
    } else {
      std::ranges::copy(centroids, passes_.begin() + static_cast<std::ptrdiff_t>(before));
    }
  }
  void begin_phase(std::string_view name, void* stream) override {
    phase_name_ = name;
    if (place_ == Place::device && stream != nullptr) {
      mark_ = device_calls().mark(stream);
    }
    phase_start_ = std::chrono::steady_clock::now();
  }
  void end_phase(void* stream) override {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - phase_start_;
    const double seconds = place_ == Place::device && stream != nullptr
                               ? device_calls().seconds_between(mark_, device_calls().mark(stream))
                               : elapsed.count();
    phase(phase_name_, seconds);
  }
  void phase(std::string_view name, double seconds) override {
    phases_[std::string(name)] += seconds;
  }
  void printed_loss(double loss) override { printed_losses_.push_back(loss); }
  void counter(std::string_view name, double value) override {
    counters_[std::string(name)] += value;
  }

  const std::vector<T>& passes() const { return passes_; }                ///< [passes, k, d]
  const std::map<std::string, double>& phases() const { return phases_; } ///< seconds, whole run
  const std::vector<double>& printed_losses() const { return printed_losses_; }
  const std::map<std::string, double>& counters() const { return counters_; }

private:
  Place place_;
  int device_;
  std::vector<T> passes_;
  std::string phase_name_;
  std::chrono::steady_clock::time_point phase_start_{};
  void* mark_ = nullptr;
  std::map<std::string, double> phases_;
  std::vector<double> printed_losses_;
  std::map<std::string, double> counters_;
};

} // namespace clusterbench
