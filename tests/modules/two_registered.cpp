// A module that registers two variants.
#include "impls/contract.hpp"

namespace clusterbench {
namespace {

const Registration kFirst({.name = "kmeans_first", .idea = "", .source = "", .previous = ""}, {});
const Registration kSecond({.name = "kmeans_second", .idea = "", .source = "", .previous = ""}, {});

} // namespace
} // namespace clusterbench
