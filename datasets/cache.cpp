// resolve() and load(): from a name or a path to points, by way of the cache.
#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/generators.hpp"
#include "datasets/npy.hpp"
#include "datasets/output_file.hpp"
#include "datasets/parallel.hpp"
#include "datasets/sha256.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace clusterbench::datasets {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kAllAtOnce = 0; // bytes of a piece

std::int64_t modified_ns(const fs::path& file) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             fs::last_write_time(file).time_since_epoch())
      .count();
}

/// Where a recipe's points and their description are kept.
struct Slot {
  fs::path points, description;
};

Slot slot_of(const Recipe& recipe) {
  const std::string key =
      fmt::format("{} {} {}", recipe.generator, recipe.arguments, kGeneratorVersion);
  std::string stem = recipe.name;
  std::replace_if(
      stem.begin(), stem.end(), [](char c) { return c == ':' || c == ','; }, '-');
  stem += '-' + sha256_hex(std::as_bytes(std::span(key))).substr(0, 16);
  const fs::path folder = cache_directory();
  return {folder / (stem + ".npy"), folder / (stem + ".json")};
}

void write_description(const Recipe& recipe, const Slot& slot, const Resolved& resolved) try {
  const json description = {{"name", recipe.name},
                            {"generator", recipe.generator},
                            {"arguments", json::parse(recipe.arguments)},
                            {"generator_version", kGeneratorVersion},
                            {"rows", resolved.rows},
                            {"cols", resolved.cols},
                            {"type", name_of(resolved.type)},
                            {"sha256", resolved.sha256},
                            {"bytes", fs::file_size(slot.points)},
                            {"modified_ns", modified_ns(slot.points)}};
  const std::string text = description.dump(2) + '\n';
  OutputFile file(slot.description);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
} catch (const fs::filesystem_error& error) { // somebody has removed the points
  throw OutputError(fmt::format("the cache {}: {}", slot.points.string(), error.code().message()));
}

/// The cached dataset, or nothing when it is missing or not what its description says. A file whose
/// time or size has changed since it was described must prove itself by its SHA-256.
std::optional<Resolved> look_up(const Recipe& recipe, const Slot& slot) {
  try {
    const json description = json::parse(std::ifstream(slot.description));
    const Array points = read_npy(slot.points); // header and size are checked here
    Resolved resolved{recipe.name,   slot.points,   points.rows(),
                      points.cols(), points.type(), description.at("sha256")};
    if (description.at("rows") != points.rows() || description.at("cols") != points.cols() ||
        description.at("type") != name_of(points.type()))
      return std::nullopt;
    if (description.at("bytes") == fs::file_size(slot.points) &&
        description.at("modified_ns") == modified_ns(slot.points))
      return resolved;
    if (sha256_hex(points.bytes()) != resolved.sha256)
      return std::nullopt;
    write_description(recipe, slot, resolved); // so that the next look is quick again
    return resolved;
  } catch (const json::exception&) {
  } catch (const InputError&) {
  } catch (const fs::filesystem_error&) {
  }
  return std::nullopt; // whatever was wrong: make it anew
}

/// Removes what interrupted processes left half-written; a live one touches its file all the time.
void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".tmp" && entry.last_write_time(ignored) < yesterday)
      fs::remove(entry.path(), ignored);
}

/// Writes what comes in pieces to the slot of its recipe. The first piece says how wide rows are.
class SlotWriter {
public:
  SlotWriter(const fs::path& path, std::size_t rows)
      : rows_(rows), folder_(path.parent_path()), file_(path) {}

  void add(const Array& piece) {
    if (cols_ == 0) {
      cols_ = piece.cols();
      type_ = piece.type();
      require_room();
      const std::string head = npy_head(type_, std::vector{rows_, cols_});
      file_.write(std::as_bytes(std::span(head)));
    }
    parallel_blocks(2, [&](std::size_t task) { // one takes as long as the other
      if (task == 0)
        file_.write(piece.bytes());
      else
        digest_.add(piece.bytes());
    });
  }
  Resolved finish(const Recipe& recipe, const Slot& slot) {
    file_.commit();
    return {recipe.name, slot.points, rows_, cols_, type_, digest_.hex()};
  }

private:
  // Rather than to fill the disk first.
  void require_room() const {
    std::error_code unknown;
    const fs::space_info room = fs::space(folder_, unknown);
    const double needed = static_cast<double>(rows_) * static_cast<double>(cols_ * size_of(type_));
    if (!unknown && needed > static_cast<double>(room.available))
      throw OutputError(fmt::format("the points take {:.0f} bytes of the cache {}, {} are free",
                                    needed, folder_.string(), room.available));
  }

  std::size_t rows_, cols_ = 0;
  ElementType type_ = ElementType::f64;
  fs::path folder_;
  OutputFile file_;
  Sha256 digest_;
};

