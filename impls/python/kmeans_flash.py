# flash-kmeans on a GPU: Triton kernels that never write the n by k distances down.
#
# Its products set no precision, which on tensor cores makes float32 data TF32: kmeans_flash is
#   registered as that. kmeans_flash_f16 is given the points rounded to float16, its fastest form;
#   its centroids are float16 as well, after every pass. Both are approximate; see WITHIN.
# With tol = 0 it makes every pass that it is asked for. The timed part is one call on points
#   that are on the device already, and the upload of the start, which the call overwrites.
# Source: flash-kmeans, batch_kmeans_Euclid.
# Cost per iteration: n d values read twice; 2 n k d flops.
# Limits: a fixed number of passes; sums are atomic, in any order; float16 up to |x|^2 = 65504.
from support.peer import Answer, Module, Refused, Solver, Variant, serve

# TF32 and float16 keep 11 bits. A product of two factors rounded so is off by up to 2^-10 of its
# size, a squared distance by 2^-9 |x| |c|, and a point may go to a centroid that is farther by twice
# that, 0.4 % of |x|^2. Hence 2 % where squared distances are a fifth of |x|^2 or more. Beyond that
# most errors still cancel: in an emulation (NumPy, float64 beside it) normal data with a mean of ten
# standard deviations stayed within 1.9 %, with a mean of a hundred it did not.
WITHIN = 0.02


def load(threads):
    global torch, batch_kmeans_Euclid
    import torch
    if not torch.cuda.is_available():
        raise ImportError("torch sees no GPU")
    import triton
    # The package itself falls back to PyTorch in silence where its kernels cannot be imported.
    from flash_kmeans.kmeans_triton_impl import batch_kmeans_Euclid
    return {"torch": torch.__version__, "triton": triton.__version__}


class Flash(Solver):
    half = False

    def __init__(self, problem):
        self.problem = problem
        self.points = self.upload(problem.points)
        if self.half and not self.points.square().sum(dim=-1).isfinite().all():
            raise Refused("squared norms of points beyond float16's 65504")

    def run(self, start, record):
        labels, centroids, passes = batch_kmeans_Euclid(
            self.points, self.problem.k, max_iters=self.problem.max_iterations, tol=0.0,
            init_centroids=self.upload(start.centroids))
        return Answer(passes, labels[0], centroids[0])

    def wait(self):
        torch.cuda.synchronize()

    def to_host(self, array):
        return array.cpu().numpy()

    def upload(self, array):
        dtype = torch.float16 if self.half else torch.float32
        return torch.from_numpy(array).cuda().to(dtype)[None]


class Half(Flash):
    half = True


SHARED = dict(source="flash-kmeans, batch_kmeans_Euclid", device="gpu", precisions=("f32",),
              distance="expanded", deterministic=False, approximate_within=WITHIN,
              modules=(Module("flash_kmeans", "flash-kmeans"), Module("torch", "torch", "2.0"),
                       Module("triton", "triton")))

if __name__ == "__main__":
    serve([Variant(name="kmeans_flash", idea="flash-kmeans on float32 data, multiplied in TF32",
                   make=Flash, arithmetic="tf32", **SHARED),
           Variant(name="kmeans_flash_f16", idea="flash-kmeans on data rounded to float16",
                   make=Half, arithmetic="f16", **SHARED)], load)
