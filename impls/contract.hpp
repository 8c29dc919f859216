// What a variant implements, and nothing else: plain C++20, no CUDA, no other header of ours.
//
// A variant is one file and becomes one module. It derives a class from Variant<T>, and one
// Registration object at the end of the file makes it known. A runner loads the module and calls
//
//   refuse(shape) -> prepare(shape, points) -> run(start, answer, observer) ... run(...)
//
// The harness owns the memory and the clock around each call, and judges every answer against its
// own float64 oracle. A variant neither uploads nor downloads, and sees a start only when its run
// begins.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace clusterbench {

/// Which algorithm a variant implements.
enum class Family { kmeans, fcm };

/// Where a variant computes; mpi: on the processors of several processes, its ranks
/// (docs/ranks.md); mpi_gpu: on the GPUs of its ranks, one each.
enum class Device { cpu, gpu, multi_gpu, mpi, mpi_gpu };

constexpr bool computes_on_gpus(Device device) {
  return device == Device::gpu || device == Device::multi_gpu || device == Device::mpi_gpu;
}
constexpr bool has_ranks(Device device) {
  return device == Device::mpi || device == Device::mpi_gpu;
}

/// The arithmetic of the distances: that of the data, or a narrower one on the same data.
enum class Arithmetic { as_data, tf32, bf16, f16 };

/// What makes most of a variant's products: multiply-adds of the data's precision, or tensor cores.
/// Decides whose rate the variant's limit is, not what is right.
enum class Multiplier { fma, tensor_tf32, tensor_f16 };

/// The form in which squared distances are computed. It decides how much rounding may move a label:
/// `difference` is sum((x - c)^2), `expanded` is |x|^2 - 2 x.c + |c|^2, which cancels far from 0.
enum class DistanceForm { difference, expanded };

/// Which centroids the returned labels (k-means) belong to: those that entered the last pass, so
/// that the returned centroids are the means of the returned labels; or the returned ones.
enum class LabelsFrom { entering_centroids, returned_centroids };

/// When a run is over. Every rule is also bounded by max_iterations.
struct StopRule {
  enum class Kind {
    iterations, ///< after max_iterations passes
    loss,       ///< |loss - previous loss| < threshold; loss: see PassFacts
    labels,     ///< a pass changed no label
    shift       ///< sum of squared centroid shifts <= threshold (the harness has scaled it already)
  };
  Kind kind = Kind::iterations;
  double threshold = 0.0;
  std::size_t max_iterations = 300;
};

/// What one pass found out, as far as the stop rule asks for it.
struct PassFacts {
  /// k-means: the sum over points of weight times Euclidean distance (not squared) to the nearest
  /// of the centroids that entered the pass. FCM: the objective sum(u^m * distance^2) with
  /// memberships u and the centres that they were computed from.
  double loss = 0.0;
  bool labels_changed = true; ///< true in the first pass
  double squared_shift = 0.0; ///< sum over all centroids of |new - old|^2
};

/// Counts passes and applies a StopRule to them; one object per run.
class StopTest {
public:
  explicit StopTest(const StopRule& rule) : rule_(rule) {}

  /// What a variant has to compute; anything else may stay at its default in PassFacts.
  bool wants_loss() const { return rule_.kind == StopRule::Kind::loss; }
  bool wants_labels_changed() const { return rule_.kind == StopRule::Kind::labels; }
  bool wants_shift() const { return rule_.kind == StopRule::Kind::shift; }

  /// Records one executed pass; true if it was the last. The pass that meets the rule counts.
  bool after_pass(const PassFacts& facts) {
    ++passes_;
    const double previous_loss = std::exchange(previous_loss_, facts.loss);
    if (passes_ >= rule_.max_iterations) {
      return true;
    }
    switch (rule_.kind) {
    case StopRule::Kind::iterations:
      return false;
    case StopRule::Kind::loss:
      return std::abs(facts.loss - previous_loss) < rule_.threshold;
    case StopRule::Kind::labels:
      return !facts.labels_changed;
    case StopRule::Kind::shift:
      return facts.squared_shift <= rule_.threshold;
    }
    return true;
  }

  std::size_t passes() const { return passes_; }

private:
  StopRule rule_;
  std::size_t passes_ = 0;
  double previous_loss_ = std::numeric_limits<double>::infinity();
};

/// What is known before the points are: sizes, the stop rule, and what the process may use.
struct Shape {
  std::size_t n = 0; ///< points of this process
  std::size_t d = 0; ///< features
  std::size_t k = 0; ///< clusters
  StopRule stop;
  double fuzzifier = 2.0;               ///< m of FCM, > 1
  bool starts_from_memberships = false; ///< FCM: the start is memberships and not centres
  bool weighted = false;                ///< points have weights; only where Meta says takes_weights
  int threads = 1;                      ///< CPU threads that a variant, or its rank, may use
  int rank = 0;                         ///< this process among `world` processes (MPI)
  int world = 1;                        ///< for a ShardedVariant: its devices
};

