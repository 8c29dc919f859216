# K-means of SciPy: scipy.cluster.vq.kmeans2 from given centroids.
#
# A pass is vq(), which finds the nearest centroid of every point and the distance to it, and means
#   of the labels. An empty cluster keeps its centroid; the labels are those of the last pass, from
#   which the returned centroids are the means.
# Distances are differences up to d = 4; above, |x|^2 - 2 x.c + |c|^2 with a matrix product. The
#   registration declares the second, whose rounding is larger.
# Source: article 004, section Python (there kmeans(), which stops by itself and gives no labels).
# Cost per iteration: n d sizeof(T) bytes, n k distances from d = 5; 2 n k d flops.
# Limits: a fixed number of passes; one thread but for the matrix product.
from support.peer import Answer, Module, Solver, Variant, serve


def load(threads):
    global kmeans2
    import warnings
    import scipy
    from scipy.cluster.vq import kmeans2
    warnings.simplefilter("ignore")  # on empty clusters
    return {"scipy": scipy.__version__}


class Kmeans2(Solver):
    def __init__(self, problem):
        self.problem = problem

    def run(self, start, record):
        passes = self.problem.max_iterations
        centroids, labels = kmeans2(self.problem.points, start.centroids, iter=passes,
                                    minit="matrix", missing="warn", check_finite=False)
        return Answer(passes, labels, centroids)


if __name__ == "__main__":
    serve([Variant(name="kmeans_scipy", idea="SciPy's kmeans2", make=Kmeans2, distance="expanded",
                   source="article 004, section Python",
                   modules=(Module("scipy", "scipy", "1.7"),))], load)
