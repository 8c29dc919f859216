# K-means of RAPIDS cuML on a GPU.
#
# The timed part is fit() on points that are on the device already, and the upload of the start.
#   Every run makes an estimator, since some versions keep what fit() found as their next start.
# With tol = 0 it goes on until its cost no longer falls, so it may stop before the passes that it
#   was asked for; n_iter_ says so. It assigns the labels once more at the end: they belong to the
#   returned centroids.
# Source: article 003, section 6 (the library that it recommends); cuml.cluster.KMeans.
# Cost per iteration: n d sizeof(T) bytes; 2 n k d flops.
# Limits: a fixed number of passes; sums are atomic, in any order.
from support.peer import Answer, Module, Solver, Variant, serve


def load(threads):
    global cupy, KMeans
    import cupy
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise ImportError(f"cupy sees no GPU: {error}") from error
    import cuml
    from cuml.cluster import KMeans
    return {"cuml": cuml.__version__, "cupy": cupy.__version__}


class Kmeans(Solver):
    def __init__(self, problem):
        self.problem = problem
        self.points = cupy.asarray(problem.points)

    def run(self, start, record):
        model = KMeans(n_clusters=self.problem.k, init=cupy.asarray(start.centroids), n_init=1,
                       max_iter=self.problem.max_iterations, tol=0.0, output_type="cupy")
        model.fit(self.points)
        return Answer(model.n_iter_, model.labels_, model.cluster_centers_)

    def wait(self):
        cupy.cuda.Device().synchronize()

    def to_host(self, array):
        return cupy.asnumpy(array)


if __name__ == "__main__":
    serve([Variant(name="kmeans_cuml", idea="cuML's KMeans", source="article 003, section 6",
                   make=Kmeans, device="gpu", distance="expanded", labels="after update",
                   deterministic=False,
                   modules=(Module("cuml", "cuml", "24.0"), Module("cupy", "cupy")))], load)
