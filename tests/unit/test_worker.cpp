// The parent's side of a worker, with workers that keep to the protocol or do not: a program that
// plays the runner and behaves as its environment says, and the real one.
#include "harness/campaign/cell_memory.hpp"
#include "harness/worker/worker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/file.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

// Answers every request; the words of FAKE say what else it does, and FAKE_AT at which request.
constexpr const char* kFake = R"PY(
import json, os, signal, subprocess, sys, time

setup = json.loads(sys.argv[1])
fake, at = os.environ.get("FAKE", ""), os.environ.get("FAKE_AT", "run")


def say(**reply):
    print(json.dumps(reply), flush=True)


if fake != "reports nothing":
    os.write(setup["report"], json.dumps(["one thing"]).encode())
if fake == "says how it was set up":
    names = [name for name in os.environ if "THREADS" in name or "CACHE" in name]
    environment = {name: os.environ[name] for name in [*names, "HOME", "TMPDIR"]}
    print(json.dumps({"setup": setup, "arguments": sys.argv[2:], "environment": environment}),
          file=sys.stderr)
for line in sys.stdin:
    request = json.loads(line)["request"]
    reply = {"reply": request}
    if request == "load":
        reply.update(context_s=0.25, versions={"numpy": "1.0"})
    if request == "prepare":
        reply.update(seconds=0.5, upload_s=0.1, prepare_s=0.4)
    if request in ("run", "whole"):
        begin = time.perf_counter()
        time.sleep(0.25 if fake == "lies" else 0.01)
        reply.update(seconds=time.perf_counter() - begin, iterations=4, chosen_path="a path")
    if request == "take":
        reply.update(seconds=0.125)
    if request == at:
        if fake == "exits":
            print("last words", file=sys.stderr, flush=True)
            sys.exit(7)
        if fake == "segfaults":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fake == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fake == "hangs":
            time.sleep(1000)
        if fake == "hangs up":
            os.close(0), os.close(1)
            time.sleep(1000)
        if fake == "chatters":
            print("a word first", [], "\n{}\n{\"reply\": 3}\nnull", flush=True)
        if fake == "chatters for ever":
            while True:
                print("x" * 1000)
        if fake == "never ends its line":
            while True:
                sys.stdout.write("x" * 1000)
        if fake == "replies twice":
            say(**reply)
        if fake == "replies to another":
            reply["reply"] = "ping"
        if fake == "leaves a process":
            left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            print("left", left.pid, file=sys.stderr, flush=True)
        if fake == "lies":
            reply["seconds"] = 1e-9
        if fake.startswith("{"):  # the reply, or what of it is other
            reply.update(json.loads(fake))
    say(**reply)
    if request == at and fake == "tells and goes":
        say(reply="cheated", message="these are my words")
        sys.exit()
if fake == "has last words":
    print("all is done", file=sys.stderr, flush=True)
)PY";

struct Failure {
  std::string status = "none", message;
};

Failure failure_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const WorkerFailure& failure) {
    return {failure.status(), failure.what()};
  }
  return {};
}

