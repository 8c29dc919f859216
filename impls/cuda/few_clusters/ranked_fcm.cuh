// Fuzzy c-means on several devices, a sweep at a time.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/ranks.cuh"
#include "impls/cuda/common/runtime.hpp"

#include <cmath>
#include <cstddef>
#include <cuda_runtime.h>
#include <limits>
#include <string>
#include <utility>

namespace clusterbench::cuda {

/// The sums of all ranks, [ranks, size], in the memory of one: see FcmSweep. They are added up by
/// rank, so that all ranks have the same bits, in every run.
struct SumsOfRanks {
  const double* parts;
  std::size_t ranks, size;

  __device__ double total(std::size_t at) const {
    double total = 0.0;
    for (std::size_t r = 0; r < ranks; ++r) {
      total += parts[r * size + at];
    }
    return total;
  }
};

inline constexpr unsigned kMoveCentresThreads = 512;

/// One block: moves every centre [k, d] to the weighted mean; one without weight stays.
static __global__ void __launch_bounds__(kMoveCentresThreads)
    move_centres(const SumsOfRanks sums, unsigned k, unsigned d, float* centres, float* entering,
                 double* squared_shift) {
  __shared__ double s_shifts[kMoveCentresThreads / 32];
  double shift = 0.0;
  for (unsigned e = threadIdx.x; e < k * d; e += kMoveCentresThreads) {
    const double weight = sums.total(k * d + e / d);
    const float old = centres[e];
    const float mean = weight > 0.0 ? static_cast<float>(sums.total(e) / weight) : old;
    const double moved = static_cast<double>(mean) - static_cast<double>(old);
    shift += moved * moved;
    entering[e] = old;
    centres[e] = mean;
  }
  shift = over_lanes<32>(shift);
  if (threadIdx.x % 32 == 0) {
    s_shifts[threadIdx.x / 32] = shift;
  }
  __syncthreads(); // the shifts of all warps are there
  if (threadIdx.x == 0) {
    for (unsigned w = 1; w < kMoveCentresThreads / 32; ++w) {
      shift += s_shifts[w];
    }
    *squared_shift = shift;
  }
}

/// Exchange has, beside what RankedRun wants: own(rank), where a rank's sums belong in its device's
/// memory, and gather(rank), which makes those of all ranks from them in the order of the rank's
/// stream.
template <typename Exchange>
struct FcmMember : RankMember<Exchange> {
  double* own() const { return this->exchange->own(this->rank); }
  SumsOfRanks gather() const { return this->exchange->gather(this->rank); }
};

/// The run of one rank. Nothing but sums leaves its device. Sweeps:
/// FcmRun<FcmSweep> (fcm_rows.cuh).
template <typename Exchange, typename Sweeps>
class RankedFcm final : public Variant<float> {
public:
  explicit RankedFcm(FcmMember<Exchange> ranks = {}) : ranks_(std::move(ranks)) {}

  std::string refuse(const Shape& shape) const override { return Sweeps::refuse(shape); }

