// One variant on one set of points, with all that is the harness's and not the variant's: memory
// where the variant computes, on each of its devices, copies to and from it, the poison, and the
// clock.
#pragma once

#include "harness/worker/placed_array.hpp"
#include "harness/worker/shards.hpp"
#include "impls/contract.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

/// Seconds of a steady clock. What does not happen is 0: host variants neither upload nor download.
struct Windows {
  double upload = 0.0;   ///< the points, to where the variant computes
  double prepare = 0.0;  ///< until all devices have finished
  double run = 0.0;      ///< likewise
  double download = 0.0; ///< labels, centroids and memberships, to host memory
  double whole = 0.0;    ///< all of these as one window
  /// Moments of the steady clock, which all processes of a machine share: when the last request's
  /// window began, when its preparing had ended, and when it ended.
  double began = 0.0, prepared = 0.0, ended = 0.0;
};

/// Whether the address lies in an answer that nobody may write to any more. For signal handlers.
bool is_in_closed_answer(const void* address);

/// Prepares a variant and runs it. Everything throws what the variant throws: Refusal,
/// std::bad_alloc, std::runtime_error.
template <typename T>
class Session {
public:
  /// modules: the folder where delegates are found. devices: of a variant of Device::multi_gpu, one
  /// for each shard; all others compute in the first place that there is. Of a variant of ranks the
  /// session is one rank's, shape.rank of shape.world: its rows are a shard of the shape's n.
  Session(const RegisteredVariant& variant, std::filesystem::path modules, const Shape& shape,
          std::vector<int> devices = {0});

  /// Takes a copy of the points, [n, d] in host memory, and of their weights, [n] or empty: row i
  /// of it is row (i + rotate) mod n. What was prepared is gone. The copy lies at a new address. A
  /// rank copies its own rows of that order.
  void take_points(std::span<const T> points, std::size_t rotate, std::span<const T> weights = {});

  /// The same of rows that nobody has as a whole: `fill` brings some consecutive ones, [rows, d],
  /// of those of this session, n being the number of all. If the variant wants them on devices,
  /// they never lie in host memory as a whole: several threads call it whenever they go there.
  using FillRows = std::function<void(RowRange rows, std::span<T> values)>;
  void take_rows(std::size_t n, std::size_t rotate, const FillRows& fill);

  /// The same for a variant that streams: it reads them from the file itself.
  void take_file(const RowsInFile& file);

  /// Brings the points to where the variant computes, and prepares a fresh object.
  void prepare();

  /// Takes the start (host memory) to where the variant computes, then times one run. The answer
  /// was poisoned before. From the end of that window on nobody can write to an answer in host
  /// memory.
  void run(const Start<T>& start, Observer<T>& observer);

  /// Upload, prepare, run and download as one window; nothing has been prepared before.
  void run_whole(const Start<T>& start);

  /// Copies the answer of the last run to host memory: timed as the download, unless run_whole()
  /// did that already. Its spans have the answer's sizes, or are empty where nobody wants them.
  /// Then the answer is poisoned for the next run.
  void take(const Answer<T>& target);

  /// What ranks do before a clock of theirs starts: wait for one another.
  void meet_with(std::function<void()> meet) { meet_ = std::move(meet); }
  /// Told of whole answers' runs, in which there is no observer else; must live as long as this.
  void watch_with(Observer<T>& observer) { observer_ = &observer; }

  RowRange rows() const { return rows_; }                ///< of the problem: all, or a rank's
  std::size_t iterations() const { return iterations_; } ///< of the last run
  const Windows& windows() const { return windows_; }
  std::string chosen_path() const;

private:
  using Made = std::unique_ptr<Variant<T>>;

  /// What lies in one place: on one device, or in host memory. Rows of the points and of the
  /// answer.
  struct Part {
    int device = 0;
    RowRange rows;
    PlacedArray<T> points, weights, start, centroids, entering, memberships;
    PlacedArray<std::int32_t> labels;
  };

  Made make(const RegisteredVariant& registered) const;
  /// Rows of n, turned, and how to come by them.
  struct TurnedRows {
    std::size_t n = 0, width = 0, rotate = 0;
    FillRows fill;

    void bring(RowRange own, std::span<T> values) const;
    PlacedArray<T> on_host(RowRange own) const;
  };
  void copy_rows(const TurnedRows& rows);
  PlacedArray<T> bring_to_device(const Part& part) const;
  bool parts_lie_on_host() const { return place_ != points_place_; }
  Points<T> points_of(const Part& part) const;
  void allocate_answer();
  void upload();
  void open_answer(bool open);
  void poison_answer();
  void place_start(const Start<T>& start);
  void prepare_made(Variant<T>& made);
  void prepare_next();
  void run_made(Answer<T>& answer, Observer<T>& observer);
  void run_or_delegate(Answer<T>& answer, Observer<T>& observer);
  void clocked_prepare();
  void clocked_run(Observer<T>& observer);
  void download();
  void require_equal_centroids() const;
  void wait_for_devices() const;

  const RegisteredVariant& registered_;
  std::filesystem::path modules_;
  Shape shape_;
  RowRange rows_;
  std::function<void()> meet_ = [] {};
  Observer<T> nobody_;
  Observer<T>* observer_ = &nobody_;
  Place place_;        ///< of start and answer
  Place points_place_; ///< of points and weights
  bool has_memberships_;

  // The variant goes before the memory that it may refer to.
  PlacedArray<T> host_points_, host_weights_; ///< of all parts, unless each has its own
  TurnedRows brought_;                        ///< with `fill`: in place of host_points_
  RowsInFile file_;
  std::vector<Part> parts_; ///< never none
  // What run_whole() downloads to: an array of the caller's. Host variants write there themselves.
  PlacedArray<T> host_centroids_, host_memberships_;
  PlacedArray<std::int32_t> host_labels_;
  bool downloaded_ = false, poisoned_ = false;

  std::vector<std::string> delegates_; ///< not tried yet
  bool delegates_known_ = false;
  std::string delegate_, refusals_;
  Made variant_;
  std::size_t iterations_ = 0;
  Windows windows_;
};

} // namespace clusterbench
