"""``auto`` on awkward data and on random small problems: certified at 1e-6, or listed.

python benchmarks/robustness.py [--random 100]
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

TOL = 1e-6
ROWS, COLUMNS = 5000, 30


def base(rng):
    """Return well-behaved rows and labels."""
    X = rng.standard_normal((ROWS, COLUMNS))
    w = np.repeat(rng.standard_normal(5), 6)
    y = np.where(X @ w + rng.standard_normal(ROWS) > 0, 1.0, -1.0)
    return X, y


def awkward(rng):
    """Yield (label, X, y, mu)."""
    X, y = base(rng)
    yield "plain", X, y, 1e-3
    yield "columns over 6 orders", X * np.logspace(-3, 3, COLUMNS), y, 1e-3
    yield "duplicated columns", np.hstack([X[:, :15], X[:, :15]]), y, 1e-3
    constant = X.copy()
    constant[:, 7] = 3.0
    yield "constant column", constant, y, 1e-3
    rare = X.copy()
    rare[:, 20:] = rng.random((ROWS, 10)) < 4 / ROWS
    yield "rare one-hot columns", rare, y, 1e-5
    single = -np.ones(ROWS)
    single[17] = 1.0
    yield "all labels equal but one", X, single, 1e-4
    order = np.argsort(y)
    yield "rows sorted by label", X[order], y[order], 1e-3
    for mu in (1e-8, 1e-6, 1e-2, 0.1):
        yield f"mu = {mu:g}", X, y, mu
    half = alpha_max(X, y)
    yield "mu = alpha_max", X, y, half
    yield "mu = 0.99 alpha_max", X, y, 0.99 * half


def alpha_max(X, y) -> float:
    """Return an mu beyond which zero is optimal, by bisection on the certified answer."""
    low, high = 1e-6, 10.0
    for _ in range(25):
        middle = np.sqrt(low * high)
        result = sa.minimize(chain(X, y, middle), "auto", stop=sa.Gap(1e-9))
        low, high = (middle, high) if np.any(result.coef) else (low, middle)
    return high


def chain(X, y, mu, intercept=True):
    """Return a fused logistic problem on the order of the columns."""
    d = X.shape[1]
    A = sa.VStack([sa.Differences(d), sa.Identity(d)])
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=A, on_structure=sa.L1(mu), intercept=intercept
    )


def random_problem(rng):
    """Return a random small problem and its description."""
    n, d = int(10 ** rng.uniform(1, 3.3)), int(10 ** rng.uniform(0.3, 2))
    X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-2, 2)
    if rng.random() < 0.5:
        X = sparse.csr_array(np.where(rng.random((n, d)) < rng.uniform(0.05, 0.5), X, 0.0))
    loss = rng.choice(["squared", "logistic", "huber", "hinge", "multinomial", "poisson"])
    z = rng.standard_normal(n)
    if loss == "multinomial":
        part, y = sa.Multinomial(3), rng.integers(3, size=n)
    elif loss in ("logistic", "hinge"):
        part = sa.Logistic() if loss == "logistic" else sa.SquaredHinge()
        y = np.where(z > 0, 1.0, -1.0)
    elif loss == "poisson":
        part, y = sa.Poisson(), rng.poisson(1.0, size=n).astype(float)
    else:
        part, y = (sa.Squared() if loss == "squared" else sa.Huber()), z
    kind = rng.choice(["fused", "identity", "groups", "none"])
    mu = 10 ** rng.uniform(-5, 0)
    options = {"intercept": bool(rng.random() < 0.5)}
    if rng.random() < 0.5:
        options["sample_weight"] = rng.random(n) + 0.01
    if kind == "none":
        options["on_coefficients"] = sa.ElasticNet(mu, rng.uniform(0.1, 1.0))
    elif kind == "groups":
        sizes = np.diff(np.unique(np.r_[0, rng.integers(1, d + 1, size=3), d]))
        options |= {"structure": sa.Identity(d), "on_structure": sa.GroupL2(mu, sizes)}
    else:
        A = sa.VStack([sa.Differences(d), sa.Identity(d)]) if kind == "fused" else sa.Identity(d)
        options |= {"structure": A, "on_structure": sa.L1(mu)}
    text = f"{loss} {kind} {n} x {d} mu {mu:.1e} {'CSR' if sparse.issparse(X) else 'dense'}"
    return sa.Problem.linear(part, X, y, **options), text


def solve(label: str, problem, quiet: bool = False) -> bool:
    """Solve, print a line, say whether the answer is certified."""
    start = time.perf_counter()
    result = sa.minimize(problem, "auto", stop=sa.Gap(TOL), max_passes=2000, max_seconds=30)
    ok = result.relative_gap is not None and result.relative_gap <= TOL
    if not (ok and quiet):
        print(
            f"{'ok' if ok else 'NOT CERTIFIED':13} {label:44} gap {result.relative_gap}  "
            f"{result.n_passes:.0f} passes  {time.perf_counter() - start:.2f} s  "
            f"{result.status.name}  {result.info.get('route')}: {result.info.get('reason')}",
            flush=True,
        )
    return ok


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--random", type=int, default=100)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    for label, X, y, mu in awkward(rng):
        solve(label, chain(X, y, mu))
    done = 0
    for seed in range(arguments.random):
        problem, text = random_problem(np.random.default_rng(seed))
        done += solve(f"{seed}: {text}", problem, quiet=True)
    print(f"random problems certified at {TOL:g}: {done} of {arguments.random}")


if __name__ == "__main__":
    main()
