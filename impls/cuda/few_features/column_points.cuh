// Points of few features, stored by columns: how many stay in shared memory, fetching several at a
// time, and comparing them with all centroids. A host without CUDA sees the first alone.
#pragma once

#include <cmath>
#include <cstddef>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

namespace clusterbench::cuda {

/// How many points of its share a block keeps in shared memory, [d, stride] floats and a byte of
/// label each.
struct ResidentPoints {
  std::size_t count, stride; ///< points; floats from one feature to the next

  /// Of `share` points, in `room` bytes. What does not fit begins behind whole steps of so many
  /// points, so that points are left over only once.
  static ResidentPoints of(std::size_t share, std::size_t step, std::size_t d, std::size_t room) {
    const std::size_t fits = room / (d * sizeof(float) + 1);
    const std::size_t count = fits >= share ? share : fits / step * step;
    return {count, count};
  }
  /// The same with features so far apart that lanes which have all features and the count of
  /// neighbouring points read from different banks.
  static ResidentPoints apart(std::size_t share, std::size_t step, std::size_t d,
                              std::size_t room) {
    const std::size_t apart = 32 / (d + 1), most = (31 + apart) * d * sizeof(float);
    const std::size_t count = of(share, step, d, room > most ? room - most : 0).count;
    return {count, (count + 31) / 32 * 32 + apart};
  }
};

#ifdef __CUDACC__

/// Floats between centroids in shared memory, so that they can be read 16 bytes at a time.
template <unsigned D>
constexpr unsigned kStride = D <= 2 ? D : (D + 3) / 4 * 4;

/// C points, kThreads apart, from point i on; behind the last point that one again.
template <unsigned D, unsigned C, unsigned kThreads>
__device__ void fetch(const float* points, std::size_t stride, unsigned i, unsigned count,
                      float (&x)[C][D]) {
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    const unsigned at = min(i + p * kThreads, count - 1);
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      x[p][f] = points[f * stride + at];
    }
  }
}

/// Fetches `count` points, C a thread at a time, and those behind the last whole step one a thread
/// if that is enough; calls visit(x, i, left) for x[C or 1], the first of which is point i, and of
/// which `left` are real. kAhead: fetches points a step before they are needed.
template <unsigned D, unsigned C, unsigned kThreads, bool kAhead, typename Visit>
__device__ void for_columns(const float* points, std::size_t stride, unsigned count,
                            const Visit& visit) {
  constexpr unsigned kStep = C * kThreads;
  const unsigned rest = count % kStep, whole = count - rest;
  unsigned i = threadIdx.x;
  float x[C][D], next[C][D];
  if (kAhead && whole > 0) {
    fetch<D, C, kThreads>(points, stride, i, count, next);
  }
#pragma unroll 1
  for (; i < whole; i += kStep) {
    if constexpr (kAhead) {
#pragma unroll
      for (unsigned e = 0; e < C * D; ++e) {
        x[e / D][e % D] = next[e / D][e % D];
      }
      fetch<D, C, kThreads>(points, stride, i + kStep, count, next);
    } else {
      fetch<D, C, kThreads>(points, stride, i, count, x);
    }
    visit(x, i, C);
  }
  if (i < count && rest > kThreads) {
    const unsigned left = (count - i + kThreads - 1) / kThreads;
    fetch<D, C, kThreads>(points, stride, i, count, x);
    visit(x, i, left);
  } else if (i < count) {
    float one[1][D];
    fetch<D, 1, kThreads>(points, stride, i, count, one);
    visit(one, i, 1);
  }
}

/// All threads: centroids [k, d] become [k, kStride<D>] in shared memory, zero behind d. A barrier
/// must follow.
template <unsigned D, unsigned kThreads>
__device__ void load_centroids(const float* centroids, unsigned k, unsigned d, float* s_centroids) {
  for (unsigned e = threadIdx.x; e < k * D; e += kThreads) {
    const unsigned j = e / D, f = e % D;
    s_centroids[j * kStride<D> + f] = f < d ? centroids[j * d + f] : 0.0f;
  }
}

template <unsigned D>
__device__ void read_centroid(const float* s_centroid, float (&c)[D]) {
  if constexpr (D <= 2) {
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      c[f] = s_centroid[f];
    }
  } else {
#pragma unroll
    for (unsigned f = 0; f < D; f += 4) {
      const float4 part = *reinterpret_cast<const float4*>(s_centroid + f);
      const float four[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
      for (unsigned e = 0; e < 4 && f + e < D; ++e) {
        c[f + e] = four[e];
      }
    }
  }
}

/// Labels of C points and their squared distances; ties go to the lowest index.
template <unsigned D, unsigned C>
__device__ void compare(const float (&x)[C][D], const float* s_centroids, unsigned k,
                        float (&nearest)[C], unsigned (&label)[C]) {
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    nearest[p] = INFINITY;
    label[p] = 0;
  }
#pragma unroll 4
  for (unsigned j = 0; j < k; ++j) {
    float c[D];
    read_centroid<D>(s_centroids + j * kStride<D>, c);
#pragma unroll
    for (unsigned p = 0; p < C; ++p) {
      float squared = 0.0f;
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        const float difference = x[p][f] - c[f];
        squared += difference * difference;
      }
      label[p] = squared < nearest[p] ? j : label[p];
      nearest[p] = fminf(nearest[p], squared);
    }
  }
}

#endif // __CUDACC__

} // namespace clusterbench::cuda
