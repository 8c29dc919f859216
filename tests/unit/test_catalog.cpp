// The catalogue, the generators' arguments and the cache.
#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/generators.hpp"
#include "datasets/npy.hpp"
#include "datasets/sha256.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace clusterbench::datasets {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

bool same_bytes(const Array& a, const Array& b) {
  return a.type() == b.type() && a.rows() == b.rows() && a.cols() == b.cols() &&
         std::ranges::equal(a.bytes(), b.bytes());
}

// ---- names and patterns

TEST(Catalog, HoldsTheArticlesData) {
  std::set<std::string> names;
  for (const CatalogEntry& entry : catalog()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " twice";
    EXPECT_FALSE(entry.description.empty());
    EXPECT_FALSE(entry.source.empty());
  }
  for (const char* name : {"article000", "article001", "article002", "article003", "article004-100",
                           "article004-100k", "fcm-separable"}) {
    EXPECT_TRUE(names.contains(name)) << name;
    EXPECT_TRUE(is_known(name)) << name;
  }
}

TEST(Catalog, RowsAndColumnsAreThoseOfTheArguments) {
  for (const CatalogEntry& entry : catalog()) {
    if (entry.rows == 0)
      continue; // a pattern
    const json arguments = json::parse(parse_spec(entry.name)->arguments);
    EXPECT_EQ(entry.rows, arguments.value("n_samples", arguments.value("n", 0u))) << entry.name;
    EXPECT_EQ(entry.cols, arguments.value("n_features", arguments.value("d", 9u))) << entry.name;
  }
}

TEST(Catalog, Patterns) {
  const auto recipe = parse_spec("mixture:100,2,5,0.50,7");
  ASSERT_TRUE(recipe.has_value());
  EXPECT_EQ(recipe->name, "mixture:100,2,5,0.5,7"); // one name for one dataset
  EXPECT_EQ(recipe->generator, "mixture");
  EXPECT_TRUE(is_known("uniform:10,3,0"));
  EXPECT_FALSE(is_known("uniform:10,3"));
  EXPECT_FALSE(is_known("uniform"));
  EXPECT_FALSE(is_known("article000 "));
  EXPECT_FALSE(is_known("mixture:n,d,components,std,seed"));
  EXPECT_EQ(json::parse(parse_spec("uniform:1000,1000,0")->arguments)["type"], "f64");
  EXPECT_EQ(json::parse(parse_spec("uniform:1000000,1000,0")->arguments)["type"], "f32");
}

TEST(Catalog, PatternsRefuseBadNumbers) {
  EXPECT_REFUSED(parse_spec("mixture:100,2,5,0.5"),
                 "4 numbers, 5 expected: mixture:n,d,components");
  EXPECT_REFUSED(parse_spec("mixture:0,2,5,0.5,7"), "'0' will not do for n");
  EXPECT_REFUSED(parse_spec("mixture:100,-2,5,0.5,7"), "'-2' will not do for d");
  EXPECT_REFUSED(parse_spec("mixture:100,2,x,0.5,7"), "'x' will not do for components");
  EXPECT_REFUSED(parse_spec("mixture:100,2,5,-1,7"), "'-1' will not do for std");
  EXPECT_REFUSED(parse_spec("mixture:100,2,5,inf,7"), "'inf' will not do for std");
  EXPECT_REFUSED(parse_spec("mixture:100,2,5,nan,7"), "'nan' will not do for std");
  EXPECT_REFUSED(parse_spec("mixture:100,2,5,0.5,4294967296"), "will not do for seed");
  EXPECT_REFUSED(parse_spec("uniform:99999999999999999999,2,0"), "will not do for n");
  EXPECT_REFUSED(parse_spec("uniform:1,2,3 "), "'3 ' will not do for seed");
  EXPECT_REFUSED(parse_spec("uniform:"), "1 numbers, 3 expected: uniform:n,d,seed");
}

