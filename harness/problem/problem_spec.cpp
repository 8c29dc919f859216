#include "harness/problem/problem_spec.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/sha256.hpp"
#include "harness/system/harmless.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

namespace clusterbench {
namespace {

using datasets::InputError;

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return value;
}

std::uint64_t parse_seed(std::string_view text, std::string_view option) {
  const auto seed = parse_number<std::uint32_t>(text); // what NumPy's RandomState accepts
  if (!seed) {
    throw InputError(fmt::format("{}: \"{}\" is not a seed (0 to 4294967295)", option, text));
  }
  return *seed;
}

double parse_threshold(std::string_view text, std::string_view option) {
  const auto value = parse_number<double>(text);
  if (!value || !(*value >= 0.0) || !std::isfinite(*value)) {
    throw InputError(fmt::format("{}: \"{}\" is not a non-negative number", option, text));
  }
  return *value;
}

// "word:argument" -> the two parts; the argument is empty if there is no colon.
std::pair<std::string_view, std::string_view> split_at_colon(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) {
    return {text, {}};
  }
  return {text.substr(0, colon), text.substr(colon + 1)};
}

// Of a word that takes no argument.
void check_alone(std::string_view option, std::string_view text, std::string_view word) {
  if (text != word) {
    throw InputError(fmt::format("{} {}: \"{}\" takes nothing after it", option, text, word));
  }
}

[[noreturn]] void unknown_word(std::string_view option, std::string_view word,
                               const std::vector<std::string>& known) {
  throw InputError(fmt::format("{}: unknown \"{}\"; did you mean {}?", option, word,
                               datasets::nearest(word, known)));
}

} // namespace

InitSpec parse_init(std::string_view text) {
  const auto [word, argument] = split_at_colon(text);
  InitSpec init;
  if (word == "first") {
    check_alone("--init", text, word);
    init.kind = InitSpec::Kind::first;
  } else if (word == "rows") {
    init.kind = InitSpec::Kind::rows;
    for (std::size_t begin = 0; begin <= argument.size();) {
      const std::size_t end = std::min(argument.find(',', begin), argument.size());
      const auto row = parse_number<std::size_t>(argument.substr(begin, end - begin));
      if (!row) {
        throw InputError(fmt::format("--init {}: \"{}\" is not a row number", text,
                                     argument.substr(begin, end - begin)));
      }
      init.rows.push_back(*row);
      begin = end + 1;
    }
  } else if (word == "random") {
    init.kind = InitSpec::Kind::random;
    init.seed = parse_seed(argument, fmt::format("--init {}", text));
  } else if (word == "kmeans++") {
    init.kind = InitSpec::Kind::kmeans_plus_plus;
    init.seed = parse_seed(argument, fmt::format("--init {}", text));
  } else if (word == "memberships") {
    init.kind = InitSpec::Kind::memberships;
    init.seed = parse_seed(argument, fmt::format("--init {}", text));
  } else if (word == "file") {
    init.kind = InitSpec::Kind::file;
    init.file = argument;
    if (argument.empty()) {
      throw InputError(fmt::format("--init {}: the file name is missing", text));
    }
  } else {
    unknown_word("--init", word,
                 {"first", "rows:", "random:", "kmeans++:", "memberships:", "file:"});
  }
  return init;
}

std::string to_string(const InitSpec& init) {
  switch (init.kind) {
  case InitSpec::Kind::first:
    return "first";
  case InitSpec::Kind::rows:
    return fmt::format("rows:{}", fmt::join(init.rows, ","));
  case InitSpec::Kind::random:
    return fmt::format("random:{}", init.seed);
  case InitSpec::Kind::kmeans_plus_plus:
    return fmt::format("kmeans++:{}", init.seed);
  case InitSpec::Kind::memberships:
    return fmt::format("memberships:{}", init.seed);
  case InitSpec::Kind::file:
    return "file:" + init.file;
  }
  throw std::logic_error("unknown initialisation");
}

StopRule parse_stop(std::string_view text, std::size_t max_iterations) {
  if (max_iterations == 0) {
    throw InputError("--iterations, --max-iterations: at least 1 is needed");
  }
  const auto [word, argument] = split_at_colon(text);
  StopRule stop;
  stop.max_iterations = max_iterations;
  if (word == "iterations") {
    check_alone("--stop", text, word);
    stop.kind = StopRule::Kind::iterations;
  } else if (word == "loss") {
    stop.kind = StopRule::Kind::loss;
    stop.threshold = parse_threshold(argument, fmt::format("--stop {}", text));
  } else if (word == "labels") {
    check_alone("--stop", text, word);
    stop.kind = StopRule::Kind::labels;
  } else if (word == "shift") {
    stop.kind = StopRule::Kind::shift;
    stop.threshold = parse_threshold(argument, fmt::format("--stop {}", text));
  } else {
    unknown_word("--stop", word, {"iterations", "loss:", "labels", "shift:"});
  }
  return stop;
}

std::string to_string(const StopRule& stop) {
  switch (stop.kind) {
  case StopRule::Kind::iterations:
    return "iterations";
  case StopRule::Kind::loss:
    return fmt::format("loss:{}", stop.threshold);
  case StopRule::Kind::labels:
    return "labels";
  case StopRule::Kind::shift:
    return fmt::format("shift:{}", stop.threshold);
  }
  throw std::logic_error("unknown stop rule");
}

void check_printable(std::string_view text, std::string_view what) {
  if (text.find_first_of("\n\t") != std::string_view::npos || harmless(text) != text) {
    const std::string shown =
        nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    throw InputError(fmt::format("{} {}: it has a control character", what, shown));
  }
}

Precision parse_precision(std::string_view text) {
  if (text == "f32") {
    return Precision::f32;
  }
  if (text == "f64") {
    return Precision::f64;
  }
  unknown_word("--precision", text, {"f32", "f64"});
}

Family parse_family(std::string_view text) {
  if (text == "kmeans") {
    return Family::kmeans;
  }
  if (text == "fcm") {
    return Family::fcm;
  }
  unknown_word("--family", text, {"kmeans", "fcm"});
}

nlohmann::json to_json(const ProblemSpec& spec) {
  nlohmann::json json = {{"family", to_string(spec.family)},
                         {"data", spec.data},
                         {"k", spec.k},
                         {"init", to_string(spec.init)},
                         {"stop", to_string(spec.stop)},
                         {"max_iterations", spec.stop.max_iterations}};
  if (spec.take != 0) {
    json["take"] = spec.take;
  }
  if (!spec.weights.empty()) {
    json["weights"] = spec.weights;
  }
  if (spec.family == Family::fcm) {
    json["fuzzifier"] = spec.fuzzifier;
  }
  return json;
}

std::string adhoc_name(const ProblemSpec& spec) {
  return spec.weights.empty() ? spec.data : fmt::format("{}, weights {}", spec.data, spec.weights);
}

std::string problem_hash(const ProblemSpec& spec, std::string_view data_identity,
                         std::string_view init_sha256, Precision precision) {
  nlohmann::json json = to_json(spec);
  json["data"] = data_identity; // the content counts, not its name
  json.erase("weights");        // likewise
  if (spec.init.kind == InitSpec::Kind::file) {
    json["init"] = init_sha256;
  }
  json["precision"] = to_string(precision);
  const std::string text = json.dump();
  return datasets::sha256_hex(std::as_bytes(std::span(text)));
}

} // namespace clusterbench
