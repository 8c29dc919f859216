// The version of the protocol between the harness and its workers (docs/peers.md).
#pragma once

namespace clusterbench {

/// A program's description states it. Whatever changes gets another number, but for fields that a
/// program is only given where its description asks for them.
inline constexpr int kProtocol = 2;

} // namespace clusterbench
