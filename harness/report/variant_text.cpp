#include "harness/report/variant_text.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/problem/registry.hpp"
#include "harness/system/process.hpp"
#include "harness/system/shared_memory.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

bool is_source_tree(const fs::path& folder) {
  return fs::is_regular_file(folder / "impls" / "contract.hpp");
}

// Every file of a variant, impls/BACKEND/[FAMILY/]VARIANT.*, in order of name.
std::vector<fs::path> variant_files(const fs::path& sources) {
  std::vector<fs::path> files;
  if (sources.empty()) {
    return files;
  }
  for (const auto& entry : fs::recursive_directory_iterator(sources / "impls")) {
    const std::string extension = entry.path().extension();
    const std::string stem = entry.path().stem();
    if ((extension == ".cpp" || extension == ".cu" || extension == ".py") &&
        (stem.starts_with("kmeans_") || stem.starts_with("fcm_"))) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

// A file registers its stem, and perhaps names that begin with it.
fs::path file_of(const std::string& name, const std::vector<fs::path>& files) {
  fs::path best;
  for (const fs::path& file : files) {
    const std::string stem = file.stem();
    if (name == stem) {
      return file;
    }
    if (name.starts_with(stem + "_") && stem.size() > best.stem().string().size()) {
      best = file;
    }
  }
  return best;
}

// Whether a file writes the name out; it may also make it of parts, as nobody does by chance.
bool mentions(const fs::path& file, const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str().find('"' + name + '"') != std::string::npos;
}

[[noreturn]] void unknown(const std::string& name, const std::vector<fs::path>& files) {
  std::vector<std::string> known;
  for (const KnownVariant* variant : all_variants()) {
    known.push_back(variant->meta.name);
  }
  for (const fs::path& file : files) {
    known.push_back(file.stem());
  }
  throw datasets::InputError(fmt::format("explain: no variant {}; did you mean {}?", name,
                                         datasets::nearest(name, known)));
}

void read_file(const fs::path& file, VariantText& text) {
  std::ifstream stream(file);
  const std::string mark = file.extension() == ".py" ? "#" : "//";
  bool in_header = true;
  for (std::string line; std::getline(stream, line);) {
    in_header = in_header && line.starts_with(mark);
    if (in_header) {
      text.header.push_back(line.substr(std::min(line.size(), mark.size() + 1)));
    } else {
      text.code += line + "\n";
    }
  }
}

// What a registration would say, of a variant whose backend is not built here.
std::string registered_text(const std::string& code, const char* field) {
  const std::regex pattern(fmt::format("\\.?{}\\s*=\\s*\"([^\"]*)\"", field));
  std::smatch match;
  return std::regex_search(code, match, pattern) ? match[1].str() : std::string();
}

} // namespace

fs::path find_source_tree(const fs::path& given) {
  if (!given.empty()) {
    if (!is_source_tree(given)) {
      throw datasets::InputError(
          fmt::format("--source {}: holds no impls/contract.hpp", given.string()));
    }
    return given;
  }
  for (fs::path folder : {fs::path(own_path()).parent_path(), fs::current_path()}) {
    for (; folder != folder.root_path(); folder = folder.parent_path()) {
      if (is_source_tree(folder)) {
        return folder;
      }
    }
  }
  return {};
}

std::optional<VariantText> find_variant_text(const std::string& name, const fs::path& sources) {
  VariantText text;
  text.name = name;
  const std::vector<fs::path> files = variant_files(sources);
  const fs::path file = file_of(name, files);
  const KnownVariant* registered = find_variant(name);
  if (registered == nullptr && (file.empty() || (file.stem() != name && !mentions(file, name)))) {
    return std::nullopt;
  }
  if (!file.empty()) {
    text.file = fs::relative(file, sources);
    read_file(file, text);
  }
  if (registered != nullptr) {
    text.idea = registered->meta.idea;
    text.source = registered->meta.source;
    text.previous = registered->meta.previous;
  } else {
    text.idea = registered_text(text.code, "idea");
    text.source = registered_text(text.code, "source");
    text.previous = registered_text(text.code, "previous");
  }
  return text;
}

std::vector<VariantText> variant_texts(const Measurements& measurements,
                                       const std::string& source) {
  const std::filesystem::path sources = find_source_tree(source);
  std::set<std::string> names;
  for (const Measured& cell : measurements.cells) {
    names.insert(cell.representative().variant);
  }
  std::vector<VariantText> texts;
  for (const std::string& name : names) {
    if (const auto text = find_variant_text(name, sources)) {
      texts.push_back(*text);
    }
  }
  return texts;
}

VariantText read_variant_text(const std::string& name, const fs::path& sources) {
  std::optional<VariantText> text = find_variant_text(name, sources);
  if (!text) {
    unknown(name, variant_files(sources));
  }
  return *std::move(text);
}

std::string unified_diff(const std::string& before, const std::string& after) {
  const SharedMemory files[] = {SharedMemory("before"), SharedMemory("after")};
  write_all(files[0].fd(), before);
  write_all(files[1].fd(), after);
  const SharedMemory output("difference");
  ProcessOptions options;
  options.arguments = {"/usr/bin/diff", "--unified", fmt::format("/dev/fd/{}", files[0].fd()),
                       fmt::format("/dev/fd/{}", files[1].fd())};
  options.inherited_descriptors = {files[0].fd(), files[1].fd()};
  options.output_descriptor = output.fd();
  const ProcessOutcome outcome = run_process(options);
  const std::string text = read_all(output.fd());
  constexpr int kTrouble = 2;
  if (outcome.kind != ProcessOutcome::Kind::exited || outcome.exit_code >= kTrouble) {
    throw std::runtime_error("diff failed: " + text);
  }
  const std::size_t first_hunk = text.find("@@");
  return first_hunk == std::string::npos ? std::string() : text.substr(first_hunk);
}

} // namespace clusterbench
