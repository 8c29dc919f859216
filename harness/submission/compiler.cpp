#include "harness/submission/compiler.hpp"

#include "datasets/errors.hpp"
#include "harness/machine/build_info.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/system/messages.hpp"
#include "harness/system/process.hpp"
#include "harness/system/program_folder.hpp"
#include "harness/system/shared_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <unistd.h>

namespace clusterbench {
namespace {

using datasets::InputError;
namespace fs = std::filesystem;

constexpr std::chrono::duration<double> kPatience{300};

std::vector<std::string> words_of(const char* text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// A program by its path, or by its name on the PATH; empty if there is none.
std::string found_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0 ? name : "";
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (!name.empty() && access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return "";
}

std::string compiler_of(FileKind kind) {
  const bool is_cuda = kind == FileKind::cuda;
  const char* const variable = std::getenv(is_cuda ? "CUDACXX" : "CXX");
  const std::vector<std::string> candidates =
      is_cuda ? std::vector<std::string>{build_info::nvcc(), variable != nullptr ? variable : "",
                                         "nvcc", "/usr/local/cuda/bin/nvcc"}
              : std::vector<std::string>{build_info::cxx(), variable != nullptr ? variable : "",
                                         "c++", "g++"};
  for (const std::string& candidate : candidates) {
    if (std::string found = found_program(candidate); !found.empty()) {
      return found;
    }
  }
  throw InputError(is_cuda
                       ? "no CUDA compiler (nvcc) was found: neither that of the build, nor "
                         "$CUDACXX, nor on the PATH, nor in /usr/local/cuda"
                       : "no C++ compiler was found: neither that of the build, nor $CXX, c++ or "
                         "g++ on the PATH");
}

bool mentions(const fs::path& source, const char* word) {
  std::ifstream stream(source);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return text.find(word) != std::string::npos;
}

} // namespace

std::vector<std::string> architecture_flags(const std::string& architectures) {
  std::vector<std::string> flags;
  std::istringstream items(architectures);
  for (std::string item; std::getline(items, item, ';');) {
    const std::string number = item.substr(0, item.find('-'));
    if (item == "native" || item.starts_with("all")) {
      flags.push_back("-arch=" + item);
    } else if (item.ends_with("-virtual")) {
      flags.push_back(fmt::format("-gencode=arch=compute_{0},code=compute_{0}", number));
    } else if (item.ends_with("-real")) {
      flags.push_back(fmt::format("-gencode=arch=compute_{0},code=sm_{0}", number));
    } else {
      flags.push_back(fmt::format("-gencode=arch=compute_{0},code=[compute_{0},sm_{0}]", number));
    }
  }
  return flags;
}

std::vector<std::string> compile_command(const fs::path& source, FileKind kind,
                                         const fs::path& module) {
  const fs::path include = program_folder() / "include";
  std::vector<std::string> command = {compiler_of(kind)};
  const auto add = [&](const std::vector<std::string>& words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  if (kind == FileKind::cuda) {
    add({"-std=c++20", "-O3", "-lineinfo", "--shared", "-cudart=static",
         "-Xcompiler=-fPIC,-fvisibility=hidden"});
    // For the GPU that is here; without one, for those that the build was made for.
    const std::string built = build_info::cuda_architectures();
    add(architecture_flags(cuda_missing_reason().empty() ? "native"
                           : built.empty()               ? "80;90"
                                                         : built));
  } else {
    add({"-std=c++20"});
    add(words_of(build_info::flags()));
    add({"-fopenmp", "-shared", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
         "-Wl,--as-needed"});
  }
  add({"-I", include.string(), "-I", (include / "clusterbench").string(), source.string(), "-o",
       module.string()});
  if (kind == FileKind::cuda && mentions(source, "cublas")) {
    add({"-lcublas"});
  }
  return command;
}

Compilation compile(const fs::path& source, FileKind kind, const fs::path& scratch) {
  Compilation result;
  result.module = scratch / (source.stem().string() + ".so");
  result.command = compile_command(source, kind, result.module);
  const SharedMemory output("compiler");
  ProcessOptions options;
  options.arguments = result.command;
  options.environment = {"TMPDIR=" + scratch.string()};
  options.output_descriptor = output.fd();
  options.timeout = kPatience;
  const ProcessOutcome outcome = run_process(options);
  result.seconds = outcome.seconds;
  say("{}", read_all(output.fd()));
  const std::string& compiler = result.command.front();
  switch (outcome.kind) {
  case ProcessOutcome::Kind::exited:
    if (outcome.exit_code != 0) {
      throw InputError(fmt::format("{}: it does not compile; the command was\n  {}",
                                   source.string(), fmt::join(result.command, " ")));
    }
    break;
  case ProcessOutcome::Kind::signalled:
    throw InputError(
        fmt::format("{}: signal {} ended {}", source.string(), outcome.signal, compiler));
  case ProcessOutcome::Kind::timed_out:
    throw InputError(
        fmt::format("{}: {} was ended after {:g} s", source.string(), compiler, kPatience.count()));
  case ProcessOutcome::Kind::interrupted:
    throw InputError(fmt::format("{}: interrupted while it was compiled", source.string()));
  }
  return result;
}

} // namespace clusterbench
