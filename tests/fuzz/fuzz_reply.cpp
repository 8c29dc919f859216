// Any lines as what a worker writes: noise, a refusal in known words, or a reply whose known fields
// can be read as the campaign reads them.
#include "harness/worker/replies.hpp"

#include <cstdint>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>

using namespace clusterbench;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::set<std::string> kStatuses = {"refused", "unavailable", "error",
                                                  "out_of_memory", "cheated"};
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  for (std::string line; std::getline(lines, line);)
    for (const std::string asked : {"load", "points", "prepare", "run", "whole", "take"}) {
      if (asked != "run" && line.find(asked) == std::string::npos)
        continue; // another request than "run" is answered as "run" is
      try {
        const auto reply = reply_in(line, asked);
        if (!reply)
          continue;
        for (const char* name : {"context_s", "seconds", "upload_s", "run_s", "download_s"})
          if (!(reply->value(name, 0.0) >= 0.0))
            std::abort();
        if ((asked == "run" || asked == "whole") && !reply->at("iterations").is_number_unsigned())
          std::abort();
        reply->value("chosen_path", "");
        reply->value("versions", nlohmann::json::object()).items();
        reply->value("phases", nlohmann::json::object()).items();
        reply->dump();
      } catch (const WorkerFailure& failure) {
        if (!kStatuses.contains(failure.status()))
          std::abort();
      }
    }
  return 0;
}
