"""How much code stands behind a call: distinct functions, files and depth, by sys.setprofile.

    python benchmarks/call_depth.py

Four calls: a dense l1-logistic fit and graph-fused fits at two sizes, and four epochs of ACC-SADMM
with the certificate of their answer. Only functions of the package count; each call is made once
before, so that what is imported or compiled on first use is there. The printed numbers do not
depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import stochadmm as sa

PACKAGE = str(Path(sa.__file__).parent)


def measured(call: Callable[[], object]) -> tuple[int, int, int]:
    """Return the distinct functions and files of the package in a call, and its depth."""
    call()
    functions, depth, deepest = set(), 0, 0

    def profile(frame, event, argument):
        nonlocal depth, deepest
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        if event == "call":
            functions.add((code.co_filename, code.co_qualname))
            depth += 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(functions), len({name for name, _ in functions}), deepest


def rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian rows and labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    coef = np.where(np.arange(d) < d // 5, 1.0, 0.0)
    return X, np.where(X @ coef + rng.standard_normal(n) > 0, 1, -1)


def calls() -> dict[str, Callable[[], object]]:
    """Return the calls by name."""
    large, small, middle = rows(20_000, 50), rows(300, 20), rows(5_000, 50)
    problem = sa.Problem.linear(
        sa.Logistic(), *middle, structure=sa.Differences(50), on_structure=sa.L1(1e-3)
    )
    return {
        "l1-logistic fit, 20,000 x 50": lambda: sa.SparseLogisticClassifier(alpha=1e-2).fit(
            *large
        ),
        "graph-fused fit, 20,000 x 50": lambda: sa.GraphFusedClassifier(alpha=1e-2).fit(*large),
        "graph-fused fit, 300 x 20": lambda: sa.GraphFusedClassifier(alpha=1e-2).fit(*small),
        "acc-sadmm, 5,000 x 50, four epochs": lambda: sa.minimize(
            problem, "acc-sadmm", max_epochs=4, stop=sa.Gap(1e-12), resumable=False
        ),
    }


if __name__ == "__main__":
    print(f"{'call':36}{'functions':>10}{'files':>7}{'depth':>7}")
    for name, call in calls().items():
        print(
            f"{name:36}"
            + "".join(f"{n:>{w}}" for n, w in zip(measured(call), (10, 7, 7), strict=True))
        )
