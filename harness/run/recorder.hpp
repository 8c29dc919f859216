// The observer of the recording run.
#pragma once

#include "harness/run/shared_memory.hpp"
#include "impls/contract.hpp"

#include <map>
#include <string>
#include <vector>

namespace clusterbench {

/// Appends the centroids of every pass to a descriptor and keeps everything else it is told.
template <typename T>
class Recorder final : public Observer<T> {
public:
  explicit Recorder(int trace_fd) : trace_fd_(trace_fd) {}

  bool recording() const override { return true; }
  void pass(std::span<const T> centroids) override {
    const auto bytes = std::as_bytes(centroids);
    write_all(trace_fd_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    ++passes_;
  }
  void phase(std::string_view name, double seconds) override {
    phases_[std::string(name)] += seconds;
  }
  void printed_loss(double loss) override { printed_losses_.push_back(loss); }
  void counter(std::string_view name, double value) override {
    counters_[std::string(name)] += value;
  }

  std::size_t passes() const { return passes_; }
  const std::map<std::string, double>& phases() const { return phases_; } ///< seconds, whole run
  const std::vector<double>& printed_losses() const { return printed_losses_; }
  const std::map<std::string, double>& counters() const { return counters_; }

private:
  int trace_fd_;
  std::size_t passes_ = 0;
  std::map<std::string, double> phases_;
  std::vector<double> printed_losses_;
  std::map<std::string, double> counters_;
};

} // namespace clusterbench
