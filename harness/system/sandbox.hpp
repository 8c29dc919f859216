// What keeps a variant from reaching beyond its cell: other processes, files, the next process.
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace clusterbench {

struct SandboxPlan {
  pid_t parent = 0;                          ///< gets no signals, and keeps its scheduling
  std::vector<pid_t> parent_threads;         ///< likewise
  std::vector<std::filesystem::path> hidden; ///< folders that cannot be read
  std::filesystem::path scratch;             ///< the one folder that can be written to
  bool may_start_processes = false;          ///< programs may, modules have threads only
  /// Its threads may talk over TCP, as libraries for several GPUs do.
  bool own_network = false;
  /// Its children may write to what is theirs below /proc, as CUDA does. All that is there before
  /// becomes read-only for it; where the kernel does not offer that, they may not.
  bool children_write_to_proc = false;
};

/// Confines this process, its threads to come and its children, for good. To be called before
/// there are other threads. What the kernel does not offer is left out; returns what is, in words,
/// so that a result can say how it was made.
///
/// - Mounts (a namespace of its own): /dev/shm is empty and private, System V memory is private.
///   Who may connect to sockets finds none that are files outside the scratch folder; those that
///   are made later it does.
/// - Landlock: no writing outside the scratch folder and devices, no new devices, no reading in the
///   hidden folders, no signals out of the sandbox, no connections to abstract sockets there.
/// - Seccomp: no signals to the parent and no change of its scheduling or limits, no ptrace, no
///   network, no devices, no mounts; no attributes of files, where changes of modes, owners and
///   times seem to succeed; no new processes and, without a network of its own, no connections,
///   unless the plan allows processes.
/// - A network namespace, only if the plan asks for it: a loopback device, and no way out. Without
///   it there is no network at all.
std::vector<std::string> enter_sandbox(const SandboxPlan& plan);

/// From now on no thread of this process can start a process, whatever a plan before has allowed.
/// Whether the kernel offers that.
bool forbid_processes();

} // namespace clusterbench
