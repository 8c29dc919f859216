"""k-means and fuzzy c-means in a few lines of NumPy in float64, and problems whose labels are certain."""

import dataclasses

import numpy as np

TOLERANCE = {"f32": 2e-4, "f64": 1e-9}  # of values of about 5
# How much nearer a centroid must be, in squared distance, or how much larger a membership, for the
# label to be certain.
CLEAR = {"kmeans": {"f32": 1e-3, "f64": 1e-9}, "fcm": {"f32": 3e-5, "f64": 1e-10}}


@dataclasses.dataclass
class Oracle:
    """One run in float64, with the labels of both kinds."""
    labels: np.ndarray
    labels_after: np.ndarray
    centroids: np.ndarray
    entering: np.ndarray  # None if FCM starts from memberships and makes one pass
    memberships: np.ndarray
    passes: list  # the centroids of each
    clear: float  # by how much every label was certain, in squared distance or membership
    any_empty: bool


def squared_distances(points, centroids):
    return np.square(points[:, None, :] - centroids).sum(axis=2)


def nearest(points, centroids):
    """Labels, distances to the nearest, and by how much the least certain of them is."""
    squared = squared_distances(points, centroids)
    two = np.partition(squared, 1, axis=1)
    return squared.argmin(axis=1), np.sqrt(two[:, 0]), float((two[:, 1] - two[:, 0]).min())


def memberships_of(points, centroids, fuzzifier):
    with np.errstate(divide="ignore"):
        inverse = squared_distances(points, centroids) ** (-1 / (fuzzifier - 1))
    exact = np.isinf(inverse)
    inverse = np.where(exact.any(axis=1, keepdims=True), exact, inverse)
    return inverse / inverse.sum(axis=1, keepdims=True)


def weighted_means(points, memberships, fuzzifier):
    weights = memberships ** fuzzifier
    return weights.T @ points / weights.sum(axis=0)[:, None]


def stops(rule, threshold, passes, most, loss, before, changed, shift):
    return passes >= most or {
        "iterations": False, "loss": abs(loss - before) < threshold, "labels": not changed,
        "shift": shift <= threshold}[rule]


def kmeans(points, start, rule, threshold, max_iterations, weights=None, **_):
    weights = np.ones(len(points)) if weights is None else weights
    centroids, labels, loss, passes, clear, empty = start, None, np.inf, [], np.inf, False
    while True:
        before, entering, loss_before = labels, centroids, loss
        labels, distances, margin = nearest(points, centroids)
        clear, loss = min(clear, margin), weights @ distances
        totals = np.bincount(labels, weights, minlength=len(start))[:, None]
        empty |= not totals.all()
        sums = np.zeros_like(start)
        np.add.at(sums, labels, weights[:, None] * points)
        centroids = np.where(totals > 0, sums / np.where(totals > 0, totals, 1), entering)
        passes.append(centroids)
        if stops(rule, threshold, len(passes), max_iterations, loss, loss_before,
                 not np.array_equal(labels, before), np.square(centroids - entering).sum()):
            break
    after, _, margin = nearest(points, centroids)
    return Oracle(labels, after, centroids, entering, None, passes, min(clear, margin), empty)


def fcm(points, start, rule, threshold, max_iterations, fuzzifier, start_from):
    labels, loss, passes, clear = None, np.inf, [], np.inf
    from_memberships = start_from == "memberships"
    memberships, centroids = (start, None) if from_memberships else (None, start)
    while True:
        before, entering, loss_before = labels, centroids, loss
        if from_memberships:
            centroids = weighted_means(points, memberships, fuzzifier)
        memberships = memberships_of(points, centroids, fuzzifier)
        loss = (memberships ** fuzzifier * squared_distances(points, centroids)).sum()
        if not from_memberships:
            centroids = weighted_means(points, memberships, fuzzifier)
        labels = memberships.argmax(axis=1)
        two = np.sort(memberships, axis=1)[:, -2:]
        margin = float((two[:, 1] - two[:, 0]).min())
        clear = min(clear, margin) if rule == "labels" else margin
        passes.append(centroids)
        shift = np.inf if entering is None else np.square(centroids - entering).sum()
        if stops(rule, threshold, len(passes), max_iterations, loss, loss_before,
                 not np.array_equal(labels, before), shift):
            break
    return Oracle(labels, labels, centroids, entering, memberships, passes, clear, False)


@dataclasses.dataclass
class Problem:
    points: np.ndarray  # as the program's file has them
    k: int
    precision: str
    rotate: int
    stop: dict
    fuzzifier: float = 2.0
    start_from: str = "centroids"
    weights: np.ndarray = None  # of the points

    def hand_to(self, program, **options):
        program.points(self.points, self.k, self.precision, rotate=self.rotate,
                       fuzzifier=self.fuzzifier, start_from=self.start_from, weights=self.weights,
                       **self.stop, **options)

    def oracle(self, start, family, **changes):
        rotated = np.roll(self.points, -self.rotate, axis=0).astype(np.float64)
        settings = dict(self.stop, fuzzifier=self.fuzzifier, start_from=self.start_from) | changes
        if self.weights is not None:
            settings["weights"] = np.roll(self.weights, -self.rotate).astype(np.float64)
        return (fcm if family == "fcm" else kmeans)(rotated, start.astype(np.float64), **settings)

    def start(self, random):
        if self.start_from == "memberships":
            return random.dirichlet(np.ones(self.k), len(self.points)).astype(self.points.dtype)
        rows = random.choice(len(self.points), self.k, replace=False)
        moved = self.points[rows] + random.normal(0, 0.05, (self.k, self.points.shape[1]))
        return moved.astype(self.points.dtype)

    def clear_start(self, random, variant):
        """A start from which rounding decides nothing, and the oracle's run from it."""
        for _ in range(300):
            start = self.start(random)
            oracle = self.oracle(start, variant["family"])
            if oracle.clear > CLEAR[variant["family"]][self.precision] and not oracle.any_empty:
                return start, oracle
        raise AssertionError("every start is in doubt")


def random_problem(random, precision, largest_n=400, **fields):
    n, d, k = (int(random.integers(*range_)) for range_ in ((40, largest_n), (1, 13), (2, 8)))
    points = random.uniform(-5, 5, (n, d)).astype(np.float32 if precision == "f32" else np.float64)
    stop = {"rule": "iterations", "threshold": 0.0, "max_iterations": int(random.integers(1, 7))}
    return Problem(points, k, precision, int(random.integers(1, n)),
                   fields.pop("stop", stop), **fields)
