#include "harness/worker/session.hpp"

#include "datasets/parallel.hpp"
#include "harness/worker/module.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <future>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace clusterbench {
namespace {

// Every label becomes -1 and every number NaN: what a variant leaves as it was is seen.
constexpr unsigned char kPoison = 0xFF;

// Seconds of the steady clock, since whenever it began.
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename Function>
double seconds_of(Function&& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The closed answer: labels, centroids, entering centroids, memberships.
struct Range {
  std::atomic<std::uintptr_t> begin = 0, end = 0;
};
std::array<Range, 4> g_closed;

template <typename T>
void open_or_close(PlacedArray<T>& array, Range& range, bool open) {
  const auto begin = reinterpret_cast<std::uintptr_t>(array.span().data());
  range.begin = open ? 0 : begin;
  range.end = open ? 0 : begin + array.bytes();
  array.allow_writing(open);
}

Place place_of(const Meta& meta) {
  return computes_on_gpus(meta.device) ? Place::device : Place::host;
}

} // namespace

bool is_in_closed_answer(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return std::ranges::any_of(
      g_closed, [at](const Range& range) { return at >= range.begin && at < range.end; });
}

template <typename T>
Session<T>::Session(const RegisteredVariant& variant, std::filesystem::path modules,
                    const Shape& shape, std::vector<int> devices)
    : registered_(variant), modules_(std::move(modules)), shape_(shape), rows_{0, shape.n},
      place_(place_of(variant.meta)),
      points_place_(variant.meta.points_on_host ? Place::host : place_),
      has_memberships_(variant.meta.family == Family::fcm) {
  if (has_ranks(variant.meta.device)) {
    rows_ = shard_of_rows(shape.n, static_cast<std::size_t>(shape.world),
                          static_cast<std::size_t>(shape.rank));
    shape_.n = rows_.count;
    devices = {0};
  } else {
    if (variant.meta.device != Device::multi_gpu) {
      devices = {0};
    }
    shape_.world = static_cast<int>(devices.size());
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto [first, count] = shard_of_rows(rows_.count, devices.size(), i);
    Part part;
    part.device = devices[i];
    part.rows = {rows_.first + first, count};
    parts_.push_back(std::move(part));
    if (place_ == Place::device) {
      device_calls().open(devices[i]);
    }
  }
}

template <typename T>
typename Session<T>::Made Session<T>::make(const RegisteredVariant& registered) const {
  const auto& factory = [&]() -> const std::function<Made()>& {
    if constexpr (std::is_same_v<T, float>) {
      return registered.factories.f32;
    } else {
      return registered.factories.f64;
    }
  }();
  if (!factory) {
    throw Refusal(fmt::format("{} has no {} form", registered.meta.name,
                              std::is_same_v<T, float> ? "f32" : "f64"));
  }
  return factory();
}

template <typename T>
void Session<T>::TurnedRows::bring(RowRange own, std::span<T> values) const {
  const std::size_t first = (own.first + rotate) % std::max<std::size_t>(n, 1);
  const std::size_t tail = std::min(own.count, n - first); // then it goes on with row 0
  fill({first, tail}, values.first(tail * width));
  fill({0, own.count - tail}, values.subspan(tail * width));
}

template <typename T>
PlacedArray<T> Session<T>::TurnedRows::on_host(RowRange own) const {
  PlacedArray<T> rows(Place::host, own.count * width);
  bring(own, rows.span());
  return rows;
}

template <typename T>
void Session<T>::take_points(std::span<const T> points, std::size_t rotate,
                             std::span<const T> weights) {
  const std::size_t n = points.size() / shape_.d;
  // New pages take long, so several threads make those that a device is to read. Those that a
  // processor computes on lie near whoever touches them first: one thread, as a caller's would.
  const std::size_t most =
      place_ == Place::device ? std::size_t{1} << 23 : std::max<std::size_t>(points.size(), 1);
  const auto turned = [&](std::span<const T> all, std::size_t width) {
    return TurnedRows{n, width, rotate, [all, width, most](RowRange rows, std::span<T> values) {
                        const auto from = all.subspan(rows.first * width, rows.count * width);
                        datasets::parallel_pieces(
                            from.size(), most, [&](std::size_t begin, std::size_t end) {
                              std::ranges::copy(from.subspan(begin, end - begin), &values[begin]);
                            });
                      }};
  };
  copy_rows(turned(points, shape_.d));
  const auto weights_of = [&](RowRange own) {
    return weights.empty() ? PlacedArray<T>() : turned(weights, 1).on_host(own);
  };
  if (parts_lie_on_host()) {
    std::ranges::for_each(parts_, [&](Part& part) { part.weights = weights_of(part.rows); });
  } else {
    host_weights_ = weights_of(rows_);
  }
}

template <typename T>
void Session<T>::copy_rows(const TurnedRows& rows) {
  variant_.reset();
  // Made while the old ones are there: other addresses.
  if (parts_lie_on_host()) { // each in pages of its own, which its device may lock
    std::ranges::for_each(parts_, [&](Part& part) { part.points = rows.on_host(part.rows); });
  } else {
    for (Part& part : parts_) {
      part.points = {};
      part.weights = {};
    }
    host_points_ = rows.on_host(rows_);
  }
  brought_ = {};
  allocate_answer();
  poison_answer();
}

template <typename T>
void Session<T>::take_rows(std::size_t n, std::size_t rotate, const FillRows& fill) {
  TurnedRows rows{n, shape_.d, rotate, fill};
  if (points_place_ == Place::host) {
    copy_rows(rows);
    return;
  }
  variant_.reset();
  for (Part& part : parts_) {
    part.points = {};
    part.weights = {};
  }
  host_points_ = {};
  host_weights_ = {};
  brought_ = std::move(rows);
  allocate_answer();
  poison_answer();
}

template <typename T>
void Session<T>::take_file(const RowsInFile& file) {
  variant_.reset();
  file_ = file;
  allocate_answer();
  poison_answer();
}

template <typename T>
void Session<T>::allocate_answer() {
  const std::size_t values = shape_.k * shape_.d;
  if (parts_.front().centroids.size() == values) {
    return;
  }
  const std::size_t memberships_of_row = has_memberships_ ? shape_.k : 0;
  for (Part& part : parts_) {
    const auto [first, rows] = part.rows;
    part.start = {place_, shape_.starts_from_memberships ? rows * shape_.k : values, part.device};
    part.labels = {place_, rows, part.device};
    part.centroids = {place_, values, part.device};
    part.entering = {place_, values, part.device};
    part.memberships = {place_, rows * memberships_of_row, part.device};
  }
  if (place_ == Place::device) {
    host_labels_ = {Place::host, shape_.n};
    host_centroids_ = {Place::host, values};
    host_memberships_ = {Place::host, shape_.n * memberships_of_row};
  }
}

// Work that a variant has left in some stream belongs to the call that began it.
template <typename T>
void Session<T>::wait_for_devices() const {
  if (place_ == Place::device) {
    device_calls().synchronize();
  }
}

// As they lie where the variant wants them.
template <typename T>
Points<T> Session<T>::points_of(const Part& part) const {
  const bool of_part = place_ == Place::device;
  return {of_part ? part.points.span() : host_points_.span(), part.rows.first,
          of_part ? part.weights.span() : host_weights_.span(), file_};
}

// While one thread copies a piece to the device, others bring the next ones.
template <typename T>
PlacedArray<T> Session<T>::bring_to_device(const Part& part) const {
  constexpr std::size_t kThreads = 4, kPieceBytes = std::size_t{8} << 20;
  PlacedArray<T> to(place_, part.rows.count * shape_.d, part.device);
  const std::size_t most = std::max<std::size_t>(kPieceBytes / (shape_.d * sizeof(T)), 1);
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const std::size_t threads = std::max<std::size_t>(kThreads / parts_.size(), 1);
  datasets::parallel_blocks(threads, [&](std::size_t) {
    std::vector<T> piece;
    for (std::size_t first = next.fetch_add(most); first < part.rows.count && !failed;
         first = next.fetch_add(most)) {
      const RowRange own{part.rows.first + first, std::min(most, part.rows.count - first)};
      try {
        piece.resize(own.count * shape_.d);
        brought_.bring(own, piece);
        to.copy_from(piece, first * shape_.d);
      } catch (...) {
        failed = true; // the others need not go on
        throw;
      }
    }
  });
  return to;
}

// To all devices at once: each has a link of its own.
template <typename T>
void Session<T>::upload() {
  const auto upload_rows = [this](const PlacedArray<T>& from, const Part& part, std::size_t width) {
    PlacedArray<T> to(place_, part.rows.count * width, part.device);
    const std::size_t first = part.rows.first - rows_.first;
    to.copy_from(from.span().subspan(first * width, part.rows.count * width));
    return to;
  };
  const auto upload_part = [&](Part& part) {
    part.points = brought_.fill ? bring_to_device(part) : upload_rows(host_points_, part, shape_.d);
    if (shape_.weighted) {
      part.weights = upload_rows(host_weights_, part, 1);
    }
  };
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    others.push_back(std::async(std::launch::async, upload_part, std::ref(parts_[i])));
  }
  upload_part(parts_.front());
  std::ranges::for_each(others, [](std::future<void>& other) { other.get(); });
}