/// A file of rows, [n, d] row-major, to be read by pread() and its like. Reads may have to be
/// aligned to pages, in the file, in memory and in length: it may be open past the kernel's cache
/// (O_DIRECT).
struct RowsInFile {
  int descriptor = -1;
  std::size_t offset = 0; ///< of the file's row 0 [bytes]
  std::size_t rotate = 0; ///< row i of the points is row (i + rotate) mod n of the file
};

/// The points of this process: all of them, or the shard of its rank.
template <typename T>
struct Points {
  std::span<const T> rows;   ///< [n, d] row-major; empty for a variant that streams
  std::size_t first_row = 0; ///< where the shard begins among the rows of all ranks
  /// [n] of the rows: finite, not negative, not 0 for all rows of all ranks. Empty: every point has
  /// weight 1.
  std::span<const T> weights = {};
  RowsInFile in_file = {}; ///< for a variant that streams (Meta::streams)
};

/// The state that a run starts from.
template <typename T>
struct Start {
  std::span<const T> centroids;   ///< [k, d]; empty if FCM starts from memberships
  std::span<const T> memberships; ///< [n, k]; empty if FCM starts from centres
};

/// Where run() puts its answer. The harness owns the memory and fills it with a poison before every
/// run: a variant writes every element.
///
/// One pass of k-means: labels from the centroids, then centroids as the means of the labels, where
/// points have weights sum(w x) / sum(w). Ties go to the lowest index; a cluster without points, or
/// without weight, keeps its centroid. One pass of FCM: started from centres, memberships from the
/// centres and then centres from the memberships; started from memberships, centres first. Labels
/// of FCM are the largest membership of each row.
template <typename T>
struct Answer {
  std::span<std::int32_t> labels; ///< [n]
  std::span<T> centroids;         ///< [k, d] after the last pass
  std::span<T> entering;          ///< [k, d] the centroids that entered the last pass
  std::span<T> memberships;       ///< [n, k] row-major; empty for k-means
  std::size_t iterations = 0;     ///< passes executed
};

/// Watches a run. This base class is the null object of timed runs; a recording run, in a process
/// of its own, gets an observer that keeps what it is told.
template <typename T>
class Observer {
public:
  virtual ~Observer() = default;
  /// False in timed runs: nothing needs to be collected for the observer.
  virtual bool recording() const { return false; }
  /// The centroids that a pass has produced, [k, d]; once per executed pass, in order. They lie
  /// where the variant computes. On a GPU the observer waits for the device before it reads them.
  virtual void pass(std::span<const T> /*centroids*/) {}
  /// A phase ("assign", "update", ...) of the current pass begins or ends; see Phase. Ranks wait
  /// for one another in "exchange" alone. stream: the CUDA stream that its work is put into, or
  /// null.
  virtual void begin_phase(std::string_view /*name*/, void* /*stream*/) {}
  virtual void end_phase(void* /*stream*/) {}
  /// Seconds of a phase that only the variant itself can time, inside a kernel say.
  virtual void phase(std::string_view /*name*/, double /*seconds*/) {}
  /// The loss as the variant itself computed it, for programs that print theirs.
  virtual void printed_loss(double /*loss*/) {}
  /// A count worth showing, such as the distances evaluated by an algorithm that skips some.
  virtual void counter(std::string_view /*name*/, double /*value*/) {}
};

/// Makes the enclosing block a phase of the current pass; costs nothing in timed runs.
template <typename T>
class Phase {
public:
  Phase(Observer<T>& observer, std::string_view name, void* stream = nullptr)
      : observer_(observer), stream_(stream) {
    observer_.begin_phase(name, stream_);
  }
  ~Phase() { observer_.end_phase(stream_); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

private:
  Observer<T>& observer_;
  void* stream_;
};

/// Thrown by prepare() or run() where a variant cannot take these points or this start; the message
/// says why. What the shape alone tells belongs in refuse().
struct [[gnu::visibility("default")]] Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One implementation in one precision. All spans that it is given lie where it computes: in device
/// memory if Meta says `Device::gpu` or `mpi_gpu` (points aside, if it says `points_on_host`),
/// otherwise in host memory. For several devices of one process: ShardedVariant.
template <typename T>
class Variant {
public:
  virtual ~Variant() = default;
  /// Empty, or the reason why this variant cannot take the shape. Never another path in silence.
  virtual std::string refuse(const Shape& /*shape*/) const { return {}; }
  /// Makes what depends on the shape and the points alone: memory, layouts, norms. The points
  /// outlive the variant and must not be written to. Throws Refusal or std::runtime_error.
  virtual void prepare(const Shape& shape, const Points<T>& points) = 0;
  /// From the start to the stop rule; writes all of `answer`. Called any number of times, each with
  /// another start. The clock stops when run() has returned and the whole device has finished: work
  /// that is still queued in a stream needs no waiting here. Throws Refusal or std::runtime_error.
  virtual void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) = 0;
  /// Which of several code paths was chosen, if there are several; asked after a run.
  virtual std::string chosen_path() const { return {}; }
  /// For a variant that only chooses: the names of the variants that may do its work, best first.
  /// The harness loads them from the folder of this one, and drives the first that refuses neither
  /// the shape nor the points in its place. Where that refuses a start, the next one is prepared
  /// within the run, on the clock. Such a variant is never prepared or run itself.
  virtual std::vector<std::string> delegates(const Shape& /*shape*/) const { return {}; }
};

