// A kernel without a race of which racecheck of compute-sanitizer 2025.3 reports hundreds.
//
//   compute-sanitizer --tool racecheck build/release/tests/team_barriers equal    0 hazards
//   compute-sanitizer --tool racecheck build/release/tests/team_barriers unequal  hundreds, mostly
//
// Teams of a block meet at barriers of their own (bar.sync with a number), then all threads at
// __syncthreads(). Where one team has met more often than another, the tool may take a write
// before the latter and a read after it for a race. Teams of kmeans_cuda_fused, fcm_cuda_lanes,
// fcm_cuda_split and the variants with warpgroups meet once or twice for each tile, and one may
// have a tile more than another. Ends with 1 if the sums are wrong.
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr unsigned kBlocks = 4, kTeams = 8, kMembers = 64, kRounds = 5, kPasses = 3;

__device__ void team_barrier(unsigned team) {
  asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kMembers) : "memory");
}

/// sums [blocks, members]: how often each team has met, added up.
__global__ void meet_and_add(bool equal, unsigned* sums) {
  __shared__ unsigned s_met[kTeams][kMembers], s_sums[kMembers];
  const unsigned team = threadIdx.x / kMembers, member = threadIdx.x % kMembers;
  const unsigned rounds = kRounds + (equal ? 0 : team);
  for (unsigned pass = 0; pass < kPasses; ++pass) {
    unsigned met = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      s_met[team][member] = met + 1;
      team_barrier(team); // the other's is written
      met = s_met[team][kMembers - 1 - member];
      team_barrier(team); // and read
    }
    for (unsigned turn = 0; turn < kTeams; ++turn) {
      if (team == turn) {
        s_sums[member] = turn > 0 ? s_sums[member] + met : met;
      }
      __syncthreads(); // the next team adds to what this one has left
    }
    if (team == 0) {
      sums[blockIdx.x * kMembers + member] = s_sums[member];
    }
    __syncthreads(); // the sums have been read
  }
}

} // namespace

int main(int count, char** arguments) {
  const bool equal = count == 2 && std::strcmp(arguments[1], "equal") == 0;
  if (count != 2 || (!equal && std::strcmp(arguments[1], "unequal") != 0)) {
    std::fprintf(stderr, "usage: team_barriers equal|unequal\n");
    return 64;
  }
  unsigned* d_sums = nullptr;
  std::vector<unsigned> sums(kBlocks * kMembers);
  const std::size_t bytes = sums.size() * sizeof(unsigned);
  if (cudaMalloc(&d_sums, bytes) != cudaSuccess) {
    std::fprintf(stderr, "team_barriers: no device\n");
    return 6;
  }
  meet_and_add<<<kBlocks, kTeams * kMembers>>>(equal, d_sums);
  if (const cudaError_t failure = cudaMemcpy(sums.data(), d_sums, bytes, cudaMemcpyDeviceToHost);
      failure != cudaSuccess) {
    std::fprintf(stderr, "team_barriers: %s\n", cudaGetErrorString(failure));
    return 5;
  }
  const unsigned expected = kTeams * kRounds + (equal ? 0 : kTeams * (kTeams - 1) / 2);
  for (const unsigned sum : sums) {
    if (sum != expected) {
      std::fprintf(stderr, "team_barriers: %u in place of %u\n", sum, expected);
      return 1;
    }
  }
  return 0;
}
