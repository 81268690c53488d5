"""What a pass over files costs: a model fitted here, and what it says of larger sizes.

    python benchmarks/cost_model.py [--repeats 3]

CPU seconds of passes over .npy files in float32 that are in the page cache, for several numbers of
rows and columns, fitted by non-negative least squares to

    shards * a + rows * b + bytes * c

(a: handing out and opening a shard, b: the loss of a row, c: reading, conversion to float64 and
the two products), and of the driver's work between passes to sample * columns^2 * e. The second
table applies the model to 1e9 rows of 1e3 columns on 100 workers of one core each, with a hundred
rows per column in the sample, six passes and two speeds of the disks: a pass takes the longer of
computing and reading. Messages are left out: 8 kB down and 8 kB up per task.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from lines import Table
from scipy.optimize import nnls

import stochadmm as sa
from stochadmm.risk.curvature import RowSample, SampledHessian
from stochadmm.risk.streamed import StreamedSum

SIZES = (
    (50_000, 20),
    (200_000, 20),
    (800_000, 20),
    (50_000, 100),
    (200_000, 100),
    (20_000, 500),
    (60_000, 500),
)
ROWS, COLUMNS, WORKERS, PASSES, PER_COLUMN = 1e9, 1e3, 100, 6, 100


def of_passes(n: int, d: int, folder: Path, repeats: int) -> tuple[int, float]:
    """Return the shards and the CPU seconds of one pass, the least of some."""
    rng = np.random.default_rng(0)
    np.save(folder / "X.npy", rng.standard_normal((n, d), dtype=np.float32))
    np.save(folder / "y.npy", np.where(rng.random(n) < 0.5, -1.0, 1.0).astype(np.float32))
    source = sa.open(folder / "X.npy", folder / "y.npy")
    f2 = StreamedSum(sa.Logistic(), source, intercept=True)
    x, found = rng.standard_normal(d + 1) / np.sqrt(d), []
    with sa.cluster.use(sa.cluster.Local(1)):
        for _ in range(repeats + 1):
            began = time.process_time()
            f2.evaluate(x)
            found.append(time.process_time() - began)
    return len(source.shards), min(found[1:])


def of_the_driver(m: int, d: int) -> float:
    """Return the CPU seconds of the Hessian of a sample."""
    rng = np.random.default_rng(0)
    f2 = sa.FiniteSum(sa.Logistic(), rng.standard_normal((m, d)), np.ones(m))
    at = f2.evaluate(np.zeros(d))
    began = time.process_time()
    assert SampledHessian(RowSample(f2, at.predictions, at.derivative), shared=True).matrix.size
    return time.process_time() - began


def main() -> None:
    """Measure, fit, predict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    features, seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        for n, d in SIZES:
            shards, cpu = of_passes(n, d, Path(folder), asked.repeats)
            features.append([shards, n, 4.0 * n * d])
            seconds.append(cpu)
    A, b = np.array(features), np.array(seconds)
    found = nnls(A / b[:, None], np.ones(len(b)))[0]  # relative errors count alike
    table = Table("rows", "columns", "CPU s of a pass", "the model", "MB per CPU s")
    for (n, d), row, cpu in zip(SIZES, A, b, strict=True):
        table.row(f"{n:,}", d, cpu, float(row @ found), row[2] / cpu / 1e6)
    m, d = 20_000, 500
    square = of_the_driver(m, d) / (m * d * d)
    print(
        f"\na = {1e3 * found[0]:.2f} ms a shard, b = {1e9 * found[1]:.0f} ns a row, "
        f"c = {1e9 * found[2]:.2f} s a GB; the driver's Hessian {1e-9 / square:.1f} "
        "thousand million products per second"
    )
    own = 4 * ROWS * COLUMNS / WORKERS
    computing = float(np.array([own / 2**26, ROWS / WORKERS, own]) @ found)
    between = PER_COLUMN * COLUMNS**3 * square
    print(f"\n{ROWS:.0e} x {COLUMNS:.0e} float32 on {WORKERS} workers: {own / 1e9:.0f} GB each")
    table = Table("disk of a worker", "s of a pass", "s of the driver", "minutes, 6 passes")
    for speed in (0.5e9, 2e9):
        a_pass = max(computing, own / speed)
        table.row(f"{speed / 1e9:g} GB/s", a_pass, between, PASSES * (a_pass + between) / 60)


if __name__ == "__main__":
    main()
