#include "harness/run/variant_session.hpp"

#include "harness/peer/peer_variant.hpp"

#include <chrono>
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

// Work that a variant has left in some stream belongs to the call that began it.
void wait_for_device(MemoryPlace place) {
  if (place == MemoryPlace::device) {
    device_calls().synchronize();
  }
}

} // namespace

template <typename T>
VariantSession<T>::VariantSession(const Meta& meta, std::unique_ptr<Variant<T>> variant,
                                  const Shape& shape)
    : shape_(shape), place_(meta.device == Device::gpu && meta.launch == Launch::process
                                ? MemoryPlace::device
                                : MemoryPlace::host),
      has_memberships_(meta.family == Family::fcm), variant_(std::move(variant)) {}

template <typename T>
void VariantSession<T>::prepare(std::span<const T> points) {
  const std::size_t states = shape_.k * (shape_.starts_from_memberships ? shape_.n : shape_.d);
  start_ = PlacedArray<T>(place_, states);
  labels_ = PlacedArray<std::int32_t>(place_, shape_.n);
  centroids_ = PlacedArray<T>(place_, shape_.k * shape_.d);
  memberships_ = PlacedArray<T>(place_, has_memberships_ ? shape_.n * shape_.k : 0);
  if (place_ == MemoryPlace::device) {
    upload_seconds_ = seconds_of([&] {
      points_ = PlacedArray<T>(place_, points.size());
      points_.copy_from_host(points);
    });
    points = points_.span();
  }
  prepare_seconds_ = seconds_of([&] {
    variant_->prepare(shape_, points);
    wait_for_device(place_);
  });
  if (const PeerRun* const peer = as_peer(*variant_)) {
    prepare_seconds_ = peer->prepare_seconds();
  }
}

template <typename T>
void VariantSession<T>::run(const Start<T>& start, Result<T>& answer, Observer<T>& observer) {
  const bool from_memberships = shape_.starts_from_memberships;
  start_.copy_from_host(from_memberships ? start.memberships : start.centroids);
  labels_.fill(kPoison);
  centroids_.fill(kPoison);
  memberships_.fill(kPoison);
  Start<T> placed_start;
  (from_memberships ? placed_start.memberships : placed_start.centroids) = start_.span();
  Result<T> placed{labels_.span(), centroids_.span(), memberships_.span(), 0};
  run_seconds_ = seconds_of([&] {
    variant_->run(placed_start, placed, observer);
    wait_for_device(place_);
  });
  download_seconds_ = seconds_of([&] {
    labels_.copy_to_host(answer.labels);
    centroids_.copy_to_host(answer.centroids);
    memberships_.copy_to_host(answer.memberships);
  });
  answer.iterations = placed.iterations;
  if (const PeerRun* const peer = as_peer(*variant_)) {
    run_seconds_ = peer->run_seconds();
    download_seconds_ += peer->download_seconds();
  }
}

template class VariantSession<float>;
template class VariantSession<double>;

} // namespace clusterbench