TEST(Catalog, Nearest) {
  const std::vector<std::string> words{"kmeans_serial", "kmeans_openmp", "fcm_serial"};
  EXPECT_EQ(nearest("kmean_serial", words), "kmeans_serial");
  EXPECT_EQ(nearest("openmp", words), "kmeans_openmp");
  EXPECT_EQ(nearest("fcm", words), "fcm_serial");
  EXPECT_EQ(nearest("x", {}), "");
}

// ---- generators' arguments

TEST(Generate, RefusesUnknownAndBadArguments) {
  EXPECT_REFUSED(generate("make_moons", json::object()), "unknown generator 'make_moons'");
  EXPECT_REFUSED(generate("make_blobs", json::array()), "must be an object");
  EXPECT_REFUSED(generate("make_blobs", {{"centres", 3}}), "unknown argument 'centres'");
  EXPECT_REFUSED(generate("make_blobs", {{"n_samples", -3}}),
                 "n_samples: -3 is not a whole number");
  EXPECT_REFUSED(generate("make_blobs", {{"n_samples", 1.5}}), "n_samples");
  EXPECT_REFUSED(generate("make_blobs", {{"random_state", 4294967296}}), "random_state");
  EXPECT_REFUSED(generate("make_blobs", {{"cluster_std", {1.0, 2.0}}}),
                 "cluster_std: one value or 3");
  EXPECT_REFUSED(generate("make_blobs", {{"cluster_std", -1.0}}), "negative cluster_std");
  EXPECT_REFUSED(generate("make_classification", {{"n_informative", 1}}), "4 clusters do not fit");
  EXPECT_REFUSED(generate("make_classification", {{"n_repeated", 17}}), "more informative");
  EXPECT_REFUSED(generate("make_classification", {{"weights", {0.1, 0.2, 0.7}}}), "weights");
  EXPECT_REFUSED(generate("mixture", {{"n", 1}, {"d", 1}, {"components", 0}}), "no components");
  EXPECT_REFUSED(generate("uniform", {{"n", 1}, {"d", 1}, {"type", "f16"}}), "neither f32 nor f64");
}

TEST(Generate, RefusesMoreThanMemory) {
  EXPECT_REFUSED(generate("uniform", {{"n", 1000000000000}, {"d", 1000}}), "memory");
  EXPECT_REFUSED(
      generate("mixture", {{"n", 1}, {"d", 1000000}, {"components", 1000000000}, {"std", 1.0}}),
      "memory");
}

TEST(Generate, MixtureDoesNotDependOnThreads) {
  // Row blocks have streams of their own: a longer set begins with the shorter one.
  const Array shorter =
      generate("mixture", {{"n", 8192}, {"d", 3}, {"components", 5}, {"std", 0.1}, {"seed", 1}});
  const Array longer =
      generate("mixture", {{"n", 30000}, {"d", 3}, {"components", 5}, {"std", 0.1}, {"seed", 1}});
  EXPECT_TRUE(std::ranges::equal(shorter.f64(), longer.f64().first(8192 * 3)));
  EXPECT_TRUE(std::equal(shorter.labels->begin(), shorter.labels->end(), longer.labels->begin()));
}

TEST(Generate, ColourMomentsAreMomentsOfBytes) {
  const Array points = generate("colour_moments", {{"n", 5000}, {"seed", 3}});
  ASSERT_EQ(points.cols(), 9u);
  for (std::size_t i = 0; i < points.rows(); ++i)
    for (std::size_t c = 0; c < 3; ++c) {
      const double mean = points.f64()[i * 9 + c];
      const double deviation = points.f64()[i * 9 + 3 + c];
      const double skewness = points.f64()[i * 9 + 6 + c];
      ASSERT_TRUE(mean >= 0 && mean <= 255);
      // Of values in [0, 255]: variance is at most (255 - mean) * mean, and the third central
      // moment at most 255 times the variance.
      ASSERT_LE(deviation * deviation, (255 - mean) * mean + 1e-9);
      ASSERT_LE(std::abs(std::pow(skewness, 3)), 255 * deviation * deviation * (1 + 1e-12) + 1e-9);
    }
}

