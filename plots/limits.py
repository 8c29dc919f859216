"""What a machine needs at least for one iteration: the probe's figures applied to a problem.

The same rules as the harness uses for `percent of the limit`: the data once per iteration at the
bandwidth of the memory level that holds them, or 2 n k d floating-point operations (twice that for
fuzzy c-means) at the rate of the unit that multiplies, whichever takes longer.
"""

from dataclasses import dataclass
from math import log
from typing import Any

BYTES = {"f32": 4, "f64": 8}


@dataclass(frozen=True)
class Limit:
    """The least time of one iteration, and what sets it."""

    ms: float
    name: str  # read bandwidth, or whose rate


def minimal_flops(algorithm: str, n: int, d: int, k: int) -> float:
    """Floating-point operations of one iteration: 2 n k d, fuzzy c-means 4 n k d."""
    return (4.0 if algorithm == "fcm" else 2.0) * n * k * d


def minimal_bytes(precision: str, n: int, d: int) -> float:
    """Bytes of one iteration: every point read once."""
    return float(n * d * BYTES[precision])


def intensity(algorithm: str, precision: str, k: int) -> float:
    """Arithmetic intensity [FLOP/byte] of the algorithm's minimum; n and d cancel."""
    return minimal_flops(algorithm, 1, 1, k) / minimal_bytes(precision, 1, 1)


def read_bandwidth(probe: dict[str, Any], size: float) -> float:
    """Read bandwidth [GB/s] for data of `size` bytes, between the sizes that were measured."""
    table = [(each["bytes"], each["gbs"]) for each in probe["read_by_size"]]
    if size <= table[0][0]:
        return float(table[0][1])
    for (below, slow), (above, fast) in zip(table, table[1:]):
        if size <= above:
            position = (log(size) - log(below)) / (log(above) - log(below))
            return float(slow + (fast - slow) * position)
    return float(table[-1][1])


def multiplying_rate(probe: dict[str, Any], precision: str, multiplier: str) -> tuple[float, str]:
    """GFLOP/s of a row's `multiplier`, and its name; tensor cores that were not probed count as
    multiply-adds."""
    tensor = {"tensor tf32": ("gemm_tf32_gflops", "tensor TF32 rate"),
              "tensor f16": ("gemm_f16_gflops", "tensor f16 rate")}
    key, name = tensor.get(multiplier, ("", ""))
    rate = probe.get(key)
    return (rate, name) if rate else (probe[f"fma_{precision}_gflops"], "FMA rate")


def limit_per_iteration(
    probe: dict[str, Any], algorithm: str, precision: str, n: int, d: int, k: int,
    multiplier: str = "fma",
) -> Limit:
    """The least time of one iteration on the machine that `probe` describes."""
    size = minimal_bytes(precision, n, d)
    reading = size / (read_bandwidth(probe, size) * 1e6)
    rate, name = multiplying_rate(probe, precision, multiplier)
    computing = minimal_flops(algorithm, n, d, k) / (rate * 1e6)
    if reading > computing:
        return Limit(reading, "read bandwidth")
    return Limit(computing, name)
