# K-means of FAISS: faiss.Kmeans on a flat index.
#
# A pass searches the index of the centroids for the nearest of every point, by blocks of a matrix
#   product and |x|^2 - 2 x.c + |c|^2, and adds the points up. FAISS takes a sample of 256 points per
#   centroid unless told otherwise; here it takes all. An empty cluster splits a large one.
# train() returns no labels: one more search, timed as the rest, assigns the points to the returned
#   centroids.
# Source: Johnson, Douze and Jegou, Billion-scale similarity search with GPUs, 2017; faiss.Kmeans.
# Cost per iteration: n d sizeof(float) bytes; 2 n k d flops.
# Limits: float32; a fixed number of passes; more points than clusters.
from support.peer import Answer, Module, Refused, Solver, Variant, serve


def load(threads):
    global faiss, limits
    import faiss
    import threadpoolctl
    faiss.omp_set_num_threads(threads)
    # Each of its threads calls the matrix product by itself; threads of that product beneath them
    # fight for the same cores, and an iteration takes two to four times as long.
    limits = threadpoolctl.threadpool_limits(1, user_api="blas")
    return {"faiss": faiss.__version__}


class Kmeans(Solver):
    def __init__(self, problem):
        if problem.n <= problem.k:
            raise Refused(f"n = {problem.n}, k = {problem.k}: FAISS takes the points themselves as "
                          f"centroids unless there are more points than clusters")
        self.problem = problem

    def run(self, start, record):
        problem = self.problem
        model = faiss.Kmeans(problem.d, problem.k, niter=problem.max_iterations,
                             min_points_per_centroid=1,
                             max_points_per_centroid=problem.n,  # n k at least n: no sample
                             seed=1, verbose=False)
        model.train(problem.points, init_centroids=start.centroids)
        _, labels = model.assign(problem.points)
        return Answer(len(model.obj), labels, model.centroids)


if __name__ == "__main__":
    serve([Variant(name="kmeans_faiss", idea="FAISS's Kmeans on all points", make=Kmeans,
                   source="Johnson, Douze and Jegou 2017", precisions=("f32",),
                   distance="expanded", labels="after update", reseeds_empty=True,
                   deterministic=False,  # its threads add up in any order
                   modules=(Module("faiss", "faiss", "1.7"),
                            Module("threadpoolctl", "threadpoolctl")))], load)
