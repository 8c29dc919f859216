// A module that calls what nobody defines.
#include "impls/contract.hpp"

namespace clusterbench {

void nobody_defines_this();

namespace {

const bool kCalled = [] {
  nobody_defines_this();
  return true;
}();

} // namespace
} // namespace clusterbench
