#include "harness/campaign/timed_process.hpp"

#include "harness/campaign/measure.hpp"
#include "harness/campaign/plain_read.hpp"
#include "harness/ledger/statistics.hpp"
#include "harness/machine/disturbance.hpp"
#include "harness/machine/fixed_work.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/machine/other_tasks.hpp"
#include "harness/machine/placement.hpp"
#include "harness/machine/usable_processors.hpp"
#include "harness/system/process.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <optional>
#include <random>

namespace clusterbench {
namespace {

using nlohmann::json;

constexpr std::size_t kWholeAnswers = 5;

// Whether others use the first GPUs, asked before a process of ours is on them. The one before it
// counts for a second at most, and waiting for that would lengthen every process: once a minute is
// enough, unless others are there.
std::optional<double> used_by_others(unsigned gpus, bool patient) {
  using Clock = std::chrono::steady_clock;
  struct Known {
    Clock::time_point at;
    double use;
  };
  // by the number of GPUs; of this thread, which runs all cells
  static std::map<unsigned, Known> known;
  const auto last = known.find(gpus);
  if (!patient || (last != known.end() && last->second.use <= kMostUseByOthers &&
                   Clock::now() - last->second.at < std::chrono::minutes(1))) {
    const std::optional<double> now = use_by_others(gpus, std::chrono::duration<double>(0.0));
    return now || !patient ? now : std::optional(last->second.use);
  }
  const std::optional<double> use = use_by_others(gpus, std::chrono::duration<double>(1.5));
  if (use) {
    known.insert_or_assign(gpus, Known{Clock::now(), *use});
  }
  return use;
}

template <typename T>
class TimedProcess {
public:
  TimedProcess(const CellTask<T>& cell, const SamplingPlan& plan,
               const std::function<void(TakenAnswer<T>&&)>& accept)
      : cell_(cell), plan_(plan), accept_(accept),
        memory_(cell.problem.shape(), cell.work.spec.family, cell.work.points->place(),
                cell.variant.gives_entering, &cell.work.points->weights),
        gpus_(gpus_of(cell.variant.meta, cell.options.gpus)), gpus_used_by_others_(wait_for_gpus()),
        device_bytes_before_(used_bytes()), worker_(cell.variant, options()) {}

  json run(const std::string& name) {
    take_whole_answers();
    if (!is_slow()) {
      take_samples_of_runs(name);
    }
    if (reads_file()) {
      row_["plain_reads_ms"] = milliseconds(plain_reads_);
    }
    add_circumstances();
    return std::move(row_);
  }

private:
  int computing_threads() const {
    const bool of_ranks = cell_.variant.meta.device == Device::mpi;
    return cell_.options.threads * (of_ranks ? cell_.options.ranks : 1);
  }

  // Whether the machine is quiet. What else runs on the host hardly slows a GPU.
  struct Quietness {
    Quietness(std::vector<pid_t> ours, int threads)
        : fixed_work(threads), other_tasks(std::move(ours), threads) {}
    Quietness(std::vector<pid_t> ours, const std::vector<int>& processors)
        : fixed_work(processors),
          other_tasks(std::move(ours), static_cast<int>(processors.size())) {}
    FixedWork fixed_work;
    OtherTasksWatch other_tasks;
  };

  // What a run met.
  struct Around {
    double fixed_work_us = 0.0;        // the longer of before and after it
    std::optional<double> other_tasks; // not known: empty
  };

  // Calls `timed`, which times one run.
  template <typename Timed>
  RunReply observed(std::vector<Around>& around, Timed timed) {
    if (gpus_ > 0) {
      return timed();
    }
    Quietness& machine = quietness();
    const double before = machine.fixed_work.microseconds();
    machine.other_tasks.begin();
    RunReply reply = timed();
    const std::optional<double> others = machine.other_tasks.end();
    around.push_back({std::max(before, machine.fixed_work.microseconds()), others});
    return reply;
  }

  Quietness& quietness() {
    if (!quietness_) {
      quietness_ = std::make_unique<Quietness>(worker_.processes(), computing_threads());
    }
    return *quietness_;
  }

  // As long as patience lasts. Other programs come and go, and what they cost is not the variant's.
  double wait_for_quiet() {
    if (gpus_ > 0 || patience_left_ <= 0.0) {
      return 0.0;
    }
    const double waited =
        quietness()
            .other_tasks.wait_for_quiet(std::chrono::duration<double>(patience_left_))
            .count();
    patience_left_ -= waited;
    return waited;
  }

