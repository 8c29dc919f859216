# Fuzzy c-means in NumPy: distances and weighted sums are matrix products.
#
# Squared distances are |x|^2 - 2 x.v + |v|^2, of data from which its mean is taken, so that the
#   terms are no larger than they need to be. Chunks of points keep the arrays of [chunk, k] in
#   cache. The ratio of the smallest distance of a row to each keeps every power within [0, 1].
# Source: article 001, section 2, whose kernels these expressions replace.
# Cost per iteration: (n d + n k) sizeof(T) bytes; 4 n k d flops.
# Limits: a point so close to a centre that rounding hides it counts as lying on it.
from support.peer import Answer, Module, Refused, Solver, Variant, serve
from support.stop import StopTest

CHUNK_BYTES = 1 << 20  # of points: a part of a usual L2 cache


def load(threads):
    global np
    import numpy as np
    np.seterr(divide="ignore", invalid="ignore")  # 0 / 0 on a centre, which `where` replaces
    return {}


class Fcm(Solver):
    def __init__(self, problem):
        if not problem.fuzzifier > 1:
            raise Refused("the fuzzifier must be greater than 1")
        self.problem = problem
        self.mean = problem.points.mean(axis=0, dtype=np.float64).astype(problem.points.dtype)
        self.points = problem.points - self.mean
        self.norms = np.einsum("nd,nd->n", self.points, self.points)[:, None]
        rows = max(64, CHUNK_BYTES // (problem.d * problem.points.itemsize))
        self.chunks = [slice(first, first + rows) for first in range(0, problem.n, rows)]
        if not problem.from_memberships:
            self.memberships = np.empty((problem.n, problem.k), problem.points.dtype)

    def run(self, start, record):
        problem = self.problem
        stop = StopTest(problem)
        from_memberships = problem.from_memberships
        labels = np.full(problem.n, -1)
        if from_memberships:
            self.memberships = start.memberships  # written to: it is this run's own
            sums, weights = self.sums_of_memberships()
            centres = np.full((problem.k, problem.d), np.inf)
        else:
            centres = start.centroids - self.mean
        while True:
            before, entering = labels, centres
            if from_memberships:
                centres = self.means(sums, weights, centres)
                sums, weights, loss = self.sweep(centres)
            else:
                sums, weights, loss = self.sweep(centres)
                centres = self.means(sums, weights, centres)
            if record is not None:
                record.append(centres + self.mean)
            # Labels are needed at the end, and in every pass if the rule is about them.
            labels = self.memberships.argmax(axis=1) if problem.rule == "labels" else labels
            if stop.after_pass(lambda: loss, lambda: not np.array_equal(labels, before),
                               lambda: np.square(centres - entering, dtype=np.float64).sum()):
                break
        if problem.rule != "labels":
            labels = self.memberships.argmax(axis=1)
        # The first pass is entered by the start as it was given, or, from memberships, by no centres.
        before_last = entering + self.mean if stop.passes > 1 else start.centroids
        return Answer(stop.passes, labels, centres + self.mean, before_last, self.memberships)

    def power(self, values, exponent):
        return values if exponent == 1 else values * values if exponent == 2 else values**exponent

    def sums_of_memberships(self):
        weights = self.power(self.memberships, self.problem.fuzzifier)
        return weights.T @ self.points, weights.sum(axis=0, dtype=np.float64)

    def sweep(self, centres):
        """Renews all memberships; returns the sums for the next centres, and the objective."""
        problem, m = self.problem, self.problem.fuzzifier
        products = -2 * centres.T
        norms = np.einsum("kd,kd->k", centres, centres)
        sums, weights, loss = np.zeros((problem.k, problem.d)), np.zeros(problem.k), 0.0
        for chunk in self.chunks:
            points = self.points[chunk]
            squared = points @ products
            squared += norms
            squared += self.norms[chunk]
            np.maximum(squared, 0, out=squared)
            smallest = squared.min(axis=1, keepdims=True)
            ratios = np.where(squared == smallest, 1, smallest / squared)
            ratios = self.power(ratios.astype(squared.dtype, copy=False), 1 / (m - 1))
            ratios /= ratios.sum(axis=1, keepdims=True)
            self.memberships[chunk] = ratios
            powers = self.power(ratios, m)
            sums += powers.T @ points
            weights += powers.sum(axis=0)
            loss += float(np.vdot(powers, squared))
        return sums, weights, loss

    def means(self, sums, weights, centres):
        weights = weights[:, None]
        means = np.where(weights > 0, sums / np.maximum(weights, 1e-300), centres)
        return means.astype(self.points.dtype)


if __name__ == "__main__":
    serve([Variant(name="fcm_numpy", idea="distances and weighted sums are matrix products",
                   source="article 001, section 2", family="fcm", make=Fcm, distance="expanded",
                   stops=("iterations", "loss", "labels", "shift"),
                   starts=("centroids", "memberships"), records=True, gives_entering=True,
                   modules=(Module("numpy", "numpy", "1.20"),))], load)
