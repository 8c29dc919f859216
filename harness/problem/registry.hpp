// The variants that this build and the programs added to it hold, sorted and searchable by name.
// Known by their descriptions: nothing is loaded or started.
#pragma once

#include "impls/contract.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {

/// Element type of a cell's data.
enum class Precision { f32, f64 };

std::string_view to_string(Family family);
std::string_view to_string(Device device);
std::string_view to_string(Arithmetic arithmetic);
std::string_view to_string(Multiplier multiplier);
std::string_view to_string(Precision precision);

/// A Python module that a program needs.
struct PythonModule {
  std::string module;       ///< as imported
  std::string distribution; ///< as installed, by which its version is found
  std::string at_least;     ///< the oldest version that will do; empty: any
};

/// A variant by its description (docs/peers.md, "A description").
struct KnownVariant {
  Meta meta;
  std::filesystem::path file;        ///< its source, or the program that holds it
  std::filesystem::path module = {}; ///< of a variant from outside, as a shared object; else empty
  nlohmann::json submission = {};    ///< of one from outside: how it came here, for its rows
  std::string backend;               ///< folder under impls/
  std::vector<Precision> precisions;
  std::vector<StopRule::Kind> stops; ///< the rules that it can apply
  bool starts_from_centroids = true;
  bool starts_from_memberships = true;
  bool records = false;        ///< can hand over the centroids of every pass
  bool gives_entering = false; ///< and those that entered the last one
  bool centres_points = false; ///< takes their mean off first, which decides what is rounded
  bool is_program = false;     ///< a program of another ecosystem; else a module of the build
  std::vector<PythonModule> modules;
  nlohmann::json description; ///< what all of this was read from
};

/// All variants by name. Throws datasets::InputError for an added program that cannot be asked, and
/// std::logic_error if two files have a variant of the same name.
const std::vector<const KnownVariant*>& all_variants();

/// Makes a variant from outside known. Pointers that all_variants() has given stay valid. Throws
/// datasets::InputError if there is one of its name.
void add_variant(KnownVariant variant);

/// The variant of that name, or nullptr.
const KnownVariant* find_variant(std::string_view name);

/// Variants that match any of the shell globs, by name. Throws datasets::InputError for a glob that
/// matches nothing, with the nearest name. option: that names the globs.
std::vector<const KnownVariant*> match_variants(const std::vector<std::string>& globs,
                                                const char* option = "--variant");

/// Whether the variant has an implementation in that precision.
bool supports(const KnownVariant& variant, Precision precision);

/// How many GPUs the variant computes on where it may use `gpus`; 0 on a CPU.
int gpus_of(const Meta& meta, int gpus);

/// How many processes a variant for several of them has, unless told otherwise.
inline constexpr int kUsualRanks = 2;

/// How many ranks the variant has where it may have `ranks`, or one for each of `gpus`; 0 if it
/// computes in one process.
int ranks_of(const Meta& meta, int ranks, int gpus);

/// Why the variant cannot run on this machine at all; empty if it can. Creates no device context.
std::string unavailable_reason(const KnownVariant& variant);

} // namespace clusterbench