  // Each a processor of its own, the fastest first, where there are enough.
  void place(const std::vector<pid_t>& threads) {
    if (threads.empty() || threads.size() > usable_processors().size()) {
      return;
    }
    std::vector<int> processors = processors_by_speed();
    if (threads.size() > processors.size()) { // under a limit of memory there are fewer
      return;
    }
    processors.resize(threads.size());
    bind_threads(threads, processors);
    placed_among_ = all_threads();
    quietness_ = std::make_unique<Quietness>(worker_.processes(), processors);
    row_["processors"] = processors;
  }

  // A thread that a bound one starts is bound to the same processor, where both would be slow. So
  // as soon as there is a new one, all are let go.
  void let_go_of_new_threads() {
    if (placed_among_.empty()) {
      return;
    }
    const std::vector<pid_t> threads = all_threads();
    if (std::ranges::includes(placed_among_, threads)) {
      return;
    }
    let_go(threads);
    placed_among_.clear();
    quietness_.reset();
    row_.erase("processors");
  }

  std::vector<pid_t> all_threads() const {
    std::vector<pid_t> threads;
    for (const pid_t process : worker_.processes()) {
      std::ranges::copy(threads_of(process), std::back_inserter(threads));
    }
    std::ranges::sort(threads);
    return threads;
  }

  void add_what_was_around(const std::vector<Around>& around, std::size_t first_kept) {
    json& work = row_["fixed_work_us"] = json::array();
    json& others = row_["other_tasks"] = json::array();
    for (std::size_t i = first_kept; i < around.size(); ++i) {
      work.push_back(around[i].fixed_work_us);
      if (around[i].other_tasks) {
        others.push_back(*around[i].other_tasks);
      }
    }
    if (others.size() != work.size()) {
      others.clear();
    }
  }

  WorkerOptions options() const {
    WorkerOptions options = cell_.options;
    options.descriptors = memory_.descriptors();
    return options;
  }

  std::size_t used_bytes() const {
    std::size_t bytes = 0;
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      bytes += gpu_state(static_cast<unsigned>(gpu)).memory_used_bytes;
    }
    return bytes;
  }

  std::optional<double> wait_for_gpus() {
    if (gpus_ == 0) {
      return std::nullopt;
    }
    const auto begin = std::chrono::steady_clock::now();
    const auto use = used_by_others(static_cast<unsigned>(gpus_), plan_.patience_seconds > 0.0);
    waited_for_gpus_ms_ =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    return use;
  }

  bool reads_file() const {
    return cell_.variant.meta.streams && cell_.work.points->file != nullptr;
  }

  // Right after a sample, so that both meet the same load of the disk.
  void read_plainly() {
    if (reads_file()) {
      plain_reads_.push_back(plain_read_seconds(cell_.work.points->place(),
                                                cell_.problem.n * cell_.problem.d * sizeof(T)));
    }
  }

  // A run that takes so long is sampled by the whole answers alone.
  bool is_slow() const { return row_.at("whole").front().at("run_ms") > plan_.slow_seconds * 1e3; }

  void put_start(std::size_t number, std::size_t rotate = 0) {
    memory_.put_start(cell_.start(number), rotate);
  }

  void hand_over(std::size_t number, std::size_t iterations, std::size_t rotate) {
    TakenAnswer<T> answer = memory_.answer(iterations, rotate);
    answer.start = number;
    accept_(std::move(answer));
  }

  // Slow cells have no samples beside them: the second one is from the own start.
  std::size_t start_of_whole(std::size_t index) const {
    const bool own = row_.contains("whole") && is_slow() && index == 1;
    return own ? cell_.own_position() : kFirstOfWholeAnswers + index;
  }

  void note_device_memory(const RunReply& run) {
    device_peak_bytes_ =
        std::max(device_peak_bytes_, run.reply.value("device_used_bytes", std::size_t{0}));
  }

