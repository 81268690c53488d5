"""Fits for a long time in one process: memory, descriptors and threads stay what they were.

    python -m nightly.soak [--count 20000] [--seed 0]

A dozen kinds of fits take turns. Resident memory is compared after a warm-up of a tenth of the
fits and at the end: it may grow by 1 %, and by 0.1 kB a fit.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

import stochadmm as sa
from nightly import piece

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Return resident bytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def kinds(folder: Path) -> list[Callable[[np.random.Generator], object]]:
    """Return fits of all kinds."""
    graph = sa.datasets.make_graph_fused(60, 8, random_state=0).graph
    np.save(folder / "X.npy", np.random.default_rng(0).standard_normal((300, 6)))
    np.save(folder / "y.npy", np.random.default_rng(1).standard_normal(300))

    def rows(rng: np.random.Generator, n: int = 60, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
        X = rng.standard_normal((n, d))
        return X, X[:, 0] + 0.3 * rng.standard_normal(n)

    def classifier(rng: np.random.Generator) -> object:
        X, z = rows(rng)
        return sa.GraphFusedClassifier(graph=graph, alpha=0.02).fit(X, z > 0).predict_proba(X)

    def sparse_rows(rng: np.random.Generator) -> object:
        X, z = rows(rng, d=40)
        return sa.LassoRegressor(alpha=0.1).fit(sparse.csr_array(np.where(X > 0.5, X, 0)), z)

    def targets(rng: np.random.Generator) -> object:
        X, z = rows(rng)
        return sa.SparseLowRankRegressor(alpha=0.1).fit(X, np.c_[z, X[:, 1]])

    def source(rng: np.random.Generator) -> object:
        p = sa.Problem.linear(
            sa.Squared(), sa.open(folder / "X.npy", folder / "y.npy"), on_coefficients=sa.L1(0.1)
        )
        return sa.minimize(p, max_passes=6)

    return [
        lambda rng: sa.LassoRegressor(alpha=0.1).fit(*rows(rng)),
        lambda rng: sa.FusedLassoRegressor(alpha=0.1).fit(*rows(rng)),
        lambda rng: sa.LassoRegressorCV(alphas=4, cv=2).fit(*rows(rng)),
        classifier,
        sparse_rows,
        targets,
        source,
        lambda rng: sa.minimize(
            sa.Problem.linear(sa.Huber(0.5), *rows(rng), on_coefficients=sa.L1(0.1)),
            "acc-sadmm",
            max_passes=6,
        ),
    ]


def state() -> tuple[int, int]:
    """Return open descriptors and threads."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def main() -> int:
    """Fit, watch, and judge."""
    asked, began = piece.arguments(__doc__.splitlines()[0], 400), time.perf_counter()
    warnings.simplefilter("ignore")
    failures = []
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        fits, warm = kinds(Path(place)), max(asked.count // 10, 40)
        memory, before = 0, state()
        for number in range(asked.count):
            fits[number % len(fits)](np.random.default_rng([asked.seed, number]))
            if number + 1 == warm:
                memory, before = resident(), state()
        grown, after = resident() - memory, state()
    per_fit = grown / (asked.count - warm)
    print(f"soak: {memory / 1e6:.1f} MB after {warm} fits, {grown / 1e3:+.0f} kB at the end")
    print(f"soak: {per_fit:.0f} bytes a fit; descriptors and threads {before} -> {after}")
    if grown > 0.01 * memory and per_fit > 100:
        failures.append(
            {
                "piece": "soak",
                "seed": asked.seed,
                "number": asked.count,
                "what": f"memory grew by {grown} bytes",
            }
        )
    if after[0] > before[0] or after[1] > before[1]:
        failures.append(
            {
                "piece": "soak",
                "seed": asked.seed,
                "number": asked.count,
                "what": f"{before} -> {after}",
            }
        )
    piece.report("soak", asked.count, failures, time.perf_counter() - began)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
