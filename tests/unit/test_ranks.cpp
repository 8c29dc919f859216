// Several processes that run one variant: which of them is to blame, what their replies are
// together, and which rows each is given.
#include "harness/problem/registry.hpp"
#include "harness/worker/rank_marks.hpp"
#include "harness/worker/ranks.hpp"
#include "harness/worker/replies.hpp"
#include "harness/worker/session.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// ---- what mpirun of Open MPI 4.1.4 says

TEST(RankThatEnded, ByASignal) {
  const auto ended = rank_that_ended(
      "a word of a rank\n"
      "--------------------------------------------------------------------------\n"
      "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).\n"
      "--------------------------------------------------------------------------\n");
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->text, "rank 1: signal 9 (Killed)");
  EXPECT_EQ(ended->signal, SIGKILL);
}

TEST(RankThatEnded, ByACode) {
  const auto ended = rank_that_ended(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[17452,1],12]\n  Exit code:    3\n");
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->text, "rank 12: exited with code 3 before it answered");
  EXPECT_EQ(ended->signal, 0);
}

TEST(RankThatEnded, ByItself) {
  const auto left =
      rank_that_ended("mpirun has exited due to process rank 0 with PID 0 on\n"
                      "node vm exiting improperly. There are three reasons this could occur:\n");
  ASSERT_TRUE(left);
  EXPECT_EQ(left->text, "rank 0: exited before it answered");
  const auto aborted =
      rank_that_ended("MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n");
  ASSERT_TRUE(aborted);
  EXPECT_EQ(aborted->text, "rank 1: called MPI_Abort");
}

TEST(WordsOfRanks, AreAllButThoseOfMpirun) {
  const std::string rule = std::string(74, '-') + "\n";
  EXPECT_EQ(words_of_ranks("before\n--- a rank's own line\n" + rule + "mpirun noticed\n\n" + rule +
                           "between\n" + rule + "mpirun detected\n" + rule + "after"),
            "before\n--- a rank's own line\nbetween\nafter\n");
  EXPECT_EQ(words_of_ranks(rule + "mpirun has more to say"), "");
  EXPECT_EQ(words_of_ranks(""), "");
}

TEST(RankThatEnded, NothingIsGuessed) {
  for (const char* text :
       {"", "mpirun: command not found", "rank 1 is fine", "process rank one with PID"}) {
    EXPECT_FALSE(rank_that_ended(text)) << text;
  }
}

TEST(RankThatEnded, ByTheCodeOfMpirun) {
  EXPECT_EQ(ended_rank(1, 5).text, "rank 1: exited with code 5 before it answered");
  EXPECT_EQ(ended_rank(1, 5).signal, 0);
  EXPECT_EQ(ended_rank(0, 128 + SIGKILL).text, "rank 0: signal 9 (Killed)");
  EXPECT_EQ(ended_rank(0, 128 + SIGKILL).signal, SIGKILL);
}

// ---- one reply of all

TEST(ReplyOfAll, WindowsReachFromTheFirstToTheLast) {
  const json all = reply_of_all({{{"began", 10.0},
                                  {"prepared", 11.0},
                                  {"ended", 14.0},
                                  {"seconds", 4.0},
                                  {"prepare_s", 1.0},
                                  {"run_s", 3.0},
                                  {"iterations", 5},
                                  {"chosen_path", "a"}},
                                 {{"began", 10.5},
                                  {"prepared", 13.0},
                                  {"ended", 14.5},
                                  {"seconds", 4.0},
                                  {"prepare_s", 2.5},
                                  {"run_s", 1.5},
                                  {"iterations", 5},
                                  {"chosen_path", "b"}}});
  EXPECT_DOUBLE_EQ(all.at("seconds"), 4.5);
  EXPECT_DOUBLE_EQ(all.at("prepare_s"), 3.0); // until the last rank was prepared
  EXPECT_DOUBLE_EQ(all.at("run_s"), 1.5);
  EXPECT_EQ(all.at("chosen_path"), "a");
}

