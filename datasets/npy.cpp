#include "datasets/npy.hpp"

#include "datasets/errors.hpp"
#include "datasets/output_file.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace clusterbench::datasets {
namespace {

static_assert(std::endian::native == std::endian::little, "byte order is assumed throughout");

constexpr std::string_view kMagic = "\x93NUMPY";

/// A reader of the header's Python literal, {'descr': '<f8', 'fortran_order': False, 'shape': (3,
/// 2)}.
class Literal {
public:
  Literal(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  bool accept(char expected) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != expected)
      return false;
    ++at_;
    return true;
  }

  void expect(char expected) {
    if (!accept(expected))
      fail(fmt::format("'{}' expected", expected));
  }

  std::string_view string() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"')
      expect('"');
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos)
      fail("a string does not end");
    return text_.substr(std::exchange(at_, end + 1), end - at_);
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    fail("True or False expected");
  }

  std::size_t integer() {
    skip_space();
    std::size_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range)
      fail("a size is too large");
    if (error != std::errc())
      fail("a size expected");
    at_ = static_cast<std::size_t>(end - text_.data());
    accept('L'); // Python 2 wrote long integers so
    return value;
  }

  void end() {
    skip_space();
    if (at_ != text_.size())
      fail("the header goes on after its end");
  }

  [[noreturn]] void fail(std::string_view reason) const {
    throw InputError(fmt::format("{}: bad .npy header at its byte {}: {}", name_, at_, reason));
  }

private:
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string::npos)
      ++at_;
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
};

std::string shape_text(std::span<const std::size_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

std::uint32_t little_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

template <class T>
T element(const std::byte* at, bool big_endian) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Bits bits;
  std::memcpy(&bits, at, sizeof bits);
  if (big_endian)
    bits = sizeof(T) == 4 ? static_cast<Bits>(__builtin_bswap32(static_cast<std::uint32_t>(bits)))
                          : static_cast<Bits>(__builtin_bswap64(bits));
  return std::bit_cast<T>(bits);
}

template <class T>
void decode(const NpyHeader& header, const std::byte* data, std::span<T> out) {
  const auto [rows, cols] = std::pair(header.rows, header.cols);
  if (!header.fortran_order) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = element<T>(data + i * sizeof(T), header.big_endian);
    return;
  }
  // Bands of rows, so that the cache lines written stay in cache from one column to the next.
  constexpr std::size_t kBand = 64;
  for (std::size_t first = 0; first < rows; first += kBand)
    for (std::size_t col = 0; col < cols; ++col)
      for (std::size_t row = first; row < std::min(rows, first + kBand); ++row)
        out[row * cols + col] =
            element<T>(data + (col * rows + row) * sizeof(T), header.big_endian);
}

} // namespace

