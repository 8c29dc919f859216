// The version of the protocol between the harness and its workers (docs/peers.md).
#pragma once

namespace clusterbench {

/// A program's description states it. Whatever changes gets another number.
inline constexpr int kProtocol = 2;

} // namespace clusterbench