/// What one of several devices holds of the points: consecutive rows, in the order of the devices,
/// or none where there are fewer rows than devices.
template <typename T>
struct Shard {
  int device = 0;   ///< its number for the CUDA runtime; in tests two shards may share a device
  Points<T> points; ///< in its memory; in host pages of its own if Meta says points_on_host
};

/// A variant of `Device::multi_gpu`: one process drives several devices. Shape counts the rows of
/// all shards, and `world` the shards. Element r of a span is what device r has, in its own memory.
template <typename T>
class [[gnu::visibility("default")]] ShardedVariant : public Variant<T> {
public:
  /// As prepare().
  virtual void prepare_shards(const Shape& shape, std::span<const Shard<T>> shards) = 0;
  /// As run(). Every device has the whole start. Of its answer the labels are those of its shard;
  /// the centroids must be the same on all devices to the bit. The observer is told of those of
  /// device 0, while no other thread of the variant touches a device. The clock stops when all
  /// devices have finished.
  virtual void run_shards(std::span<const Start<T>> starts, std::span<Answer<T>> answers,
                          Observer<T> & observer) = 0;

  void prepare(const Shape&, const Points<T>&) final {
    throw std::logic_error("asked for one device");
  }
  void run(const Start<T>&, Answer<T>&, Observer<T>&) final {
    throw std::logic_error("asked for one device");
  }
};

/// What the harness and a reader need to know about a variant before running it.
struct Meta {
  std::string name;   ///< `<family>_<backend>_<idea>`, the stem of its file
  std::string idea;   ///< one line
  std::string source; ///< article and section, or paper
  Family family = Family::kmeans;
  Device device = Device::cpu;
  Arithmetic arithmetic = Arithmetic::as_data;
  Multiplier multiplier = Multiplier::fma;
  DistanceForm distance = DistanceForm::difference;
  LabelsFrom labels = LabelsFrom::entering_centroids;
  bool deterministic = true; ///< the same bits from the same start
  /// Of a variant that does not claim exact labels (float16 data, unchecked TF32, sampling): how
  /// much its objective may exceed the oracle's, relative to it. 0: labels are exact within
  /// rounding.
  double approximate_within = 0.0;
  bool reseeds_empty = false; ///< does not keep the centroid of an empty cluster
  /// Reads the points from a file, block by block, and never holds them all; for Device::cpu.
  bool streams = false;
  /// Of a variant on GPUs: rows and weights stay in host memory, and the variant brings to the
  /// device what it needs of them. Start and answer lie on the device all the same.
  bool points_on_host = false;
  /// Of points (k-means); else the harness refuses such problems for it.
  bool takes_weights = false;
  std::size_t min_d = 1;
  std::size_t max_d = std::numeric_limits<std::size_t>::max();
  std::size_t max_k = std::numeric_limits<std::size_t>::max();
  std::string previous; ///< the variant that this one improves on, by name; empty: none
};

/// Makes variant objects; an empty function means that the precision is not supported.
struct Factories {
  std::function<std::unique_ptr<Variant<float>>()> f32;
  std::function<std::unique_ptr<Variant<double>>()> f64;
};

/// Factories of a class template in both precisions.
template <template <typename> class V>
Factories both_precisions() {
  return {[] { return std::make_unique<V<float>>(); },
          [] { return std::make_unique<V<double>>(); }};
}

/// Factories of a class that exists in float32 only.
template <typename V>
Factories f32_only() {
  return {[] { return std::make_unique<V>(); }, {}};
}

/// A registered variant and the file that holds it.
struct RegisteredVariant {
  Meta meta;
  Factories factories;
  std::string file;
};

/// The variants of this module; there should be one.
inline std::vector<RegisteredVariant>& registered_variants() {
  static std::vector<RegisteredVariant> variants;
  return variants;
}

/// One object of this type at the end of a variant's file makes the variant known.
class Registration {
public:
  Registration(Meta meta, Factories factories,
               std::source_location where = std::source_location::current()) {
    registered_variants().push_back({std::move(meta), std::move(factories), where.file_name()});
  }
};

} // namespace clusterbench

/// What the harness looks for in a module. Its name is the contract's version: a module of another
/// one is not loaded.
extern "C" [[gnu::used, gnu::visibility("default")]] inline void* clusterbench_contract_3() {
  return &clusterbench::registered_variants();
}
