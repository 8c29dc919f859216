#include "harness/campaign/qualifier.hpp"

#include "harness/campaign/cell_memory.hpp"
#include "harness/campaign/refusals.hpp"
#include "harness/judge/oracle.hpp"
#include "harness/judge/qualification.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/system/shared_memory.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <type_traits>
#include <vector>

namespace clusterbench {

template <typename T>
Qualification Qualifier::qualify(const KnownVariant& variant) {
  const std::string key =
      fmt::format("{} {}", variant.meta.name, std::is_same_v<T, float> ? "f32" : "f64");
  if (const auto known = known_.find(key); known != known_.end()) {
    return known->second;
  }
  const Family family = variant.meta.family;
  std::vector<OwnedProblem<T>> problems = qualification_problems<T>(family);
  std::erase_if(problems, [&](const OwnedProblem<T>& problem) {
    return !declared_refusal(variant, problem.view().shape(), family).empty();
  });
  std::vector<SharedMemory> points, weights;
  std::vector<CellMemory<T>> memories;
  WorkerOptions options = options_;
  constexpr std::chrono::duration<double> kLongEnough{120}; // for problems of milliseconds
  options.timeout = std::min(options.timeout, kLongEnough);
  points.reserve(problems.size()); // the memories refer to their elements
  weights.reserve(problems.size());
  for (const OwnedProblem<T>& problem : problems) {
    points.push_back(sealed_copy<T>("points", problem.points));
    weights.push_back(sealed_copy<T>("weights", problem.weights));
    memories.emplace_back(problem.view().shape(), family, points.back(), variant.gives_entering,
                          &weights.back());
    const std::vector<int> descriptors = memories.back().descriptors();
    options.descriptors.insert(options.descriptors.end(), descriptors.begin(), descriptors.end());
  }
  Qualification ending;
  std::string at;
  try {
    Worker worker(variant, options);
    for (std::size_t i = 0; i < problems.size() && ending.status == "ok"; ++i) {
      at = problems[i].name;
      try {
        worker.points(memories[i].request());
        worker.prepare();
        std::vector<Problem<T>> both = {problems[i].view()};
        if (!problems[i].second.empty()) {
          both.push_back(problems[i].second_view());
        }
        for (const Problem<T>& problem : both) {
          memories[i].put_start(problem.centroids.empty() ? problem.memberships
                                                          : problem.centroids);
          const RunReply run = worker.run(/*record=*/true);
          worker.take();
          TakenAnswer<T> answer = memories[i].answer(run.iterations);
          if (variant.records) {
            answer.recorded = memories[i].recorded();
          }
          const Verdict verdict = verify_answer(Declaration(variant.meta, variant.centres_points),
                                                problem, answer.view(), run_oracle(family, problem),
                                                {.judges_precision = false});
          if (!verdict.right()) {
            ending = {"wrong", fmt::format("{}: {}", at, verdict.message()), ""};
            break;
          }
        }
      } catch (const WorkerFailure& failure) {
        if (failure.status() != "refused") {
          throw;
        }
      }
    }
  } catch (const WorkerFailure& failure) {
    ending = {failure.status(),
              at.empty() ? failure.what() : fmt::format("{}: {}", at, failure.what()),
              failure.last_words()};
  }
  if (ending.status != "interrupted") {
    known_[key] = ending;
  }
  return ending;
}

template Qualification Qualifier::qualify<float>(const KnownVariant&);
template Qualification Qualifier::qualify<double>(const KnownVariant&);

} // namespace clusterbench
