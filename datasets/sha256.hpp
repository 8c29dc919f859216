// SHA-256, by OpenSSL's libcrypto.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st; // OpenSSL's

namespace clusterbench::datasets {

/// The SHA-256 of bytes that come in pieces.
class Sha256 {
public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  /// As 64 lower-case hexadecimal digits; once, at the end.
  std::string hex();

private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

/// The SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

/// The SHA-256 of a file's whole content. Throws InputError when it cannot be read.
std::string sha256_file(const std::filesystem::path& path);

} // namespace clusterbench::datasets
