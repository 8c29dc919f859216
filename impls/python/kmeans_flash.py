# flash-kmeans on a GPU: Triton kernels that never write the n by k distances down.
#
# Its products set no precision, which on tensor cores makes float32 data TF32: kmeans_flash is
#   registered as that. kmeans_flash_f16 is given the points rounded to float16, its fastest form;
#   its centroids are float16 as well, after every pass.
# With tol = 0 it makes every pass that it is asked for. The timed part is one call on points
#   that are on the device already, and the upload of the start, which the call overwrites.
# Source: flash-kmeans, batch_kmeans_Euclid.
# Cost per iteration: n d values read twice; 2 n k d flops.
# Limits: a fixed number of passes; sums are atomic, in any order.
from support.peer import Module, Variant, serve


def load(threads):
    global torch, batch_kmeans_Euclid
    import torch
    import triton
    from flash_kmeans import batch_kmeans_Euclid
    if not torch.cuda.is_available():
        raise ImportError("torch sees no GPU")
    return {"torch": torch.__version__, "triton": triton.__version__}


class Flash:
    half = False

    def __init__(self, problem):
        self.problem = problem
        self.points = self.upload(problem.points)
        torch.cuda.synchronize()

    def run(self, start, record):
        self.labels, self.centroids, passes = batch_kmeans_Euclid(
            self.points, self.problem.k, max_iters=self.problem.max_iterations, tol=0.0,
            init_centroids=self.upload(start.centroids))
        torch.cuda.synchronize()
        return passes

    def upload(self, array):
        dtype = torch.float16 if self.half else torch.float32
        return torch.from_numpy(array).cuda().to(dtype)[None]

    def fetch(self):
        return self.labels[0].int().cpu().numpy(), self.centroids[0].float().cpu().numpy(), None


class Half(Flash):
    half = True


SHARED = dict(source="flash-kmeans, batch_kmeans_Euclid", device="gpu", precisions=("f32",),
              distance="expanded", deterministic=False,
              modules=(Module("flash_kmeans", "flash-kmeans"), Module("torch", "torch", "2.0"),
                       Module("triton", "triton")))

if __name__ == "__main__":
    serve([Variant(name="kmeans_flash", idea="flash-kmeans on float32 data, multiplied in TF32",
                   make=Flash, arithmetic="tf32", **SHARED),
           Variant(name="kmeans_flash_f16", idea="flash-kmeans on data rounded to float16",
                   make=Half, arithmetic="f16", **SHARED)], load)
