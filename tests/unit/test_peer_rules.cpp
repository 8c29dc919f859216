// Programs that hold variants: what they say about themselves, which Python suits them, and whether
// their clock is believed.
#include "datasets/errors.hpp"
#include "harness/peer/description.hpp"
#include "harness/peer/peer_variant.hpp"
#include "harness/peer/python.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

using nlohmann::json;

json variant(const json& changes) {
  json described = {{"name", "kmeans_x"}, {"idea", "an idea"}, {"source", "a paper"}};
  described.update(changes);
  return {{"reply", "describe"}, {"protocol", kPeerProtocol}, {"variants", {described}}};
}

std::string complaint(const json& reply) {
  try {
    peers_from(reply, "/programs/kmeans_x.pl");
  } catch (const datasets::InputError& error) {
    return error.what();
  }
  return "";
}

TEST(PeerDescription, WhatIsLeftOutIsUsual) {
  const auto peers = peers_from(variant(json::object()), "kmeans_x.pl");
  ASSERT_EQ(peers.size(), 1U);
  const Peer& peer = peers.front();
  EXPECT_EQ(peer.meta.launch, Launch::program);
  EXPECT_EQ(peer.meta.device, Device::cpu);
  EXPECT_EQ(peer.meta.distance, DistanceForm::difference);
  EXPECT_EQ(peer.meta.labels, LabelsFrom::entering_centroids);
  EXPECT_TRUE(peer.meta.deterministic);
  EXPECT_FALSE(peer.meta.reseeds_empty);
  EXPECT_EQ(peer.precisions, (std::vector{Precision::f32, Precision::f64}));
  EXPECT_EQ(peer.stops, std::vector{StopRule::Kind::iterations});
  EXPECT_TRUE(peer.starts_from_centroids);
  EXPECT_FALSE(peer.starts_from_memberships);
  EXPECT_FALSE(peer.records);
  EXPECT_FALSE(peer.centres_points);
  EXPECT_FALSE(peer.is_python());
}

TEST(PeerDescription, EveryFieldCounts) {
  const json reply = variant({{"family", "fcm"},
                              {"device", "gpu"},
                              {"precisions", {"f32"}},
                              {"arithmetic", "tf32"},
                              {"distance", "expanded"},
                              {"labels", "after update"},
                              {"deterministic", false},
                              {"reseeds_empty", true},
                              {"stops", {"labels", "shift", "loss"}},
                              {"starts", {"memberships"}},
                              {"records", true},
                              {"centres_points", true},
                              {"modules", {{{"module", "sklearn"}, {"at_least", "1.1"}}}}});
  const Peer peer = peers_from(reply, "kmeans_x.py").front();
  EXPECT_EQ(peer.meta.family, Family::fcm);
  EXPECT_EQ(peer.meta.device, Device::gpu);
  EXPECT_EQ(peer.precisions, std::vector{Precision::f32});
  EXPECT_EQ(peer.meta.arithmetic, Arithmetic::tf32);
  EXPECT_EQ(peer.meta.distance, DistanceForm::expanded);
  EXPECT_EQ(peer.meta.labels, LabelsFrom::returned_centroids);
  EXPECT_FALSE(peer.meta.deterministic);
  EXPECT_TRUE(peer.meta.reseeds_empty);
  EXPECT_EQ(peer.stops.size(), 3U);
  EXPECT_FALSE(peer.starts_from_centroids);
  EXPECT_TRUE(peer.starts_from_memberships);
  EXPECT_TRUE(peer.records);
  EXPECT_TRUE(peer.centres_points);
  EXPECT_TRUE(peer.is_python());
  ASSERT_EQ(peer.modules.size(), 1U);
  EXPECT_EQ(peer.modules[0].distribution, "sklearn");
}

TEST(PeerDescription, ComplaintsNameTheProgramAndTheField) {
  EXPECT_EQ(complaint(variant(json::object())), "");
  for (const auto& [reply, word] :
       {std::pair{json{{"reply", "describe"}}, "protocol"},
        std::pair{json{{"protocol", 1}, {"variants", json::array()}}, "protocol 1"},
        std::pair{json{{"protocol", kPeerProtocol}}, "variants"},
        std::pair{variant({{"name", "kmeans_y"}}), "kmeans_y does not begin"},
        std::pair{variant({{"distance", "manhattan"}}), "distance: \"manhattan\" is none of"},
        std::pair{variant({{"labels", 3}}), "type"},
        std::pair{variant({{"stops", {"never"}}}), "stops: \"never\""},
        std::pair{variant({{"precisions", {"f8"}}}), "f8"}}) {
    EXPECT_NE(complaint(reply).find(word), std::string::npos) << reply << complaint(reply);
    EXPECT_TRUE(complaint(reply).starts_with("/programs/kmeans_x.pl: ")) << complaint(reply);
  }
}

