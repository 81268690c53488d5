"""Multinomial models with an l1 and a nuclear norm, to a certified gap: time and share of the SVD.

    python benchmarks/many_outputs.py [--problems mnist,clinc150] [--tol 1e-4] [--share 0.1]

MNIST has 10 outputs (60,000 x 784, dense, unit rows), clinc150 has 150 (15,000 x 5,026, TF-IDF,
sparse). Both norms have half of ``share`` times the strength at which one of them alone makes all
coefficients zero. Needs the data folder (STOCHADMM_DATA).
"""

from __future__ import annotations

import argparse
import os
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

import stochadmm as sa  # noqa: E402
from stochadmm.problem import at_strength  # noqa: E402
from stochadmm_reproduction import datasets  # noqa: E402


def load(name: str):
    """Return rows and classes 0, 1, ..."""
    data = datasets.load(name)
    X = data.X
    if not sparse.issparse(X):
        X = np.asarray(X, dtype=np.float64)
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.unique(data.y, return_inverse=True)[1]


def unit_problem(X, y) -> sa.Problem:
    """Return the model with both norms at one half."""
    d = X.shape[1]
    both = sa.VStack([sa.Identity(d), sa.Identity(d)])
    norms = sa.Stacked([(sa.L1(0.5), d), (sa.Nuclear(0.5), d)])
    return sa.Problem.linear(sa.Multinomial(), X, y, structure=both, on_structure=norms)


class Stopwatch:
    """Adds up the time spent in the proxes of nuclear norms."""

    def __init__(self) -> None:
        self.seconds, plain = 0.0, sa.Nuclear.factors

        def timed(penalty, v, step):
            start = time.perf_counter()
            result = plain(penalty, v, step)
            self.seconds += time.perf_counter() - start
            return result

        sa.Nuclear.factors = timed


def main() -> None:
    """Print a line per problem."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", default="mnist,clinc150")
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--share", type=float, default=0.1)
    arguments = parser.parse_args()
    watch = Stopwatch()
    for name in arguments.problems.split(","):
        X, y = load(name)
        unit = unit_problem(X, y)
        derivatives = unit.f2.gradient(np.zeros(unit.shape2))
        largest = 2 * min(float(np.abs(derivatives).max()), float(np.linalg.norm(derivatives, 2)))
        watch.seconds, start = 0.0, time.perf_counter()
        result = sa.minimize(
            at_strength(unit, arguments.share * largest),
            stop=sa.Gap(arguments.tol),
            max_passes=1e4,
        )
        seconds = time.perf_counter() - start
        print(
            f"{name}: {X.shape[0]:,} x {X.shape[1]:,}, {y.max() + 1} outputs: "
            f"{result.status.name}, certified relative gap {result.relative_gap:.1e} of "
            f"{arguments.tol:g} in {seconds:.1f} s, {result.n_passes:.1f} reads, "
            f"{100 * watch.seconds / seconds:.0f} % of the time in singular values; "
            f"{np.count_nonzero(result.coef):,} coefficients of {result.coef.size:,}, rank "
            f"{np.linalg.matrix_rank(result.coef)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
