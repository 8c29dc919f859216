// What the gate asks of a build: run one variant, a turn at a time, when told to.
//
// A build's `clusterbench pace --request-fd R --control-fd C` reads a request from R, which is
// {"protocol": 2, "hidden_folder": path, "processor": the first that its threads are spread over,
// "jobs": [PaceJob, ...]}, and then answers over C, a stream socket, line by line of JSON. For each
// job it says {"status": "ready"}, or another status and a
// message, and then obeys
//   "run N P": a turn of N runs, begun when nobody else wants the processors, or after P ns of
//      waiting; answer {"shortest": ns, "elapsed": ns, "waited": ns, "competitors": count},
//   "fetch": answer {"digest": ..., "iterations": ...}; labels and centroids are in slot 0,
//   "next", which ends the job.
// Builds of different age speak it with one another: whatever changes gets another number.
#pragma once

#include "harness/run/job.hpp"

namespace clusterbench {

inline constexpr int kPaceProtocol = 2;

/// A task in the form of harness/run/job.hpp; its result_fd holds slot 0 and the others.
using PaceJob = Task;

} // namespace clusterbench
