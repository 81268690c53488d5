"""Few rows, thousands of columns tied by a structure: ``auto`` beside one factor and ADMM alone.

    python benchmarks/tied.py grids [--sides 14 20 32] [--only masked logistic 0.02]
    python benchmarks/tied.py path [--sides 14 20]
    python benchmarks/tied.py nilearn [--sides 14]
    python benchmarks/tied.py genes
    python benchmarks/tied.py pixels

``grids``: TV + l1 on a cube of voxels, or on a ball inside it, 216 rows of smoothed noise,
strengths as shares of the largest |X'y| / n. The baseline factors L = S'S once and takes four
Newton steps of 150 iterations of over-relaxed ADMM each; it has no certificate. ``path``: twenty
strengths from 0.5 down to the smallest, beside one fit there, in turn, the least of three.
``nilearn``: the solver of its SpaceNet (``pip install nilearn``) on the same rows and strengths by
its own stopping rule; its model is another one, with an isotropic TV, and an intercept under the
logistic loss. ``genes``: all genes of the breast cancer network, expression simulated where none
is given. ``pixels``: 70 x 70 pixels, 10,000 rows. CPU seconds of one thread from raw arrays to the
result, loading compiled code left out; every line runs in a process of its own, whose peak memory
beyond the data is printed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from scipy.ndimage import gaussian_filter  # noqa: E402
from scipy.sparse.linalg import splu  # noqa: E402

import stochadmm as sa  # noqa: E402
from stochadmm.run.loop import Request  # noqa: E402
from stochadmm.run.minimize import solve  # noqa: E402
from stochadmm.run.path import solve_path  # noqa: E402

N_ROWS = 216
STRENGTHS = (0.1, 0.02)
LOSSES = {"logistic": sa.Logistic(), "squared": sa.Squared()}


# ---------------------------------------------------------------- data


def voxels(side: int, masked: bool):
    """Return X, labels, targets and the differences on a cube, or on the ball inside it."""
    rng = np.random.default_rng(side)
    a, b, c, e = side // 4, side // 2, 3 * side // 4, side // 3
    W = np.zeros((side,) * 3)
    W[a:b, a:b, a:b], W[b:c, b:c, e:b] = 1.0, -1.0
    X = np.stack(
        [gaussian_filter(rng.standard_normal(W.shape), 1.0).ravel() for _ in range(N_ROWS)]
    )
    mask = None
    if masked:
        at = np.indices(W.shape) - (side - 1) / 2
        mask = (at**2).sum(axis=0) <= (side / 2) ** 2
        X, W = np.ascontiguousarray(X[:, mask.ravel()]), W[mask]
    X /= X.std()
    score = X @ W.ravel() / np.linalg.norm(W)
    noisy = score + 0.5 * rng.standard_normal(N_ROWS) * score.std()
    return X, noisy, sa.GridDifferences((side,) * 3, mask=mask)


def target(loss: str, score):
    """Return labels, or the score in units of its deviation."""
    return np.where(score > 0, 1.0, -1.0) if loss == "logistic" else score / score.std()


def genes():
    """Return rows on all genes of the network, and its edges.

    Measured expression where there is some; elsewhere the mean of the neighbours plus noise, which
    is what makes a network useful.
    """
    from scipy.io import loadmat

    from stochadmm_reproduction.datasets import fetch, load

    known = load("breast-cancer-graph", merge_probes=True, standardize=True)
    folder = "breast-cancer-graph"
    entrez = loadmat(fetch(f"{folder}/entrez.mat"))["entrez"].ravel()
    edges = np.loadtxt(fetch(f"{folder}/edge.txt.gz"), dtype=np.int64) - 1
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    d, rng = entrez.size, np.random.default_rng(0)
    pairs = sp.csr_array((np.ones(len(edges)), tuple(edges.T)), shape=(d, d))
    near = pairs + pairs.T
    X = rng.standard_normal((len(known.y), d))
    have = min(known.X.shape[1], d)
    X[:, rng.permutation(d)[:have]] = known.X[:, :have]
    degree = np.maximum(np.asarray(near.sum(axis=1)).ravel(), 1.0)
    for _ in range(3):
        X = 0.5 * X + 0.5 * (near @ X.T).T / degree
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.ascontiguousarray(X), known.y, edges


def pixels(loss: str):
    """Return 10,000 smooth images of 70 x 70 pixels and targets of two patches."""
    rng, side, n = np.random.default_rng(0), 70, 10_000
    W = np.zeros((side, side))
    W[10:30, 10:30], W[40:60, 25:50] = 1.0, -1.0
    X = np.empty((n, side * side))
    for rows in np.array_split(np.arange(n), 20):
        noise = rng.standard_normal((rows.size, side, side))
        X[rows] = gaussian_filter(noise, (0.0, 1.0, 1.0)).reshape(rows.size, -1)
    X /= X.std()
    score = X @ W.ravel() / np.linalg.norm(W)
    return X, target(loss, score + 0.5 * rng.standard_normal(n) * score.std()), W.shape


# ---------------------------------------------------------------- the baseline


def plain(loss: str, X, y, A, strength: float, newton: int = 4, inner: int = 150):
    """Minimize mean loss + strength |A w|_1 by one factor, Woodbury and ADMM alone."""
    n, d = X.shape
    At = sp.csr_array(A.T)
    factor = splu(
        sp.csc_array(At @ A), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}
    )
    B = factor.solve(np.ascontiguousarray(X.T))
    K, form = X @ B, LOSSES[loss]
    w, z = np.zeros(d), np.zeros(A.shape[0])
    u, rho = z.copy(), 5 * strength * np.sqrt(d)

    def value(w):
        return form.value(X @ w, y) + strength * np.abs(A @ w).sum()

    for _ in range(newton):
        m = X @ w
        D = np.maximum(form.curvature(m, y), 1e-6) / n
        root, lin = np.sqrt(D), X.T @ (D * m - form.derivative(m, y) / n)
        M = np.linalg.inv(np.eye(n) + root[:, None] * K * root / rho)
        for k in range(1, inner + 1):
            x = factor.solve(lin + rho * (At @ (z - u))) / rho
            x -= B @ (root * (M @ (root * (X @ x)))) / rho
            image = A @ x
            t, before = 1.6 * image - 0.6 * z + u, z
            z = t - np.clip(t, -strength / rho, strength / rho)
            u = t - z
            if k % 20:
                continue
            primal, dual = np.linalg.norm(image - z), rho * np.linalg.norm(z - before)
            change = 2.0 if primal > 10 * dual else 0.5 if dual > 10 * primal else 1.0
            if change != 1.0:
                rho, u = change * rho, u / change
                M = np.linalg.inv(np.eye(n) + root[:, None] * K * root / rho)
        w = x if value(x) < value(w) else w
    return value(w)


# ---------------------------------------------------------------- measuring


def problem(loss: str, X, y, S, strength: float, **options) -> sa.Problem:
    """Return the problem from raw arrays."""
    l1 = sa.L1(strength)
    return sa.Problem.linear(
        LOSSES[loss], X, y, structure=S, on_structure=l1, on_coefficients=l1, **options
    )


def clocked(work):
    """Return CPU seconds and the answer."""
    start = time.process_time()
    answer = work()
    return time.process_time() - start, answer


def memory() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def warm_up() -> None:
    """Load compiled code."""
    rng = np.random.default_rng(0)
    X, z = rng.standard_normal((30, 400)), rng.standard_normal(30)
    for loss in LOSSES:
        y = target(loss, z)
        sa.minimize(problem(loss, X, y, sa.GridDifferences((20, 20)), 0.1), stop=sa.Gap(1e-3))


def ours(make, tol: float):
    """Return seconds, result and the first seconds of the history at each tolerance."""
    return clocked(lambda: sa.minimize(make(), stop=sa.Gap(tol), max_seconds=300))


def one_grid(side: int, masked: bool, loss: str, share: float, who: str) -> str:
    """Run one method on one grid."""
    X, score, S = voxels(side, masked)
    y = target(loss, score)
    strength = share * float(np.abs(X.T @ y).max()) / len(y)
    if who == "plain":
        A = sp.csr_array(sp.vstack([S.tosparse(), sp.eye_array(X.shape[1])]))
        before = memory()
        seconds, value = clocked(lambda: plain(loss, X, y, A, strength))
        return f"{seconds:6.2f} s  F {value:.9f}  {memory() - before:6.0f} MB"
    warm_up()
    before = memory()
    seconds, result = ours(lambda: problem(loss, X, y, S, strength), float(who))
    return shown(seconds, result, before)


def shown(seconds: float, result: sa.Result, before: float) -> str:
    """Return what a run took and reached."""
    return (
        f"{seconds:6.2f} s  F {result.objective:.9f}  {memory() - before:6.0f} MB  "
        f"gap {result.relative_gap:.1e}  {result.info['route']}, {result.n_epochs} epochs"
    )


def one_path(side: int, loss: str, share: float) -> str:
    """Run a path of twenty strengths and one fit at the smallest."""
    X, score, S = voxels(side, False)
    y = target(loss, score)
    largest = float(np.abs(X.T @ y).max()) / len(y)
    warm_up()
    alphas = largest * np.geomspace(0.5, share, 20)

    def one(problem, start, workspace):  # as estimators do
        asked = Request(sa.Gap(1e-4), start=start, resumable=False)
        return solve(problem, "auto", asked, workspace)

    def path(alphas):
        unit = problem(loss, X, y, S, 1.0)
        return [result for _, _, result in solve_path(unit, alphas, one)]

    runs = [(clocked(lambda: path(alphas[-1:])), clocked(lambda: path(alphas))) for _ in range(3)]
    alone, seconds = (min(run[k][0] for run in runs) for k in (0, 1))
    results = runs[0][1][1]
    worst = max(result.relative_gap for result in results)
    times = f"{seconds / alone:.1f} times one fit ({alone:.2f} s)"
    return f"{seconds:6.2f} s = {times}, gaps <= {worst:.1e}"


def one_spacenet(side: int, loss: str, share: float) -> str:
    """Run nilearn's solver as its SpaceNet calls it: sums over rows, half of the strength each."""
    from nilearn.decoding.space_net_solvers import tvl1_solver

    X, score, _ = voxels(side, False)
    y = target(loss, score)
    strength = share * float(np.abs(X.T @ y).max()) / len(y)
    mask = np.ones((side,) * 3, dtype=bool)
    kind = "logistic" if loss == "logistic" else "mse"
    before = memory()
    seconds, found = clocked(
        lambda: tvl1_solver(X, y, 2 * strength * len(y), 0.5, mask, loss=kind, max_iter=1000)
    )
    steps = len(found[1])
    return f"{seconds:6.2f} s  {memory() - before:6.0f} MB  {steps} steps of at most 1000"


