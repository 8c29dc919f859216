# K-means of scikit-learn: Lloyd's algorithm in chunks of 256 points, and Elkan's.
#
# The timed part is fit(): a copy of the data with its mean taken off, squared norms, the passes,
#   one more assignment so that the labels belong to the returned centroids, and their inertia.
# It stops when a pass changes no label, also with tol = 0: fewer passes than asked for are then
#   reported. An empty cluster moves to the point farthest from its centroid. Threads add their
#   sums to the whole in the order in which they end, so that of three or more the bits may differ.
# Source: article 000, section 5; article 004, section Python; scikit-learn's user guide, 2.3.2.
# Cost per iteration: n d sizeof(T) bytes; 2 n k d flops (elkan: fewer, and n k bounds).
# Limits: no rule on the loss.
from support.peer import Answer, Module, Solver, Variant, serve


def load(threads):
    global np, KMeans, limits
    import warnings
    import numpy as np
    import sklearn
    import threadpoolctl
    from sklearn.cluster import KMeans
    warnings.simplefilter("ignore")  # on duplicate points and convergence: the harness judges
    limits = threadpoolctl.threadpool_limits(threads)
    return {"scikit-learn": sklearn.__version__}


class Lloyd(Solver):
    algorithm = "lloyd"

    def __init__(self, problem):
        self.points, self.weights = problem.points, problem.weights
        tolerance = 0.0
        if problem.rule == "shift":
            # The estimator multiplies its tolerance by the mean variance; ours is scaled already.
            tolerance = problem.threshold / np.var(problem.points, axis=0).mean()
        self.model = KMeans(n_clusters=problem.k, n_init=1, max_iter=problem.max_iterations,
                            tol=tolerance, algorithm=self.algorithm)

    def run(self, start, record):
        self.model.init = start.centroids
        self.model.fit(self.points, sample_weight=self.weights)
        return Answer(self.model.n_iter_, self.model.labels_, self.model.cluster_centers_)


class Elkan(Lloyd):
    algorithm = "elkan"


SHARED = dict(distance="expanded", labels="after update", deterministic=False, reseeds_empty=True,
              takes_weights=True, centres_points=True,
              stops=("iterations", "labels", "shift"),
              modules=(Module("sklearn", "scikit-learn", "1.1"),
                       Module("threadpoolctl", "threadpoolctl")))

if __name__ == "__main__":
    serve([Variant(name="kmeans_sklearn", idea="scikit-learn's KMeans, algorithm lloyd",
                   source="articles 000, section 5, and 004, section Python", make=Lloyd, **SHARED),
           Variant(name="kmeans_sklearn_elkan", idea="scikit-learn's KMeans, algorithm elkan",
                   source="Elkan 2003", make=Elkan, **SHARED)], load)
