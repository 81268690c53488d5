"""What a small fit costs, beside scikit-learn, liblinear, celer and skglm on the same rows.

    python benchmarks/tiny.py [--repeats 30]

The least of many calls, in processor time of the calling thread: all of it is waited for. Ratios
are those of one run, with the fits taken in turns, so that they mean the same on a busy machine.
Every answer of ours is certified; its gap stands beside it. Packages that are not installed are
left out.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_diabetes  # noqa: E402
from sklearn.linear_model import Lasso, LogisticRegression  # noqa: E402

import stochadmm as sa  # noqa: E402

LIMITS = {
    "minimize, lasso 442 x 10": ("Lasso 442 x 10", 3.0),
    "FusedLassoClassifier 569 x 30": ("liblinear l1 569 x 30", 3.0),
    "FusedLassoRegressor 442 x 10": ("Lasso 442 x 10", 5.0),
}
MILLISECONDS = {
    "minimize, fused logistic 569 x 30": 3.0,
    "FusedLassoRegressor 442 x 10, five targets": 10.0,
}
EVERY, LOW_RANK = 10.0, 20.0
"""Milliseconds that any estimator's fit of 100 x 10 may take."""


def scaled(loader: Callable[..., Any]) -> tuple[Any, Any]:
    """Return standardized columns and targets."""
    X, y = loader(return_X_y=True)
    return np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0)), y


def cases() -> dict[str, Callable[[], Any]]:
    """Return the fits by name."""
    X, amount = scaled(load_diabetes)
    y = (amount - amount.mean()) / amount.std()
    several = np.column_stack([y, *X[:, :4].T])
    C, label = scaled(load_breast_cancer)
    signs, chain = 2.0 * label - 1.0, sa.Differences(C.shape[1])
    alpha, strength = 0.05, 0.01
    lasso = Lasso(alpha, fit_intercept=False)
    liblinear = LogisticRegression(
        l1_ratio=1.0, solver="liblinear", C=1.0 / (len(signs) * strength)
    )
    found: dict[str, Callable[[], Any]] = {
        "Lasso 442 x 10": lambda: lasso.fit(X, y),
        "minimize, lasso 442 x 10": lambda: sa.minimize(
            sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(alpha))
        ),
        "FusedLassoRegressor 442 x 10": lambda: sa.FusedLassoRegressor(alpha).fit(X, y),
        "FusedLassoRegressor 442 x 10, five targets": lambda: sa.FusedLassoRegressor(alpha).fit(
            X, several
        ),
        "liblinear l1 569 x 30": lambda: liblinear.fit(C, label),
        "FusedLassoClassifier 569 x 30": lambda: sa.FusedLassoClassifier(strength).fit(C, label),
        "minimize, fused logistic 569 x 30": lambda: sa.minimize(
            sa.Problem.linear(
                sa.Logistic(),
                C,
                signs,
                structure=chain,
                on_structure=sa.L1(strength),
                on_coefficients=sa.L1(strength),
            )
        ),
        "LassoRegressor 442 x 10": lambda: sa.LassoRegressor(alpha).fit(X, y),
    }
    return found | others(X, y, C, signs, alpha, strength)


def others(
    X: Any, y: Any, C: Any, signs: Any, alpha: float, strength: float
) -> dict[str, Callable[[], Any]]:
    """Return the fits of packages that happen to be installed."""
    found: dict[str, Callable[[], Any]] = {}
    try:
        import celer

        lasso = celer.Lasso(alpha, fit_intercept=False)
        found["celer Lasso 442 x 10"] = lambda: lasso.fit(X, y)
    except ImportError:
        pass
    try:
        import skglm

        plain = skglm.Lasso(alpha, fit_intercept=False)
        sparse = skglm.SparseLogisticRegression(strength)
        found["skglm Lasso 442 x 10"] = lambda: plain.fit(X, y)
        found["skglm logistic 569 x 30"] = lambda: sparse.fit(C, signs)
    except ImportError:
        pass
    return found


def estimators() -> dict[str, Callable[[], Any]]:
    """Return one fit of 100 x 10 for every estimator."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 10))
    score = X[:, :4].sum(axis=1) + rng.standard_normal(100)
    targets = {"Regressor": score, "Classifier": np.where(score > 0, "a", "b")}
    many = np.column_stack([score, -score, X[:, 0]])
    groups = [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]
    graph = [(j, j + 1) for j in range(9)]
    more: dict[str, dict[str, Any]] = {
        "Group": {"groups": groups},
        "SparseGroup": {"groups": groups},
        "OverlappingGroup": {"groups": groups},
        "GraphFused": {"graph": graph},
        "Generalized": {"operator": sa.Differences(10, order=2)},
    }
    found: dict[str, Callable[[], Any]] = {}
    for name in sa.estimators.__all__:
        role = next((role for role in targets if name.endswith(role)), None)
        if role is None:
            continue
        y = many if "LowRank" in name and role == "Regressor" else targets[role]
        given = next((extra for word, extra in more.items() if name.startswith(word)), {})
        model = getattr(sa, name)(**given)
        found[name] = lambda model=model, y=y: model.fit(X, y)
    three, low_rank = np.digitize(score, [-1.0, 1.0]), sa.SparseLowRankClassifier()
    found["SparseLowRankClassifier, 3 classes"] = lambda: low_rank.fit(X, three)
    return found


def least(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the least milliseconds of each call; the calls take turns."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(repeats + 1):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            best[name] = min(best[name], 1e3 * (time.thread_time() - start))
    return best


def gap_of(answer: Any) -> str:
    """Return the certified gap of an answer of ours, in words."""
    result = getattr(answer, "result_", answer)
    gap = getattr(result, "relative_gap", None)
    return "" if gap is None else f"gap {gap:.1e}, route {result.info.get('route', '')}"


def main() -> None:
    """Print the tables, and which limits hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=30)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    calls = cases()
    best = least(calls, asked.repeats)
    failed = []
    for name, took in best.items():
        base, limit = LIMITS.get(name, ("", 0.0))
        words = gap_of(calls[name]())
        if base:
            ratio = took / best[base]
            words += f", {ratio:.2f} times {base.rsplit(' ', 3)[0]} (at most {limit:g})"
            failed += [name] * (ratio > limit)
        if name in MILLISECONDS:
            words += f" (at most {MILLISECONDS[name]:g} ms)"
            failed += [name] * (took > MILLISECONDS[name])
        print(f"{name:38} {took:8.2f} ms  {words}")
    print("\nevery estimator, 100 x 10")
    calls = estimators()
    for name, took in least(calls, asked.repeats).items():
        limit = LOW_RANK if "LowRank" in name else EVERY
        failed += [name] * (took > limit)
        print(f"{name:38} {took:8.2f} ms  {gap_of(calls[name]())} (at most {limit:g} ms)")
    print("\nabove a limit: " + (", ".join(failed) if failed else "nothing"))


if __name__ == "__main__":
    main()