TEST(ReplyOfAll, TheWaysToAndFromGpusAreWindowsOfTheirOwn) {
  const json all = reply_of_all({{{"began", 10.0},
                                  {"prepared", 13.0},
                                  {"ended", 19.0},
                                  {"upload_s", 2.0},
                                  {"prepare_s", 1.0},
                                  {"run_s", 5.0},
                                  {"download_s", 1.0}},
                                 {{"began", 10.0},
                                  {"prepared", 14.0},
                                  {"ended", 20.0},
                                  {"upload_s", 1.0},
                                  {"prepare_s", 3.0},
                                  {"run_s", 3.0},
                                  {"download_s", 3.0}}});
  EXPECT_DOUBLE_EQ(all.at("upload_s"), 2.0); // of the slowest rank
  EXPECT_DOUBLE_EQ(all.at("prepare_s"), 2.0);
  EXPECT_DOUBLE_EQ(all.at("download_s"), 3.0);
  EXPECT_DOUBLE_EQ(all.at("run_s"), 3.0);
  EXPECT_DOUBLE_EQ(all.at("seconds"), 10.0); // all four, and no more
}

TEST(ReplyOfAll, PassesAreThoseOfEveryRank) {
  const json first = {{"iterations", 5}, {"seconds", 1.0}};
  for (const auto& [second, said] :
       {std::pair{json{{"iterations", 4}}, "4"}, std::pair{json::object(), "null"}}) {
    try {
      reply_of_all({first, first, second});
      ADD_FAILURE() << second;
    } catch (const WorkerFailure& failure) {
      EXPECT_EQ(failure.status(), "error");
      EXPECT_EQ(failure.what(),
                std::string("rank 2: it executed ") + said + " passes, and rank 0 5");
    }
  }
}

TEST(ReplyOfAll, AMomentThatIsMissingIsThatRanksError) {
  const json whole = {{"began", 1.0}, {"ended", 2.0}, {"seconds", 1.0}};
  try {
    reply_of_all({whole, {{"began", 1.0}, {"seconds", 1.0}}});
    ADD_FAILURE();
  } catch (const WorkerFailure& failure) {
    EXPECT_EQ(failure.what(), std::string("rank 1: its reply lacks `ended`"));
  }
}

// ---- where ranks are

