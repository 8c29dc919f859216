#include "harness/campaign/checking_process.hpp"

namespace clusterbench {
namespace {

Shape one_pass(Shape shape) {
  shape.stop = {StopRule::Kind::iterations, 0.0, 1};
  return shape;
}

} // namespace

template <typename T>
CheckingProcess<T>::CheckingProcess(const CellTask<T>& cell)
    : cell_(cell), memory_(cell.problem.shape(), cell.work.spec.family, cell.work.points->place(),
                           cell.variant.gives_entering, &cell.work.points->weights),
      memory_of_passes_(one_pass(cell.problem.shape()), cell.work.spec.family,
                        cell.work.points->place(), cell.variant.gives_entering,
                        &cell.work.points->weights),
      worker_(cell.variant, options()) {}

template <typename T>
WorkerOptions CheckingProcess<T>::options() const {
  WorkerOptions options = cell_.options;
  options.descriptors = memory_.descriptors();
  const std::vector<int> others = memory_of_passes_.descriptors();
  options.descriptors.insert(options.descriptors.end(), others.begin(), others.end());
  const Shape shape = cell_.problem.shape();
  const double recorded = static_cast<double>(shape.stop.max_iterations) *
                          static_cast<double>(shape.k * shape.d * sizeof(T));
  options.largest_file = static_cast<std::size_t>(std::min(recorded, 1e18));
  return options;
}

template <typename T>
void CheckingProcess<T>::prepare(Prepared what) {
  if (prepared_ != what) {
    worker_.points(what == Prepared::whole_runs ? memory_.request() : memory_of_passes_.request());
    worker_.prepare();
    prepared_ = what;
  }
}

template <typename T>
TakenAnswer<T> CheckingProcess<T>::record(std::size_t number) {
  prepare(Prepared::whole_runs);
  memory_.put_start(cell_.start(number));
  const RunReply run = worker_.run(/*record=*/true);
  worker_.take();
  TakenAnswer<T> answer = memory_.answer(run.iterations);
  answer.start = number;
  const std::size_t pass = cell_.problem.k * cell_.problem.d;
  if (cell_.variant.records) {
    answer.recorded = memory_.recorded();
  }
  report_ = {{"phases_ms", nlohmann::json::object()},
             {"counters", run.reply.value("counters", nlohmann::json::object())},
             {"printed_loss", run.reply.value("printed_loss", nlohmann::json::array())},
             {"recorded_passes", answer.recorded.size() / pass}};
  const nlohmann::json phases = run.reply.value("phases", nlohmann::json::object());
  for (const auto& [name, seconds] : phases.items()) {
    if (seconds.is_number()) {
      report_["phases_ms"][name] = seconds.template get<double>() * 1e3;
    }
  }
  return answer;
}

template <typename T>
TakenAnswer<T> CheckingProcess<T>::single_pass(std::span<const T> state) {
  prepare(Prepared::single_passes);
  memory_of_passes_.put_start(state);
  const RunReply run = worker_.run();
  worker_.take();
  return memory_of_passes_.answer(run.iterations);
}

template class CheckingProcess<float>;
template class CheckingProcess<double>;

} // namespace clusterbench
