// generate_dataset: runs generators and random streams as a JSON script says, for comparison with
// scikit-learn and NumPy.
//
//     generate_dataset SCRIPT.json FOLDER
//
// The script is a list; item i writes FOLDER/i.x.npy and, where there are labels, FOLDER/i.y.npy:
//     {"generator": "make_blobs", "arguments": {...}}
//     {"random_state": [seed ...], "calls": [["randn", 5], ["randint", 0, 7, 3], ...]}
// where the results of all calls are joined into one float64 array.
// With FOLDER "-" nothing is written and the seconds of every item are printed.
#include "datasets/catalog.hpp"
#include "datasets/generators.hpp"
#include "datasets/npy.hpp"
#include "datasets/random_state.hpp"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace clusterbench::datasets;
using nlohmann::json;

namespace {

std::vector<double> call(RandomState& random, const json& words) {
  const std::string name = words.at(0);
  const auto count = [&](std::size_t i) { return words.at(i).get<std::size_t>(); };
  const auto widened = [](const auto& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  if (name == "rand")
    return random.rand(count(1));
  if (name == "randn" || name == "standard_normal")
    return random.randn(count(1));
  if (name == "uniform") {
    std::vector<double> out(count(3));
    random.uniform(words.at(1), words.at(2), out);
    return out;
  }
  if (name == "randint")
    return widened(random.randint(words.at(1), words.at(2), count(3)));
  if (name == "permutation")
    return widened(random.permutation(count(1)));
  if (name == "shuffle") {
    std::vector<double> values = words.at(1);
    random.shuffle(std::span(values));
    return values;
  }
  if (name == "choice")
    return widened(random.choice(count(1), count(2), words.at(3),
                                 words.size() > 4 ? words.at(4).get<std::vector<double>>()
                                                  : std::vector<double>()));
  if (name == "sample_without_replacement")
    return widened(sample_without_replacement(words.at(1), words.at(2), random));
  throw std::invalid_argument("unknown call " + name);
}

void write(const std::filesystem::path& stem, const Array& points) {
  const std::vector<std::size_t> shape{points.rows(), points.cols()};
  if (points.type() == ElementType::f32)
    write_npy(stem.string() + ".x.npy", points.f32(), shape);
  else
    write_npy(stem.string() + ".x.npy", points.f64(), shape);
  if (points.labels)
    write_npy(stem.string() + ".y.npy", std::span<const std::int64_t>(*points.labels),
              {points.rows()});
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: generate_dataset SCRIPT.json FOLDER|-\n");
    return 64;
  }
  try {
    const json script = json::parse(std::ifstream(argv[1]));
    const bool timing = std::string_view(argv[2]) == "-";
    for (std::size_t i = 0; i < script.size(); ++i) {
      const json& item = script[i];
      const auto stem = std::filesystem::path(argv[2]) / std::to_string(i);
      if (item.contains("generator")) {
        const auto start = std::chrono::steady_clock::now();
        const Array points =
            generate(item.at("generator").get<std::string>(), item.at("arguments"));
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        if (timing)
          fmt::print("{} {} x {} {:.3f} s\n", item.at("generator").get<std::string>(),
                     points.rows(), points.cols(), seconds.count());
        else
          write(stem, points);
        continue;
      }
      const auto seed = item.at("random_state").get<std::vector<std::uint32_t>>();
      RandomState random = seed.size() == 1 ? RandomState(seed[0]) : RandomState(seed);
      std::vector<double> out;
      for (const json& words : item.at("calls"))
        for (const double value : call(random, words))
          out.push_back(value);
      write_npy(stem.string() + ".x.npy", std::span<const double>(out), {out.size()});
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "generate_dataset: {}\n", error.what());
    return 1;
  }
  return 0;
}