class WorkerTest : public ::testing::Test {
protected:
  WorkerTest() {
    std::string name = (fs::temp_directory_path() / "clusterbench-worker-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    const fs::path runner = folder_ / "clusterbench-runner";
    std::ofstream(runner) << "#!" << std::getenv("CLUSTERBENCH_PYTHON") << kFake;
    fs::permissions(runner, fs::perms::owner_all);
    variant_.meta.name = "kmeans_x";
    options_.build = folder_;
    options_.timeout = std::chrono::seconds(60);
  }
  ~WorkerTest() override { fs::remove_all(folder_); }

  void play(const std::string& fake, const std::string& at = "run") {
    options_.environment = {"FAKE=" + fake, "FAKE_AT=" + at};
  }
  /// How a worker that plays this fails in a campaign's sequence of requests.
  Failure failure(const std::string& fake, const std::string& at = "run") {
    play(fake, at);
    return failure_of([&] {
      Worker worker(variant_, options_);
      worker.points({});
      worker.prepare();
      worker.run();
      worker.take();
      worker.run();
      worker.take();
    });
  }

  fs::path folder_;
  KnownVariant variant_;
  WorkerOptions options_;
};

bool is_running(int pid) {
  return kill(pid, 0) == 0;
}

TEST_F(WorkerTest, WhatAnHonestOneSaysIsPassedOn) {
  Worker worker(variant_, options_);
  EXPECT_GT(worker.start_seconds(), 0.0);
  EXPECT_EQ(worker.context_seconds(), 0.25);
  EXPECT_EQ(worker.versions().at("numpy"), "1.0");
  EXPECT_EQ(worker.sandbox_lacks(), std::vector<std::string>{"one thing"});
  EXPECT_TRUE(is_running(worker.pid()));
  EXPECT_GT(worker.peak_rss_bytes(), 0U);
  EXPECT_GT(worker.clock().report().at("round_trip_ms"), 0.0); // it was pinged
  worker.points({});
  EXPECT_EQ(worker.prepare().at("upload_s"), 0.1);
  const RunReply run = worker.run();
  EXPECT_GE(run.seconds, 0.01);
  EXPECT_EQ(run.iterations, 4U);
  EXPECT_EQ(run.reply.at("chosen_path"), "a path");
  double least = worker.take(); // nothing, but on a busy machine
  for (int again = 0; again < 4; ++again) {
    worker.run();
    least = std::min(least, worker.take());
  }
  EXPECT_LT(least, 0.1);
  EXPECT_GE(worker.whole().seconds, 0.01);
}

TEST_F(WorkerTest, IsToldWhatItNeedsAndNoMore) {
  play("says how it was set up");
  options_.threads = 3;
  options_.hidden = {"/a/hidden/folder"};
  options_.largest_file = std::size_t{1} << 40;
  Worker worker(variant_, options_);
  const auto told = nlohmann::json::parse(worker.finish());
  const auto& setup = told.at("setup");
  EXPECT_EQ(setup.at("parent"), getpid());
  EXPECT_GT(setup.at("memory_limit"), 0);
  EXPECT_GE(setup.at("file_limit"), std::size_t{1} << 40);
  EXPECT_EQ(setup.at("sandboxed"), true);
  EXPECT_EQ(setup.at("hidden"), nlohmann::json({"/a/hidden/folder"}));
  EXPECT_TRUE(told.at("arguments").empty());
  const auto& environment = told.at("environment");
  const std::string scratch = setup.at("scratch");
  for (const char* folder : {"HOME", "TMPDIR", "XDG_CACHE_HOME", "CUDA_CACHE_PATH"}) {
    EXPECT_EQ(environment.at(folder), scratch) << folder;
  }
  for (const char* threads : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    EXPECT_EQ(environment.at(threads), "3") << threads;
  }
}

TEST_F(WorkerTest, ItsScratchFolderGoesWithIt) {
  play("says how it was set up");
  fs::path scratch;
  {
    Worker worker(variant_, options_);
    const auto told = nlohmann::json::parse(worker.output_tail());
    scratch = told.at("setup").at("scratch").get<std::string>();
    EXPECT_TRUE(fs::is_directory(scratch));
    std::ofstream(scratch / "kept") << "for the next process";
  }
  EXPECT_FALSE(fs::exists(scratch));
}

TEST_F(WorkerTest, ScratchFoldersOfKilledProgramsGo) {
  const fs::path among = folder_ / "tmp";
  const auto make = [&](const char* name, std::chrono::minutes age) {
    const fs::path path = among / name;
    fs::create_directories(path / "kept" / "deep");
    fs::last_write_time(path, fs::file_time_type::clock::now() - age);
    return path;
  };
  constexpr std::chrono::minutes kOld{2}, kNew{0};
  const fs::path abandoned = make("clusterbench-scratch-aaaaaa", kOld);
  const fs::path held = make("clusterbench-scratch-bbbbbb", kOld);
  const fs::path being_made = make("clusterbench-scratch-cccccc", kNew);
  const fs::path of_others = make("clusterbench-results", kOld);
  const fs::path link = among / "clusterbench-scratch-dddddd";
  fs::create_directory_symlink(of_others, link);
  const int descriptor = open(held.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(descriptor, LOCK_EX | LOCK_NB), 0);
  remove_abandoned_scratch_folders(among);
  close(descriptor);
  EXPECT_FALSE(fs::exists(abandoned));
  for (const fs::path& stays : {held, being_made, of_others, link}) {
    EXPECT_TRUE(fs::exists(stays / "kept" / "deep")) << stays;
  }
  remove_abandoned_scratch_folders(among / "nowhere");
}

TEST_F(WorkerTest, NothingStaysBehind) {
  play("leaves a process");
  int left = 0, own = 0;
  {
    Worker worker(variant_, options_);
    worker.points({});
    worker.run();
    own = worker.pid();
    left = std::atoi(worker.output_tail().substr(std::string("left ").size()).c_str());
    ASSERT_GT(left, 1);
    EXPECT_TRUE(is_running(left));
  }
  EXPECT_FALSE(is_running(left));
  EXPECT_FALSE(is_running(own));
}

TEST_F(WorkerTest, ItsLastWordsAreRead) {
  play("has last words");
  Worker worker(variant_, options_);
  EXPECT_EQ(worker.finish(), "all is done\n");
}

TEST_F(WorkerTest, WithoutAReportWhatTheSandboxLacksIsUnknown) {
  play("reports nothing");
  const Worker worker(variant_, options_);
  EXPECT_EQ(worker.sandbox_lacks(), std::vector<std::string>{"unknown"});
}

// ---- those that end

TEST_F(WorkerTest, DiesAtAnyRequest) {
  for (const char* at : {"load", "ping", "points", "prepare", "run", "take"}) {
    const Failure exits = failure("exits", at);
    EXPECT_EQ(exits.status, "crashed") << at;
    EXPECT_EQ(exits.message, "exited with code 7 before it answered") << at;
    const Failure segfaults = failure("segfaults", at);
    EXPECT_EQ(segfaults.status, "crashed") << at;
    EXPECT_EQ(segfaults.message, "signal 11 (Segmentation fault)") << at;
  }
}

TEST_F(WorkerTest, ASmallProcessThatSomebodyKillsIsNotOutOfMemory) {
  const Failure killed = failure("is killed");
  EXPECT_EQ(killed.status, "crashed");
  EXPECT_EQ(killed.message, "signal 9 (Killed)");
}

TEST_F(WorkerTest, HangsUntilItsTimeIsOver) {
  options_.timeout = std::chrono::seconds(1);
  const auto start = std::chrono::steady_clock::now();
  const Failure hangs = failure("hangs");
  EXPECT_EQ(hangs.status, "timed_out");
  EXPECT_EQ(hangs.message, "killed after 1 s");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST_F(WorkerTest, ClosesItsChannelAndGoesOn) {
  const Failure closed = failure("hangs up");
  EXPECT_EQ(closed.status, "crashed");
  EXPECT_EQ(closed.message, "it closed its channel before it answered");
}

TEST_F(WorkerTest, CannotBeStarted) {
  fs::remove(folder_ / "clusterbench-runner");
  const Failure missing = failure("");
  EXPECT_EQ(missing.status, "error");
  EXPECT_NE(missing.message.find("cannot start " + (folder_ / "clusterbench-runner").string()),
            std::string::npos)
      << missing.message;
}

TEST_F(WorkerTest, IsEndedWhereTheCampaignIs) {
  play("hangs");
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        const Failure interrupted = failure_of([&] {
          Worker worker(variant_, options_);
          worker.points({});
          std::raise(SIGTERM);
          worker.run();
        });
        std::_Exit(interrupted.status == "interrupted" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

// ---- those that say something else

TEST_F(WorkerTest, LinesThatAreNoRepliesArePassedOn) {
  EXPECT_EQ(failure("chatters").status, "none");
  play("chatters");
  Worker worker(variant_, options_);
  worker.points({});
  EXPECT_EQ(worker.run().iterations, 4U);
  EXPECT_EQ(worker.output_tail(), "a word first [] \n{}\n{\"reply\": 3}\nnull\n");
}

TEST_F(WorkerTest, RubbishForEverIsAnError) {
  const Failure chatters = failure("chatters for ever");
  EXPECT_EQ(chatters.status, "error");
  EXPECT_EQ(chatters.message, "it printed a megabyte instead of a reply");
  const Failure line = failure("never ends its line");
  EXPECT_EQ(line.status, "error");
  EXPECT_EQ(line.message, "it wrote a line of more than 1048576 bytes");
}

TEST_F(WorkerTest, TwoRepliesAreACheat) {
  for (const char* at : {"points", "prepare", "run", "take"}) {
    const Failure twice = failure("replies twice", at);
    EXPECT_EQ(twice.status, "cheated") << at;
    EXPECT_NE(twice.message.find(std::string("a reply \"") + at + "\" came to the request"),
              std::string::npos)
        << twice.message;
  }
}

TEST_F(WorkerTest, AReplyToWhatWasNotAskedIsACheat) {
  const Failure other = failure("replies to another");
  EXPECT_EQ(other.status, "cheated");
  EXPECT_NE(other.message.find("a reply \"ping\" came to the request \"run\""), std::string::npos)
      << other.message;
}

// As the runner does when a thread writes to a closed answer.
TEST_F(WorkerTest, WhatItToldBeforeItWentIsReadWhenItIsAskedAgain) {
  play("tells and goes");
  Worker worker(variant_, options_);
  worker.points({});
  worker.run();
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(worker.pid()), &ended, WEXITED | WNOWAIT), 0);
  const Failure told = failure_of([&] { worker.take(); });
  EXPECT_EQ(told.status, "cheated");
  EXPECT_EQ(told.message, "these are my words");
}

TEST_F(WorkerTest, WhatItCannotDoIsItsStatus) {
  for (const auto& [reply, field] :
       {std::pair{"refused", "reason"}, std::pair{"unavailable", "reason"},
        std::pair{"error", "message"}, std::pair{"out_of_memory", "message"},
        std::pair{"cheated", "message"}}) {
    for (const char* at : {"load", "points", "prepare", "run", "take"}) {
      if (reply == std::string("unavailable") && at != std::string("load")) {
        continue; // see below
      }
      const Failure said =
          failure(nlohmann::json{{"reply", reply}, {field, "these are my words"}}.dump(), at);
      EXPECT_EQ(said.status, reply) << at;
      EXPECT_EQ(said.message, "these are my words") << at;
    }
    const Failure silent = failure(nlohmann::json{{"reply", reply}, {field, 3}}.dump(), "load");
    EXPECT_EQ(silent.status, reply);
    EXPECT_EQ(silent.message, "it says no more");
  }
}

// What was here when it was loaded does not go away.
TEST_F(WorkerTest, WhatIsLoadedIsNotUnavailable) {
  for (const char* at : {"points", "prepare", "run", "take"}) {
    const Failure said = failure(R"({"reply": "unavailable", "reason": "no library"})", at);
    EXPECT_EQ(said.status, "error") << at;
    EXPECT_NE(said.message.find("it says that it is unavailable"), std::string::npos);
  }
}

TEST(Replies, OneThatIsNoJsonIsItsError) {
  for (const char* line :
       {R"({"reply": "run", "seconds": NaN, "iterations": 1})",
        R"(  {"seconds": Infinity, "reply": "run", "iterations": 1})", R"({"reply": "run)"}) {
    try {
      reply_in(line, "run");
      ADD_FAILURE() << line;
    } catch (const WorkerFailure& failure) {
      EXPECT_EQ(failure.status(), "error");
      EXPECT_EQ(failure.what(), std::string("its reply is not JSON: ") + line);
    }
  }
  for (const char* noise : {"", "reply", "{reply: NaN}", "the \"reply\" {", "[\"reply\"]"}) {
    EXPECT_EQ(reply_in(noise, "run"), std::nullopt) << noise;
  }
}

TEST_F(WorkerTest, ARunHasSecondsAndPasses) {
  for (const char* changes :
       {R"({"seconds": "soon"})", R"({"seconds": null})", R"({"iterations": -1})",
        R"({"iterations": 1.5})", R"({"iterations": null})"}) {
    const Failure lacks = failure(changes);
    EXPECT_EQ(lacks.status, "error") << changes;
    EXPECT_EQ(lacks.message, "its reply lacks the numbers `seconds` and `iterations`") << changes;
  }
}

TEST(Replies, OddFieldsAreItsError) {
  const std::string deep = std::string(500000, '[') + std::string(500000, ']');
  for (const auto& [asked, fields, message] :
       {std::tuple{"whole", R"("upload_s": "x")", "its reply's `upload_s` is no number of seconds"},
        std::tuple{"whole", R"("run_s": -1)", "its reply's `run_s` is no number of seconds"},
        std::tuple{"whole", R"("chosen_path": 3)", "its reply's `chosen_path` is no text"},
        std::tuple{"whole", R"("phases": {"a": "x"})",
                   "its reply's `phases` holds something but numbers"},
        std::tuple{"whole", R"("counters": [1])",
                   "its reply's `counters` holds something but numbers"},
        std::tuple{"whole", R"("printed_loss": 1)",
                   "its reply's `printed_loss` holds something but numbers"},
        std::tuple{"whole", R"("phases": {"a": 1, "b": null})",
                   "its reply's phase `b` is no number of seconds"},
        std::tuple{"whole", R"("phases": {"a": -1})",
                   "its reply's phase `a` is no number of seconds"},
        std::tuple{"whole", R"("phases": {"a": 1e306})", // no milliseconds
                   "its reply's phase `a` is no number of seconds"},
        std::tuple{"load", R"("context_s": 1e308)",
                   "its reply's `context_s` is no number of seconds"},
        std::tuple{"load", R"("context_s": [])", "its reply's `context_s` is no number of seconds"},
        std::tuple{"load", R"("versions": 3)", "its reply's `versions` is no object"},
        std::tuple{"load", R"("versions": {"a": DEEP})", "its reply is nested too deeply"},
        std::tuple{"take", R"("seconds": null)",
                   "its reply's `seconds` is no number of seconds"}}) {
    std::string line = std::string(R"({"reply": ")") + asked + "\", " + fields;
    if (asked == std::string("whole")) {
      line += R"(, "seconds": 1, "iterations": 2)";
    }
    if (const std::size_t at = line.find("DEEP"); at != std::string::npos) {
      line.replace(at, 4, deep);
    }
    try {
      reply_in(line + "}", asked);
      ADD_FAILURE() << fields;
    } catch (const WorkerFailure& failure) {
      EXPECT_EQ(failure.status(), "error");
      EXPECT_EQ(failure.what(), std::string(message));
    }
  }
  EXPECT_EQ(reply_in(deep, "run"), std::nullopt);
}

TEST_F(WorkerTest, AClockThatLiesIsNotBelieved) {
  play("lies");
  Worker worker(variant_, options_);
  worker.points({});
  for (int run = 0; run < 5; ++run) {
    EXPECT_EQ(worker.clock().finding(), "");
    EXPECT_GE(worker.run().seconds, 0.25); // what passed outside
    worker.take();
  }
  EXPECT_NE(worker.clock().finding().find("in 5 of 5 runs"), std::string::npos);
}

// ---- the real runner, with a module of the tests

class RealRunner : public ::testing::Test {
protected:
  RealRunner() {
    variant_.meta.name = "kmeans_takes_all";
    // A build has its modules beside its runner.
    std::string name = (fs::temp_directory_path() / "clusterbench-worker-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    fs::create_symlink(fs::path(std::getenv("CLUSTERBENCH_FOLDER")) / "clusterbench-runner",
                       folder_ / "clusterbench-runner");
    fs::create_symlink(fs::path(std::getenv("CLUSTERBENCH_TOOLS")) / "modules",
                       folder_ / "modules");
    options_.build = folder_;
    options_.timeout = std::chrono::seconds(60);
    options_.descriptors = memory_.descriptors();
  }
  ~RealRunner() override { fs::remove_all(folder_); }

  static constexpr std::size_t kRows = 5, kFeatures = 2, kClusters = 3;
  static Shape shape() { return {.n = kRows, .d = kFeatures, .k = kClusters, .stop = {}}; }

  std::vector<float> start_ = {1, 2, 3, 4, 5, 6};
  SharedMemory points_ = sealed_copy<float>("points", std::vector<float>(kRows* kFeatures, 1.0F));
  CellMemory<float> memory_{shape(), Family::kmeans, points_, true};
  KnownVariant variant_;
  WorkerOptions options_;
  fs::path folder_;
};

TEST_F(RealRunner, ServesARun) {
  Worker worker(variant_, options_);
  worker.points(memory_.request());
  const auto prepared = worker.prepare();
  EXPECT_GE(prepared.at("prepare_s"), 0.02);
  EXPECT_EQ(prepared.at("upload_s"), 0.0);
  for (int i = 0; i < 2; ++i) {
    memory_.put_start(start_);
    const RunReply run = worker.run(/*record=*/true);
    EXPECT_EQ(run.iterations, 1U);
    worker.take();
    const TakenAnswer<float> answer = memory_.answer(run.iterations);
    EXPECT_EQ(answer.labels, std::vector<std::int32_t>(kRows, 0));
    EXPECT_EQ(answer.centroids, start_);
    EXPECT_EQ(answer.entering, start_);
    EXPECT_EQ(memory_.recorded(), start_);
    std::ranges::reverse(start_);
  }
}

TEST_F(RealRunner, ServesWholeAnswers) {
  Worker worker(variant_, options_);
  worker.points(memory_.request(3));
  memory_.put_start(start_);
  const RunReply whole = worker.whole();
  worker.take();
  EXPECT_EQ(memory_.answer(whole.iterations, 3).centroids, start_);
  const auto& reply = whole.reply;
  EXPECT_GE(reply.at("seconds").get<double>(),
            reply.at("prepare_s").get<double>() + reply.at("run_s").get<double>());
}

TEST_F(RealRunner, SaysWhatItWasNotPreparedFor) {
  Worker worker(variant_, options_);
  const Failure no_points = failure_of([&] { worker.run(); });
  EXPECT_EQ(no_points.status, "error");
  EXPECT_EQ(no_points.message, "run: there are no points");
  worker.points(memory_.request());
  const Failure not_prepared = failure_of([&] { worker.run(); });
  EXPECT_EQ(not_prepared.status, "refused");
  EXPECT_EQ(not_prepared.message, "it is not prepared");
}

TEST_F(RealRunner, LoadsNothingThatIsNotThere) {
  variant_.meta.name = "kmeans_nowhere";
  const Failure missing = failure_of([&] { Worker worker(variant_, options_); });
  EXPECT_EQ(missing.status, "error");
  EXPECT_NE(missing.message.find("kmeans_nowhere.so"), std::string::npos) << missing.message;
}

TEST_F(RealRunner, BecomesAProgram) {
  const fs::path program = folder_ / "kmeans_program";
  std::ofstream(program) << R"(#!/bin/sh
while read -r request; do
  case $request in
    *'"load"'*) echo '{"reply": "load", "versions": {"sh": "1"}}' ;;
    *'"ping"'*) echo '{"reply": "ping"}' ;;
    *'"points"'*) echo '{"reply": "refused", "reason": "this is a shell"}' ;;
  esac
done
)";
  fs::permissions(program, fs::perms::owner_all);
  variant_.meta.name = "kmeans_program";
  variant_.is_program = true;
  variant_.file = program;
  Worker worker(variant_, options_);
  EXPECT_EQ(worker.versions().at("sh"), "1");
  const Failure refused = failure_of([&] { worker.points(memory_.request()); });
  EXPECT_EQ(refused.status, "refused");
  EXPECT_EQ(refused.message, "this is a shell");
}

} // namespace
} // namespace clusterbench
