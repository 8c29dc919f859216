"""K-means with NumPy, as a project outside clusterbench would have it: this file alone.

The harness puts clusterbench_peer on Python's path when it runs the program."""

from clusterbench_peer import Answer, Module, Solver, Variant, serve


class Mine(Solver):
    def __init__(self, problem):
        self.problem = problem

    def run(self, start, record):
        import numpy as np
        problem, centroids = self.problem, start.centroids.copy()
        x = problem.points
        for _ in range(problem.max_iterations):
            entering = centroids.copy()
            # The same for all centroids of a point, |x|^2 is left out of |x|^2 - 2 x.c + |c|^2.
            labels = ((centroids ** 2).sum(axis=1) - 2.0 * (x @ centroids.T)).argmin(axis=1)
            counts = np.bincount(labels, minlength=problem.k)
            sums = np.stack([np.bincount(labels, weights=x[:, f], minlength=problem.k)
                             for f in range(problem.d)], axis=1)
            full = counts > 0  # an empty cluster keeps its centroid
            centroids[full] = sums[full] / counts[full, None]
        return Answer(problem.max_iterations, labels, centroids, entering)


def load(threads):
    import numpy
    return {"numpy": numpy.__version__}


if __name__ == "__main__":
    serve([Variant(name="kmeans_mine_numpy", idea="one matrix product a pass", source="Lloyd 1982",
                   make=Mine, distance="expanded", gives_entering=True,
                   modules=(Module("numpy", "numpy"),))], load)