  // Each from a fresh object and rows rotated by an offset that nobody can know.
  void take_whole_answers() {
    std::random_device random;
    std::vector<double> totals;
    std::size_t count = kWholeAnswers;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t rotate = random() % cell_.problem.n;
      worker_.points(memory_.request(rotate));
      const std::size_t number = start_of_whole(i);
      put_start(number, rotate);
      const RunReply whole = observed(around_whole_, [this] {
        RunReply reply = worker_.whole();
        reply.seconds += worker_.take();
        return reply;
      });
      note_device_memory(whole);
      hand_over(number, whole.iterations, rotate);
      const auto ms = [&](const char* window) { return whole.reply.value(window, 0.0) * 1e3; };
      // A worker that cannot tell a window from the others leaves it out. One that claims more for
      // its windows than passed is not believed.
      double claimed = 0.0;
      for (const char* window : {"upload_s", "prepare_s", "run_s", "download_s"}) {
        claimed += whole.reply.value(window, 0.0);
      }
      const bool believed = claimed <= 1.001 * whole.seconds;
      json entry = {{"ms", whole.seconds * 1e3},
                    {"start", number},
                    {"iterations", whole.iterations},
                    {"cpu_ms", whole.cpu * 1e3}};
      for (const char* window : {"upload", "prepare", "run", "download"}) {
        const std::string reported = fmt::format("{}_s", window);
        if (believed && whole.reply.contains(reported)) {
          entry[fmt::format("{}_ms", window)] = ms(reported.c_str());
        }
      }
      if (!entry.contains("run_ms")) {
        entry["run_ms"] = whole.seconds * 1e3;
      }
      row_["whole"].push_back(entry);
      totals.push_back(whole.seconds * 1e3);
      row_["chosen_path"] = whole.reply.value("chosen_path", "");
      if (is_slow()) {
        count = plan_.slow_samples;
        read_plainly();
      }
    }
    row_["start_ms"] = worker_.start_seconds() * 1e3;
    row_["context_ms"] = worker_.context_seconds() * 1e3;
    row_["cold_ms"] = row_.at("start_ms").get<double>() + totals.front();
    row_["whole_ms"] = median(totals);
    if (is_slow()) {
      take_samples_from_whole_answers();
    }
  }

  void take_samples_from_whole_answers() {
    for (const char* list :
         {"samples_ms", "sample_starts", "sample_iterations", "warm_up_samples_ms", "cpu_ms"}) {
      row_[list] = json::array();
    }
    for (const json& whole : row_.at("whole")) {
      row_["samples_ms"].push_back(whole.at("run_ms"));
      row_["sample_starts"].push_back(whole.at("start"));
      row_["sample_iterations"].push_back(whole.at("iterations"));
      if (whole.at("start") == cell_.own_position()) {
        row_["own_start"] = {{"ms", whole.at("run_ms")}, {"iterations", whole.at("iterations")}};
      }
    }
    add_what_was_around(around_whole_, 0);
    row_["warm_up_ms"] = 0.0;
    row_["sampling_ended"] = "one run takes long: the whole answers are the samples";
  }

