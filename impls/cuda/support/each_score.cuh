// The first sweep in which every centroid competes for itself.
#pragma once

#include "impls/cuda/support/wgmma_sweep.cuh"

namespace clusterbench::cuda {

/// Every score competes: four operations a score.
struct EachScore {
  using Value = float;
  static constexpr unsigned kMoreFeatures = 0;
  static constexpr int kSign = 1; ///< of the products

  __device__ static float far_away() { return kFarAway; }
  __device__ static float least(float a, float b) { return fminf(a, b); }
  __device__ static float most(float a, float b) { return fmaxf(a, b); }
  __device__ static unsigned bits(float value) { return __float_as_uint(value); }

  /// Of the 64 scores of a tile that a thread has made, 32 belong to either of its rows. Their
  /// places, 2 ni + e for column 8 ni + e, replace the lowest five bits: one instruction, no
  /// selection.
  __device__ static void compete(const float (&sums)[64], const unsigned char* beside,
                                 unsigned keep, float (&best)[2], float (&second)[2]) {
    const float2* squares = reinterpret_cast<const float2*>(beside) + threadIdx.x % 4;
#pragma unroll
    for (unsigned ni = 0; ni < 16; ++ni) {
      const float2 two = squares[ni * 4];
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const float exact = (e % 2 == 0 ? two.x : two.y) - sums[ni * 4 + e];
        const float score = __uint_as_float((__float_as_uint(exact) & keep) | (ni * 2 + e % 2));
        second[e / 2] = fminf(second[e / 2], fmaxf(best[e / 2], score));
        best[e / 2] = fminf(best[e / 2], score);
      }
    }
  }

  __device__ static void decide(const SweepTask& task, const Beside&, bool has_row, std::size_t row,
                                float best, unsigned nearest, float second) {
    decide_half(task, has_row, row, best, nearest, second);
  }
};

/// A first sweep in which every centroid competes for itself.
class WgmmaSweep {
public:
  static constexpr unsigned kPaddedRows = 256;

  static std::string refuse(const Shape&) { return WgmmaLaunch<EachScore>::refuse(); }
  static std::size_t bytes(const Shape&) { return 0; }
  void prepare(const SweepTask& task) { launch_.prepare(task); }
  void follow(const SweepTask&) {}
  void launch(const SweepTask& task) const {
    launch_.launch(task, {task.centroids.half_squares, nullptr});
  }
  std::string path() const { return launch_.path(); }

private:
  WgmmaLaunch<EachScore> launch_;
};

} // namespace clusterbench::cuda
