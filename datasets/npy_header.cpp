// The header of a .npy file: what it says, and whether the file is as long as that.
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"

#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <utility>

namespace clusterbench::datasets {
namespace {

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

std::uint32_t little_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

/// What stands behind the byte order in a descr, and what it is.
struct Stored {
  std::string_view descr;
  NpyType type;
};

constexpr Stored kStored[] = {{"f2", NpyType::f16}, {"f4", NpyType::f32}, {"f8", NpyType::f64},
                              {"i1", NpyType::i8},  {"i2", NpyType::i16}, {"i4", NpyType::i32},
                              {"i8", NpyType::i64}, {"u1", NpyType::u8},  {"u2", NpyType::u16},
                              {"u4", NpyType::u32}, {"u8", NpyType::u64}, {"b1", NpyType::boolean}};

NpyType type_of(std::string_view descr, std::string_view name) {
  constexpr std::string_view kOrders = "<>=|"; // '|': a single byte has none
  if (!descr.empty() && kOrders.find(descr.front()) != std::string_view::npos)
    for (const Stored& stored : kStored)
      if (descr.substr(1) == stored.descr)
        return stored.type;
  throw InputError(fmt::format("{}: wrong dtype '{}': bool, int8 to int64, uint8 to uint64, or "
                               "float16 to float64 expected",
                               name, descr));
}

} // namespace

std::string npy_shape_text(std::span<const std::size_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

std::size_t size_of(NpyType type) {
  switch (type) {
  case NpyType::boolean:
  case NpyType::i8:
  case NpyType::u8:
    return 1;
  case NpyType::f16:
  case NpyType::i16:
  case NpyType::u16:
    return 2;
  case NpyType::f32:
  case NpyType::i32:
  case NpyType::u32:
    return 4;
  case NpyType::f64:
  case NpyType::i64:
  case NpyType::u64:
    return 8;
  }
  throw std::logic_error("size_of: unknown NpyType");
}

std::string_view name_of(NpyType type) {
  switch (type) {
  case NpyType::f16:
    return "f16";
  case NpyType::f32:
    return "f32";
  case NpyType::f64:
    return "f64";
  case NpyType::i8:
    return "i8";
  case NpyType::i16:
    return "i16";
  case NpyType::i32:
    return "i32";
  case NpyType::i64:
    return "i64";
  case NpyType::u8:
    return "u8";
  case NpyType::u16:
    return "u16";
  case NpyType::u32:
    return "u32";
  case NpyType::u64:
    return "u64";
  case NpyType::boolean:
    return "bool";
  }
  throw std::logic_error("name_of: unknown NpyType");
}

ElementType points_type(NpyType type) {
  switch (type) {
  case NpyType::f64:
  case NpyType::i32:
  case NpyType::u32:
  case NpyType::i64:
  case NpyType::u64:
    return ElementType::f64;
  default: // at most 16 bits, or float32: exact in float32
    return ElementType::f32;
  }
}

NpyHeader parse_npy_header(std::span<const std::byte> file, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kNpyMagic))
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
        throw InputError(
            fmt::format("{}: a structured dtype; one number an element expected", name));
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

  header.type = type_of(descr, name);
  header.big_endian = descr.front() == '>';
  if (shape.empty() || shape.size() > 2)
    throw InputError(fmt::format("{}: wrong shape {}: two dimensions [n, d] expected", name,
                                 npy_shape_text(shape)));
  header.rows = shape[0];
  header.cols = shape.size() == 2 ? shape[1] : 1;

  const std::size_t found = file.size() - header.offset;
  std::size_t count = 0;
  std::size_t expected = 0;
  if (__builtin_mul_overflow(header.rows, header.cols, &count) ||
      __builtin_mul_overflow(count, size_of(header.type), &expected))
    throw InputError(fmt::format("{}: shape {} is more than any memory holds; {} bytes found", name,
                                 npy_shape_text(shape), found));
  if (found != expected)
    throw InputError(fmt::format("{}: {}: shape {} of {} needs {} bytes of data, {} found", name,
                                 found < expected ? "truncated" : "too long", npy_shape_text(shape),
                                 descr, expected, found));
  return header;
}

} // namespace clusterbench::datasets