template <typename T>
void Session<T>::prepare_made(Variant<T>& made) {
  if (registered_.meta.device != Device::multi_gpu) {
    made.prepare(shape_, points_of(parts_.front()));
    return;
  }
  std::vector<Shard<T>> shards;
  for (const Part& part : parts_) {
    shards.push_back({part.device, points_of(part)});
  }
  dynamic_cast<ShardedVariant<T>&>(made).prepare_shards(shape_, shards);
}

// The next delegate that takes shape and points; or the variant itself, where it has none.
template <typename T>
void Session<T>::prepare_next() {
  if (!delegates_known_) {
    Made chooser = make(registered_);
    if (const std::string reason = chooser->refuse(shape_); !reason.empty()) {
      throw Refusal(reason);
    }
    delegates_ = chooser->delegates(shape_);
    delegates_known_ = true;
    if (delegates_.empty()) {
      prepare_made(*chooser);
      variant_ = std::move(chooser);
      return;
    }
  }
  while (!delegates_.empty()) {
    delegate_ = delegates_.front();
    delegates_.erase(delegates_.begin());
    try {
      const RegisteredVariant& registered =
          load_module_of(delegate_, module_file(modules_, delegate_));
      if (shape_.weighted && !registered.meta.takes_weights) {
        throw Refusal("it takes no weights of points");
      }
      Made next = make(registered);
      if (const std::string reason = next->refuse(shape_); !reason.empty()) {
        throw Refusal(reason);
      }
      prepare_made(*next);
      variant_ = std::move(next);
      return;
    } catch (const Refusal& refusal) {
      refusals_ +=
          fmt::format("{}{}: {}", refusals_.empty() ? "" : "; ", delegate_, refusal.what());
    }
  }
  throw Refusal(refusals_.empty() ? "it is not prepared" : refusals_);
}

