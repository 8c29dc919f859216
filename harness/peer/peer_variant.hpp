// A variant that another program holds, behind the contract: the harness drives it as any other.
#pragma once

#include "harness/peer/connection.hpp"
#include "harness/peer/description.hpp"
#include "harness/run/shared_memory.hpp"
#include "impls/contract.hpp"

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

/// Compares the clock inside a program, which is recorded, with ours around the request. What lies
/// between them is the round trip; a program that claims less than the rest is not believed, and
/// neither is one that claims more than there was, or nothing: then our time is taken. It is taken
/// as well where a run is so short that a claim cannot be told from the round trip.
class ClockCheck {
public:
  /// A round trip without work, of which the slowest counts.
  void round_trip(double seconds) { slowest_ = seconds > slowest_ ? seconds : slowest_; }
  /// The seconds to record of one run. The program has read so many bytes before its clock began.
  double judge(double inside, double outside, std::size_t bytes_read = 0);
  /// Empty, or what is wrong with the program's clock: in more than half of at least five runs it
  /// claimed nothing, less than half of the time that passed, or more than passed. Smaller gaps are
  /// counted and not believed, but a busy machine may interrupt a program between the two clocks.
  std::string finding() const;
  nlohmann::json report() const;

private:
  static constexpr double kOverhead = 1e-3;       ///< seconds of reading a request, writing a reply
  static constexpr double kShare = 0.05;          ///< of a run: freeing what it held
  static constexpr double kSecondsPerByte = 2e-9; ///< of reading a start
  static constexpr double kFewestTrips = 10.0;    ///< round trips in a run whose claim counts
  static constexpr std::size_t kFewestRuns = 5;

  double slowest_ = 0.0;
  std::vector<double> outside_ms_;
  std::size_t off_ = 0;  ///< runs whose time was not believed
  std::size_t lies_ = 0; ///< those of them that no interruption explains
  double claimed_ = 0.0; ///< seconds of the last such run, inside and outside
  double passed_ = 0.0;
};

/// What a cell's record says about the program, whatever the element type.
class PeerRun {
public:
  virtual ~PeerRun() = default;
  /// Seconds of the requests of the last prepare() and run(), without our copies of the arrays. A
  /// run's are the program's own if its clock is believed; ours in a recording run.
  virtual double prepare_seconds() const = 0;
  virtual double run_seconds() const = 0;
  virtual double download_seconds() const = 0;    ///< of asking for the answer after the run
  virtual std::size_t peak_rss_bytes() const = 0; ///< of the program
  virtual nlohmann::json report() const = 0;      ///< for the ledger
};

/// Drives the program. One program serves all variants of a process that are made one after
/// another, so that its libraries are loaded once. Everything throws PeerFailure.
template <typename T>
class PeerVariant final : public Variant<T>, public PeerRun {
public:
  explicit PeerVariant(const Peer& peer) : peer_(peer) {}

  std::string refuse(const Shape& shape) const override;
  void prepare(const Shape& shape, std::span<const T> points) override;
  void run(const Start<T>& start, Result<T>& answer, Observer<T>& observer) override;

  double prepare_seconds() const override { return prepare_seconds_; }
  double run_seconds() const override { return run_seconds_; }
  double download_seconds() const override { return download_seconds_; }
  std::size_t peak_rss_bytes() const override { return connection_->peak_rss_bytes(); }
  nlohmann::json report() const override;

private:
  nlohmann::json timed_ask(const nlohmann::json& request, double& seconds);
  void fetch(Result<T>& answer);
  void hand_over_recording(const SharedMemory& file, Observer<T>& observer);

  const Peer& peer_;
  Shape shape_;
  std::shared_ptr<PeerConnection> connection_;
  nlohmann::json loaded_; ///< interpreter, versions, seconds of loading
  ClockCheck clock_;
  double prepare_seconds_ = 0.0, run_seconds_ = 0.0, download_seconds_ = 0.0;
};

/// The object as a program's, or nullptr if it computes in this process.
template <typename T>
const PeerRun* as_peer(const Variant<T>& variant) {
  return dynamic_cast<const PeerRun*>(&variant);
}

} // namespace clusterbench