TEST(Generate, ColourMomentsHaveStructure) {
  // Patches of a scene resemble each other: neighbours in the file are far closer than strangers.
  const Array points = generate("colour_moments", {{"n", 40 * 1024}, {"seed", 4}});
  const auto distance = [&](std::size_t i, std::size_t j) {
    double sum = 0;
    for (std::size_t c = 0; c < 9; ++c)
      sum += std::pow(points.f64()[i * 9 + c] - points.f64()[j * 9 + c], 2);
    return std::sqrt(sum);
  };
  double near = 0;
  double far = 0;
  for (std::size_t i = 0; i + 20 * 1024 < points.rows(); i += 97) {
    near += distance(i, i + 1);
    far += distance(i, i + 20 * 1024);
  }
  EXPECT_LT(3 * near, far);
}

// ---- the cache

class Cache : public ::testing::Test {
protected:
  Cache() {
    std::string name = (fs::temp_directory_path() / "clusterbench-cache-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    ::setenv("CLUSTERBENCH_CACHE", (folder_ / "cache").c_str(), 1);
  }
  ~Cache() override {
    ::unsetenv("CLUSTERBENCH_CACHE");
    fs::remove_all(folder_);
  }

  fs::path folder_;
};

constexpr const char* kSpec = "mixture:500,3,4,0.5,9";

TEST_F(Cache, FolderFollowsTheEnvironment) {
  EXPECT_EQ(cache_directory(), folder_ / "cache");
  ::unsetenv("CLUSTERBENCH_CACHE");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_directory(), "/x/clusterbench");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(cache_directory(), "/h/.cache/clusterbench");
}

TEST_F(Cache, GeneratesOnceAndLoadsTheSame) {
  const Resolved first = resolve(kSpec);
  EXPECT_EQ(first.rows, 500u);
  EXPECT_EQ(first.cols, 3u);
  EXPECT_EQ(first.type, ElementType::f64);
  const auto time = fs::last_write_time(first.file);
  const Resolved second = resolve(kSpec);
  EXPECT_EQ(second.file, first.file);
  EXPECT_EQ(second.sha256, first.sha256);
  EXPECT_EQ(fs::last_write_time(second.file), time); // not made again
  const Array points = load(second);
  EXPECT_EQ(sha256_hex(points.bytes()), first.sha256);
  const Recipe recipe = *parse_spec(kSpec);
  EXPECT_TRUE(same_bytes(points, generate(recipe.generator, json::parse(recipe.arguments))));
}

TEST_F(Cache, KeepsTheSameFileMadeInPieces) {
  const std::string spec = "mixture:9000,3,4,0.5,9";
  const KeptFile pieces = kept_file(spec, 5000 * 3 * sizeof(double));
  const Resolved found = resolve(spec); // looks it up
  EXPECT_EQ(found.file, pieces.file);
  EXPECT_EQ(found.sha256, pieces.sha256);
  const Recipe recipe = *parse_spec(spec);
  EXPECT_TRUE(same_bytes(load(found), generate(recipe.generator, json::parse(recipe.arguments))));
  const auto time = fs::last_write_time(pieces.file);
  EXPECT_EQ(kept_file(spec, 1).sha256, pieces.sha256);
  EXPECT_EQ(fs::last_write_time(pieces.file), time); // not made again
}

TEST_F(Cache, KeepsNothingThatNoDiskHasRoomFor) {
  EXPECT_THROW(kept_file("uniform:1000000000000000,2,1", 1 << 20), OutputError);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "cache"), fs::directory_iterator()), 0);
}

TEST_F(Cache, DamageIsNoticedAndMended) {
  const Resolved good = resolve(kSpec);
  const auto size = fs::file_size(good.file);
  fs::path description = good.file;
  description.replace_extension(".json");
  const auto mended = [&](const char* what) {
    const Resolved again = resolve(kSpec);
    EXPECT_EQ(again.sha256, good.sha256) << what;
    EXPECT_EQ(sha256_hex(load(again).bytes()), good.sha256) << what;
  };
  fs::resize_file(good.file, size / 2);
  mended("truncated");
  fs::resize_file(good.file, 0);
  mended("empty");
  {
    std::fstream file(good.file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size - 5));
    file.put('\x55');
  }
  fs::last_write_time(good.file, fs::file_time_type::clock::now() + std::chrono::seconds(5));
  mended("one byte changed");
  std::ofstream(good.file) << "something else";
  mended("foreign");
  fs::remove(good.file);
  mended("missing");
  for (const char* text : {"", "{", "[]", "{}", "{\"sha256\": 5}", "null"}) {
    std::ofstream(description) << text;
    mended("bad description");
  }
  fs::remove(description);
  mended("no description");
}

