"""Reads of the data per value along a path, and cross-validation beside a cold grid search.

    python benchmarks/path.py [--values 50] [--tol 1e-4] [--skip-covtype] [--skip-cv]

The first part fits graph-guided fused logistic regression on covtype (2 against the rest, unit
rows) for a grid of strengths from the largest useful one down to a hundredth of it, every fit
certified; needs the data folder (STOCHADMM_DATA). One pass is one NumPy full gradient in the same
process. The second part is 5-fold cross-validation over as many values on 100,000 x 100 generated
rows, beside ``GridSearchCV`` with cold fits of the same estimator on the same folds and grid.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from sklearn.model_selection import GridSearchCV, StratifiedKFold  # noqa: E402

import stochadmm as sa  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from time_to_gap import load, one_pass  # noqa: E402


def covtype(values: int, tol: float) -> None:
    """Print reads and time per value of a path."""
    X, y, A = load("covtype")
    unit = one_pass(X, y)
    edges = [tuple(row.indices) for row in A[: A.shape[0] - X.shape[1]]]
    model = sa.GraphFusedClassifier(graph=np.array(edges), alpha=1.0, tol=tol)
    few = slice(0, 3000)
    model.path(X[few], y[few], alphas=3)  # compiles
    start = time.perf_counter()
    path = model.path(X, y, alphas=values)
    seconds = time.perf_counter() - start
    gaps, reads = path.gaps, path.n_passes
    print(
        f"covtype, {values} values, one pass {1e3 * unit:.1f} ms: "
        f"worst certified gap {np.nanmax(gaps):.1e} of {tol:g}, "
        f"reads per value {reads.mean():.2f} (largest {reads.max():.1f}), "
        f"time per value {seconds / values / unit:.2f} passes, {seconds:.1f} s in all"
    )
    assert np.isfinite(gaps).all() and gaps.max() <= tol


def cross_validation(values: int, tol: float) -> None:
    """Print the time of a warm-started cross-validation and of cold fits on the same grid."""
    data = sa.datasets.make_graph_fused(100_000, 100)
    X, y, graph = data.X, data.y, data.graph
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    few = slice(0, 3000)
    sa.GraphFusedClassifierCV(graph=graph, alphas=3, cv=3, tol=tol).fit(X[few], y[few])
    start = time.perf_counter()
    warm = sa.GraphFusedClassifierCV(graph=graph, alphas=values, cv=folds, tol=tol, verbose=True)
    warm.fit(X, y)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    cold = GridSearchCV(
        sa.GraphFusedClassifier(graph=graph, tol=tol),
        {"alpha": list(warm.alphas_)},
        cv=folds,
        scoring="neg_log_loss",
    )
    cold.fit(X, y)
    slow = time.perf_counter() - start
    print(
        f"5 folds x {values} values on {X.shape[0]:,} x {X.shape[1]}: warm-started paths "
        f"{seconds:.1f} s (alpha {warm.alpha_:.3g}), grid search of cold fits {slow:.1f} s "
        f"(alpha {cold.best_params_['alpha']:.3g}), {slow / seconds:.1f} times as long"
    )


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--values", type=int, default=50)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--skip-covtype", action="store_true")
    parser.add_argument("--skip-cv", action="store_true")
    arguments = parser.parse_args()
    if not arguments.skip_covtype:
        covtype(arguments.values, arguments.tol)
    if not arguments.skip_cv:
        cross_validation(arguments.values, arguments.tol)


if __name__ == "__main__":
    main()