class RanksTest : public ::testing::Test {
protected:
  RanksTest() {
    std::string name = (fs::temp_directory_path() / "clusterbench-ranks-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~RanksTest() override {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  /// A process that comes as such a rank, and stays. It has come when this returns; where more wait
  /// already than there are to be, nobody else is let in, and this returns before.
  void come(const std::string& number, bool is_let_in = true) {
    int there[2];
    ASSERT_EQ(pipe(there), 0);
    const pid_t child = fork();
    if (child == 0) {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      (folder_ / "ranks").native().copy(address.sun_path, sizeof address.sun_path - 1);
      const int channel = socket(AF_UNIX, SOCK_STREAM, 0);
      if (connect(channel, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
        [[maybe_unused]] const ssize_t sent =
            write(channel, (number + "\n").data(), number.size() + 1);
      }
      close(there[1]);
      for (;;) {
        pause();
      }
    }
    children_.push_back(child);
    close(there[1]);
    char nothing = 0;
    if (is_let_in) {
      EXPECT_EQ(read(there[0], &nothing, 1), 0); // once the child has closed its end
    }
    close(there[0]);
  }

  static std::chrono::steady_clock::time_point soon(double seconds) {
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(
               std::chrono::duration<double>(seconds));
  }

  fs::path folder_;
  std::vector<pid_t> children_;
};

TEST_F(RanksTest, ComeInAnyOrderAndOnce) {
  Ranks ranks(3, folder_);
  for (const char* number : {"2", "0", "0", "7"}) { // one twice, and one that is not expected
    come(number);
  }
  come("1", /*is_let_in=*/false);
  EXPECT_TRUE(ranks.wait_for_all(getpid(), soon(20)));
  EXPECT_EQ(ranks.pids(), (std::vector<pid_t>{children_[1], children_[4], children_[0]}));
  EXPECT_FALSE(fs::exists(folder_ / "ranks")); // nobody else is to come
}

TEST_F(RanksTest, AreNotWaitedForLongerThanAllowed) {
  Ranks ranks(2, folder_);
  come("0");
  EXPECT_FALSE(ranks.wait_for_all(getpid(), soon(0.5)));
  const pid_t ended = fork(); // in the place of mpirun
  if (ended == 0) {
    _exit(3);
  }
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(ranks.wait_for_all(ended, soon(60)));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(30));
  waitpid(ended, nullptr, 0);
}

TEST_F(RanksTest, WhoeverIsWaitedForIsNamed) {
  Ranks ranks(3, folder_);
  for (const char* number : {"0", "1", "2"}) {
    come(number);
  }
  ASSERT_TRUE(ranks.wait_for_all(getpid(), soon(20)));
  auto* const marks =
      static_cast<RankMark*>(mmap(nullptr, 3 * sizeof(RankMark), PROT_READ | PROT_WRITE, MAP_SHARED,
                                  ranks.marks_descriptor(), 0));
  ASSERT_NE(marks, MAP_FAILED);
  Observer<float> nobody;
  for (int r = 0; r < 3; ++r) { // two passes, then the exchange of the third
    MarkingObserver<float> observer(marks[r], nobody);
    observer.pass({});
    observer.pass({});
    observer.begin_phase(r == 1 ? "a phase with\n" + std::string(100, 'x') : "exchange", nullptr);
  }
  EXPECT_EQ(ranks.who_holds_up({false, false, false}),
            "rank 1 is in `a phase with?" + std::string(34, 'x') + "`, after 2 passes");
  EXPECT_EQ(ranks.who_holds_up({false, true, true}), "rank 0 waits in `exchange`, after 2 passes");
  marks[1].set("exchange");
  EXPECT_EQ(
      ranks.who_holds_up({true, false, false}),
      "rank 1 waits in `exchange`, after 2 passes; rank 2 waits in `exchange`, after 2 passes");
  kill(ranks.pids()[2], SIGSTOP);
  int status = 0;
  waitpid(ranks.pids()[2], &status, WUNTRACED);
  EXPECT_EQ(ranks.who_holds_up({false, false, false}),
            "rank 2 is stopped in `exchange`, after 2 passes");
  EXPECT_FALSE(ranks.aborted());
  marks[1].has_aborted = true;
  EXPECT_EQ(ranks.aborted(), 1);
  munmap(marks, 3 * sizeof(RankMark));
}

TEST_F(RanksTest, WhoeverIsGoneIsKnownWhileItIsOne) {
  Ranks ranks(3, folder_);
  for (const char* number : {"0", "1", "2"}) {
    come(number);
  }
  ASSERT_TRUE(ranks.wait_for_all(getpid(), soon(20)));
  EXPECT_FALSE(ranks.only_one_gone());
  const auto ends = [this](pid_t rank) { // its socket is closed before it can be waited for
    kill(rank, SIGKILL);
    waitpid(rank, nullptr, 0);
    std::erase(children_, rank);
  };
  ends(ranks.pids()[1]);
  EXPECT_EQ(ranks.only_one_gone(), 1);
  ends(ranks.pids()[0]);
  EXPECT_FALSE(ranks.only_one_gone()); // which of them was the first?
}

TEST(RanksOfVariants, AreThoseOfMpiAlone) {
  Meta meta;
  EXPECT_EQ(ranks_of(meta, 4, 2), 0);
  meta.device = Device::multi_gpu; // one process
  EXPECT_EQ(ranks_of(meta, 4, 2), 0);
  meta.device = Device::mpi;
  EXPECT_EQ(ranks_of(meta, 4, 2), 4);
  meta.device = Device::mpi_gpu;
  EXPECT_EQ(ranks_of(meta, 4, 2), 2);
}

// ---- a rank's session

constexpr std::size_t kFeatures = 2, kClusters = 3;

/// Its labels are the first feature of its points.
class Probing final : public Variant<float> {
public:
  Probing(Shape& shape, Points<float>& points) : shape_(shape), points_(points) {}
  void prepare(const Shape& shape, const Points<float>& points) override {
    shape_ = shape;
    points_ = points;
  }
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>&) override {
    EXPECT_EQ(answer.labels.size(), shape_.n);
    for (std::size_t i = 0; i < shape_.n; ++i) {
      answer.labels[i] = static_cast<std::int32_t>(points_.rows[i * kFeatures]);
    }
    std::ranges::copy(start.centroids, answer.centroids.begin());
    std::ranges::copy(start.centroids, answer.entering.begin());
    answer.iterations = 1;
  }

private:
  Shape& shape_;
  Points<float>& points_;
};

/// Where ranks compute: on the processors, or on devices that are host memory.
class RankSession : public ::testing::TestWithParam<Device> {
protected:
  static void SetUpTestSuite() {
    setenv("CLUSTERBENCH_FOLDER",
           (std::string(std::getenv("CLUSTERBENCH_TOOLS")) + "/fake").c_str(), 1);
  }
};

INSTANTIATE_TEST_SUITE_P(Places, RankSession, ::testing::Values(Device::mpi, Device::mpi_gpu),
                         [](const auto& place) { return std::string(to_string(place.param)); });

TEST_P(RankSession, HasTheRowsOfItsShard) {
  Shape shape;
  Points<float> points;
  RegisteredVariant variant;
  variant.meta = {
      .name = "kmeans_probing", .idea = "", .source = "", .device = GetParam(), .previous = ""};
  variant.factories.f32 = [&] { return std::make_unique<Probing>(shape, points); };
  const std::vector<float> start = {5, 4, 3, 2, 1, 0};
  for (const std::size_t n : {1, 2, 3, 7, 100}) {
    for (const int world : {1, 2, 3, 5}) {
      for (const std::size_t rotate : {std::size_t{0}, n / 2, n - 1}) {
        SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(world) + " ranks, rotated by " +
                     std::to_string(rotate));
        std::vector<float> all(n * kFeatures);
        std::iota(all.begin(), all.end(), 0.0F);
        std::size_t next = 0;
        int met = 0;
        for (int rank = 0; rank < world; ++rank) {
          Session<float> session(variant, "/no/modules",
                                 {.n = n,
                                  .d = kFeatures,
                                  .k = kClusters,
                                  .stop = {},
                                  .weighted = true,
                                  .rank = rank,
                                  .world = world});
          session.meet_with([&] { ++met; });
          std::vector<float> weights(n);
          std::iota(weights.begin(), weights.end(), 1.0F);
          session.take_points(all, rotate, weights);
          session.prepare();
          EXPECT_EQ(shape.rank, rank);
          EXPECT_EQ(shape.world, world);
          EXPECT_EQ(points.first_row, next);
          ASSERT_EQ(points.weights.size(), shape.n);
          for (std::size_t i = 0; i < shape.n; ++i) {
            EXPECT_EQ(points.weights[i], weights[(next + i + rotate) % n]);
          }
          Observer<float> nobody;
          session.run({start, {}}, nobody);
          const auto [first, count] = session.rows();
          EXPECT_EQ(first, next);
          EXPECT_EQ(shape.n, count);
          std::vector<std::int32_t> labels(count);
          std::vector<float> centroids(start.size());
          session.take({labels, centroids, {}, {}, 0});
          for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(labels[i], static_cast<std::int32_t>((first + i + rotate) % n * kFeatures));
          }
          EXPECT_EQ(centroids, start);
          const Windows& windows = session.windows();
          EXPECT_LE(windows.began, windows.ended);
          next += count;
        }
        EXPECT_EQ(next, n);
        EXPECT_EQ(met, 2 * world); // before each clock
      }
    }
  }
}

} // namespace
} // namespace clusterbench
