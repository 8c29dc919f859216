#include "datasets/sha256.hpp"

#include "datasets/mapped_file.hpp"

#include <array>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <stdexcept>

namespace clusterbench::datasets {

namespace {

void check(bool done) {
  if (!done)
    throw std::runtime_error("libcrypto cannot compute SHA-256");
}

} // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.hex();
}

std::string sha256_file(const std::filesystem::path& path) {
  Sha256 digest;
  read_in_pieces(path, [&](std::span<const std::byte> piece) { digest.add(piece); });
  return digest.hex();
}

} // namespace clusterbench::datasets
