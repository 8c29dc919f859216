// A vector register of T: the one thing that differs between instruction sets. Kernels are
// templates over this type and use nothing else of the machine, so every kernel is written once.
//
// This is the general form, of GCC's vector extensions: a comparison gives all ones or zeros in
// each lane. vector_avx512.hpp specialises it for 64 bytes, where a comparison gives one bit a
// lane.
//
// A translation unit compiled for one instruction set must not emit inline functions that others
// emit as well: the linker keeps one copy, perhaps the one that the machine cannot execute. Hence
// every function of the kernels depends on the vector type, and none of the standard library is
// used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace clusterbench::simd {

/// The integer that is as wide as T, so that labels fit the lanes of their points.
template <typename T>
struct LaneOf;
template <>
struct LaneOf<float> {
  using type = std::int32_t;
};
template <>
struct LaneOf<double> {
  using type = std::int64_t;
};

template <typename T, std::size_t Bytes>
struct Vec {
  using Scalar = T;
  using Lane = typename LaneOf<T>::type;
  static constexpr std::size_t lanes = Bytes / sizeof(T);
  static constexpr std::size_t registers = 16; ///< that the instruction set has

  typedef T Reg __attribute__((vector_size(Bytes)));
  typedef T LooseReg __attribute__((vector_size(Bytes), aligned(alignof(T)), may_alias));
  typedef Lane Ints __attribute__((vector_size(Bytes)));
  typedef std::int32_t Labels
      __attribute__((vector_size(lanes * sizeof(std::int32_t)), aligned(4), may_alias));
  using Mask = Ints;

  static Reg load(const T* p) { return *reinterpret_cast<const LooseReg*>(p); }
  static void store(T* p, Reg a) { *reinterpret_cast<LooseReg*>(p) = a; }
  /// The first `count` values, the other lanes 0.
  static Reg load_first(const T* p, std::size_t count) {
    Reg a{};
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = p[i];
    }
    return a;
  }
  static Reg broadcast(T value) { return value - Reg{}; }
  static Ints broadcast_label(std::size_t value) { return static_cast<Lane>(value) - Ints{}; }
  static Ints load_labels(const std::int32_t* p) {
    return __builtin_convertvector(*reinterpret_cast<const Labels*>(p), Ints);
  }
  static void store_labels(std::int32_t* p, Ints a) {
    *reinterpret_cast<Labels*>(p) = __builtin_convertvector(a, Labels);
  }

  static Reg fma(Reg a, Reg b, Reg c) { return a * b + c; } // contracted where there is an FMA
  static Reg min(Reg a, Reg b) { return a < b ? a : b; }
  static Reg max(Reg a, Reg b) { return a > b ? a : b; }
  /// The last bits of each value, as many as Bits has, replaced by those of `value`.
  template <std::size_t Bits>
  static Reg with_last_bits(Reg a, std::size_t value) {
    return reinterpret_cast<Reg>((reinterpret_cast<Ints>(a) & ~static_cast<Lane>(Bits)) |
                                 static_cast<Lane>(value));
  }
  static Mask less(Reg a, Reg b) { return a < b; }
  static Mask equal(Ints a, Ints b) { return a == b; }
  static Mask different(Ints a, Ints b) { return a != b; }
  /// A bit for each lane that is set.
  static unsigned bits(Mask m) {
    unsigned all = 0;
    for (std::size_t i = 0; i < lanes; ++i) {
      all |= (m[i] != 0 ? 1u : 0u) << i;
    }
    return all;
  }
  /// a <= b, in the lanes of m only.
  static Mask less_or_equal_where(Mask m, Reg a, Reg b) { return m & (a <= b); }
  static Mask without(Mask a, Mask b) { return a & ~b; }
  /// The lanes below count.
  static Mask first(std::size_t count) {
    Ints lane;
    for (std::size_t i = 0; i < lanes; ++i) {
      lane[i] = static_cast<Lane>(i);
    }
    return lane < broadcast_label(count < lanes ? count : lanes);
  }
  static Ints select(Mask m, Ints a, Ints b) { return m ? a : b; }
  /// sum + x in the lanes of m. It may be done as x * 1 + sum, which rounds the same: processors
  /// that add and multiply in different pipes do both at once.
  static Reg add_where(bool /*by_multiplying*/, Mask m, Reg sum, Reg x) {
    return sum + reinterpret_cast<Reg>(m & reinterpret_cast<Ints>(x));
  }

  /// How many lanes are set, counted over many masks.
  using Counter = Ints;
  static void count(Counter& counter, Mask m) { counter -= m; }
  static double total(Counter counter) {
    Lane sum = 0;
    for (std::size_t i = 0; i < lanes; ++i) {
      sum += counter[i];
    }
    return static_cast<double>(sum);
  }
};

/// The sum of all lanes, in double.
template <class V>
double total(typename V::Reg a) {
  double sum[V::lanes];
  for (std::size_t i = 0; i < V::lanes; ++i) {
    sum[i] = double{a[i]};
  }
#pragma GCC unroll 4
  for (std::size_t half = V::lanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      sum[i] += sum[i + half];
    }
  }
  return sum[0];
}

/// Lane l is lane of(l) of a, or of b behind it. of: a function without captures.
template <class V, class Of, std::size_t... L>
[[gnu::always_inline]] inline typename V::Reg chosen(typename V::Reg a, typename V::Reg b, Of,
                                                     std::index_sequence<L...>) {
  return __builtin_shufflevector(a, b, static_cast<int>(Of{}(L))...);
}

/// Sums of neighbours: lanes 0.. hold a0 + a1, a2 + a3, ..., then b0 + b1, ...
template <class V>
typename V::Reg pair_sums(typename V::Reg a, typename V::Reg b) {
  constexpr auto even = [](std::size_t l) { return 2 * l; };
  constexpr auto odd = [](std::size_t l) { return 2 * l + 1; };
  constexpr std::make_index_sequence<V::lanes> all;
  return chosen<V>(a, b, even, all) + chosen<V>(a, b, odd, all);
}

/// In lanes whose number has bit Half, the sums of b over pairs of lanes that differ in that bit;
/// in the others those of a. Half of the shuffles move nothing across, which is a blend.
template <class V, std::size_t Half>
[[gnu::always_inline]] inline typename V::Reg folded(typename V::Reg a, typename V::Reg b) {
  constexpr auto own = [](std::size_t l) { return (l & Half) != 0 ? V::lanes + l : l; };
  constexpr auto other = [](std::size_t l) {
    return (l & Half) != 0 ? V::lanes + (l ^ Half) : l ^ Half;
  };
  constexpr std::make_index_sequence<V::lanes> all;
  return chosen<V>(a, b, own, all) + chosen<V>(a, b, other, all);
}

/// Adds up the lanes of each of `lanes` registers; lane i of the result is the total of register
/// i. Each step halves the number of registers, where adding up one after the other would not.
template <class V, std::size_t Count = V::lanes>
[[gnu::always_inline]] inline typename V::Reg transposed_totals(typename V::Reg (&a)[V::lanes]) {
  if constexpr (Count == 1) {
    return a[0];
  } else {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Count / 2; ++i) {
      a[i] = folded<V, Count / 2>(a[i], a[i + Count / 2]);
    }
    return transposed_totals<V, Count / 2>(a);
  }
}

/// Has the value in a register from here on: the compiler would load it anew for every use, and
/// loads would be the limit.
template <class V>
[[gnu::always_inline]] inline void keep_in_register(typename V::Reg& a) {
#if defined(__x86_64__)
  asm("" : "+v"(a));
#endif
}

} // namespace clusterbench::simd
