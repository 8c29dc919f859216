#include "harness/ledger/collapse_text.hpp"

#include <fmt/format.h>

namespace clusterbench {

std::string collapse_text(const Row& row) {
  const auto apart = row.number("centres_apart");
  const double k = row.problem().value("k", 0.0);
  if (!apart || *apart >= k) {
    return {};
  }
  return fmt::format(", collapsed: of {:.0f} centres {:.0f} {} apart", k, *apart,
                     *apart == 1.0 ? "is" : "are");
}

} // namespace clusterbench
