"""Cost of the compiled inner loop, in passes: one NumPy / SciPy full gradient in the same process.

    python benchmarks/kernels.py

One thread. For dense rows (290,000 x 54, b = 100) and CSR rows (200,000 x 1,000 at 1 %,
b = 1,000): the inner loop of ACC-SADMM over n rows with all ADMM work, logistic loss,
A = [G; I] with 100 edges.
"""

from __future__ import annotations

import os
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402
from scipy.special import expit  # noqa: E402

import stochadmm as sa  # noqa: E402

EDGES = 100


def best_of(function, repeats: int = 7) -> float:
    """Return the shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def one_pass(X, y):
    """Return a full logistic gradient as a NumPy or SciPy user writes it."""
    w = np.zeros(X.shape[1], X.dtype)
    return lambda: X.T @ (-y * expit(-y * (X @ w))) / X.shape[0]


def inner_loop(X, y, batch_size: int):
    """Return a function that runs the inner loop over n rows (half of an epoch's two passes)."""
    d = X.shape[1]
    rng = np.random.default_rng(0)
    edges = np.array([rng.choice(d, 2, replace=False) for _ in range(EDGES)])
    A = sa.VStack([sa.Incidence(edges, d), sa.Identity(d)])
    problem = sa.Problem.linear(sa.Logistic(), X, y, structure=A, on_structure=sa.L1(1e-5))
    solver = sa.AccSADMM(
        beta=1e-4,
        batch_size=batch_size,
        n_inner=round(X.shape[0] / batch_size),
        metric="none",
        restart="never",
    )
    state = solver.start(problem)
    state.engine = "compiled"
    gradient = sa.solvers.acc_sadmm.Anchored.take(problem.f2, solver.runs(problem), state.x.x2)
    batches = gradient.runs.draw(rng, state.n_inner)
    return lambda: solver._inner(problem, state, gradient, batches, 0.5, 0.49)


def report(label: str, X, y, batch_size: int, allowed: float) -> None:
    """Print the ratio to one pass and the rate at which rows are read."""
    gradient, loop = one_pass(X, y), inner_loop(X, y, batch_size)
    loop()
    reference, seconds = best_of(gradient), best_of(loop)
    size = X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes
    print(
        f"{label:<34} pass {1e3 * reference:7.1f} ms ({2 * size / reference / 1e9:5.1f} GB/s)   "
        f"loop {1e3 * seconds:7.1f} ms ({size / seconds / 1e9:5.1f} GB/s)   "
        f"ratio {seconds / reference:5.2f}   allowed {allowed:.1f}   "
        f"{'ok' if seconds <= allowed * reference else 'MISSED'}"
    )


def main() -> None:
    """Print one line per storage and type."""
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        X = rng.standard_normal((290_000, 54)).astype(dtype)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.where(rng.random(X.shape[0]) < 0.5, -1, 1).astype(dtype)
        report(f"dense 290,000 x 54 {np.dtype(dtype).name}", X, y, 100, 1.0)
    for dtype in (np.float64, np.float32):
        S = sparse.random_array((200_000, 1_000), density=0.01, rng=rng, dtype=dtype).tocsr()
        y = np.where(rng.random(S.shape[0]) < 0.5, -1, 1).astype(dtype)
        report(f"CSR 200,000 x 1,000 1 % {np.dtype(dtype).name}", S, y, 1_000, 2.0)


if __name__ == "__main__":
    main()