/// Makes a recipe's points and keeps them, with no more than most_bytes in memory at a time where
/// its rows can be made alone, all at once where not.
Resolved make_and_keep(const Recipe& recipe, const Slot& slot, std::size_t most_bytes) {
  const fs::path folder = slot.points.parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw OutputError(
        fmt::format("cannot create the cache {}: {}", folder.string(), error.message()));
  remove_leftovers(folder);
  const json arguments = json::parse(recipe.arguments);
  std::optional<SlotWriter> writer;
  if (most_bytes == kAllAtOnce || !recipe.makes_rows_alone()) {
    const Array points = generate(recipe.generator, arguments);
    writer.emplace(slot.points, points.rows()).add(points);
  } else {
    writer.emplace(slot.points, arguments.at("n"));
    generate_in_pieces(recipe.name, {}, most_bytes,
                       [&](const Array& piece, std::size_t) { writer->add(piece); });
  }
  const Resolved resolved = writer->finish(recipe, slot);
  write_description(recipe, slot, resolved);
  return resolved;
}

Resolved resolve_recipe(const Recipe& recipe) {
  const Slot slot = slot_of(recipe);
  if (std::optional<Resolved> cached = look_up(recipe, slot))
    return *cached;
  return make_and_keep(recipe, slot, kAllAtOnce); // and whoever asks wants them in memory
}

Resolved resolve_file(const fs::path& path, ReadOptions options) {
  const Array points = read_file(path, options);
  check_points(points, path.string());
  return {path.string(), path,          points.rows(),
          points.cols(), points.type(), sha256_hex(points.bytes())};
}

[[noreturn]] void throw_unknown(std::string_view word) {
  // Patterns are compared by what stands before their colon.
  const auto stem = [](std::string_view name) {
    return std::string(name.substr(0, name.find(':')));
  };
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog())
    names.push_back(stem(entry.name));
  const std::string best = nearest(stem(word), names);
  const auto index =
      static_cast<std::size_t>(std::find(names.begin(), names.end(), best) - names.begin());
  throw InputError(fmt::format("unknown dataset '{}', and no such file; did you mean '{}'?", word,
                               catalog()[index].name));
}

} // namespace

fs::path cache_directory_or_none() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const fs::path own = variable("CLUSTERBENCH_CACHE"); !own.empty())
    return own;
  if (const fs::path shared = variable("XDG_CACHE_HOME"); !shared.empty())
    return shared / "clusterbench";
  if (const fs::path home = variable("HOME"); !home.empty())
    return home / ".cache" / "clusterbench";
  return {};
}

fs::path cache_directory() {
  fs::path folder = cache_directory_or_none();
  if (folder.empty())
    throw InputError("no cache folder: set CLUSTERBENCH_CACHE, XDG_CACHE_HOME or HOME");
  return folder;
}

Resolved resolve(std::string_view name_or_path, ReadOptions options) {
  if (const std::optional<Recipe> recipe = parse_spec(name_or_path))
    return resolve_recipe(*recipe);
  const fs::path path(name_or_path);
  std::error_code ignored;
  // What looks like a path is told what is wrong with it as a file, not as a name.
  if (fs::exists(path, ignored) || is_readable_extension(path) || path.has_parent_path())
    return resolve_file(path, options);
  throw_unknown(name_or_path);
}

KeptFile kept_file(std::string_view name_or_path, std::size_t most_bytes) {
  const std::optional<Recipe> recipe = parse_spec(name_or_path);
  if (!recipe) {
    std::error_code ignored;
    if (!fs::exists(name_or_path, ignored) && !is_readable_extension(name_or_path))
      throw_unknown(name_or_path);
    return {name_or_path, ""};
  }
  const Slot slot = slot_of(*recipe);
  const json description = json::parse(std::ifstream(slot.description), nullptr, false);
  if (description.is_object() && description.contains("sha256") &&
      description.at("sha256").is_string() && fs::exists(slot.points))
    return {slot.points, description.at("sha256")};
  if (!recipe->makes_rows_alone())
    throw InputError(
        fmt::format("{}: not in the cache yet, and making it takes the memory of all its "
                    "points; `clusterbench data {}` does so",
                    name_or_path, name_or_path));
  return {slot.points, make_and_keep(*recipe, slot, most_bytes).sha256};
}

Array load(const Resolved& resolved, ReadOptions options) {
  Array points = read_file(resolved.file, options);
  if (points.rows() != resolved.rows || points.cols() != resolved.cols ||
      points.type() != resolved.type)
    throw InputError(fmt::format("{}: the file has changed: {} x {} {} expected, {} x {} {} found",
                                 resolved.file.string(), resolved.rows, resolved.cols,
                                 name_of(resolved.type), points.rows(), points.cols(),
                                 name_of(points.type())));
  return points;
}

} // namespace clusterbench::datasets
