// Programs that hold variants: what they say about themselves, and which Python suits them.
#include "datasets/errors.hpp"
#include "harness/problem/description.hpp"
#include "harness/problem/python.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

using nlohmann::json;

json variant(const json& changes) {
  json described = {{"name", "kmeans_x"}, {"idea", "an idea"}, {"source", "a paper"}};
  described.update(changes);
  return {{"reply", "describe"}, {"protocol", kProtocol}, {"variants", {described}}};
}

std::string complaint(const json& reply) {
  try {
    variants_from(reply, "/programs/kmeans_x.pl");
  } catch (const datasets::InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ProgramDescription, WhatIsLeftOutIsUsual) {
  const auto variants = variants_from(variant(json::object()), "/programs/kmeans_x.pl");
  ASSERT_EQ(variants.size(), 1U);
  const KnownVariant& known = variants.front();
  EXPECT_TRUE(known.is_program);
  EXPECT_EQ(known.backend, "programs");
  EXPECT_EQ(known.file, "/programs/kmeans_x.pl");
  EXPECT_EQ(known.meta.family, Family::kmeans);
  EXPECT_EQ(known.meta.device, Device::cpu);
  EXPECT_EQ(known.meta.distance, DistanceForm::difference);
  EXPECT_EQ(known.meta.labels, LabelsFrom::entering_centroids);
  EXPECT_TRUE(known.meta.deterministic);
  EXPECT_FALSE(known.meta.reseeds_empty);
  EXPECT_FALSE(known.meta.takes_weights);
  EXPECT_EQ(known.precisions, (std::vector{Precision::f32, Precision::f64}));
  EXPECT_EQ(known.stops, std::vector{StopRule::Kind::iterations});
  EXPECT_TRUE(known.starts_from_centroids);
  EXPECT_FALSE(known.starts_from_memberships);
  EXPECT_FALSE(known.records);
  EXPECT_FALSE(known.centres_points);
  EXPECT_FALSE(known.gives_entering);
  EXPECT_TRUE(known.modules.empty());
  EXPECT_EQ(known.meta.approximate_within, 0.0);
}

TEST(ProgramDescription, EveryFieldCounts) {
  const json reply = variant({{"family", "fcm"},
                              {"device", "gpu"},
                              {"precisions", {"f32"}},
                              {"arithmetic", "tf32"},
                              {"distance", "expanded"},
                              {"labels", "after update"},
                              {"deterministic", false},
                              {"reseeds_empty", true},
                              {"takes_weights", true},
                              {"stops", {"labels", "shift", "loss"}},
                              {"starts", {"memberships"}},
                              {"records", true},
                              {"gives_entering", true},
                              {"approximate_within", 0.01},
                              {"max_k", 512},
                              {"centres_points", true},
                              {"modules", {{{"module", "sklearn"}, {"at_least", "1.1"}}}}});
  const KnownVariant known = variants_from(reply, "kmeans_x.py").front();
  EXPECT_EQ(known.meta.family, Family::fcm);
  EXPECT_EQ(known.meta.device, Device::gpu);
  EXPECT_EQ(known.precisions, std::vector{Precision::f32});
  EXPECT_EQ(known.meta.arithmetic, Arithmetic::tf32);
  EXPECT_EQ(known.meta.multiplier, Multiplier::tensor_tf32); // follows, unless it is given
  EXPECT_EQ(known.meta.distance, DistanceForm::expanded);
  EXPECT_EQ(known.meta.labels, LabelsFrom::returned_centroids);
  EXPECT_FALSE(known.meta.deterministic);
  EXPECT_TRUE(known.meta.reseeds_empty);
  EXPECT_TRUE(known.meta.takes_weights);
  EXPECT_EQ(known.stops.size(), 3U);
  EXPECT_FALSE(known.starts_from_centroids);
  EXPECT_TRUE(known.starts_from_memberships);
  EXPECT_TRUE(known.records);
  EXPECT_TRUE(known.centres_points);
  EXPECT_TRUE(known.gives_entering);
  EXPECT_EQ(known.meta.approximate_within, 0.01);
  EXPECT_EQ(known.meta.max_k, 512U);
  ASSERT_EQ(known.modules.size(), 1U);
  EXPECT_EQ(known.modules[0].distribution, "sklearn");
}

TEST(ProgramDescription, ComplaintsNameTheProgramAndTheField) {
  EXPECT_EQ(complaint(variant(json::object())), "");
  for (const auto& [reply, word] :
       {std::pair{json{{"reply", "describe"}}, "protocol"},
        std::pair{json{{"protocol", 1}, {"variants", json::array()}}, "protocol 1"},
        std::pair{json{{"protocol", kProtocol}}, "variants"},
        std::pair{variant({{"name", "kmeans_y"}}), "kmeans_y does not begin"},
        std::pair{variant({{"distance", "manhattan"}}), "distance: \"manhattan\" is none of"},
        std::pair{variant({{"labels", 3}}), "labels: 3 is no text"},
        std::pair{variant({{"name", nullptr}}), "name: null is no text"},
        std::pair{variant({{"max_k", -1}}), "max_k: -1 is no whole number"},
        std::pair{variant({{"max_k", 1e300}}), "max_k: 1e+300 is no whole number"},
        std::pair{variant({{"records", "yes"}}), "records: \"yes\" is no boolean"},
        std::pair{variant({{"starts", "centroids"}}), "starts: \"centroids\" is no list"},
        std::pair{variant({{"approximate_within", "a bit"}}), "is no number"},
        std::pair{variant({{"approximate_within", 1.5}}), "1.5 is no number from 0 to 1"},
        std::pair{variant({{"approximate_within", -0.1}}), "-0.1 is no number from 0 to 1"},
        std::pair{variant({{"approximate_within", std::nan("")}}), "is no number from 0 to 1"},
        std::pair{variant({{"modules", {"numpy"}}}), "modules: \"numpy\" is no object"},
        std::pair{variant({{"modules", {{{"at_least", "1"}}}}}), "there is no module"},
        std::pair{json{{"protocol", kProtocol}, {"variants", {3}}}, "variants: 3 is no object"},
        std::pair{json{{"protocol", "2"}}, "protocol: \"2\" is no whole number"},
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
  EXPECT_EQ(missing_modules({"python3", "", {}, "NameError: x"}, {}),
            "it does not run: NameError: x");
}

} // namespace
} // namespace clusterbench
