#include "harness/ledger/cell_identity.hpp"

#include "harness/ledger/json_text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using json_text::Malformed;

enum class Kind { text, count, number };

struct Field {
  std::string_view name;
  Kind kind;
};

// In the order of a definition, whatever a line's is.
constexpr std::array kDefinition = {
    Field{"family", Kind::text},     Field{"data", Kind::text},
    Field{"take", Kind::count},      Field{"weights", Kind::text},
    Field{"k", Kind::count},         Field{"init", Kind::text},
    Field{"stop", Kind::text},       Field{"max_iterations", Kind::count},
    Field{"fuzzifier", Kind::number}};

void check(const Field& field, std::string_view value) {
  try {
    if (field.kind == Kind::text) {
      static_cast<void>(json_text::string(value));
    } else if (field.kind == Kind::count) {
      static_cast<void>(json_text::count(value));
    } else {
      static_cast<void>(json_text::number(value));
    }
  } catch (const Malformed& error) {
    throw Malformed(fmt::format("its {}: {}", field.name, error.what()));
  }
}

std::string_view field_of(const std::vector<json_text::Member>& members, std::string_view name) {
  const auto found = std::ranges::find(members, name, &json_text::Member::key);
  return found == members.end() ? std::string_view() : found->value;
}

std::string field_of(const ProblemIdentity& identity, std::string_view name) {
  return identity.definition.empty()
             ? std::string()
             : std::string(field_of(json_text::members(identity.definition), name));
}

// A name without folders, whose slashes would look like those of a cell's name.
std::string shown(std::string_view value) {
  if (value.empty()) {
    return "none";
  }
  const std::string text = value.starts_with('"') ? json_text::string(value) : std::string(value);
  return text.substr(text.rfind('/') + 1);
}

} // namespace

bool ProblemIdentity::same_definition(const ProblemIdentity& other) const {
  return definition.empty() || other.definition.empty() || definition == other.definition;
}

bool ProblemIdentity::same_work(const ProblemIdentity& other) const {
  return hash.empty() || other.hash.empty() ? same_definition(other) : hash == other.hash;
}

bool ProblemIdentity::may_be(const ProblemIdentity& other) const {
  return same_work(other) && (!limits || !other.limits || limits == other.limits);
}

void ProblemIdentity::learn(const ProblemIdentity& other) {
  definition = definition.empty() ? other.definition : definition;
  hash = hash.empty() ? other.hash : hash;
  limits = limits ? limits : other.limits;
}

std::string definition_of(std::string_view problem) {
  if (!problem.starts_with('{')) {
    throw Malformed(fmt::format("{} is no object", problem.substr(0, 40)));
  }
  const std::vector<json_text::Member> members = json_text::members(problem);
  std::string definition;
  for (const Field& field : kDefinition) {
    if (const std::string_view value = field_of(members, field.name); !value.empty()) {
      check(field, value);
      definition += fmt::format("{}\"{}\":{}", definition.empty() ? "{" : ",", field.name, value);
    }
  }
  return definition.empty() ? definition : definition + "}";
}

std::string name_with_devices(const std::string& name, int gpus, int ranks) {
  return name + (gpus > 1 ? fmt::format(", {} GPUs", gpus) : "") +
         (ranks > 1 ? fmt::format(", {} ranks", ranks) : "");
}

std::string difference(const ProblemIdentity& one, const std::vector<ProblemIdentity>& all) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  };
  const auto any = [&](const auto& differs) { return std::ranges::any_of(all, differs); };
  for (const Field& field : kDefinition) {
    const std::string mine = field_of(one, field.name);
    if (any([&](const ProblemIdentity& other) {
          return !one.same_definition(other) && field_of(other, field.name) != mine;
        })) {
      add(field.name, shown(mine));
    }
  }
  if (any([&](const ProblemIdentity& other) {
        return one.same_definition(other) && !one.same_work(other);
      })) {
    add("problem", one.hash.substr(0, 8)); // of other data
  }
  if (any([&](const ProblemIdentity& other) {
        return one.limits && other.limits && one.limits != other.limits;
      })) {
    add("memory", *one.limits);
  }
  return text;
}

} // namespace clusterbench
