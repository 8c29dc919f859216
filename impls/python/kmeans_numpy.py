# K-means without loops over points: whole-array expressions in NumPy.
#
# kmeans_numpy is the article's: differences of every point and every centroid in one array of
#   [n, d, k], and one slot of k filled per point, so that sums over n are the sums of clusters.
# kmeans_numpy_gemm: |x|^2 - 2 x.c + |c|^2 from one matrix product, and the sums from another, of
#   the one-hot labels with the points. No array is larger than the data or [n, k].
# Source: article 004, section Python.
# Cost per iteration: 7 n d k and 2 n d + 5 n k values pass through memory; 3 and 4 n k d flops.
# Limits: kmeans_numpy needs three arrays of n d k values, and runs on one thread.
from support.peer import Answer, Module, Refused, Solver, Variant, serve
from support.stop import StopTest

LARGEST_BYTES = 8 << 30  # of the arrays of [n, d, k]


def load(threads):
    global np
    import numpy as np
    return {}


class Lloyd(Solver):
    """Labels from centroids, centroids as means of the labels; an empty cluster stays."""

    def __init__(self, problem):
        self.problem = problem

    def run(self, start, record):
        problem = self.problem
        stop = StopTest(problem)
        centroids = start.centroids
        labels = np.full(problem.n, -1)
        while True:
            before = labels
            distances = self.distances(centroids)  # [n, k]
            labels = distances.argmin(axis=1)
            sums = self.sums(labels)  # [k, d]
            totals = np.bincount(labels, problem.weights, minlength=problem.k)[:, None]
            means = np.where(totals > 0, sums / np.where(totals > 0, totals, 1), centroids)
            means = means.astype(centroids.dtype, copy=False)
            entering, centroids = centroids, means
            if record is not None:
                record.append(means)
            if stop.after_pass(lambda: self.loss(distances),
                               lambda: not np.array_equal(labels, before),
                               lambda: np.square(means - entering, dtype=np.float64).sum()):
                return Answer(stop.passes, labels, centroids, entering)

    def loss(self, distances):
        roots = np.sqrt(np.maximum(distances.min(axis=1), 0))
        weights = self.problem.weights
        return (roots if weights is None else weights * roots).sum(dtype=np.float64)


class Repeated(Lloyd):
    def __init__(self, problem):
        super().__init__(problem)
        needed = 3 * problem.points.nbytes * problem.k
        if needed > LARGEST_BYTES:
            raise Refused(f"the arrays of [n, d, k] would take {needed >> 20} MiB, "
                          f"at most {LARGEST_BYTES >> 20} are allowed")
        self.repeated = np.repeat(problem.points[:, :, None], problem.k, axis=2)
        self.rows = np.arange(problem.n)
        weights = problem.weights
        self.weighted = problem.points if weights is None else weights[:, None] * problem.points

    def distances(self, centroids):
        return np.square(self.repeated - centroids.T).sum(axis=1)

    def sums(self, labels):
        problem = self.problem
        slots = np.zeros((problem.n, problem.k, problem.d), problem.points.dtype)
        slots[self.rows, labels] = self.weighted
        return slots.sum(axis=0, dtype=np.float64)


class Products(Lloyd):
    def __init__(self, problem):
        super().__init__(problem)
        self.norms = np.einsum("nd,nd->n", problem.points, problem.points)[:, None]
        self.one_hot = np.eye(problem.k, dtype=problem.points.dtype)

    def distances(self, centroids):
        distances = self.problem.points @ (-2 * centroids.T)
        distances += np.einsum("kd,kd->k", centroids, centroids)
        return distances  # |x|^2 is the same for all k

    def loss(self, distances):
        return super().loss(distances.min(axis=1)[:, None] + self.norms)

    def sums(self, labels):
        chosen = self.one_hot[labels]
        if self.problem.weights is not None:
            chosen *= self.problem.weights[:, None]
        return chosen.T @ self.problem.points


SHARED = dict(source="article 004, section Python", records=True, gives_entering=True, takes_weights=True,
              stops=("iterations", "loss", "labels", "shift"),
              modules=(Module("numpy", "numpy", "1.20"),))

if __name__ == "__main__":
    serve([Variant(name="kmeans_numpy", idea="array expressions over [n, d, k], as in the article",
                   make=Repeated, **SHARED),
           Variant(name="kmeans_numpy_gemm", idea="distances and sums are matrix products",
                   make=Products, distance="expanded", **SHARED)], load)