  void take_samples_of_runs(const std::string& name) {
    worker_.points(memory_.request());
    worker_.prepare();
    const std::unique_ptr<GpuPaceReader> gpu =
        gpus_ > 0 ? std::make_unique<GpuPaceReader>(gpus_) : nullptr;
    std::vector<RunReply> runs;
    std::vector<Around> around;
    json disturbances = json::array();
    const auto timed_run = [&] {
      const std::size_t number = runs.size();
      put_start(number);
      Disturbance disturbance;
      std::optional<ComputingThreads> threads; // of the first run, after which they are bound
      if (runs.empty() && gpus_ == 0) {
        threads.emplace(worker_.processes());
      }
      const RunReply run = observed(around, [&] {
        const DisturbanceWatch watch(gpu.get(), worker_.processes());
        RunReply reply = worker_.run();
        reply.seconds += worker_.take(); // at once, so that nothing can be done in between
        disturbance = watch.since();
        return reply;
      });
      note_device_memory(run);
      if (disturbance.disturbed()) {
        json entry = disturbance;
        entry["run"] = number;
        disturbances.push_back(entry);
      }
      hand_over(number, run.iterations, 0);
      if (threads) {
        place(threads->since(run.cpu, usable_processors().size()));
      } else {
        let_go_of_new_threads();
      }
      runs.push_back(run);
      read_plainly();
      return run.seconds;
    };
    const Samples samples =
        take_samples(name, plan_, timed_run, [this] { return wait_for_quiet(); });
    if (plan_.patience_seconds > 0.0 && gpus_ == 0) {
      row_["waited_for_quiet_ms"] = (plan_.patience_seconds - patience_left_) * 1e3;
    }
    const auto first_kept = samples.warm_up.size();
    if (reads_file()) { // those of samples alone
      plain_reads_.erase(plain_reads_.begin(),
                         plain_reads_.begin() + static_cast<std::ptrdiff_t>(first_kept));
    }
    json& starts = row_["sample_starts"] = json::array();
    json& iterations = row_["sample_iterations"] = json::array();
    json& processor = row_["cpu_ms"] = json::array();
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (i == cell_.own_position()) {
        row_["own_start"] = {{"ms", runs[i].seconds * 1e3}, {"iterations", runs[i].iterations}};
      }
      if (i >= first_kept) {
        starts.push_back(i);
        iterations.push_back(runs[i].iterations);
        processor.push_back(runs[i].cpu * 1e3);
      }
    }
    add_what_was_around(around, first_kept);
    row_["samples_ms"] = milliseconds(samples.seconds);
    row_["warm_up_samples_ms"] = milliseconds(samples.warm_up);
    row_["warm_up_ms"] = std::accumulate(samples.warm_up.begin(), samples.warm_up.end(), 0.0) * 1e3;
    row_["sampling_ended"] = samples.ended_because;
    row_["gbench_context"] = samples.context;
    row_["gbench_row"] = samples.row;
    row_["disturbed_runs"] = disturbances.size();
    row_["disturbances"] = disturbances;
  }

  static json milliseconds(const std::vector<double>& seconds) {
    json values = json::array();
    for (const double value : seconds) {
      values.push_back(value * 1e3);
    }
    return values;
  }

  void add_circumstances() {
    for (const char* window : {"upload_ms", "prepare_ms", "download_ms"}) {
      std::vector<double> values;
      for (const json& whole : row_.at("whole")) {
        if (whole.contains(window)) {
          values.push_back(whole.at(window));
        }
      }
      if (!values.empty()) {
        row_[window] = median(values);
      }
    }
    if (gpus_ > 0) {
      row_["waited_for_quiet_ms"] = waited_for_gpus_ms_;
      add_device_memory();
      row_["gpu_after"] = gpu_state(0);
      if (gpus_used_by_others_) {
        row_["gpus_used_by_others"] = *gpus_used_by_others_;
      }
    }
    row_["peak_rss_bytes"] = worker_.peak_rss_bytes();
    if (has_ranks(cell_.variant.meta.device)) {
      row_["peak_rss_bytes_of_rank"] = worker_.peak_rss_bytes_of_largest();
    }
    row_["sandbox_lacks"] = worker_.sandbox_lacks();
    row_["clock"] = worker_.clock().report();
    row_["output_tail"] = worker_.output_tail();
    if (cell_.variant.is_program || !worker_.versions().empty()) {
      row_["versions"] = worker_.versions();
    }
  }

  void add_device_memory() {
    if (const std::size_t limit = cell_.options.device_memory_limit; limit > 0) {
      row_["device_memory"] = {
          {"limit_bytes", limit},
          {"peak_bytes", device_peak_bytes_},
          {"held_by",
           "the rest of the device's memory was taken before the variant was asked anything"}};
      return;
    }
    // What the devices gained, the driver's own contexts included.
    const std::size_t now = used_bytes();
    row_["device_memory_bytes"] = now - std::min(now, device_bytes_before_);
  }

  const CellTask<T>& cell_;
  const SamplingPlan& plan_;
  double patience_left_ = plan_.patience_seconds;
  const std::function<void(TakenAnswer<T>&&)>& accept_;
  CellMemory<T> memory_;
  int gpus_; ///< the first ones
  double waited_for_gpus_ms_ = 0.0;
  std::optional<double> gpus_used_by_others_; ///< see use_by_others()
  std::size_t device_bytes_before_, device_peak_bytes_ = 0;
  Worker worker_;
  std::vector<double> plain_reads_; ///< seconds, one beside each sample
  std::unique_ptr<Quietness> quietness_;
  std::vector<pid_t> placed_among_; ///< all threads when some were bound, sorted; empty: none is
  std::vector<Around> around_whole_;
  json row_;
};

} // namespace

template <typename T>
json time_cell(const CellTask<T>& cell, const SamplingPlan& plan, const std::string& name,
               const std::function<void(TakenAnswer<T>&&)>& accept) {
  return TimedProcess<T>(cell, plan, accept).run(name);
}

template json time_cell(const CellTask<float>&, const SamplingPlan&, const std::string&,
                        const std::function<void(TakenAnswer<float>&&)>&);
template json time_cell(const CellTask<double>&, const SamplingPlan&, const std::string&,
                        const std::function<void(TakenAnswer<double>&&)>&);

} // namespace clusterbench
