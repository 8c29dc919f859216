// Random numbers that nobody can foretell who does not know a campaign's secret.
#pragma once

#include "datasets/sha256.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace clusterbench {

/// The same secret and purpose give the same numbers, on every machine. What one purpose has shown
/// tells nothing about another: the key is a hash (SHA-256) of both.
class SecretStream {
public:
  SecretStream(std::uint64_t secret, std::string_view purpose) {
    const std::string text = std::to_string(secret) + " " + std::string(purpose);
    const std::string hash = datasets::sha256_hex(std::as_bytes(std::span(text)));
    std::from_chars(hash.data(), hash.data() + 16, key_, 16);
  }

  /// The number at a position of the stream (SplitMix64, Steele, Lea and Flood 2014).
  std::uint64_t at(std::uint64_t position) const {
    std::uint64_t z = key_ + (position + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform_at(std::uint64_t position) const {
    return static_cast<double>(at(position) >> 11) * 0x1p-53;
  }

  std::uint64_t next() { return at(position_++); }
  double uniform() { return uniform_at(position_++); }
  std::size_t index(std::size_t count) { return static_cast<std::size_t>(next() % count); }

private:
  std::uint64_t key_ = 0;
  std::uint64_t position_ = 0;
};

} // namespace clusterbench
