#include "datasets/file_in_place.hpp"

#include "datasets/bin.hpp"
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <fstream>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace clusterbench::datasets {
namespace {

// The mapped file, for the signal handler.
std::atomic<std::uintptr_t> g_begin = 0, g_end = 0;
std::atomic<bool> g_damaged = false;
std::atomic<const FileInPlace*> g_file = nullptr;

// Zeros from the page that cannot be read to the end of the file: one mapping, and no memory.
void put_zeros(int signal, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (info->si_code > 0 && at >= g_begin && at < g_end) {
    const auto page = static_cast<std::uintptr_t>(::getpagesize());
    const std::uintptr_t from = at / page * page;
    if (::mmap(reinterpret_cast<void*>(from), g_end - from, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
      g_damaged = true;
      return;
    }
  }
  std::signal(signal, SIG_DFL); // and the instruction faults again
}

/// Bytes of this process that are in memory.
struct Resident {
  std::size_t all = 0;
  std::size_t of_files = 0; // mapped ones, this program's own among them
};

Resident resident() {
  std::ifstream status("/proc/self/status");
  Resident found;
  for (std::string key; status >> key; std::getline(status, key)) {
    std::size_t kibibytes = 0;
    if (key == "VmRSS:" && status >> kibibytes)
      found.all = kibibytes * 1024;
    if (key == "RssFile:" && status >> kibibytes)
      found.of_files = kibibytes * 1024;
  }
  return found;
}

} // namespace

struct FileInPlace::Parts {
  Parts() = default;

  void open(const std::filesystem::path& path, std::size_t most) {
    name = path.string();
    budget = most;
    // O_NONBLOCK so that a named pipe is refused below instead of waiting for a writer.
    mapped = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (mapped < 0)
      throw InputError(fmt::format("{}: cannot open: {}", name, std::strerror(errno)));
    if (::fstat(mapped, &before) != 0 || !S_ISREG(before.st_mode))
      throw InputError(fmt::format("{}: not a regular file", name));
    size = static_cast<std::size_t>(before.st_size);
    if (size == 0)
      throw InputError(fmt::format("{}: the file is empty", name));
    direct = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, mapped, 0);
    if (address == MAP_FAILED)
      throw InputError(fmt::format("{}: cannot map: {}", name, std::strerror(errno)));
    data = static_cast<std::byte*>(address);
    ::madvise(data, size, MADV_SEQUENTIAL);
    if (g_end != 0)
      throw InputError(
          fmt::format("{}: another file is in use, and one stays a file at a time", name));
    g_damaged = false;
    g_begin = reinterpret_cast<std::uintptr_t>(data);
    g_end = g_begin + size;
    watched = true;
    struct sigaction action {};
    action.sa_sigaction = put_zeros;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, nullptr);
    let_go();
    others = resident().of_files;
    keeper = std::jthread([this](const std::stop_token& stop) { look_again_and_again(stop); });
  }

  ~Parts() {
    if (keeper.joinable()) {
      keeper.request_stop();
      keeper.join();
    }
    if (watched)
      g_begin = g_end = 0;
    if (data != nullptr)
      ::munmap(data, size);
    for (const int file : {mapped, direct})
      if (file >= 0)
        ::close(file);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  void let_go() const {
    ::madvise(data, size, MADV_DONTNEED);
    ::posix_fadvise(mapped, 0, 0, POSIX_FADV_DONTNEED);
  }

  void look_again_and_again(const std::stop_token& stop) const {
    constexpr std::chrono::milliseconds kBetweenLooks{2};
    for (; !stop.stop_requested(); std::this_thread::sleep_for(kBetweenLooks))
      keep_within_budget();
  }

  void keep_within_budget() const {
    const std::unique_lock alone(looking, std::try_to_lock);
    if (!alone)
      return; // somebody is at it
    const Resident now = resident();
    const std::size_t of_this_file = now.of_files - std::min(now.of_files, others);
    peak = std::max(peak.load(), now.all - std::min(now.all, of_this_file));
    if (of_this_file > budget)
      let_go();
  }

  bool has_changed() const {
    struct stat now {};
    return ::fstat(mapped, &now) != 0 || now.st_size != before.st_size ||
           now.st_mtim.tv_sec != before.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != before.st_mtim.tv_nsec;
  }

  std::string name;
  std::size_t budget = 0;
  int mapped = -1, direct = -1;
  struct stat before {};
  std::size_t size = 0;
  std::byte* data = nullptr;
  bool watched = false;
  mutable std::mutex looking;
  std::size_t others = 0; // bytes of files that stay when all of this one has gone
  mutable std::atomic<std::size_t> peak = 0;
  std::jthread keeper;
};

FileInPlace::FileInPlace(const std::filesystem::path& path, std::size_t budget)
    : parts_(std::make_unique<Parts>()) {
  parts_->open(path, budget);
  g_file = this;
}

FileInPlace::~FileInPlace() {
  g_file = nullptr;
}

std::span<const std::byte> FileInPlace::bytes() const {
  return {parts_->data, parts_->size};
}

int FileInPlace::descriptor() const {
  return is_direct() ? parts_->direct : parts_->mapped;
}

bool FileInPlace::is_direct() const {
  return parts_->direct >= 0;
}

bool FileInPlace::has_changed() const {
  return parts_->has_changed();
}

void FileInPlace::keep_within_budget() const {
  parts_->keep_within_budget();
}

std::size_t FileInPlace::peak_resident_bytes() const {
  return parts_->peak;
}

void FileInPlace::check() const {
  if (parts_->has_changed())
    throw InputError(fmt::format("{}: the file changed while it was used", parts_->name));
  if (g_damaged)
    throw InputError(fmt::format("{}: a part of the file cannot be read", parts_->name));
}

bool mapped_file_is_intact() {
  const FileInPlace* const file = g_file;
  if (file == nullptr)
    return true;
  file->keep_within_budget();
  return !g_damaged && !file->has_changed();
}

PointsLayout layout_of(std::span<const std::byte> file, const std::filesystem::path& path) {
  const std::string name = path.string();
  if (path.extension() == ".fbin") {
    const BinShape shape = bin_shape(file, BinElement::f32, name);
    return {ElementType::f32, shape.rows, shape.cols, kBinHeader};
  }
  if (path.extension() != ".npy")
    throw InputError(fmt::format("{}: only a .npy or a .fbin can stay a file", name));
  const NpyHeader header = parse_npy_header(file, name);
  const bool as_stored = header.type == NpyType::f32 || header.type == NpyType::f64;
  if (!as_stored || header.big_endian || (header.fortran_order && header.cols > 1) ||
      header.offset % size_of(header.type) != 0)
    throw InputError(
        fmt::format("{}: only float32 or float64 in C order, little-endian and aligned, "
                    "can stay a file",
                    name));
  return {points_type(header.type), header.rows, header.cols, header.offset};
}

} // namespace clusterbench::datasets