template <typename T>
void Session<T>::clocked_prepare() {
  variant_.reset();
  delegates_known_ = false;
  delegate_.clear();
  refusals_.clear();
  if (points_place_ == Place::device) {
    windows_.upload = seconds_of([&] { upload(); });
  }
  windows_.prepare = seconds_of([&] {
    prepare_next();
    wait_for_devices();
  });
  windows_.prepared = now();
}

template <typename T>
void Session<T>::open_answer(bool open) {
  Part& part = parts_.front(); // only answers in host memory are closed, and they have one part
  open_or_close(part.labels, g_closed[0], open);
  open_or_close(part.centroids, g_closed[1], open);
  open_or_close(part.entering, g_closed[2], open);
  open_or_close(part.memberships, g_closed[3], open);
}

template <typename T>
void Session<T>::poison_answer() {
  open_answer(true);
  for (Part& part : parts_) {
    part.labels.fill(kPoison);
    part.centroids.fill(kPoison);
    part.entering.fill(kPoison);
    part.memberships.fill(kPoison);
  }
  // So these pages are there before they are timed, as those of host variants are.
  host_labels_.fill(kPoison);
  host_centroids_.fill(kPoison);
  host_memberships_.fill(kPoison);
  poisoned_ = true;
}

template <typename T>
void Session<T>::place_start(const Start<T>& start) {
  if (!poisoned_) { // the answer before was not taken
    poison_answer();
  }
  poisoned_ = false;
  for (Part& part : parts_) {
    part.start.copy_from(
        shape_.starts_from_memberships
            ? start.memberships.subspan(part.rows.first * shape_.k, part.start.size())
            : start.centroids);
  }
}

