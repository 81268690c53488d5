"""Low rank + sparse: certified by `auto`, beside plain first-order methods to the true gap.

    python benchmarks/low_rank.py squared [--problems usps,generated,singular,school]

Squared losses: nuclear + l1 and nuclear + rows at three strengths. The baseline is consensus ADMM
on the Gram matrix with six fixed penalties, stopped when its objective (whose evaluation is not
counted) is within the tolerance of the best value known. CPU seconds, one thread, from raw arrays
to the result. Strengths: a = f |g|_2 and b = 0.3 f max|g| with g the gradient at zero (rows: the
largest norm of a row).
"""

from __future__ import annotations

import argparse
import os
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

import stochadmm as sa  # noqa: E402

TOLERANCES = (1e-4, 1e-6)
PENALTIES = (0.01, 0.1, 0.5, 2.0, 10.0, 100.0)
"""Fixed penalties of the plain ADMM, in mean eigenvalues of the Gram matrix."""


def generated(n=5000, d=150, outputs=150, rank=5, seed=0):
    """Return rows with correlated columns and targets of low rank on a third of the columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.logspace(0, -1, d)
    X = X @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    W = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, outputs))
    Y = X @ (W * (rng.random((d, 1)) < 0.3))
    return X, Y + Y.std() * rng.standard_normal(Y.shape)


def singular():
    """Return columns of which a third repeats others."""
    X, Y = generated(2000, 100, 60, seed=1)
    return np.hstack([X, X[:, :50]]), Y


def usps():
    """Return pixels and the indicators of the digits."""
    data = sa.datasets.load("usps")
    labels = np.unique(data.y, return_inverse=True)[1]
    return np.asarray(data.X, dtype=np.float64), np.eye(labels.max() + 1)[labels]


SETS = {"usps": usps, "generated": generated, "singular": singular}


def strengths(gradient, f, rows):
    """Return the strengths of the nuclear and of the sparse norm."""
    largest = np.linalg.norm(gradient, axis=1).max() if rows else np.abs(gradient).max()
    return f * np.linalg.norm(gradient, 2), 0.3 * f * largest


def stated(loss, X, y, a, b, rows=False, **given):
    """Return the problem with both norms."""
    d = X.shape[1]
    both = sa.VStack([sa.Identity(d), sa.Identity(d)])
    norms = sa.Stacked([(sa.Nuclear(a), d), ((sa.RowsL21 if rows else sa.L1)(b), d)])
    return sa.Problem.linear(loss, X, y, structure=both, on_structure=norms, **given)


def plain_admm(X, Y, a, b, rows, factor, target, seconds):
    """Return the CPU seconds of consensus ADMM until the target, infinity if it is not reached."""
    n, began, lost = len(X), time.process_time(), 0.0
    G, g = X.T @ X / n, X.T @ Y / n
    values, V = np.linalg.eigh(G)
    rho = factor * values.mean()
    Z1 = Z2 = U1 = U2 = np.zeros_like(g)
    constant = (Y**2).sum() / 2 / n

    def objective(W):
        sparse = np.linalg.norm(W, axis=1).sum() if rows else np.abs(W).sum()
        smooth = 0.5 * np.vdot(W, G @ W) - np.vdot(W, g) + constant
        return smooth + a * np.linalg.norm(W, "nuc") + b * sparse

    for k in range(1, 100_000):
        W = V @ ((V.T @ (g + rho * (Z1 - U1 + Z2 - U2))) / (values + 2 * rho)[:, None])
        left, s, right = np.linalg.svd(W + U1, full_matrices=False)
        Z1 = (left * np.maximum(s - a / rho, 0)) @ right
        T = W + U2
        size = np.linalg.norm(T, axis=1, keepdims=True) if rows else np.abs(T)
        Z2 = T * np.maximum(1 - b / rho / np.maximum(size, 1e-300), 0)
        U1, U2 = U1 + W - Z1, U2 + W - Z2
        if k % 10 == 0:
            clock = time.process_time()
            if min(objective(Z1), objective(Z2)) <= target:
                return clock - began - lost
            lost += time.process_time() - clock
            if clock - began - lost > seconds:
                break
    return np.inf


def certified(make, tol, **given):
    """Return the result of `auto` and the CPU seconds from raw arrays."""
    began = time.process_time()
    result = sa.minimize(make(), stop=sa.Gap(tol), **given)
    return result, time.process_time() - began


def squared(names, limit):
    """Print a line per problem, norm and strength."""
    print("problem     norm     f     tol    auto  plain   ratio-0.1s  iterations  gap")
    for name in names:
        X, Y = SETS[name]()
        gradient = X.T @ Y / len(X)
        for rows in (False, True):
            for f in (0.3, 0.1, 0.03):
                a, b = strengths(gradient, f, rows)

                def make(a=a, b=b, rows=rows, X=X, Y=Y):
                    return stated(sa.Squared(), X, Y, a, b, rows)

                best = sa.minimize(make(), stop=sa.Gap(1e-8), max_passes=1000).objective
                for tol in TOLERANCES:
                    result, own = certified(make, tol)
                    plain = min(
                        plain_admm(X, Y, a, b, rows, factor, best * (1 + tol), limit)
                        for factor in PENALTIES
                    )
                    print(
                        f"{name:11s} {'rows' if rows else 'entries':8s} {f:<5g} {tol:.0e} "
                        f"{own:6.3f} {plain:6.3f} {(own - 0.1) / plain:11.2f} "
                        f"{result.info['iterations']:10d}  {result.relative_gap:.1e} "
                        f"{result.status.name}",
                        flush=True,
                    )


def school():
    """Fit all tasks of the school data at once: a target per school, the others missing."""
    data = sa.datasets.load("school")
    tasks = np.unique(data.tasks, return_inverse=True)[1]
    Y = np.full((len(data.y), tasks.max() + 1), np.nan)
    Y[np.arange(len(Y)), tasks] = data.y
    for ratio in (0.0, 0.5):
        for sparsity in ("entries", "rows"):
            for alpha in (0.3, 0.03):
                began = time.process_time()
                model = sa.SparseLowRankRegressor(
                    alpha=alpha, l1_ratio=ratio, sparsity=sparsity, tol=1e-4
                ).fit(data.X, Y)
                print(
                    f"school, {Y.shape[1]} tasks, {sparsity}, l1_ratio {ratio}, alpha {alpha}: "
                    f"{time.process_time() - began:.2f} s, rank {model.rank_}",
                    flush=True,
                )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=["squared", "school"])
    parser.add_argument("--problems", default=",".join(SETS))
    parser.add_argument("--limit", type=float, default=5.0, help="seconds of one baseline run")
    arguments = parser.parse_args()
    if arguments.kind == "school":
        school()
    else:
        squared(arguments.problems.split(","), arguments.limit)


if __name__ == "__main__":
    main()