def one_network(share: float, loss: str) -> str:
    """Fit all genes of the network."""
    X, y, edges = genes()
    y = y if loss == "logistic" else y.astype(float)
    strength = share * float(np.abs(X.T @ y).max()) / len(y)
    warm_up()
    before = memory()
    S = sa.Incidence(edges, X.shape[1])
    seconds, result = ours(lambda: problem(loss, X, y, S, strength, intercept=True), 1e-4)
    return f"{X.shape[0]} x {X.shape[1]}, {len(edges)} edges: {shown(seconds, result, before)}"


def one_image(share: float, loss: str) -> str:
    """Fit many images."""
    X, y, shape = pixels(loss)
    strength = share * float(np.abs(X.T @ y).max()) / len(y)
    warm_up()
    before = memory()
    S = sa.GridDifferences(shape)
    seconds, result = ours(lambda: problem(loss, X, y, S, strength, intercept=True), 1e-4)
    return f"{X.shape[0]} x {X.shape[1]}: {shown(seconds, result, before)}"


def apart(work, *arguments) -> str:
    """Run in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def main() -> None:
    """Print one line per run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("grids", "path", "nilearn", "genes", "pixels"))
    parser.add_argument("--sides", type=int, nargs="+", default=[14, 20, 32])
    parser.add_argument("--only", nargs="+", default=[], help="masked, full, a loss, a strength")
    asked = parser.parse_args()
    lines = [
        (side, shape, loss, share)
        for side in ([0] if asked.what in ("genes", "pixels") else asked.sides)
        for shape in (("full", "masked") if asked.what == "grids" else ("full",))
        for loss in LOSSES
        for share in STRENGTHS
        if all(word in (shape, loss, str(share)) for word in asked.only)
    ]
    for side, shape, loss, share in lines:
        if asked.what == "grids":
            for who in ("plain", "1e-4", "1e-6"):
                line = apart(one_grid, side, shape == "masked", loss, share, who)
                print(f"{side}^3 {shape:6} {loss:8} {share:4} {who:>5}: {line}", flush=True)
        elif asked.what == "path":
            print(f"{side}^3 {loss:8} {share:4}: {apart(one_path, side, loss, share)}", flush=True)
        elif asked.what == "nilearn":
            line = apart(one_spacenet, side, loss, share)
            print(f"{side}^3 {loss:8} {share:4}: {line}", flush=True)
        else:
            work = one_network if asked.what == "genes" else one_image
            print(f"{asked.what} {loss:8} {share:4}: {apart(work, share, loss)}", flush=True)


if __name__ == "__main__":
    main()
