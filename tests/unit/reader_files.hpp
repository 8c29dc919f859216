// What the tests of readers share: files in a folder of their own, and refusals in words.
#pragma once

#include "datasets/errors.hpp"
#include "datasets/readers.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace clusterbench::datasets {

namespace fs = std::filesystem;

/// A folder of its own for every test, removed afterwards.
class Readers : public ::testing::Test {
protected:
  Readers() {
    std::string name = (fs::temp_directory_path() / "clusterbench-readers-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Readers() override { fs::remove_all(folder_); }

  fs::path file(const std::string& name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

/// The message of the InputError that `action` throws.
template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "(not refused)";
}

#define EXPECT_REFUSED(action, part)                                                               \
  EXPECT_NE(refusal([&] { action; }).find(part), std::string::npos) << refusal([&] { action; })

inline std::string npy(int version, std::string header, std::string_view data) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  header += '\n';
  for (std::size_t i = 0, size = header.size(); i < (version == 1 ? 2u : 4u); ++i, size >>= 8)
    out += static_cast<char>(size & 0xff);
  return out + header + std::string(data);
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

inline std::vector<double> values(const Array& array) {
  if (array.type() == ElementType::f64)
    return {array.f64().begin(), array.f64().end()};
  return {array.f32().begin(), array.f32().end()};
}

inline Array parse(std::string_view text, bool labelled = false) {
  return parse_csv(text, "a.csv", {.last_column_is_label = labelled});
}

using Values = std::vector<double>;
using Labels = std::vector<std::int64_t>;

} // namespace clusterbench::datasets
