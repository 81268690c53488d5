"""``step="adaptive"`` with nothing set, beside rivals tuned in the setting of the paper.

    python benchmarks/adaptive.py [NAME ...] [--out FILE] [--tune 30]

Problems that were not used in the prototype; those of REAL need the data folder (STOCHADMM_DATA).
A first run on the first eight and on four of REAL changed two rules: a restart where beta is 10
times off, and the first direction of the power method. The four of FRESH came after, and the eight
of LAST, the default, after everything. Rivals are SVRG- and SAG-ADMM with step and penalty tuned
for the curve by ``sa.compare``, on another seed: "tuned" with b = 100 and epochs of 2 n / b steps
as in the paper, by --tune settings; "free" the best of these and of other batches and epochs, by
--tune / 3 settings each. Score: the geometric mean of the gap at 5, 10, 15, 20 and 30 reads and
three seeds, at least 1e-10. Processor seconds are of one thread, from the start of a method to a
gap of 1e-5 and 1e-7 of its own output, the median of the seeds; inf where 30 reads do not suffice.
"rises" counts snapshots of all rows at which F is higher than at the one before; "beta" is how
many times larger the score becomes with the first beta 100 times larger, and smaller. A line per
problem goes to FILE, and what is there is not run again; every line names the commit.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
from itertools import islice
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

import stochadmm as sa  # noqa: E402

SEEDS = (0, 1, 2)
READS = (5, 10, 15, 20, 30)
LEAST = 1e-10
LEVELS = (1e-5, 1e-7)

# ---------------------------------------------------------------- problems


def generated(loss, n, d, alpha, seed, *, density=1.0, condition=1.0, imbalance=0.0, chain=True):
    """Return a problem: columns of given condition and correlation, rows of unit length."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.6 * rng.standard_normal((n, 1))
    X *= condition ** (-np.arange(d) / (d - 1))
    if density < 1:
        X *= rng.random((n, d)) < density
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    w = 4 * np.repeat(rng.standard_normal(d // 5 + 1), 5)[:d]
    z = X @ w - imbalance
    y = {
        "logistic": lambda: np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0),
        "squared": lambda: z + rng.standard_normal(n),
        "huber": lambda: z + rng.standard_t(2, n),
        "hinge": lambda: np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0),
    }[loss]()
    made = {
        "logistic": sa.Logistic(),
        "squared": sa.Squared(),
        "huber": sa.Huber(1.0),
        "hinge": sa.SquaredHinge(),
    }[loss]
    X = sparse.csr_array(X) if density < 1 else X
    A = sa.VStack([sa.Differences(d), sa.Identity(d)]) if chain else sa.Identity(d)
    return sa.Problem.linear(made, X, y, structure=A, on_structure=sa.L1(alpha))


def folder(*parts):
    return Path(os.environ["STOCHADMM_DATA"]).joinpath(*parts)


def unit_rows(X):
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def usps(alpha):
    """Return digits below five against the others, on the grid of their pixels."""
    with gzip.open(folder("usps", "zip.train.csv.gz")) as lines:
        values = np.loadtxt(lines, delimiter=",")
    y, X = values[:, 0], values[:, 1:]
    A = sa.VStack([sa.Grid((16, 16)).operator, sa.Identity(256)])
    signs = np.where(y < 5, -1.0, 1.0)
    return sa.Problem.linear(
        sa.Logistic(), unit_rows(X), signs, structure=A, on_structure=sa.L1(alpha)
    )


