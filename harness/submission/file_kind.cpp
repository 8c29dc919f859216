#include "harness/submission/file_kind.hpp"

#include "datasets/errors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace clusterbench {
namespace {

using datasets::InputError;
namespace fs = std::filesystem;

constexpr std::array kMachines = {std::pair{EM_X86_64, "x86-64"},
                                  std::pair{EM_AARCH64, "64-bit ARM"},
                                  std::pair{EM_386, "32-bit x86"},
                                  std::pair{EM_ARM, "32-bit ARM"},
                                  std::pair{EM_PPC64, "64-bit PowerPC"},
                                  std::pair{EM_RISCV, "RISC-V"},
                                  std::pair{EM_S390, "IBM Z"}};

std::string machine_name(int machine) {
  const auto known =
      std::ranges::find(kMachines, machine, [](const auto& pair) { return pair.first; });
  return known == kMachines.end() ? fmt::format("ELF machine {}", machine) : known->second;
}

/// The beginning of an ELF file; false if the file is none.
bool read_elf_header(const fs::path& file, Elf64_Ehdr& header) {
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(&header), sizeof header);
  return stream.gcount() >= 20 && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
}

// The names of 16-bit fields stand at the same place in files of 32 bits.
void check_machine(const fs::path& file, const Elf64_Ehdr& header) {
  Elf64_Ehdr own{};
  read_elf_header("/proc/self/exe", own);
  if (header.e_machine != own.e_machine || header.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] ||
      header.e_ident[EI_DATA] != own.e_ident[EI_DATA]) {
    throw InputError(fmt::format("{}: it is built for {}, and this machine is {}", file.string(),
                                 machine_name(header.e_machine), machine_name(own.e_machine)));
  }
}

// The contract passes strings and functions of the C++ library: both sides must have the same one.
void check_library(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  constexpr std::array kOthers = {
      std::pair{std::string_view("_ZNSt3__1"), "with libc++ (-stdlib=libc++)"},
      std::pair{std::string_view("_ZNSs4_Rep"), "with -D_GLIBCXX_USE_CXX11_ABI=0"},
      std::pair{std::string_view("_ZN11__gnu_debug"), "with -D_GLIBCXX_DEBUG"}};
  for (const auto& [symbol, how] : kOthers) {
    if (bytes.find(symbol) != std::string::npos) {
      throw InputError(
          fmt::format("{}: it is built {}, whose strings and lists are laid out otherwise "
                      "than this program's: build it with libstdc++ as it comes",
                      file.string(), how));
    }
  }
}

} // namespace

FileKind kind_of(const fs::path& file) {
  std::error_code none;
  if (!fs::is_regular_file(file, none)) {
    throw InputError(fmt::format("{}: there is no such file", file.string()));
  }
  if (access(file.c_str(), R_OK) != 0) {
    throw InputError(fmt::format("{}: it cannot be read", file.string()));
  }
  if (fs::file_size(file) == 0) {
    throw InputError(fmt::format("{}: it is empty", file.string()));
  }
  const std::string extension = file.extension().string();
  if (extension == ".cpp" || extension == ".cc" || extension == ".cxx") {
    return FileKind::cpp;
  }
  if (extension == ".cu") {
    return FileKind::cuda;
  }
  Elf64_Ehdr header{};
  const bool is_elf = read_elf_header(file, header);
  if (is_elf) {
    check_machine(file, header);
  }
  if (extension == ".so" || file.filename().string().find(".so.") != std::string::npos) {
    if (!is_elf || header.e_type != ET_DYN) {
      throw InputError(fmt::format("{}: it is no shared library", file.string()));
    }
    check_library(file);
    return FileKind::module;
  }
  if (extension == ".py" || access(file.c_str(), X_OK) == 0) {
    return FileKind::program;
  }
  throw InputError(fmt::format("{}: it is no .cpp, .cu, .so or .py file, nor a program that may be "
                               "started (chmod +x)",
                               file.string()));
}

const char* to_string(FileKind kind) {
  switch (kind) {
  case FileKind::cpp:
    return "C++";
  case FileKind::cuda:
    return "CUDA C++";
  case FileKind::module:
    return "a shared library";
  case FileKind::program:
    return "a program";
  }
  return "";
}

} // namespace clusterbench
