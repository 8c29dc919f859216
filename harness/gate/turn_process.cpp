#include "harness/gate/turn_process.hpp"

#include "harness/gate/build_modules.hpp"
#include "harness/gate/processors.hpp"
#include "harness/machine/disturbance.hpp"
#include "harness/system/process.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <limits>
#include <thread>

namespace clusterbench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

} // namespace

template <typename T>
TurnProcess<T>::TurnProcess(const std::filesystem::path& build, const CellTask<T>& cell,
                            std::size_t processor, std::vector<std::string> wrapper)
    : cell_(cell), memory_(cell.problem.shape(), cell.work.spec.family, cell.work.points->place(),
                           cell.variant.gives_entering, &cell.work.points->weights),
      processor_(processor) {
  const std::string& name = cell.variant.meta.name;
  if (!variants_of_build(build).contains(name)) {
    throw WorkerFailure("unknown", fmt::format("this build has no {}", name));
  }
  WorkerOptions options = cell.options;
  options.build = build;
  options.wrapper = std::move(wrapper);
  options.descriptors = memory_.descriptors();
  if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    // Threads that wait for work would take the processor from the other side's turn for
    // milliseconds; so they do for a fraction of one.
    options.environment.emplace_back("GOMP_SPINCOUNT=10000");
  }
  load(options);
  if (const int gpus = gpus_of(cell.variant.meta, options.gpus); gpus > 0) {
    gpu_ = std::make_unique<GpuPaceReader>(gpus);
  }
  worker_->points(memory_.request());
  worker_->prepare();
}

// A build that has the variant and cannot load it is damaged: half a copy, say, or a module that
// has gone since. What is told apart from a fault of the variant's own.
template <typename T>
void TurnProcess<T>::load(const WorkerOptions& options) {
  try {
    worker_.emplace(cell_.variant, options);
  } catch (const WorkerFailure& failure) {
    constexpr std::array kNoDamage = {"refused", "unavailable", "interrupted"};
    if (std::ranges::find(kNoDamage, failure.status()) != kNoDamage.end()) {
      throw;
    }
    throw WorkerFailure("not_loaded", failure.what(), failure.last_words());
  }
}

template <typename T>
double TurnProcess<T>::run_once() {
  const std::size_t number = runs_++;
  memory_.put_start(cell_.start(number));
  RunReply run = worker_->run();
  run.seconds += worker_->take();
  newest_ = memory_.answer(run.iterations);
  newest_.start = number;
  if (std::ranges::find(cell_.judged, number) != cell_.judged.end()) {
    judged_.push_back(newest_);
  }
  return run.seconds;
}

template <typename T>
Turn TurnProcess<T>::run(std::size_t runs, std::chrono::duration<double> patience) {
  // A variant that has started threads in its first run wants all their processors to be free.
  const pid_t pid = worker_->pid();
  const auto threads = static_cast<int>(threads_of(pid).size());
  Turn turn;
  const auto patient_since = Clock::now();
  turn.competitors = competitors(pid, threads);
  while (turn.competitors > 0 && seconds_since(patient_since) < patience.count()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    turn.competitors = competitors(pid, threads);
  }
  const bool first = runs_ == 0;
  const double waited = waited_seconds(pid).value_or(0.0);
  double shortest = std::numeric_limits<double>::infinity(), all = 0.0;
  for (std::size_t i = 0; i < runs; ++i) {
    const double seconds = run_once();
    shortest = std::min(shortest, seconds);
    all += seconds;
  }
  if (gpu_) { // first: its clock falls soon
    turn.gpu = gpu_->now();
  }
  turn.shortest_ms = shortest * 1e3;
  turn.elapsed_ms = all * 1e3;
  turn.waited_ms = (waited_seconds(pid).value_or(0.0) - waited) * 1e3;
  turn.competitors = std::max(turn.competitors, competitors(pid, threads));
  // Threads whose companions have come and gone are left alone: those of the next run would inherit
  // the processor of the first.
  if (first && (threads_of(pid).size() > 1 || cell_.options.threads == 1)) {
    spread_threads(pid, processor_);
  }
  return turn;
}

template <typename T>
std::string TurnProcess<T>::finish() {
  return worker_->finish();
}

template class TurnProcess<float>;
template class TurnProcess<double>;

} // namespace clusterbench
