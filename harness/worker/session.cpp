#include "harness/worker/session.hpp"

#include "harness/worker/module.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fmt/format.h>
#include <type_traits>
#include <utility>

namespace clusterbench {
namespace {

// Every label becomes -1 and every number NaN: what a variant leaves as it was is seen.
constexpr unsigned char kPoison = 0xFF;

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
  return meta.device == Device::gpu || meta.device == Device::multi_gpu ? Place::device
                                                                        : Place::host;
}

} // namespace

bool is_in_closed_answer(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return std::ranges::any_of(g_closed,
                             [at](const Range& range) { return at >= range.begin && at < range.end; });
}

template <typename T>
Session<T>::Session(const RegisteredVariant& variant, std::filesystem::path modules,
                    const Shape& shape)
    : registered_(variant), modules_(std::move(modules)), shape_(shape),
      place_(place_of(variant.meta)), has_memberships_(variant.meta.family == Family::fcm) {}

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
void Session<T>::take_points(std::span<const T> points, std::size_t rotate) {
  variant_.reset();
  points_ = {};
  PlacedArray<T> copy(Place::host, points.size()); // while the old one is there: another address
  const std::span<const T> tail = points.subspan(rotate * shape_.d);
  std::ranges::copy(tail, copy.span().begin());
  std::ranges::copy(points.first(rotate * shape_.d),
                    copy.span().begin() + static_cast<std::ptrdiff_t>(tail.size()));
  host_points_ = std::move(copy);
  allocate_answer();
  poison_answer();
}

template <typename T>
void Session<T>::allocate_answer() {
  if (labels_.size() == shape_.n) {
    return;
  }
  const std::size_t memberships = has_memberships_ ? shape_.n * shape_.k : 0;
  start_ = {place_, shape_.k * (shape_.starts_from_memberships ? shape_.n : shape_.d)};
  labels_ = {place_, shape_.n};
  centroids_ = {place_, shape_.k * shape_.d};
  entering_ = {place_, shape_.k * shape_.d};
  memberships_ = {place_, memberships};
  if (place_ == Place::device) {
    host_labels_ = {Place::host, shape_.n};
    host_centroids_ = {Place::host, shape_.k * shape_.d};
    host_memberships_ = {Place::host, memberships};
  }
}

// Work that a variant has left in some stream belongs to the call that began it.
template <typename T>
void Session<T>::wait_for_device() const {
  if (place_ == Place::device) {
    device_calls().synchronize();
  }
}

// The next delegate that takes shape and points; or the variant itself, where it has none.
template <typename T>
void Session<T>::prepare_next() {
  const Points<T> points{place_ == Place::device ? points_.span() : host_points_.span(), 0};
  if (!delegates_known_) {
    Made chooser = make(registered_);
    if (const std::string reason = chooser->refuse(shape_); !reason.empty()) {
      throw Refusal(reason);
    }
    delegates_ = chooser->delegates(shape_);
    delegates_known_ = true;
    if (delegates_.empty()) {
      chooser->prepare(shape_, points);
      variant_ = std::move(chooser);
      return;
    }
  }
  while (!delegates_.empty()) {
    delegate_ = delegates_.front();
    delegates_.erase(delegates_.begin());
    try {
      Made next = make(load_module(module_file(modules_, delegate_)));
      if (const std::string reason = next->refuse(shape_); !reason.empty()) {
        throw Refusal(reason);
      }
      next->prepare(shape_, points);
      variant_ = std::move(next);
      return;
    } catch (const Refusal& refusal) {
      refusals_ += fmt::format("{}{}: {}", refusals_.empty() ? "" : "; ", delegate_, refusal.what());
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
  if (place_ == Place::device) {
    windows_.upload = seconds_of([&] {
      points_ = PlacedArray<T>(place_, host_points_.size());
      points_.copy_from(host_points_.span());
    });
  }
  windows_.prepare = seconds_of([&] {
    prepare_next();
    wait_for_device();
  });
}

template <typename T>
void Session<T>::open_answer(bool open) {
  open_or_close(labels_, g_closed[0], open);
  open_or_close(centroids_, g_closed[1], open);
  open_or_close(entering_, g_closed[2], open);
  open_or_close(memberships_, g_closed[3], open);
}

template <typename T>
void Session<T>::poison_answer() {
  open_answer(true);
  labels_.fill(kPoison);
  centroids_.fill(kPoison);
  entering_.fill(kPoison);
  memberships_.fill(kPoison);
  poisoned_ = true;
}

template <typename T>
void Session<T>::place_start(const Start<T>& start) {
  if (!poisoned_) { // the answer before was not taken
    poison_answer();
  }
  poisoned_ = false;
  start_.copy_from(shape_.starts_from_memberships ? start.memberships : start.centroids);
}

template <typename T>
void Session<T>::run_or_delegate(Answer<T>& answer, Observer<T>& observer) {
  Start<T> start;
  (shape_.starts_from_memberships ? start.memberships : start.centroids) =
      std::as_const(start_).span();
  for (;;) {
    try {
      variant_->run(start, answer, observer);
      return;
    } catch (const Refusal& refusal) {
      if (delegate_.empty()) {
        throw;
      }
      refusals_ += fmt::format("{}{}: {}", refusals_.empty() ? "" : "; ", delegate_, refusal.what());
      variant_.reset(); // its memory is free before the next one asks for some
      prepare_next();
    }
  }
}

template <typename T>
void Session<T>::clocked_run(Observer<T>& observer) {
  Answer<T> answer{labels_.span(), centroids_.span(), entering_.span(), memberships_.span(), 0};
  windows_.run = seconds_of([&] {
    run_or_delegate(answer, observer);
    wait_for_device();
  });
  iterations_ = answer.iterations;
}

template <typename T>
void Session<T>::prepare() {
  windows_ = {};
  clocked_prepare();
}

template <typename T>
void Session<T>::run(const Start<T>& start, Observer<T>& observer) {
  if (variant_ == nullptr) {
    throw Refusal("it is not prepared");
  }
  place_start(start);
  clocked_run(observer);
  open_answer(false);
  downloaded_ = false;
}

template <typename T>
void Session<T>::download() {
  labels_.copy_to(host_labels_.span());
  centroids_.copy_to(host_centroids_.span());
  memberships_.copy_to(host_memberships_.span());
}

template <typename T>
void Session<T>::run_whole(const Start<T>& start) {
  windows_ = {};
  place_start(start);
  Observer<T> nobody;
  windows_.whole = seconds_of([&] {
    clocked_prepare();
    clocked_run(nobody);
    if (place_ == Place::device) {
      windows_.download = seconds_of([&] { download(); });
    }
  });
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
    copy(host_labels_, target.labels);
    copy(host_centroids_, target.centroids);
    copy(host_memberships_, target.memberships);
  } else {
    copy(labels_, target.labels);
    copy(centroids_, target.centroids);
    copy(memberships_, target.memberships);
  }
  copy(entering_, target.entering);
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
