// A variant that another program holds, behind the contract: the harness drives it as any other.
#pragma once

#include "harness/peer/connection.hpp"
#include "harness/peer/description.hpp"
#include "harness/run/shared_memory.hpp"
#include "impls/contract.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

/// Compares the clock inside a program, which is recorded, with ours around the request. What lies
/// between them is the round trip; a program that claims less than the rest is not believed, and
/// neither is one that claims more than there was: then our time is taken, as it is for runs so short
/// that the round trip would hide a lie.
class ClockCheck {
public:
  /// A round trip without work, of which the slowest counts.
  void round_trip(double seconds) { slowest_ = seconds > slowest_ ? seconds : slowest_; }
  /// The seconds to record of one run.
  double judge(double inside, double outside);
  /// Empty, or what is wrong with the program's clock: in more than half of at least five runs it
  /// claimed less than half of the time that passed, more than passed, or none. Smaller gaps count
  /// as off and are not believed, but a busy machine may interrupt a program between the two clocks.
  std::string finding() const;
  nlohmann::json report() const;

private:
  static constexpr double kOverhead = 1e-3; ///< seconds of reading a request, writing a reply
  static constexpr double kShare = 0.05;    ///< of a run: freeing what it held
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
  /// Seconds of the last prepare(), run() or fetch(), without copying arrays to and from it.
  virtual double last_seconds() const = 0;
  virtual std::size_t peak_rss_bytes() const = 0; ///< of the program
  virtual nlohmann::json report() const = 0;      ///< for the ledger
};

/// Drives the program. One program serves all variants of a process that are made one after
/// another, so that its libraries are loaded once. Everything throws PeerFailure.
template <typename T>
class PeerVariant final : public Variant<T>, public PeerRun {
public:
  explicit PeerVariant(const Peer& peer) : peer_(peer) {}

  std::string refuse(const Problem<T>& problem) const override;
  void prepare(const Problem<T>& problem) override;
  void run(Observer<T>& observer) override;
  void fetch(Result<T>& result) override;

  double last_seconds() const override { return last_seconds_; }
  std::size_t peak_rss_bytes() const override { return connection_->peak_rss_bytes(); }
  nlohmann::json report() const override;

private:
  nlohmann::json timed_ask(const nlohmann::json& request);
  void hand_over_recording(const SharedMemory& file, Observer<T>& observer);

  const Peer& peer_;
  Problem<T> problem_;
  std::shared_ptr<PeerConnection> connection_;
  nlohmann::json loaded_; ///< interpreter, versions, seconds of loading
  ClockCheck clock_;
  double last_seconds_ = 0.0;
  std::size_t iterations_ = 0;
};

/// The object as a program's, or nullptr if it computes in this process.
template <typename T>
const PeerRun* as_peer(const Variant<T>& variant) {
  return dynamic_cast<const PeerRun*>(&variant);
}

} // namespace clusterbench
