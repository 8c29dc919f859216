// SHA-256, by OpenSSL's libcrypto.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace clusterbench::datasets {

/// The SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

/// The SHA-256 of a file's whole content. Throws InputError when it cannot be read.
std::string sha256_file(const std::filesystem::path& path);

} // namespace clusterbench::datasets