TEST_F(Cache, ATouchedFileProvesItselfByItsHash) {
  const Resolved good = resolve(kSpec);
  const auto inode = [&] {
    struct stat status {};
    EXPECT_EQ(::stat(good.file.c_str(), &status), 0);
    return status.st_ino;
  };
  const auto before = inode();
  fs::last_write_time(good.file, fs::file_time_type::clock::now() + std::chrono::seconds(60));
  EXPECT_EQ(resolve(kSpec).sha256, good.sha256);
  EXPECT_EQ(inode(), before); // kept, not made again
}

TEST_F(Cache, ProcessesMayGenerateAtTheSameTime) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool good = false;
      try {
        const Resolved resolved = resolve("mixture:20000,8,4,0.5,9");
        good = sha256_hex(load(resolved).bytes()) == resolved.sha256;
      } catch (const std::exception&) {
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "cache"), fs::directory_iterator()), 2);
}

TEST_F(Cache, UnwritableCacheIsAnOutputError) {
  std::ofstream(folder_ / "file") << "not a folder";
  ::setenv("CLUSTERBENCH_CACHE", (folder_ / "file" / "cache").c_str(), 1);
  EXPECT_THROW(resolve(kSpec), OutputError);
  ::setenv("CLUSTERBENCH_CACHE", "/proc/clusterbench", 1);
  EXPECT_THROW(resolve(kSpec), OutputError);
}

TEST_F(Cache, UnknownNamesComeWithTheNearest) {
  EXPECT_REFUSED(resolve("artcle000"),
                 "unknown dataset 'artcle000', and no such file; did you mean "
                 "'article000'?");
  EXPECT_REFUSED(resolve("article4-100k"), "'article004-100k'");
  EXPECT_REFUSED(resolve("mixtures:1,2,3"), "'mixture:n,d,components,std,seed'");
  EXPECT_REFUSED(resolve("missing.npy"), "missing.npy: cannot open: No such file");
  EXPECT_REFUSED(resolve("./nowhere"), "extension");
}

TEST_F(Cache, AUsersFileIsCheckedAndHashed) {
  const std::vector<float> values{1, 2, 3, 4};
  write_npy(folder_ / "mine.npy", std::span(values), {2, 2});
  const Resolved mine = resolve((folder_ / "mine.npy").string());
  EXPECT_EQ(mine.sha256, sha256_hex(std::as_bytes(std::span(values))));
  EXPECT_EQ(mine.type, ElementType::f32);
  EXPECT_EQ(load(mine).f32()[3], 4.0f);

  std::ofstream(folder_ / "mine.csv") << "a,b,c\n1,2,x\n3,4,y\n";
  const ReadOptions labelled{.last_column_is_label = true};
  const Resolved csv = resolve((folder_ / "mine.csv").string(), labelled);
  EXPECT_EQ(csv.cols, 2u);
  EXPECT_EQ(*load(csv, labelled).labels, (std::vector<std::int64_t>{0, 1}));

  const std::vector<float> nan{1, 2, std::nanf(""), 4};
  write_npy(folder_ / "nan.npy", std::span(nan), {2, 2});
  EXPECT_REFUSED(resolve((folder_ / "nan.npy").string()), "nan.npy: nan at row 1, column 0");

  const std::vector<float> longer{1, 2, 3, 4, 5, 6};
  write_npy(folder_ / "mine.npy", std::span(longer), {3, 2});
  EXPECT_REFUSED(load(mine), "the file has changed");
}

} // namespace
} // namespace clusterbench::datasets
