// What a variant says of itself, as far as the bounds of the verifier depend on it.
#pragma once

#include "impls/contract.hpp"

namespace clusterbench {

/// Meta, and what only programs of other ecosystems do. Made from a Meta without being asked, since
/// that says everything of all other variants.
struct Declaration : Meta {
  Declaration(const Meta& meta, bool centres = false) : Meta(meta), centres_points(centres) {}

  /// Takes the mean of all points off them first and adds it to the centroids at the end.
  bool centres_points;
};

} // namespace clusterbench
