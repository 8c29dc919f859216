#include "harness/submission/inspection.hpp"

#include "datasets/errors.hpp"
#include "harness/problem/programs.hpp"
#include "harness/system/available_memory.hpp"
#include "harness/system/program_folder.hpp"
#include "harness/system/shared_memory.hpp"
#include "harness/system/short_answer.hpp"
#include "harness/worker/protocol.hpp"
#include "harness/worker/scratch_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;

constexpr std::size_t kLargestFile = std::size_t{256} << 20;

bool is_answer(const json& reply) {
  return reply.is_object() && reply.contains("reply") &&
         (reply.at("reply") == "describe" || reply.at("reply") == "error" ||
          reply.at("reply") == "out_of_memory");
}

} // namespace

Inspection inspect(const std::filesystem::path& file, FileKind kind, bool sandboxed,
                   std::chrono::duration<double> patience) {
  const ScratchFolder scratch;
  const SharedMemory report("report");
  RunnerSetup setup;
  setup.parent = getpid();
  setup.memory_limit = available_memory_bytes();
  setup.file_limit = kLargestFile;
  setup.sandboxed = sandboxed;
  setup.scratch = scratch.path().string();
  setup.report = report.fd();
  ShortQuestion question;
  question.command = {(program_folder() / "clusterbench-runner").string(), to_json(setup).dump()};
  if (kind == FileKind::program) {
    question.command.emplace_back("--");
    for (const std::string& word : describing_command(file)) {
      question.command.push_back(word);
    }
  } else {
    question.command.insert(question.command.end(), {"--describe", file.string()});
  }
  question.text = R"({"request": "describe"})";
  question.patience = patience;
  question.environment = confined_environment({}, /*threads=*/1, /*gpus=*/0, scratch.path());
  question.descriptors = {report.fd()};
  Inspection found;
  const ShortAnswer answer = ask_shortly(question, [&](const std::string& line) {
    found.description = json::parse(line, nullptr, /*allow_exceptions=*/false);
    return is_answer(found.description);
  });
  if (!answer.failure.empty()) {
    throw InputError(
        fmt::format("{}: it does not describe itself: {}", file.string(), answer.failure));
  }
  if (found.description.at("reply") != "describe") {
    const std::string message = found.description.value("message", "");
    throw InputError(
        message.starts_with(file.string())
            ? message
            : fmt::format("{}: it does not describe itself: {}", file.string(), message));
  }
  const json lacks = json::parse(read_all(report.fd()), nullptr, false);
  found.sandbox_lacks = lacks.is_array() ? lacks.get<std::vector<std::string>>()
                                         : std::vector<std::string>{"unknown"};
  return found;
}

} // namespace clusterbench
