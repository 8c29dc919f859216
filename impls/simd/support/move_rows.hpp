// Sums that stay from pass to pass: a row is moved from the sums of its old cluster to those of its
// new one. After a few passes hardly any row moves, and summing costs next to nothing.
//
// Rows that are taken out again must leave nothing behind, so sums are integers: fixed_sums.hpp
// says of which unit. A value becomes an integer by adding 1.5 * 2^52 to it, in double: the last
// bits of the sum are the value, rounded, in two's complement. The bits are added up as they are;
// what the constant brought in is known from the count and taken off at the end.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// Adds rows to integer sums, and takes them away.
template <class V>
class RowMover {
  using W = Vec<double, V::lanes * sizeof(float)>; // a register of double
  typedef float Part
      __attribute__((vector_size(W::lanes * sizeof(float)), aligned(alignof(float)), may_alias));
  // Without a sign: they wrap around.
  typedef std::uint64_t Bits __attribute__((vector_size(W::lanes * sizeof(double))));
  typedef std::uint64_t LooseBits __attribute__((vector_size(W::lanes * sizeof(double)),
                                                 aligned(alignof(std::uint64_t)), may_alias));

public:
  RowMover(const FixedPoint& fixed, std::size_t d, std::uint64_t* sums)
      : fixed_(fixed), d_(d), width_(padded<double>(d)), sums_(sums) {}

  /// x [d]: from and to are clusters, and from is none if it is negative.
  [[gnu::always_inline]] void move(const float* x, std::int32_t from, std::int32_t to) const {
    float copy[64 / sizeof(double)]; // of the last values, where no row follows that may be read
    std::uint64_t* added = sums_ + static_cast<std::size_t>(to) * width_;
    std::uint64_t* taken = from < 0 ? nullptr : sums_ + static_cast<std::size_t>(from) * width_;
    for (std::size_t f = 0; f < d_; f += W::lanes) {
      const float* values = x + f;
      if (fixed_.end - values < static_cast<std::ptrdiff_t>(W::lanes)) {
        for (std::size_t l = 0; l < W::lanes; ++l) {
          copy[l] = f + l < d_ ? values[l] : 0.0f;
        }
        values = copy;
      }
      const auto wide =
          __builtin_convertvector(*reinterpret_cast<const Part*>(values), typename W::Reg);
      const Bits bits = reinterpret_cast<Bits>(
          W::fma(wide, W::load(fixed_.scales + f), W::broadcast(kIntegersFrom)));
      *reinterpret_cast<LooseBits*>(added + f) += bits;
      if (taken != nullptr) {
        *reinterpret_cast<LooseBits*>(taken + f) -= bits;
      }
    }
  }

private:
  FixedPoint fixed_;
  std::size_t d_, width_;
  std::uint64_t* sums_;
};

/// Rows are found first, and memory asked for them: labelling may have read a copy of them.
template <class V>
std::size_t move_rows(const Chunk<float>& chunk, const std::int32_t* labels, std::int32_t* previous,
                      const FixedPoint& fixed, std::uint64_t* sums, double* counts) {
  constexpr std::size_t kBatch = 256, kLine = 64 / sizeof(float), kAhead = 8 * kLine;
  const RowMover<V> mover(fixed, chunk.d, sums);
  std::size_t changes = 0;
  std::uint32_t moving[kBatch];
  for (std::size_t first = 0; first < chunk.count; first += kBatch) {
    const std::size_t last = first + kBatch < chunk.count ? first + kBatch : chunk.count;
    std::size_t found = 0;
    const auto take = [&](std::size_t i) __attribute__((always_inline)) {
      moving[found++] = static_cast<std::uint32_t>(i);
      const float* row = chunk.points + i * chunk.d;
      for (std::size_t f = 0; f < chunk.d && f < kAhead; f += kLine) {
        __builtin_prefetch(row + f);
      }
      __builtin_prefetch(row + chunk.d - 1);
    };
    std::size_t i = first;
    for (; i + V::lanes <= last; i += V::lanes) {
      unsigned moved =
          V::bits(V::different(V::load_labels(labels + i), V::load_labels(previous + i)));
      for (; moved != 0; moved &= moved - 1) {
        take(i + static_cast<std::size_t>(__builtin_ctz(moved)));
      }
    }
    for (; i < last; ++i) {
      if (labels[i] != previous[i]) {
        take(i);
      }
    }
    for (std::size_t m = 0; m < found; ++m) {
      const std::size_t row = moving[m];
      const std::int32_t from = previous[row], to = labels[row];
      mover.move(chunk.points + row * chunk.d, from, to);
      counts[to] += 1.0;
      if (from >= 0) {
        counts[from] -= 1.0;
      }
      previous[row] = to;
    }
    changes += found;
  }
  return changes;
}

} // namespace clusterbench::simd
