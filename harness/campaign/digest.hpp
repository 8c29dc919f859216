// A digest of an answer: equal digests mean equal bits.
#pragma once

#include "datasets/sha256.hpp"
#include "impls/contract.hpp"

#include <string>

namespace clusterbench {

/// SHA-256 over the digests of labels, centroids and memberships, and the pass count.
template <typename T>
std::string digest(const Result<T>& result) {
  std::string text = datasets::sha256_hex(std::as_bytes(result.labels));
  text += datasets::sha256_hex(std::as_bytes(result.centroids));
  text += datasets::sha256_hex(std::as_bytes(result.memberships));
  text += std::to_string(result.iterations);
  return datasets::sha256_hex(std::as_bytes(std::span(text)));
}

} // namespace clusterbench