NpyHeader parse_npy_header(std::span<const std::byte> file, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic))
    throw InputError(fmt::format("{}: not a .npy file: it does not begin with \\x93NUMPY", name));
  const auto truncated = [&](std::size_t expected) {
    return InputError(fmt::format("{}: truncated .npy header: {} bytes expected, {} found", name,
                                  expected, file.size()));
  };
  if (file.size() < 8)
    throw truncated(8);
  const unsigned version = std::to_integer<unsigned>(file[6]);
  if (version < 1 || version > 3)
    throw InputError(
        fmt::format("{}: .npy format version {} is not known (1, 2 and 3 are)", name, version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t begin = 8 + length_bytes;
  if (file.size() < begin)
    throw truncated(begin);
  const std::size_t length = little_endian(file.subspan(8, length_bytes));
  if (file.size() - begin < length)
    throw truncated(begin + length);

  Literal literal(text.substr(begin, length), name);
  std::string descr;
  std::vector<std::size_t> shape;
  NpyHeader header{};
  header.offset = begin + length;
  bool has_order = false;
  bool has_shape = false;
  literal.expect('{');
  while (!literal.accept('}')) {
    const std::string_view key = literal.string();
    literal.expect(':');
    if (key == "descr") {
      if (literal.accept('['))
        throw InputError(fmt::format("{}: a structured dtype; float32 or float64 expected", name));
      descr = literal.string();
    } else if (key == "fortran_order") {
      header.fortran_order = literal.boolean();
      has_order = true;
    } else if (key == "shape") {
      literal.expect('(');
      shape.clear();
      while (!literal.accept(')')) {
        shape.push_back(literal.integer());
        if (!literal.accept(',')) {
          literal.expect(')');
          break;
        }
      }
      has_shape = true;
    } else {
      literal.fail(fmt::format("unknown key '{}'", key));
    }
    if (!literal.accept(',')) {
      literal.expect('}');
      break;
    }
  }
  literal.end();
  if (descr.empty() || !has_order || !has_shape)
    literal.fail("descr, fortran_order or shape is missing");

  if (descr == "<f4" || descr == ">f4" || descr == "=f4")
    header.type = ElementType::f32;
  else if (descr == "<f8" || descr == ">f8" || descr == "=f8")
    header.type = ElementType::f64;
  else
    throw InputError(fmt::format(
        "{}: wrong dtype '{}': float32 ('<f4') or float64 ('<f8') expected", name, descr));
  header.big_endian = descr.front() == '>';
  if (shape.empty() || shape.size() > 2)
    throw InputError(
        fmt::format("{}: wrong shape {}: two dimensions [n, d] expected", name, shape_text(shape)));
  header.rows = shape[0];
  header.cols = shape.size() == 2 ? shape[1] : 1;

  const std::size_t found = file.size() - header.offset;
  std::size_t count = 0;
  std::size_t expected = 0;
  if (__builtin_mul_overflow(header.rows, header.cols, &count) ||
      __builtin_mul_overflow(count, size_of(header.type), &expected))
    throw InputError(fmt::format("{}: shape {} is more than any memory holds; {} bytes found", name,
                                 shape_text(shape), found));
  if (found != expected)
    throw InputError(fmt::format("{}: {}: shape {} of {} needs {} bytes of data, {} found", name,
                                 found < expected ? "truncated" : "too long", shape_text(shape),
                                 descr, expected, found));
  return header;
}

Array decode_npy(const NpyHeader& header, std::span<const std::byte> file, std::string_view name) {
  Array array = Array::allocate(header.type, header.rows, header.cols, name);
  const std::byte* data = file.data() + header.offset;
  if (header.type == ElementType::f32)
    decode(header, data, array.writable_f32());
  else
    decode(header, data, array.writable_f64());
  return array;
}

Array read_npy(const std::filesystem::path& path) {
  MappedFile file(path);
  const NpyHeader header = parse_npy_header(file.bytes(), path.string());
  // NumPy aligns the data to 64 bytes; other writers may not, and then a view would be misaligned.
  const bool aligned = header.offset % size_of(header.type) == 0;
  const bool one_column = header.rows <= 1 || header.cols <= 1; // then both orders are the same
  if ((!header.fortran_order || one_column) && !header.big_endian && aligned)
    return Array::view(std::move(file), header.type, header.rows, header.cols, header.offset);
  return decode_npy(header, file.bytes(), path.string());
}

template <class T>
void write_npy(const std::filesystem::path& path, std::span<const T> values,
               const std::vector<std::size_t>& shape) {
  if (std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()) !=
      values.size())
    throw std::invalid_argument(
        fmt::format("write_npy: {} values do not fill shape {}", values.size(), shape_text(shape)));
  constexpr char kind = std::is_floating_point_v<T> ? 'f' : 'i';
  std::string header = fmt::format("{{'descr': '<{}{}', 'fortran_order': False, 'shape': {}, }}",
                                   kind, sizeof(T), shape_text(shape));
  const std::size_t before = kMagic.size() + 4;                          // magic, version, length
  const std::size_t total = (before + header.size() + 1 + 63) / 64 * 64; // data aligned to 64 bytes
  header.resize(total - before - 1, ' ');
  header += '\n';
  std::string head(kMagic);
  head += '\x01';
  head += '\x00';
  head += static_cast<char>(header.size() & 0xff);
  head += static_cast<char>(header.size() >> 8);
  head += header;

  OutputFile file(path);
  file.write(std::as_bytes(std::span(head)));
  file.write(std::as_bytes(values));
  file.commit();
}

template void write_npy(const std::filesystem::path&, std::span<const float>,
                        const std::vector<std::size_t>&);
template void write_npy(const std::filesystem::path&, std::span<const double>,
                        const std::vector<std::size_t>&);
template void write_npy(const std::filesystem::path&, std::span<const std::int32_t>,
                        const std::vector<std::size_t>&);
template void write_npy(const std::filesystem::path&, std::span<const std::int64_t>,
                        const std::vector<std::size_t>&);

} // namespace clusterbench::datasets
