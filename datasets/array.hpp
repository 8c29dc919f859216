// A matrix of points: what every reader and generator returns.
#pragma once

#include "datasets/mapped_file.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace clusterbench::datasets {

enum class ElementType { f32, f64, i32, i64, u8 };

/// Bytes per element.
std::size_t size_of(ElementType type);

/// "f32", "f64", "i32", "i64" or "u8".
std::string_view name_of(ElementType type);

/// A row-major matrix [rows, cols] of f32 or f64; owns its memory or a read-only file mapping.
class Array {
public:
  /// An uninitialised matrix of f32 or f64 that owns its memory. `what` names it in the message.
  /// Throws InputError when rows * cols overflows or needs more than this machine's memory,
  /// OutOfMemory when it needs more than there is now.
  static Array allocate(ElementType type, std::size_t rows, std::size_t cols,
                        std::string_view what);

  /// A view of `file` from byte `offset` on; takes the mapping. The caller has checked its size.
  static Array view(MappedFile file, ElementType type, std::size_t rows, std::size_t cols,
                    std::size_t offset);

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t size() const { return rows_ * cols_; }
  ElementType type() const { return type_; }

  /// All elements, row-major. Throws std::logic_error when the matrix is of the other type.
  std::span<const float> f32() const;
  std::span<const double> f64() const;

  /// The same, writable. Throws std::logic_error for a mapped file too.
  std::span<float> writable_f32();
  std::span<double> writable_f64();

  /// The raw bytes, row-major.
  std::span<const std::byte> bytes() const;

  /// True labels [rows], where the generator or the file has them.
  std::optional<std::vector<std::int64_t>> labels;

private:
  struct Mapped {
    MappedFile file;
    std::size_t offset;
  };

  Array(ElementType type, std::size_t rows, std::size_t cols)
      : type_(type), rows_(rows), cols_(cols) {}

  ElementType type_;
  std::size_t rows_;
  std::size_t cols_;
  std::variant<std::unique_ptr<float[]>, std::unique_ptr<double[]>, Mapped> storage_;
};

/// rows * cols * size_of(type). Throws InputError when that overflows or exceeds this machine's
/// physical memory; `what` names the culprit.
std::size_t checked_bytes(ElementType type, std::size_t rows, std::size_t cols,
                          std::string_view what);

/// Refuses what no clustering can take: no rows, no columns, or the first NaN or Inf.
/// Throws InputError naming the row and the column, both from 0, as in NumPy.
void check_points(const Array& points, std::string_view what = "data");

/// The same of values [n, cols] that are no Array's.
template <class T>
void check_points(std::span<const T> values, std::size_t cols, std::string_view what);

} // namespace clusterbench::datasets
