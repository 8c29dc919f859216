#include "datasets/sha256.hpp"

#include "datasets/mapped_file.hpp"

#include <array>
#include <fmt/core.h>
#include <openssl/evp.h>
#include <stdexcept>

namespace clusterbench::datasets {

std::string sha256_hex(std::span<const std::byte> bytes) {
  std::array<unsigned char, 32> digest{};
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("libcrypto cannot compute SHA-256");
  std::string hex;
  for (const unsigned char byte : digest)
    hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sha256_file(const std::filesystem::path& path) {
  return sha256_hex(MappedFile(path).bytes());
}

} // namespace clusterbench::datasets
