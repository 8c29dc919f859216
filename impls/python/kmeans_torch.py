# K-means in PyTorch on a GPU: distances are matrix products, sums are matrix products or scattered.
#
# |x|^2 is left out of |x|^2 - 2 x.c + |c|^2, being the same for all centroids. Sums of up to 64
#   clusters are the product of the one-hot labels with the points; of more, index_add_, whose
#   atomics add in any order. Distances are formed for as many points at a time as fit 1 GiB.
# kmeans_torch multiplies in float32; kmeans_torch_tf32 lets the tensor cores round the factors of
#   the distances to 11 bits, never those of the sums. It is approximate: see kmeans_flash.py for
#   the 2 % that it declares.
# Source: torch.cdist and one_hot as commonly used; this file's own loop.
# Cost per iteration: n d, and 3 n k sizeof(float) bytes of distances and one-hot; 4 n k d flops;
#   beyond 64 clusters no one-hot, and 2 n k d.
# Limits: float32.
from support.peer import Answer, Module, Solver, Variant, serve
from support.stop import StopTest

LARGEST_BLOCK = 1 << 28  # distances at a time
FEW_CLUSTERS = 64


def load(threads):
    global torch
    import torch
    if not torch.cuda.is_available():
        raise ImportError("torch sees no GPU")
    torch.set_num_threads(threads)
    return {"torch": torch.__version__, "cuda": torch.version.cuda or ""}


class Lloyd(Solver):
    tf32 = False

    def __init__(self, problem):
        self.problem = problem
        self.points = torch.from_numpy(problem.points).cuda()
        rows = max(1, LARGEST_BLOCK // problem.k)
        self.blocks = [slice(first, first + rows) for first in range(0, problem.n, rows)]
        self.ones = torch.ones(problem.n, device="cuda")

    def run(self, start, record):
        problem = self.problem
        stop = StopTest(problem)
        centroids = torch.from_numpy(start.centroids).cuda()
        labels = torch.full((problem.n,), -1, dtype=torch.int64, device="cuda")
        while True:
            before, entering = labels, centroids
            labels = self.nearest(centroids)
            sums, counts = self.sums(labels)
            centroids = torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None],
                                    entering)
            if record is not None:
                record.append(centroids)
            if stop.after_pass(labels_changed=lambda: not torch.equal(labels, before),
                               squared_shift=lambda: float(
                                   (centroids - entering).double().square().sum())):
                return Answer(stop.passes, labels.int(), centroids, entering)

    def wait(self):
        torch.cuda.synchronize()

    def to_host(self, array):
        return array.cpu().numpy()

    def nearest(self, centroids):
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        norms = centroids.square().sum(dim=1)
        found = [torch.addmm(norms, self.points[block], centroids.T, alpha=-2).argmin(dim=1)
                 for block in self.blocks]
        return found[0] if len(found) == 1 else torch.cat(found)

    def sums(self, labels):
        problem = self.problem
        torch.backends.cuda.matmul.allow_tf32 = False
        if problem.k <= FEW_CLUSTERS:
            one_hot = torch.zeros(problem.n, problem.k, device="cuda")
            one_hot.scatter_(1, labels[:, None], 1.0)
            return one_hot.T @ self.points, one_hot.sum(dim=0)
        sums = torch.zeros(problem.k, problem.d, device="cuda")
        counts = torch.zeros(problem.k, device="cuda")
        return sums.index_add_(0, labels, self.points), counts.index_add_(0, labels, self.ones)


class Tf32(Lloyd):
    tf32 = True


SHARED = dict(source="PyTorch's matrix products", device="gpu", precisions=("f32",),
              distance="expanded", deterministic=False, records=True, gives_entering=True,
              stops=("iterations", "labels", "shift"), modules=(Module("torch", "torch", "2.0"),))

if __name__ == "__main__":
    serve([Variant(name="kmeans_torch", idea="matrix products in float32", make=Lloyd, **SHARED),
           Variant(name="kmeans_torch_tf32", idea="distances multiplied in TF32", make=Tf32,
                   arithmetic="tf32", approximate_within=0.02, **SHARED)], load)