template <typename T>
void Session<T>::run_made(Answer<T>& answer, Observer<T>& observer) {
  std::vector<Start<T>> starts(parts_.size());
  std::vector<Answer<T>> answers;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    (shape_.starts_from_memberships ? starts[i].memberships : starts[i].centroids) =
        std::as_const(part.start).span();
    answers.push_back({part.labels.span(), part.centroids.span(), part.entering.span(),
                       part.memberships.span(), 0});
  }
  if (registered_.meta.device == Device::multi_gpu) {
    dynamic_cast<ShardedVariant<T>&>(*variant_).run_shards(starts, answers, observer);
  } else {
    variant_->run(starts.front(), answers.front(), observer);
  }
  answer.iterations = answers.front().iterations;
}

template <typename T>
void Session<T>::run_or_delegate(Answer<T>& answer, Observer<T>& observer) {
  for (;;) {
    try {
      run_made(answer, observer);
      return;
    } catch (const Refusal& refusal) {
      if (delegate_.empty()) {
        throw;
      }
      refusals_ +=
          fmt::format("{}{}: {}", refusals_.empty() ? "" : "; ", delegate_, refusal.what());
      variant_.reset(); // its memory is free before the next one asks for some
      prepare_next();
    }
  }
}

template <typename T>
void Session<T>::clocked_run(Observer<T>& observer) {
  Answer<T> answer;
  windows_.run = seconds_of([&] {
    run_or_delegate(answer, observer);
    wait_for_devices();
  });
  iterations_ = answer.iterations;
}

template <typename T>
void Session<T>::prepare() {
  windows_ = {};
  meet_();
  windows_.began = now();
  clocked_prepare();
  windows_.ended = now();
}

template <typename T>
void Session<T>::run(const Start<T>& start, Observer<T>& observer) {
  if (variant_ == nullptr) {
    throw Refusal("it is not prepared");
  }
  place_start(start);
  meet_();
  windows_.began = now();
  clocked_run(observer);
  windows_.ended = now();
  open_answer(false);
  downloaded_ = false;
}

template <typename T>
void Session<T>::download() {
  for (const Part& part : parts_) {
    const std::size_t first = part.rows.first - rows_.first;
    part.labels.copy_to(host_labels_.span().subspan(first, part.rows.count));
    part.memberships.copy_to(host_memberships_.span().subspan(
        has_memberships_ ? first * shape_.k : 0, part.memberships.size()));
  }
  parts_.front().centroids.copy_to(host_centroids_.span());
}

// The first device's centroids are the answer; those of the others are the same, or it is none.
template <typename T>
void Session<T>::require_equal_centroids() const {
  if (parts_.size() == 1) {
    return;
  }
  std::vector<T> first(shape_.k * shape_.d), other(first.size());
  for (const auto array : {&Part::centroids, &Part::entering}) {
    (parts_.front().*array).copy_to(first);
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      (parts_[i].*array).copy_to(other);
      if (std::memcmp(first.data(), other.data(), first.size() * sizeof(T)) != 0) {
        throw std::runtime_error(
            fmt::format("the centroids of device {} are not those of the first", i));
      }
    }
  }
}

template <typename T>
void Session<T>::run_whole(const Start<T>& start) {
  windows_ = {};
  place_start(start);
  meet_();
  windows_.began = now();
  windows_.whole = seconds_of([&] {
    clocked_prepare();
    clocked_run(*observer_);
    if (place_ == Place::device) {
      windows_.download = seconds_of([&] { download(); });
    }
  });
  windows_.ended = now();
  open_answer(false);
  downloaded_ = true;
}

template <typename T>
void Session<T>::take(const Answer<T>& target) {
  const auto copy = [](const auto& from, auto to) {
    if (!to.empty()) {
      from.copy_to(to);
    }
  };
  if (place_ == Place::device) {
    if (!downloaded_) {
      windows_.download = seconds_of([&] { download(); });
    }
    require_equal_centroids();
    copy(host_labels_, target.labels);
    copy(host_centroids_, target.centroids);
    copy(host_memberships_, target.memberships);
  } else {
    copy(parts_.front().labels, target.labels);
    copy(parts_.front().centroids, target.centroids);
    copy(parts_.front().memberships, target.memberships);
  }
  copy(parts_.front().entering, target.entering);
  poison_answer();
}

template <typename T>
std::string Session<T>::chosen_path() const {
  const std::string path = variant_ != nullptr ? variant_->chosen_path() : "";
  if (delegate_.empty()) {
    return path;
  }
  return path.empty() ? delegate_ : delegate_ + ": " + path;
}

template class Session<float>;
template class Session<double>;

} // namespace clusterbench
