// Obeys the protocol: one request, one reply.
#pragma once

#include "harness/worker/work.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace clusterbench {

class Server {
public:
  explicit Server(bool is_rank) : is_rank_(is_rank) {}

  /// Throws what the variant throws, and std::runtime_error where the request makes no sense.
  nlohmann::json answer(const nlohmann::json& request);

private:
  nlohmann::json load(const nlohmann::json& request);
  nlohmann::json take_points(PointsRequest request);
  nlohmann::json join_ranks(const nlohmann::json& request);
  void note_device_memory(nlohmann::json& reply) const;

  bool is_rank_;
  std::optional<SharedFile> marks_; ///< of all ranks
  RankMark* mark_ = nullptr;        ///< of this one
  const RegisteredVariant* variant_ = nullptr;
  std::filesystem::path modules_;
  std::vector<int> devices_ = {0};
  std::size_t device_memory_ = 0; ///< bytes that were left free on each device; 0: all
  std::variant<std::monostate, Work<float>, Work<double>> work_;
};

/// The reply that says what was thrown.
nlohmann::json failure(const std::exception& error);

} // namespace clusterbench
