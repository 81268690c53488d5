"""Sparse rows with many columns and an l1 norm: beside scikit-learn, and beside other routes.

    python benchmarks/sparse_columns.py [--gap 1e-4] [--repeats 3] [--routes] [--data clinc150]

Counts in random cells (``--data`` adds a public data set, its classes halved), strengths as shares
of the one that makes every coefficient zero; processor seconds to the same true gap, in one run.
``auto`` states the problem, solves and certifies. scikit-learn (liblinear for the logistic loss,
coordinate descent for the squared one) gets the largest tolerance of five that reaches the gap.
``--routes`` adds what ``auto`` would take without coordinates: working sets of columns.
"""

from __future__ import annotations

import argparse
import os
import warnings

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402 - after the number of threads
from few_columns import least  # noqa: E402
from scipy import sparse  # noqa: E402

import stochadmm as sa  # noqa: E402
from stochadmm_reproduction import datasets  # noqa: E402

SHAPES = ((1000, 5000, 0.01), (5000, 30_000, 0.003), (20_000, 5000, 0.005), (500, 20_000, 0.02))
SHARES = (0.3, 0.03, 0.005)


def rows(n: int, d: int, density: float, rng: np.random.Generator):
    """Return rows of counts and labels that depend on some columns."""
    X = sparse.random_array((n, d), density=density, rng=rng, format="csr")
    X.data[:] = rng.integers(1, 4, X.nnz)
    w = np.zeros(d)
    w[rng.choice(d, 300, replace=False)] = 2 * rng.standard_normal(300)
    z = X @ w
    z += 0.5 * z.std() * rng.standard_normal(n)
    return sparse.csr_array(X), np.where(z > np.median(z), 1.0, -1.0)


def public(name: str):
    """Return a data set with its classes halved."""
    data = datasets.load(name)
    labels = np.unique(data.y)
    return sparse.csr_array(data.X), np.where(np.isin(data.y, labels[::2]), 1.0, -1.0)


def peers(loss: str, alpha: float, n: int):
    """Yield models of scikit-learn, one for each tolerance."""
    from sklearn.linear_model import Lasso, LogisticRegression

    for tol in (1e-3, 1e-4, 1e-5, 1e-6, 1e-8):
        if loss == "squared":
            yield Lasso(alpha, fit_intercept=False, tol=tol, max_iter=10_000)
        else:
            yield LogisticRegression(
                l1_ratio=1.0,
                solver="liblinear",
                C=1 / (n * alpha),
                fit_intercept=False,
                tol=tol,
                max_iter=10_000,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gap", type=float, default=1e-4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--routes", action="store_true")
    parser.add_argument("--data", nargs="*", default=[])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of models that do not reach their tolerance
    rng, ratios = np.random.default_rng(0), []
    cases = [(f"{n:,} x {d:,}", *rows(n, d, density, rng)) for n, d, density in SHAPES]
    cases += [(name, *public(name)) for name in options.data]
    print("| rows | loss | strength | support | auto, ms | working sets, ms | scikit-learn, ms |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for name, X, y in cases:
        for loss, half in (("squared", sa.Squared()), ("logistic", sa.Logistic())):
            for share in SHARES:
                alpha = share * np.abs(X.T @ y).max() / len(y) / (2 if loss == "logistic" else 1)

                def ours(solver="auto", X=X, y=y, alpha=alpha, half=half):
                    problem = sa.Problem.linear(half, X, y, on_coefficients=sa.L1(alpha))
                    limit = None if solver == "auto" else 20
                    return sa.minimize(problem, solver, stop=options.gap, max_seconds=limit)

                seconds, found = least(ours, options.repeats)
                assert found.converged, (name, loss, share)
                other = "-"
                if options.routes:
                    taken, old = least(lambda: ours(sa.Auto(route="working-set")), 1)
                    other = f"{1e3 * taken:.0f}" if old.converged else "> 20 s"
                peer = np.inf
                for model in peers(loss, alpha, len(y)):
                    took, _ = least(lambda m=model, X=X, y=y: m.fit(X, y), options.repeats)
                    w = np.ravel(model.coef_)
                    value = half.values(X @ w, y).mean() + alpha * np.abs(w).sum()
                    if value - found.objective <= options.gap * found.objective:
                        peer = took
                        break
                ratios.append(seconds / peer)
                print(
                    f"| {name} | {loss} | {share:g} | {np.count_nonzero(found.coef):,} | "
                    f"{1e3 * seconds:.0f} | {other} | {1e3 * peer:.0f} |",
                    flush=True,
                )
    print(f"auto / scikit-learn: median {np.median(ratios):.2f}, ", end="")
    print(f"from {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
