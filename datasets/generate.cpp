// From named arguments, as the catalogue and the patterns hold them, to the generators.
#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/generators.hpp"

#include <cstdint>
#include <fmt/core.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace clusterbench::datasets {
namespace {

using nlohmann::json;

/// A JSON object whose members are taken one by one; those that stay behind are unknown.
class Arguments {
public:
  Arguments(std::string_view generator, const json& object)
      : generator_(generator), object_(object) {
    if (!object.is_object())
      throw InputError(fmt::format("{}: the arguments must be an object", generator_));
    for (const auto& [key, value] : object.items())
      unknown_.insert(key);
  }

  /// The member, or null when it is absent.
  const json* find(const std::string& key) {
    unknown_.erase(key);
    const auto member = object_.find(key);
    return member == object_.end() ? nullptr : &*member;
  }

  /// Sets `value` when the member is present.
  template <class T>
  void take(const std::string& key, T& value) {
    if (const json* member = find(key))
      value = convert<T>(key, *member);
  }

  /// The same for one number or a list of them.
  void take_numbers(const std::string& key, std::vector<double>& values) {
    const json* member = find(key);
    if (member != nullptr && member->is_null())
      values.clear(); // drawn at random
    else if (member != nullptr && member->is_array())
      values = convert<std::vector<double>>(key, *member);
    else if (member != nullptr)
      values = {convert<double>(key, *member)};
  }

  template <class T>
  T convert(const std::string& key, const json& member) const {
    if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) {
      const bool whole = member.is_number_unsigned() ||
                         (member.is_number_integer() && member.get<std::int64_t>() >= 0);
      if (!whole || member.get<std::uint64_t>() > std::numeric_limits<T>::max())
        throw InputError(fmt::format("{}: {}: {} is not a whole number in range", generator_, key,
                                     member.dump()));
    }
    try {
      return member.get<T>();
    } catch (const json::exception&) {
      throw InputError(fmt::format("{}: {}: {} does not fit", generator_, key, member.dump()));
    }
  }

  void finish() const {
    if (!unknown_.empty())
      throw InputError(fmt::format("{}: unknown argument '{}'", generator_, *unknown_.begin()));
  }

private:
  std::string generator_;
  const json& object_;
  std::set<std::string> unknown_;
};

void take_type(Arguments& arguments, ElementType& type) {
  std::string name(name_of(type));
  arguments.take("type", name);
  if (name != "f32" && name != "f64")
    throw InputError(fmt::format("type: '{}' is neither f32 nor f64", name));
  type = name == "f32" ? ElementType::f32 : ElementType::f64;
}

Array classification(Arguments& arguments) {
  ClassificationOptions o;
  arguments.take("n_samples", o.n_samples);
  arguments.take("n_features", o.n_features);
  arguments.take("n_informative", o.n_informative);
  arguments.take("n_redundant", o.n_redundant);
  arguments.take("n_repeated", o.n_repeated);
  arguments.take("n_classes", o.n_classes);
  arguments.take("n_clusters_per_class", o.n_clusters_per_class);
  arguments.take_numbers("weights", o.weights);
  arguments.take("flip_y", o.flip_y);
  arguments.take("class_sep", o.class_sep);
  arguments.take("hypercube", o.hypercube);
  arguments.take_numbers("shift", o.shift);
  arguments.take_numbers("scale", o.scale);
  arguments.take("shuffle", o.shuffle);
  arguments.take("random_state", o.random_state);
  arguments.finish();
  return make_classification(o);
}

Array blobs(Arguments& arguments) {
  BlobsOptions o;
  if (const json* samples = arguments.find("n_samples"); samples && samples->is_array()) {
    for (const json& count : *samples)
      o.samples_per_center.push_back(arguments.convert<std::size_t>("n_samples", count));
    o.n_centers = o.samples_per_center.size();
  } else {
    arguments.take("n_samples", o.n_samples);
  }
  arguments.take("n_features", o.n_features);
  if (const json* centers = arguments.find("centers"); centers && centers->is_array()) {
    o.n_centers = centers->size();
    for (const json& center : *centers) {
      const auto row = arguments.convert<std::vector<double>>("centers", center);
      o.n_features = row.size();
      o.centers.insert(o.centers.end(), row.begin(), row.end());
    }
  } else {
    arguments.take("centers", o.n_centers);
  }
  arguments.take_numbers("cluster_std", o.cluster_std);
  arguments.take("center_box", o.center_box);
  arguments.take("shuffle", o.shuffle);
  arguments.take("random_state", o.random_state);
  arguments.finish();
  return make_blobs(o);
}

Array uniform(Arguments& arguments, RowRange rows) {
  UniformOptions o;
  arguments.take("n", o.n);
  arguments.take("d", o.d);
  arguments.take("low", o.low);
  arguments.take("high", o.high);
  arguments.take("seed", o.seed);
  take_type(arguments, o.type);
  arguments.finish();
  return make_uniform(o, rows);
}

Array mixture(Arguments& arguments, RowRange rows) {
  MixtureOptions o;
  arguments.take("n", o.n);
  arguments.take("d", o.d);
  arguments.take("components", o.components);
  arguments.take("std", o.std);
  arguments.take("seed", o.seed);
  arguments.take("offset", o.offset);
  arguments.take("unit_norm", o.unit_norm);
  take_type(arguments, o.type);
  arguments.finish();
  return make_mixture(o, rows);
}

Array colour_moments(Arguments& arguments, RowRange rows) {
  ColourMomentsOptions o;
  arguments.take("n", o.n);
  arguments.take("seed", o.seed);
  arguments.finish();
  return make_colour_moments(o, rows);
}

// Of scikit-learn: their rows depend on all others.
constexpr std::string_view kClassification = "make_classification", kBlobs = "make_blobs";

} // namespace

bool Recipe::makes_rows_alone() const {
  return generator != kClassification && generator != kBlobs;
}

Array generate(std::string_view generator, const json& object, RowRange rows) {
  Arguments arguments(generator, object);
  if (generator == "uniform")
    return uniform(arguments, rows);
  if (generator == "mixture")
    return mixture(arguments, rows);
  if (generator == "colour_moments")
    return colour_moments(arguments, rows);
  const bool is_classification = generator == kClassification;
  if (!is_classification && generator != kBlobs)
    throw InputError(fmt::format("unknown generator '{}'", generator));
  if (!rows.is_whole())
    throw InputError(
        fmt::format("{}: its rows depend on all others; they cannot be made apart", generator));
  return is_classification ? classification(arguments) : blobs(arguments);
}

} // namespace clusterbench::datasets
