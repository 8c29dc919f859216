// What nvcc is told of CMake's list of architectures, by which a submission is compiled.
#include "harness/submission/compiler.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace {

using clusterbench::architecture_flags;
using Flags = std::vector<std::string>;

TEST(ArchitectureFlags, MachineCodeAndPtx) {
  EXPECT_EQ(architecture_flags("75;90a"),
            Flags({"-gencode=arch=compute_75,code=[compute_75,sm_75]",
                   "-gencode=arch=compute_90a,code=[compute_90a,sm_90a]"}));
}

TEST(ArchitectureFlags, OneOfTheTwo) {
  EXPECT_EQ(
      architecture_flags("80-virtual;90-real"),
      Flags({"-gencode=arch=compute_80,code=compute_80", "-gencode=arch=compute_90,code=sm_90"}));
}

TEST(ArchitectureFlags, WordsOfTheCompiler) {
  EXPECT_EQ(architecture_flags("native"), Flags({"-arch=native"}));
  EXPECT_EQ(architecture_flags("all-major"), Flags({"-arch=all-major"}));
  EXPECT_EQ(architecture_flags(""), Flags());
}

} // namespace