def statlog(alpha):
    """Return the splice sites of one class against the others, along the sequence."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(folder("dna-statlog", "dna.scale.gz")), n_features=180)
    A = sa.VStack([sa.Differences(180), sa.Identity(180)])
    signs = np.where(y == 3, 1.0, -1.0)
    rows = sparse.csr_array(X)
    return sa.Problem.linear(sa.Logistic(), rows, signs, structure=A, on_structure=sa.L1(alpha))


def covtype(alpha, n=20_000):
    """Return the first rows, in random order, of one class of forest against the others."""
    import lzma

    with lzma.open(folder("covtype", "covtype.csv.xz"), "rt") as lines:
        values = np.loadtxt(lines, delimiter=",", skiprows=1, max_rows=60_000)
    values = values[np.random.default_rng(0).permutation(len(values))[:n]]
    X, y = values[:, :-1], values[:, -1]
    X = X[:, X.std(axis=0) > 0]
    X = unit_rows((X - X.mean(axis=0)) / X.std(axis=0))
    A = sa.VStack([sa.Differences(X.shape[1]), sa.Identity(X.shape[1])])
    signs = np.where(y == 2, 1.0, -1.0)
    return sa.Problem.linear(sa.Logistic(), X, signs, structure=A, on_structure=sa.L1(alpha))


def bikeshare(alpha):
    """Return the logarithm of bikes in use, by hour, month, day and weather."""
    import pandas as pd

    frame = pd.read_csv(folder("bikeshare", "bikeshare.csv.gz"))
    parts = ["hr", "mnth", "weekday", "weathersit"]
    X = pd.get_dummies(frame[[*parts, "workingday", "temp", "hum", "windspeed"]], columns=parts)
    y = np.log(frame["bikers"].to_numpy(float))
    A = sa.VStack([sa.Differences(X.shape[1]), sa.Identity(X.shape[1])])
    return sa.Problem.linear(
        sa.Squared(),
        unit_rows(X.to_numpy(float)),
        (y - y.mean()) / y.std(),
        structure=A,
        on_structure=sa.L1(alpha),
    )


def mnist(alpha, n=20_000):
    """Return even digits against odd ones, averaged to a grid of 7 x 7."""
    with gzip.open(folder("mnist", "train-images-idx3-ubyte.gz")) as stream:
        images = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 7, 4, 7, 4)[:n]
    with gzip.open(folder("mnist", "train-labels-idx1-ubyte.gz")) as stream:
        digits = np.frombuffer(stream.read(), np.uint8, offset=8)[:n]
    X = unit_rows(images.mean(axis=(2, 4)).reshape(n, 49))
    A = sa.VStack([sa.Grid((7, 7)).operator, sa.Identity(49)])
    signs = np.where(digits % 2 == 0, 1.0, -1.0)
    return sa.Problem.linear(sa.Logistic(), X, signs, structure=A, on_structure=sa.L1(alpha))


PROBLEMS = {
    "logistic 8000 x 40": lambda: generated("logistic", 8000, 40, 1e-4, 1),
    "logistic 8000 x 40, strong": lambda: generated("logistic", 8000, 40, 3e-3, 1),
    "logistic, ill-conditioned": lambda: generated("logistic", 12000, 60, 1e-5, 2, condition=30.0),
    "logistic, sparse rows": lambda: generated("logistic", 20000, 80, 1e-4, 3, density=0.1),
    "logistic, unbalanced": lambda: generated("logistic", 15000, 50, 1e-4, 4, imbalance=3.0),
    "squared 10000 x 100": lambda: generated("squared", 10000, 100, 1e-3, 5),
    "lasso 3000 x 150": lambda: generated("squared", 3000, 150, 1e-3, 6, chain=False),
    "huber 10000 x 30": lambda: generated("huber", 10000, 30, 1e-3, 7),
    "squared hinge 6000 x 60": lambda: generated("hinge", 6000, 60, 3e-4, 8),
    "logistic 40000 x 20": lambda: generated("logistic", 40000, 20, 1e-5, 9, condition=10.0),
    "squared 4000 x 40, sparse rows": lambda: generated(
        "squared", 4000, 40, 3e-4, 10, density=0.2
    ),
    "lasso, logistic 9000 x 120": lambda: generated("logistic", 9000, 120, 1e-3, 11, chain=False),
    "usps": lambda: usps(1e-4),
    "dna-statlog": lambda: statlog(1e-3),
    "covtype": lambda: covtype(1e-4),
    "covtype, strong": lambda: covtype(3e-3),
    "logistic 5000 x 25": lambda: generated("logistic", 5000, 25, 3e-4, 21, condition=3.0),
    "logistic 16000 x 120": lambda: generated("logistic", 16000, 120, 3e-5, 22),
    "lasso 6000 x 80, ill-conditioned": lambda: generated(
        "squared", 6000, 80, 1e-4, 23, condition=10.0, chain=False
    ),
    "squared 15000 x 50, sparse, strong": lambda: generated(
        "squared", 15000, 50, 3e-3, 24, density=0.3
    ),
    "huber 7000 x 70": lambda: generated("huber", 7000, 70, 1e-4, 25),
    "squared hinge 12000 x 40, unbalanced": lambda: generated(
        "hinge", 12000, 40, 1e-3, 26, imbalance=2.0
    ),
    "bikeshare": lambda: bikeshare(1e-3),
    "mnist 7 x 7": lambda: mnist(1e-4),
}
FRESH = tuple(PROBLEMS)[8:12]
LAST = tuple(PROBLEMS)[16:]
REAL = ("usps", "dna-statlog", "covtype", "covtype, strong", "bikeshare", "mnist 7 x 7")

# ---------------------------------------------------------------- measures


def score(curves):
    """Return the geometric mean of the gap at the reads that count."""
    logs = []
    for curve in curves:
        gaps = np.log(np.maximum(curve.gap, LEAST))
        logs += [np.interp(r, curve.reads, gaps) for r in READS]
    return float(np.exp(np.mean(logs)))


def seconds(curves, level):
    """Return the median of the seconds until a gap."""
    found = []
    for curve in curves:
        met = np.flatnonzero(curve.gap <= level)
        found.append(float(curve.seconds[met[0]]) if met.size else np.inf)
    return float(np.median(found))


def rises(problem, solver):
    """Return at how many snapshots of all rows F is higher than at the one before."""
    count = 0
    for seed in SEEDS:
        last = np.inf
        for state in islice(sa.iterate(problem, solver, np.random.default_rng(seed)), 25):
            if state.local.n_rows == problem.f2.n_terms:
                value = problem.objective(problem.feasible(state.local.last[0]))
                count += value > last + 1e-13 * abs(value)
                last = value
    return int(count)


def measure(problem, tune):
    """Return all figures of one problem."""
    b, n = 100, problem.f2.n_terms
    (first,) = islice(
        sa.iterate(problem, sa.AccSADMM(step="adaptive"), np.random.default_rng(0)), 1
    )
    beta = first.notes["beta"]
    ours = sa.compare(
        problem,
        {
            "acc adaptive": sa.AccSADMM(step="adaptive"),
            "svrg adaptive": sa.SVRGADMM(step="adaptive"),
            "acc": sa.AccSADMM(),
            "beta x 100": sa.AccSADMM(step="adaptive", beta=100 * beta),
            "beta / 100": sa.AccSADMM(step="adaptive", beta=beta / 100),
        },
        max_reads=READS[-1],
        seeds=SEEDS,
    )
    paper = {
        "svrg tuned": sa.SVRGADMM(batch_size=b, n_inner=max(3, round(2 * n / b))),
        "sag tuned": sa.solvers.SAGADMM(
            batch_size=b, n_inner=max(3, round(2 * n / b)), form="gradients"
        ),
    }
    free = {
        f"{method.name} {size}, {reads:g}": method(
            batch_size=size, n_inner=max(3, round(reads * n / size)), sampling="rows", **more
        )
        for method, more in ((sa.SVRGADMM, {}), (sa.solvers.SAGADMM, {"form": "gradients"}))
        for size, reads in ((8, 0.5), (25, 0.5), (25, 2.0))
    }
    rivals, others = (
        sa.compare(problem, methods, max_reads=READS[-1], seeds=SEEDS, tune=settings)
        for methods, settings in ((paper, tune), (free, max(1, tune // 3)))
    )
    every = rivals.tuned | others.tuned
    best = min(every, key=lambda label: every[label].area)  # on the seed of tuning
    curves = ours.curves | rivals.curves
    curves["free"] = (rivals.curves | others.curves)[best]
    scores = {label: score(found) for label, found in curves.items()}
    off = [scores.pop(label) / scores["acc adaptive"] for label in ("beta x 100", "beta / 100")]
    return {
        "n": n,
        "d": problem.shape2[0],
        "floor": max(ours.floor, rivals.floor),
        "scores": scores,
        "seconds": {label: [seconds(curves[label], v) for v in LEVELS] for label in scores},
        "beta": off,
        "rises": rises(problem, sa.AccSADMM(step="adaptive")),
        "free": best,
        "at_edge": {label: list(t.at_edge) for label, t in rivals.tuned.items()},
    }


# ---------------------------------------------------------------- the table


def show(found):
    """Print a line per problem, and how many bars are met."""
    for name, r in found.items():
        s, t = r["scores"], r["seconds"]
        rival = min(s["svrg tuned"], s["sag tuned"])
        print(
            f"{name:36s} {r['n']:6d} x {r['d']:3d}  score: "
            + "  ".join(f"{label} {value:.1e}" for label, value in s.items())
            + f"  tuned / ours {rival / s['acc adaptive']:.1f}"
            + f"  free ({r.get('free', 'not run')}) / ours {_free(r) / s['acc adaptive']:.2f}"
            + "  CPU ms to 1e-5, 1e-7: "
            + "  ".join(f"{k} {1e3 * v[0]:.0f} {1e3 * v[1]:.0f}" for k, v in t.items())
            + f"  beta {r['beta'][0]:.1f} {r['beta'][1]:.1f}  rises {r['rises']}"
            + (f"  edge {r['at_edge']}" if any(r["at_edge"].values()) else "")
        )
    every = list(found.values())
    ours = np.array([r["scores"]["acc adaptive"] for r in every])
    tuned = np.array([min(r["scores"][k] for k in ("svrg tuned", "sag tuned")) for r in every])
    free = np.array([_free(r) for r in every])
    off = np.array([r["beta"] for r in every])
    mean = np.exp(np.log(off).mean(axis=0))
    print(
        f"\nby reads ahead of the best rival tuned as in the paper on {np.sum(ours < tuned)} of "
        f"{len(every)}; of the best rival with batch and epoch free level or ahead on "
        f"{np.sum(ours <= 1.1 * free)} of {np.isfinite(free).sum()}, at worst "
        f"{np.nanmax(ours / free):.1f} times behind"
    )
    for rival in ("acc", "free"):
        ratios = [
            a / b if np.isfinite(a) else np.inf
            for r in every
            if rival in r["seconds"]
            for a, b in zip(r["seconds"]["acc adaptive"], r["seconds"][rival], strict=True)
            if np.isfinite(a) or np.isfinite(b)
        ]
        if ratios:
            print(
                f"CPU against {rival}: at most 1.2 times in {np.sum(np.array(ratios) <= 1.2)} of "
                f"{len(ratios)}, {max(ratios):.1f} times at worst"
            )
    print(
        f"score with the first beta x 100: {mean[0]:.1f} times on average, {off[:, 0].max():.1f} "
        f"at most; / 100: {mean[1]:.1f}, {off[:, 1].max():.1f}; "
        f"rises {sum(r['rises'] for r in every)}"
    )


def _free(r):
    return r["scores"].get("free", np.nan)  # earlier files do not have it


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("out/adaptive.jsonl"))
    parser.add_argument("--tune", type=int, default=30)
    given = parser.parse_args()
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    found = {r.pop("name"): r for r in map(json.loads, lines)}
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for name in given.names or LAST:
        if name in found or (name in REAL and "STOCHADMM_DATA" not in os.environ):
            continue
        found[name] = measure(PROBLEMS[name](), given.tune) | {"commit": commit}
        with given.out.open("a") as file:
            file.write(json.dumps({"name": name} | found[name]) + "\n")
    show({name: found[name] for name in (given.names or found)})


if __name__ == "__main__":
    main()
