// What a runner is asked to do with one set of points: prepare, run, do the whole, hand over the
// answer.
#pragma once

#include "harness/worker/protocol.hpp"
#include "harness/worker/rank_calls.hpp"
#include "harness/worker/rank_marks.hpp"
#include "harness/worker/recorder.hpp"
#include "harness/worker/request_rows.hpp"
#include "harness/worker/session.hpp"
#include "harness/worker/shared_file.hpp"

#include <nlohmann/json.hpp>
#include <optional>

namespace clusterbench {

/// One set of points and its answer, in one precision.
template <typename T>
class Work {
public:
  /// mark: of this rank, or null if the variant computes in one process.
  Work(const RegisteredVariant& variant, const std::filesystem::path& modules,
       const PointsRequest& request, const std::vector<int>& devices, RankMark* mark)
      : place_(computes_on_gpus(variant.meta.device) ? Place::device : Place::host),
        request_(request), mark_(mark), start_(request.start, SharedFile::Access::read),
        labels_(request.labels, SharedFile::Access::write),
        centroids_(request.centroids, SharedFile::Access::write),
        entering_(request.entering, SharedFile::Access::write),
        memberships_(request.memberships, SharedFile::Access::write),
        session_(variant, modules, request.shape, devices) {
    if (variant.meta.streams) {
      session_.take_file({request.points_descriptor, request.points_offset, request.rotate});
    } else if (request.points_in_file) {
      // Devices get them on the clock, which is for reading and not for making rows.
      const auto fill = place_ == Place::device ? read_rows<T> : make_or_read_rows<T>;
      session_.take_rows(
          request.shape.n, request.rotate,
          [this, fill](RowRange rows, std::span<T> values) { fill(request_, rows, values); });
    } else {
      const SharedFile points(request.points, SharedFile::Access::read);
      const SharedFile weights(request.weights, SharedFile::Access::read);
      session_.take_points(points.as<const T>(), request.rotate, weights.as<const T>());
    }
    if (mark_ != nullptr) {
      session_.meet_with([this] {
        const std::string asked = mark_->activity;
        mark_->set(kMeeting);
        rank_calls().barrier();
        mark_->set(asked); // until a phase says more
      });
      session_.watch_with(marking_.emplace(*mark_, nobody_));
    }
  }

  nlohmann::json prepare() {
    session_.prepare();
    const Windows& windows = session_.windows();
    return with_moments({{"seconds", windows.upload + windows.prepare},
                         {"upload_s", windows.upload},
                         {"prepare_s", windows.prepare},
                         {"chosen_path", session_.chosen_path()}});
  }

  nlohmann::json run(bool record) {
    if (!record) {
      run_watched(nobody_);
      return end_of_run();
    }
    Recorder<T> recorder(place_);
    run_watched(recorder);
    nlohmann::json reply = end_of_run();
    reply["phases"] = recorder.phases();
    reply["counters"] = recorder.counters();
    reply["printed_loss"] = recorder.printed_losses();
    if (!request_.record.empty() && is_first()) {
      overwrite(request_.record, std::as_bytes(std::span(recorder.passes())));
    }
    return reply;
  }

  nlohmann::json whole() {
    session_.run_whole(start());
    const Windows& windows = session_.windows();
    return with_moments({{"seconds", windows.whole},
                         {"upload_s", windows.upload},
                         {"prepare_s", windows.prepare},
                         {"run_s", windows.run},
                         {"download_s", windows.download},
                         {"iterations", session_.iterations()},
                         {"chosen_path", session_.chosen_path()}});
  }

  nlohmann::json take() {
    const auto own = [rows = session_.rows()](auto all, std::size_t width) {
      return all.empty() ? all : all.subspan(rows.first * width, rows.count * width);
    };
    Answer<T> answer{own(labels_.as<std::int32_t>(), 1), centroids_.as<T>(), entering_.as<T>(),
                     own(memberships_.as<T>(), request_.shape.k), 0};
    if (is_first()) {
      session_.take(answer);
    } else {
      take_and_compare(answer);
    }
    return {{"seconds", session_.windows().download}};
  }

private:
  bool is_first() const { return request_.shape.rank == 0; }

  void run_watched(Observer<T>& observer) {
    if (mark_ == nullptr) {
      session_.run(start(), observer);
    } else {
      MarkingObserver<T> marking(*mark_, observer);
      session_.run(start(), marking);
    }
  }

  // The first rank has written its centroids already: those of the others are the same, or there is
  // no answer.
  void take_and_compare(const Answer<T>& answer) {
    std::vector<T> centroids(answer.centroids.size()), entering(answer.entering.size());
    session_.take({answer.labels, centroids, entering, answer.memberships, 0});
    const auto equal = [](const std::vector<T>& own, std::span<const T> first) {
      return std::memcmp(own.data(), first.data(), first.size_bytes()) == 0;
    };
    if (!equal(centroids, answer.centroids) || !equal(entering, answer.entering)) {
      throw std::runtime_error("its centroids are not those of rank 0");
    }
  }

  nlohmann::json with_moments(nlohmann::json reply) const {
    if (mark_ != nullptr) {
      const Windows& windows = session_.windows();
      reply["began"] = windows.began;
      reply["prepared"] = windows.prepared;
      reply["ended"] = windows.ended;
    }
    return reply;
  }

  Start<T> start() const {
    Start<T> start;
    (request_.shape.starts_from_memberships ? start.memberships : start.centroids) =
        start_.as<const T>();
    return start;
  }
  nlohmann::json end_of_run() const {
    return with_moments({{"seconds", session_.windows().run},
                         {"iterations", session_.iterations()},
                         {"chosen_path", session_.chosen_path()}});
  }

  Place place_;
  PointsRequest request_;
  RankMark* mark_;
  Observer<T> nobody_;
  std::optional<MarkingObserver<T>> marking_; ///< of whole answers
  SharedFile start_, labels_, centroids_, entering_, memberships_;
  Session<T> session_;
};

} // namespace clusterbench
