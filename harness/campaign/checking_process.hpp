// The untimed process of a cell: recording runs, and single passes from given states.
#pragma once

#include "harness/campaign/cell_memory.hpp"
#include "harness/campaign/cell_task.hpp"

#include <nlohmann/json.hpp>
#include <vector>

namespace clusterbench {

/// One process. A child is given states to start from and never learns what is made of them. Throws
/// WorkerFailure.
template <typename T>
class CheckingProcess {
public:
  explicit CheckingProcess(const CellTask<T>& cell);

  /// One recording run. Where the program records nothing, the answer alone.
  TakenAnswer<T> record(std::size_t number);

  /// One pass from a state, at full size.
  TakenAnswer<T> single_pass(std::span<const T> state);

  /// Of the last recording run: phases_ms, counters, printed_loss, recorded_passes.
  const nlohmann::json& report() const { return report_; }

private:
  enum class Prepared { nothing, whole_runs, single_passes };
  WorkerOptions options() const;
  void prepare(Prepared what);

  const CellTask<T>& cell_;
  CellMemory<T> memory_, memory_of_passes_;
  Worker worker_;
  Prepared prepared_ = Prepared::nothing;
  nlohmann::json report_;
};

} // namespace clusterbench
