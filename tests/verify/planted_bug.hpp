// The bugs that the verifier is tested against.
#pragma once

namespace clusterbench::planted {

enum class Bug {
  none,
  drops_tail_block,      ///< the rows after the last full block of 32 reach no sum
  drops_one_row,         ///< the row in the middle reaches no sum
  stale_centroids,       ///< returns the labels or memberships of the state one pass earlier
  racy_sums,             ///< one addition in 16 is overwritten by another thread's
  counts_of_one_block,   ///< sums over all points, counts (weights) over the first 256 only
  returns_initial_state, ///< computes, then returns what it was given
  not_a_number,          ///< one value is NaN
  labels_off_by_one,     ///< counts clusters from 1
  wrong_labels_in_range, ///< every label is the next cluster's
  squared_loss,          ///< the loss rule sees squared distances (FCM: u instead of u^m)
  wrong_exponent,    ///< FCM: memberships from squared distances with the exponent of plain ones
  unweighted_power,  ///< FCM: centres weighted by u, not u^m
  not_normalised,    ///< FCM: memberships are not divided by their sum
  stops_early,       ///< makes one pass less than the rule asks for
  one_pass_too_many, ///< makes one pass more and says so
  hides_one_pass_too_many,  ///< makes one pass more and does not say so
  empty_to_origin,          ///< an empty cluster moves to the origin
  ties_to_highest,          ///< ties go to the highest index
  wrong_later,              ///< right in its first run, wrong from the second on
  wrong_once,               ///< wrong in its third run only, if nobody records it
  wrong_once_late,          ///< likewise in its 17th run
  random_labels,            ///< every pass draws its labels, then takes their means
  inertia_too_high,         ///< returns centroids that raise the objective by 8e-4
  ten_wrong_labels,         ///< ten labels, spread over all points, are the next cluster's
  every_second_row,         ///< rows of odd index reach neither sums nor counts
  makes_fewer_passes,       ///< makes half of the passes and says that it made all
  stale_entering,           ///< says that the centroids of one pass earlier entered the last one
  centroids_of_pass_before, ///< labels are right, centroids are those that entered the pass
  leaves_poison,            ///< does not write the last label
  ignores_weights,          ///< every point weighs 1 in sums and counts, but in no loss
  replays_first_answer,     ///< hands over the answer of its first run in all later ones
};

} // namespace clusterbench::planted
