#include "harness/worker/request_rows.hpp"

#include "datasets/catalog.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdexcept>
#include <type_traits>
#include <unistd.h>

namespace clusterbench {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{16} << 20;

template <typename T>
std::span<const T> values_of(const datasets::Array& piece) {
  if constexpr (std::is_same_v<T, float>) {
    return piece.f32();
  } else {
    return piece.f64();
  }
}

template <typename T>
void make_rows(const std::string& dataset, RowRange rows, std::size_t d, std::span<T> values) {
  datasets::generate_in_pieces(
      dataset, {rows.first, rows.count}, kPieceBytes,
      [&](const datasets::Array& piece, std::size_t first) {
        std::ranges::copy(values_of<T>(piece), values.subspan((first - rows.first) * d).begin());
      });
}

void read_bytes(const std::string& path, std::size_t offset, std::span<std::byte> bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    throw std::runtime_error(fmt::format("the points cannot be opened: {}", std::strerror(errno)));
  }
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t wanted = std::min(kPieceBytes, bytes.size() - done);
    const auto at = static_cast<off_t>(offset + done);
    const ssize_t got = pread(file, bytes.data() + done, wanted, at);
    if (got < 0 && errno == EINTR) {
      continue; // a signal came first
    }
    if (got <= 0) {
      const std::string why = got < 0 ? std::strerror(errno) : "the file ends";
      close(file);
      throw std::runtime_error(fmt::format("the points cannot be read at byte {}: {}", at, why));
    }
    posix_fadvise(file, at, got, POSIX_FADV_DONTNEED);
    done += static_cast<std::size_t>(got);
  }
  close(file);
}

} // namespace

template <typename T>
void read_rows(const PointsRequest& request, RowRange rows, std::span<T> values) {
  if (rows.count > 0) {
    read_bytes(request.points, request.points_offset + rows.first * request.shape.d * sizeof(T),
               std::as_writable_bytes(values));
  }
}

template <typename T>
void make_or_read_rows(const PointsRequest& request, RowRange rows, std::span<T> values) {
  if (request.generated.empty()) {
    read_rows(request, rows, values);
  } else if (rows.count > 0) {
    make_rows(request.generated, rows, request.shape.d, values);
  }
}

template void read_rows(const PointsRequest&, RowRange, std::span<float>);
template void read_rows(const PointsRequest&, RowRange, std::span<double>);

template void make_or_read_rows(const PointsRequest&, RowRange, std::span<float>);
template void make_or_read_rows(const PointsRequest&, RowRange, std::span<double>);

} // namespace clusterbench
