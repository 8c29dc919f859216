# Mini-batch k-means of scikit-learn.
#
# The timed part is fit(): as many batches of 1024 rows, drawn with replacement, as make the asked
#   number of times n rows, and one assignment of all rows to the returned centroids. A centroid is
#   the mean of all rows that it was given. Clusters that get few rows are moved to drawn ones.
# Its own early stops are off: they would end after other numbers of iterations.
# Source: Sculley, Web-scale k-means clustering, 2010; scikit-learn's user guide, 2.3.2.1.
# Cost per iteration: n d sizeof(T) bytes, read at random; 2 n k d flops.
# Limits: a fixed number of iterations; more rows than a batch, of which it would draw some twice
#   and others never.
from support.peer import Answer, Module, Refused, Solver, Variant, serve

BATCH = 1024


def load(threads):
    global MiniBatchKMeans, limits
    import warnings
    import sklearn
    import threadpoolctl
    from sklearn.cluster import MiniBatchKMeans
    warnings.simplefilter("ignore")  # on duplicate points: the harness judges
    limits = threadpoolctl.threadpool_limits(threads)
    return {"scikit-learn": sklearn.__version__}


class MiniBatch(Solver):
    def __init__(self, problem):
        if problem.n <= BATCH:
            raise Refused(f"n = {problem.n}: no more rows than a batch of {BATCH}")
        self.points = problem.points
        self.model = MiniBatchKMeans(n_clusters=problem.k, n_init=1, max_iter=problem.max_iterations,
                                     batch_size=BATCH, tol=0.0, max_no_improvement=None,
                                     random_state=1)

    def run(self, start, record):
        self.model.init = start.centroids
        self.model.fit(self.points)
        return Answer(self.model.n_iter_, self.model.labels_, self.model.cluster_centers_)


if __name__ == "__main__":
    serve([Variant(name="kmeans_sklearn_minibatch", idea="scikit-learn's MiniBatchKMeans",
                   source="Sculley 2010", make=MiniBatch, distance="expanded",
                   labels="after update", deterministic=False, reseeds_empty=True,
                   approximate_within=1.0,  # as kmeans_openmp_minibatch: another minimum
                   modules=(Module("sklearn", "scikit-learn", "1.1"),
                            Module("threadpoolctl", "threadpoolctl")))], load)
