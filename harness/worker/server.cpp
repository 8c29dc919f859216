#include "harness/worker/server.hpp"

#include "harness/system/sandbox.hpp"
#include "harness/system/shared_memory.hpp"
#include "harness/worker/device_memory.hpp"
#include "harness/worker/module.hpp"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <new>
#include <numeric>
#include <sstream>
#include <sys/prctl.h>

namespace clusterbench {
namespace {

using nlohmann::json;

json answer_with(std::monostate, const std::string& asked, const json&) {
  throw std::runtime_error(asked + ": there are no points");
}
template <typename T>
json answer_with(Work<T>& work, const std::string& asked, const json& request) {
  if (asked == "prepare") {
    return work.prepare();
  }
  if (asked == "run") {
    return work.run(request.value("record", false));
  }
  if (asked == "whole") {
    return work.whole();
  }
  if (asked == "take") {
    return work.take();
  }
  throw std::runtime_error("the protocol has no request " + asked);
}

// A rank's GPU becomes the only one that its process sees, and so the first, as of any variant for
// one GPU. All ranks are on this machine. Before CUDA is there.
void see_one_gpu(std::size_t rank) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string own = std::to_string(rank);
  if (visible != nullptr) {
    std::istringstream all(visible);
    for (std::size_t i = 0; i <= rank; ++i) {
      own.clear(); // none, behind the last one
      std::getline(all, own, ',');
    }
  }
  setenv("CUDA_VISIBLE_DEVICES", own.c_str(), 1);
}

} // namespace

json Server::answer(const json& request) {
  const std::string asked = request.at("request");
  if (mark_ != nullptr) {
    mark_->set(asked);
  }
  if (asked == "load") {
    return load(request);
  }
  if (asked == "ping") {
    if (is_rank_) { // how long it takes them to meet is a part of every round trip
      rank_calls().barrier();
    }
    return json::object();
  }
  if (asked == "points") {
    return take_points(points_request_from(request));
  }
  json reply = std::visit([&](auto& work) { return answer_with(work, asked, request); }, work_);
  note_device_memory(reply);
  return reply;
}

json Server::load(const json& request) {
  json reply = {{"versions", json::object()}, {"context_s", 0.0}};
  if (is_rank_) {
    reply = join_ranks(request);
  }
  modules_ = request.at("folder").get<std::string>();
  const std::string name = request.at("variant");
  variant_ =
      &load_module_of(name, request.contains("module")
                                ? std::filesystem::path(request.at("module").get<std::string>())
                                : module_file(modules_, name));
  if (computes_on_gpus(variant_->meta.device)) {
    const auto start = std::chrono::steady_clock::now();
    if (is_rank_) {
      see_one_gpu(static_cast<std::size_t>(rank_calls().rank()));
    } else {
      devices_.resize(request.value("gpus", std::size_t{1}));
      std::iota(devices_.begin(), devices_.end(), 0);
    }
    for (const int device : devices_) {
      device_calls().open(device); // makes the context
      if (request.contains("device_memory")) {
        device_memory_ = request.at("device_memory");
        device_calls().leave_free(device, device_memory_);
      }
    }
    reply["context_s"] =
        reply.at("context_s").get<double>() +
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return reply;
}

// What was used of --device-memory, on the device where that is most. What a variant has freed in
// between stays in the device's pool, and counts.
void Server::note_device_memory(json& reply) const {
  if (device_memory_ == 0) {
    return;
  }
  std::size_t used = 0;
  for (const int device : devices_) {
    used = std::max(used,
                    device_memory_ - std::min(device_calls().free_bytes(device), device_memory_));
  }
  reply["device_used_bytes"] = used;
}

// Before the variant's module is there, which may only have threads: starting processes was for
// mpirun.
json Server::join_ranks(const json& request) {
  const auto start = std::chrono::steady_clock::now();
  rank_calls().open();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // Without seccomp there is nothing to close, which the row's `sandbox_lacks` says.
  const bool has_filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2; // SECCOMP_MODE_FILTER
  const bool is_confined = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
  if (is_confined && has_filter && !forbid_processes()) {
    throw std::runtime_error("the sandbox of a rank cannot be closed");
  }
  marks_.emplace(request.at("marks").get<std::string>(), SharedFile::Access::write);
  mark_ = &marks_->as<RankMark>()[static_cast<std::size_t>(rank_calls().rank())];
  mark_->set("load");
  rank_calls().note_abort_in(mark_->has_aborted);
  return {{"versions", {{"MPI", rank_calls().version()}}}, {"context_s", seconds}};
}

json Server::take_points(PointsRequest request) {
  if (variant_ == nullptr) {
    throw std::runtime_error("no variant is loaded");
  }
  if (is_rank_) {
    request.shape.rank = rank_calls().rank();
    request.shape.world = rank_calls().world();
  }
  work_ = std::monostate(); // what an earlier problem held is free before the next is read
  if (request.precision == "f32") {
    work_.emplace<Work<float>>(*variant_, modules_, request, devices_, mark_);
  } else {
    work_.emplace<Work<double>>(*variant_, modules_, request, devices_, mark_);
  }
  return json::object();
}

json failure(const std::exception& error) {
  if (dynamic_cast<const Refusal*>(&error) != nullptr) {
    return {{"reply", "refused"}, {"reason", error.what()}};
  }
  if (dynamic_cast<const NoDevices*>(&error) != nullptr) {
    return {{"reply", "unavailable"}, {"reason", error.what()}};
  }
  const std::string message = words_of(error);
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         message.find("cudaErrorMemoryAllocation") != std::string::npos;
  return {{"reply", no_memory ? "out_of_memory" : "error"},
          {"message", message == "std::bad_alloc" ? "an allocation failed" : message}};
}

} // namespace clusterbench