TEST(Python, VersionsAreComparedByComponent) {
  EXPECT_TRUE(is_at_least("1.10.1", "1.7"));
  EXPECT_TRUE(is_at_least("1.2", "1.2"));
  EXPECT_TRUE(is_at_least("1.2", "1.2.0"));
  EXPECT_TRUE(is_at_least("2", "1.99.9"));
  EXPECT_TRUE(is_at_least("0.1", ""));
  EXPECT_FALSE(is_at_least("1.2.9", "1.10"));
  EXPECT_FALSE(is_at_least("1", "1.0.1"));
  EXPECT_FALSE(is_at_least("1.1rc1", "1.2"));
}

TEST(Python, MissingModulesAreNamedWithVersions) {
  const Python python{"python3", "3.11.2", {{"numpy", "1.19.5"}, {"faiss", ""}}};
  EXPECT_EQ(missing_modules(python, {{"faiss", "faiss", "1.7"}}), ""); // version unknown
  EXPECT_EQ(missing_modules(python, {{"numpy", "numpy", "1.20"}, {"torch", "torch", ""}}),
            "numpy 1.19.5, at least 1.20 is needed, no module torch");
  EXPECT_EQ(missing_modules({"python3", "", {}}, {}), "it does not run");
}

TEST(ClockCheck, AnHonestClockIsRecorded) {
  ClockCheck clock;
  clock.round_trip(2e-4);
  EXPECT_EQ(clock.judge(0.100, 0.1005), 0.100);
  EXPECT_EQ(clock.judge(0.002, 0.0030), 0.002); // the overhead of a request
  EXPECT_EQ(clock.judge(10.0, 10.4), 10.0);     // freeing memory takes its share
  EXPECT_EQ(clock.finding(), "");
  EXPECT_EQ(clock.report().at("clock_off"), 0);
}

TEST(ClockCheck, ALieGainsNothing) {
  ClockCheck clock;
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(clock.judge(0.04, 0.1), 0.1); // less than passed
    EXPECT_EQ(clock.judge(0.2, 0.1), 0.1);  // more than passed
    EXPECT_EQ(clock.judge(-1.0, 0.1), 0.1); // before it began
    EXPECT_EQ(clock.judge(std::nan(""), 0.1), 0.1);
  }
  EXPECT_NE(clock.finding().find("in 12 of 12 runs"), std::string::npos) << clock.finding();
}

TEST(ClockCheck, ATinyClaimIsNotExplainedByTheOverhead) {
  ClockCheck clock;
  clock.round_trip(5e-6); // a fast program: a run of 0.1 ms can be told from that
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(clock.judge(1e-9, 1e-4), 1e-4);
    EXPECT_EQ(clock.judge(4e-5, 1e-4), 1e-4);
  }
  EXPECT_EQ(clock.judge(6e-5, 1e-4), 6e-5);
  EXPECT_NE(clock.finding().find("in 6 of 7 runs"), std::string::npos) << clock.finding();
}

TEST(ClockCheck, NothingIsNoTime) {
  for (const double round_trip : {1e-6, 1e-2}) {
    ClockCheck clock;
    clock.round_trip(round_trip);
    for (int run = 0; run < 5; ++run) {
      EXPECT_EQ(clock.judge(run % 2 == 0 ? 0.0 : -1e-5, 1e-4), 1e-4);
    }
    EXPECT_NE(clock.finding(), "");
  }
}

TEST(ClockCheck, OurTimeCountsInAShortRun) {
  ClockCheck clock;
  clock.round_trip(2e-4);
  for (int run = 0; run < 5; ++run) {
    EXPECT_EQ(clock.judge(1e-9, 0.0005), 0.0005); // cannot be told from an honest one
    EXPECT_EQ(clock.judge(0.0016, 0.0019), 0.0019);
  }
  EXPECT_EQ(clock.finding(), "");
  EXPECT_EQ(clock.report().at("clock_off"), 0);
  for (int run = 0; run < 15; ++run) {
    EXPECT_EQ(clock.judge(0.001, 0.0005), 0.0005); // more than passed is a lie all the same
  }
  EXPECT_NE(clock.finding(), "");
}

TEST(ClockCheck, ReadingALargeStartIsExplained) {
  constexpr std::size_t kBytes = 100'000'000;
  ClockCheck clock;
  EXPECT_EQ(clock.judge(0.1, 0.25, kBytes), 0.1);
  EXPECT_EQ(clock.judge(0.1, 0.25), 0.25);
}

TEST(ClockCheck, FewRunsProveNothing) {
  ClockCheck clock;
  for (int run = 0; run < 4; ++run) {
    EXPECT_EQ(clock.judge(0.04, 0.1), 0.1);
    EXPECT_EQ(clock.finding(), "");
  }
  clock.judge(0.04, 0.1);
  EXPECT_NE(clock.finding(), "");
}

TEST(ClockCheck, InterruptionsAreNoLie) {
  ClockCheck clock;
  for (int run = 0; run < 9; ++run) {
    EXPECT_EQ(clock.judge(0.1, 0.15), 0.15); // not believed, and not held against the program
  }
  EXPECT_EQ(clock.finding(), "");
  EXPECT_EQ(clock.report().at("clock_off"), 9);
}

} // namespace
} // namespace clusterbench