  void prepare(const Shape& shape, const Points<float>& points) override {
    shape_ = shape;
    sweeps_.prepare(shape, points.rows, task_);
    if (!ranks_.has_points()) {
      task_.n = 0; // the tile has a row, which belongs to nobody
    }
    task_.starts_from_memberships = shape.starts_from_memberships;
    d_shift_ = DeviceBuffer<double>(1);
    host_ = PinnedBuffer<double>(kMostRanks + 1);
    next_stamp_ = 1;
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    const bool from_memberships = shape_.starts_from_memberships;
    StopTest stop(shape_.stop);
    begin(start, answer);
    SumsOfRanks sums{};
    if (from_memberships) { // the sums of the start are those of the first centres
      sums = sweep(observer);
    }
    PassFacts facts;
    do {
      if (!from_memberships) {
        sums = sweep(observer);
      }
      move(sums, answer, observer);
      if (from_memberships) {
        sums = sweep(observer);
      }
      facts = facts_of(sums, stop);
      if (from_memberships && stop.passes() == 0) { // there were no centres to move
        facts.squared_shift = std::numeric_limits<double>::infinity();
      }
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  void begin(const Start<float>& start, const Answer<float>& answer) {
    if (shape_.starts_from_memberships) {
      fill_bytes(answer.centroids, 0); // of clusters that never get any weight
    } else {
      copy_values(start.centroids, answer.centroids.data());
    }
    if (shape_.stop.kind == StopRule::Kind::labels) {
      fill_bytes(answer.labels, 0xFF); // -1: every label changes in the first pass
    }
    task_.exchange(start, answer);
    task_.number = 0;
    task_.sums = ranks_.own();
    task_.run = {.initial = answer.centroids.data(),
                 .centroids = nullptr,
                 .entering = nullptr,
                 .labels = answer.labels.data(),
                 .history = nullptr,
                 .times = nullptr,
                 .iterations = nullptr,
                 .rule = shape_.stop.kind,
                 .threshold = shape_.stop.threshold,
                 .max_iterations = shape_.stop.max_iterations,
                 .first_stamp = next_stamp_};
    next_stamp_ += static_cast<unsigned>(shape_.stop.max_iterations) + 1; // sweeps, at most
  }

  /// Memberships of this rank's points, and the sums of all ranks.
  SumsOfRanks sweep(Observer<float>& observer) {
    {
      const Phase phase(observer, "memberships and sums", kDefaultStream);
      sweeps_.launch(task_);
      ++task_.number;
      task_.given = nullptr; // later ones have centres
    }
    const Phase phase(observer, "exchange", kDefaultStream);
    return ranks_.gather();
  }

  void move(const SumsOfRanks& sums, const Answer<float>& answer, Observer<float>& observer) {
    const Phase phase(observer, "centres", kDefaultStream);
    move_centres<<<1, kMoveCentresThreads>>>(sums, task_.k, task_.d, answer.centroids.data(),
                                             answer.entering.data(), d_shift_.data());
    check_launch("move_centres");
  }

  /// What the stop rule asks for; waits if that is anything.
  PassFacts facts_of(const SumsOfRanks& sums, const StopTest& stop) {
    PassFacts facts;
    if (stop.wants_loss() || stop.wants_labels_changed()) {
      check(cudaMemcpy2DAsync(host_.data(), sizeof(double), sums.parts + sums.size - 1,
                              sums.size * sizeof(double), sizeof(double), sums.ranks,
                              cudaMemcpyDeviceToHost, kDefaultStream),
            "cudaMemcpy2DAsync of the stop rule's sums");
      double total = 0.0;
      check(cudaStreamSynchronize(kDefaultStream), "cudaStreamSynchronize for the stop rule");
      for (std::size_t r = 0; r < sums.ranks; ++r) {
        total += host_[r];
      }
      facts.loss = total;
      facts.labels_changed = total > 0.0;
    }
    if (stop.wants_shift()) {
      copy_values(d_shift_.span(), &host_[kMostRanks]);
      check(cudaStreamSynchronize(kDefaultStream), "cudaStreamSynchronize for the stop rule");
      facts.squared_shift = host_[kMostRanks];
    }
    return facts;
  }

  FcmMember<Exchange> ranks_;
  Shape shape_;
  typename Sweeps::Task task_{};
  Sweeps sweeps_;
  unsigned next_stamp_ = 1;
  DeviceBuffer<double> d_shift_;
  PinnedBuffer<double> host_; // [kMostRanks] of the stop rule, and the shift
};

/// How a variant of ranks is registered: `of_exchange` says what its Exchange is, the rest is the
/// same.
inline Meta ranked_fcm(Meta of_exchange) {
  of_exchange.family = Family::fcm;
  of_exchange.device = Device::multi_gpu;
  of_exchange.distance = DistanceForm::expanded;
  of_exchange.max_d = 512;
  of_exchange.max_k = 16;
  return of_exchange;
}

/// Its factories.
template <typename Exchange, typename Sweeps>
Factories ranked_fcm_with() {
  return f32_only<RankedRun<RankedFcm<Exchange, Sweeps>, FcmMember<Exchange>, Exchange>>();
}

} // namespace clusterbench::cuda
