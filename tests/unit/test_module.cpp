// Loading modules: what is none, and that each keeps to itself.
#include "harness/worker/module.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

fs::path module_of_tests(const std::string& name) {
  return module_file(fs::path(std::getenv("CLUSTERBENCH_TOOLS")) / "modules", name);
}

std::string complaint(const fs::path& file) {
  try {
    load_module(file);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void expect_complaint(const fs::path& file, const std::string& words) {
  const std::string said = complaint(file);
  EXPECT_TRUE(said.starts_with(file.string() + ": ")) << said;
  EXPECT_NE(said.find(words), std::string::npos) << said;
}

TEST(Module, TheFileIsNamedAfterTheVariant) {
  EXPECT_EQ(module_file("/modules", "kmeans_x"), "/modules/kmeans_x.so");
}

TEST(Module, WhatIsNoSharedObjectIsNamed) {
  expect_complaint(module_of_tests("not_there"), "No such file");
  const fs::path text = fs::temp_directory_path() / ("no-module-" + std::to_string(getpid()));
  std::ofstream(text) << "text";
  expect_complaint(text, "file too short");
  std::ofstream(text) << std::string(5000, 'x');
  expect_complaint(text, "invalid ELF header");
  fs::remove(text);
}

TEST(Module, WhatCannotBeLinkedSaysWhatIsMissing) {
  expect_complaint(module_of_tests("missing_symbol"), "nobody_defines_this");
}

TEST(Module, AnotherContractIsNone) {
  expect_complaint(module_of_tests("no_contract"), "no module of version 3 of the contract");
  expect_complaint(module_of_tests("other_version"), "no module of version 3 of the contract");
}

TEST(Module, HoldsOneVariant) {
  expect_complaint(module_of_tests("none_registered"), "holds 0 registrations, a module has one");
  expect_complaint(module_of_tests("two_registered"), "holds 2 registrations, a module has one");
}

TEST(Module, IsTheOneThatIsAskedFor) {
  const fs::path file = module_of_tests("kmeans_takes_all");
  EXPECT_EQ(load_module_of("kmeans_takes_all", file).meta.name, "kmeans_takes_all");
  try {
    load_module_of("kmeans_refuses_start", file);
    FAIL() << "another's module was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), file.string() + ": holds kmeans_takes_all, not kmeans_refuses_start");
  }
}

// Each has registries and statics of its own, in whatever order they are loaded.
TEST(Module, EachKeepsToItself) {
  const RegisteredVariant& one = load_module(module_of_tests("kmeans_takes_all"));
  const RegisteredVariant& other = load_module(module_of_tests("kmeans_refuses_start"));
  EXPECT_EQ(one.meta.name, "kmeans_takes_all");
  EXPECT_EQ(other.meta.name, "kmeans_refuses_start");
  EXPECT_EQ(&load_module(module_of_tests("kmeans_takes_all")), &one);
  EXPECT_TRUE(registered_variants().empty()); // ours
  EXPECT_NE(one.file.find("delegate.cpp"), std::string::npos);
}

TEST(Module, MakesAnObjectForEachWhoAsks) {
  const RegisteredVariant& variant = load_module(module_of_tests("kmeans_takes_all"));
  const auto one = variant.factories.f32(), other = variant.factories.f32();
  EXPECT_NE(one, other);
  EXPECT_EQ(variant.factories.f64()->refuse({}), "");
}

} // namespace
} // namespace clusterbench
