#include "harness/campaign/refusals.hpp"

#include "harness/system/messages.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace clusterbench {
namespace {

std::size_t bytes_of_value(const Workload& work) {
  return work.precision == Precision::f32 ? sizeof(float) : sizeof(double);
}

// What tells without a start that a variant cannot live with a limit of the memory.
std::string refusal_for_memory(const KnownVariant& variant, const Workload& work,
                               const Allowance& allowed) {
  const std::size_t limit = allowed.memory;
  const std::size_t value = bytes_of_value(work);
  const std::size_t row = work.d * value;
  const bool ranks_hold_rows = variant.meta.device == Device::mpi;
  const bool on_devices = computes_on_gpus(variant.meta.device) && !variant.meta.points_on_host;
  if (variant.is_program || !(variant.meta.streams || ranks_hold_rows || on_devices)) {
    return fmt::format(
        "the points need {}, --memory allows {} for everything: they stay in their "
        "file, and only variants that stream, have ranks, or have them on GPUs read them there",
        bytes_text(work.n * row), bytes_text(limit));
  }
  const auto ranks = static_cast<std::size_t>(allowed.ranks);
  if (const std::size_t share = (work.n + ranks - 1) / ranks * row;
      ranks_hold_rows && share >= limit) {
    return fmt::format(
        "each of {} ranks has {} of the points, --memory allows {} for everything in a "
        "process: more ranks have less each",
        ranks, bytes_text(share), bytes_text(limit));
  }
  // Memberships are part of each answer. A dozen answers are in memory until they are judged, and
  // as many starts where these are memberships; and there are the shares of the file and of further
  // answers, and both programs.
  constexpr std::size_t kPrograms = std::size_t{32} << 20; // bytes; --memory is more than that
  const std::size_t most = (limit - kPrograms) / (work.starts_from_memberships ? 48 : 24);
  const bool is_fuzzy = work.spec.family == Family::fcm;
  if (const std::size_t memberships = is_fuzzy ? work.n * work.k * value : 0; memberships > most) {
    return fmt::format("each answer has {} of memberships, --memory {} allows {} for one: all that "
                       "wait for the judge are in memory",
                       bytes_text(memberships), bytes_text(limit), bytes_text(most));
  }
  return "";
}

// What --device-memory cannot do, or what cannot be done with so little of it; empty where it can.
std::string refusal_of_device_memory(const KnownVariant& variant, const Workload& work,
                                     const Allowance& allowed) {
  const Meta& meta = variant.meta;
  const std::size_t limit = allowed.device_memory;
  if (limit == 0 || !computes_on_gpus(meta.device)) {
    return {};
  }
  if (variant.is_program) {
    return "--device-memory: a program's own process cannot be held to it";
  }
  const std::size_t points = work.n * work.d * bytes_of_value(work);
  const std::size_t share = points / static_cast<std::size_t>(gpus_of(meta, allowed.gpus));
  if (meta.points_on_host || share <= limit) {
    return {};
  }
  return fmt::format(
      "the points need {} of device memory, --device-memory allows {} for everything: "
      "only variants that leave them in host memory take them",
      bytes_text(share), bytes_text(limit));
}

} // namespace

std::string declared_refusal(const KnownVariant& variant, const Shape& shape, Family family) {
  const Meta& meta = variant.meta;
  if (meta.family != family) {
    return fmt::format("the variant is {}, the problem is {}", to_string(meta.family),
                       to_string(family));
  }
  if (shape.d < meta.min_d || shape.d > meta.max_d) {
    return meta.min_d == meta.max_d
               ? fmt::format("d = {}, but the variant takes d = {} only", shape.d, meta.min_d)
               : fmt::format("d = {}, but the variant takes d from {} to {}", shape.d, meta.min_d,
                             meta.max_d);
  }
  if (shape.k > meta.max_k) {
    return fmt::format("k = {}, but the variant takes k up to {}", shape.k, meta.max_k);
  }
  if (std::ranges::find(variant.stops, shape.stop.kind) == variant.stops.end()) {
    return fmt::format("the program has no stop rule `{}`", to_string(shape.stop));
  }
  if (shape.weighted && !meta.takes_weights) {
    return "the points have weights, and the variant takes none";
  }
  if (shape.starts_from_memberships ? !variant.starts_from_memberships
                                    : !variant.starts_from_centroids) {
    return fmt::format("the program does not start from {}",
                       shape.starts_from_memberships ? "memberships" : "centroids");
  }
  return {};
}

std::string refusal_before_start(const KnownVariant& variant, const Workload& work,
                                 const Shape& shape, const Allowance& allowed) {
  if (!supports(variant, work.precision)) {
    return fmt::format("the variant has no {} form", to_string(work.precision));
  }
  std::string reason = declared_refusal(variant, shape, work.spec.family);
  if (reason.empty() && work.points->file != nullptr) {
    reason = refusal_for_memory(variant, work, allowed);
  }
  return reason.empty() ? refusal_of_device_memory(variant, work, allowed) : reason;
}

} // namespace clusterbench
