// K-means on the GPUs of several processes, with sums added up by NCCL.
//
// Changed since kmeans_nccl: a process has one GPU, as programs of several hosts are written. MPI
//   brings NCCL's identifier from rank 0 to all of them, and agrees on the unit of the sums; in a
//   pass only NCCL talks. No rank needs another one's memory.
// Source: NCCL's manual, "Example 2: One Device per Process or Thread".
// Cost per iteration: that of kmeans_nccl.
// Limits: those of kmeans_nccl, but for the number of ranks. The communicator stays for the
//   process.
// Needs: sm_90a, MPI
#include "impls/cuda/common/nccl.hpp"
#include "impls/cuda/many_clusters/large_k.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <mpi.h>
#include <string>
#include <utility>

namespace clusterbench {
namespace {

using namespace cuda;

/// The values of all ranks, as one; the same on each.
template <typename Value>
Value reduced(Value own, MPI_Datatype type, MPI_Op operation) {
  Value all{};
  MPI_Allreduce(&own, &all, 1, type, operation, MPI_COMM_WORLD);
  return all;
}

/// Of this rank. Never destroyed: at the process's end CUDA may be gone before it.
ncclComm_t communicator(int rank, int world) {
  static ncclComm_t comm = nullptr;
  if (comm == nullptr) {
    const Nccl& nccl = Nccl::get();
    ncclUniqueId id{};
    if (rank == 0) {
      nccl.check_call(nccl.get_unique_id(&id), "ncclGetUniqueId");
    }
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    nccl.check_call(nccl.comm_init_rank(&comm, world, id, rank), "ncclCommInitRank");
  }
  return comm;
}

/// What a rank keeps of the totals of all of them, on its GPU.
class Totals {
public:
  Totals() = default;
  /// Of sums that are so many words of 64 bits.
  Totals(ncclComm_t comm, std::size_t words) : comm_(comm), words_(words), loss_(1), moved_(1) {}

  /// In the order of the stream; all ranks take part.
  PassTotals of_all(const PassTotals& own) {
    const Nccl& nccl = Nccl::get();
    const auto add = [&](const void* from, void* to, std::size_t count, ncclDataType_t type) {
      nccl.check_call(nccl.all_reduce(from, to, count, type, ncclSum, comm_, kDefaultStream),
                      "ncclAllReduce");
    };
    nccl.check_call(nccl.group_start(), "ncclGroupStart");
    // Two counts lie in one word: no sum of the lower one reaches the upper, as n is below 2^31.
    add(own.sums.high, words_.data(), words_.size(), ncclInt64);
    add(own.loss, loss_.data(), 1, ncclFloat64);
    add(own.moved, moved_.data(), 1, ncclUint32);
    nccl.check_call(nccl.group_end(), "ncclGroupEnd");
    return totals_at(words_.data(), own, loss_.data(), moved_.data());
  }

private:
  ncclComm_t comm_ = nullptr;
  DeviceBuffer<long long> words_;
  DeviceBuffer<double> loss_;
  DeviceBuffer<unsigned> moved_;
};

/// This rank among all, as its run sees it.
struct Member {
  Totals* totals = nullptr;
  bool has_rows = true;

  bool has_points() const { return has_rows; }
  PassTotals of_all(const PassTotals& own) const { return totals->of_all(own); }
};

class KmeansMpiNccl final : public Variant<float> {
  using Run = LargeK<WgmmaSweep<>, Member>;

public:
  std::string refuse(const Shape& shape) const override { return Run().refuse(with_a_row(shape)); }

  void prepare(const Shape& shape, const Points<float>& points) override {
    const auto rows = reduced<std::uint64_t>(shape.n, MPI_UINT64_T, MPI_SUM);
    if (rows > std::numeric_limits<std::int32_t>::max()) {
      throw Refusal("points are counted in 32 bits");
    }
    world_ = shape.world;
    run_ = std::make_unique<Run>(Member{&totals_, shape.n > 0});
    Points<float> own = points;
    if (shape.n == 0) { // it goes through all passes with a row that counts nowhere
      no_label_ = DeviceBuffer<std::int32_t>(1);
      no_row_ = DeviceBuffer<float>(shape.d);
      no_row_.zero();
      own.rows = std::as_const(no_row_).span();
    }
    run_->prepare(with_a_row(shape), own);
    run_->take_range(rows, reduced(run_->largest(), MPI_DOUBLE, MPI_MAX));
    totals_ = Totals(communicator(shape.rank, shape.world), run_->words());
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    Answer<float> own = answer;
    if (own.labels.empty()) {
      own.labels = no_label_.span();
    }
    run_->run(start, own, observer);
    answer.iterations = own.iterations;
  }

  std::string chosen_path() const override {
    return std::to_string(world_) + " ranks; " + run_->chosen_path();
  }

private:
  static Shape with_a_row(Shape shape) {
    shape.n = std::max<std::size_t>(shape.n, 1);
    return shape;
  }

  int world_ = 0;
  DeviceBuffer<float> no_row_;          ///< [d], of a rank without rows
  DeviceBuffer<std::int32_t> no_label_; ///< [1], likewise
  Totals totals_;
  std::unique_ptr<Run> run_;
};

const Registration registration({.name = "kmeans_mpi_nccl",
                                 .idea = "a process a GPU, sums all-reduced by NCCL",
                                 .source = "NCCL's manual, one device per process",
                                 .device = Device::mpi_gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMostFeatures,
                                 .previous = "kmeans_nccl"},
                                f32_only<KmeansMpiNccl>());

} // namespace
} // namespace clusterbench
