"""A map of random problems: which are not certified, which take long.

Every draw combines a loss, a structure, a shape, a storage, a correlation, a strength and what
else a problem may have. Each is solved by `auto` to a relative gap of 1e-4 in a limit of
processor time, so that the load of the machine decides nothing. Shown are the draws that are not
certified, those that need more than 300 passes and a second, and the slowest with their profile.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/map.py --count 300 --seed 7
    python benchmarks/map.py --count 300 --seed 7 --resume map.jsonl      # goes on where it was
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import pstats
import signal
import time
from pathlib import Path

import numpy as np
from scipy import sparse

import stochadmm as sa
from stochadmm.problem import at_strength
from stochadmm.run.path import alpha_max

TOL, PASSES, SLOW = 1e-4, 300, 1.0
LOSSES = (
    "squared",
    "huber",
    "quantile",
    "logistic",
    "multinomial",
    "squared hinge",
    "poisson",
    "gamma",
)
STRUCTURES = (
    "none",
    "l1",
    "chain",
    "chain + l1",
    "trend",
    "graph",
    "grid",
    "groups",
    "rows",
    "dense operator",
)
ROWS = (20, 50, 200, 1000, 5000, 30_000, 200_000, 1_000_000)
COLUMNS = (5, 20, 100, 400, 1500, 5000, 30_000, 100_000)
ENTRIES = 2e7  # of dense rows: 160 MB


class OutOfTime(Exception):
    """The limit of processor time has passed."""


def draw(rng: np.random.Generator) -> dict:
    """Return the description of one problem, as it goes to the file of results."""
    while True:
        c = {
            "loss": str(rng.choice(LOSSES)),
            "structure": str(rng.choice(STRUCTURES)),
            "n": int(rng.choice(ROWS)),
            "d": int(rng.choice(COLUMNS)),
            "storage": str(rng.choice(["dense", "csr"])),
            "correlation": float(rng.choice([0.0, 0.5, 0.97])),
            "strength": float(rng.choice([0.5, 0.1, 0.03, 0.01, 0.001])),
            "outputs": int(rng.choice([1, 1, 1, 3, 10, 50])),
            "intercept": bool(rng.random() < 0.6),
            "weights": bool(rng.random() < 0.2),
            "float32": bool(rng.random() < 0.15),
            "seed": int(rng.integers(1 << 30)),
        }
        if c["loss"] not in ("squared", "multinomial"):
            c["outputs"] = 1
        if c["loss"] == "multinomial":
            c["outputs"] = min(max(c["outputs"], 3), 10)
        if c["structure"] == "rows" and c["outputs"] == 1:
            continue
        if c["structure"] == "none" and c["n"] < 5 * c["d"] * c["outputs"]:
            continue  # without an optimum, or without any interest
        if c["structure"] == "dense operator" and c["d"] > 5000:
            continue
        share = 1.0 if c["storage"] == "dense" else min(1.0, 20 / c["d"])
        if c["n"] * c["d"] * share <= ENTRIES and c["n"] * c["outputs"] <= 5e6:
            return c


def build(c: dict) -> sa.Problem:
    """Return the problem of a description, its strength relative to the largest of use."""
    rng = np.random.default_rng(c["seed"])
    n, d, C = c["n"], c["d"], c["outputs"]
    if c["storage"] == "csr":
        X = sparse.random_array((n, d), density=min(1.0, 20 / d), format="csr", rng=rng)
        X.data = rng.standard_normal(X.nnz)
    else:
        X = rng.standard_normal((n, d))
        rho = c["correlation"]
        for j in range(1, d if rho else 0):  # neighbours are alike
            X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    w = np.zeros((d, C))
    w[: max(2, d // 5)] = rng.standard_normal(C)
    w[rng.random((d, C)) < 0.3 / np.sqrt(d)] += 1.0
    z = X @ w
    z = z / max(z.std(), 1e-12) + 0.5 * rng.standard_normal(z.shape)
    loss, y = target(c["loss"], z if C > 1 else z[:, 0], rng)
    if c["float32"]:
        X = X.astype(np.float32)
        y = y if c["loss"] == "multinomial" else y.astype(np.float32)
    given = {"intercept": c["intercept"]}
    if c["weights"]:
        given["sample_weight"] = rng.uniform(0.2, 2.0, n)
    kind, l1 = c["structure"], sa.L1(1.0)
    if kind == "none":
        return sa.Problem.linear(loss, X, y, **given)
    if kind == "l1":
        given |= {"on_coefficients": l1}
    elif kind == "rows":
        given |= {"on_coefficients": sa.RowsL21(1.0)}
    elif kind == "groups":
        sizes = [5] * (d // 5) + ([d % 5] if d % 5 else [])
        given |= {"on_coefficients": sa.GroupL2(1.0, sizes=sizes)}
    else:
        given |= {"structure": operator(kind, d, rng), "on_structure": l1}
    problem = sa.Problem.linear(loss, X, y, **given)
    problem = at_strength(problem, c["strength"] * alpha_max(problem))
    if kind == "chain + l1":
        strength = (
            0.3 * c["strength"] * float(np.abs(problem.f2.gradient(problem.zeros().x2)).max())
        )
        given |= {"on_structure": problem.h1, "on_coefficients": sa.L1(strength)}
        problem = sa.Problem.linear(loss, X, y, **given)
    return problem


def operator(kind: str, d: int, rng: np.random.Generator) -> object:
    """Return the operator of a structure on d columns."""
    if kind in ("chain", "chain + l1"):
        return sa.Differences(d)
    if kind == "trend":
        return sa.Differences(d, order=2)
    if kind == "grid":
        side = int(np.sqrt(d))
        pairs = [(i, i + 1) for i in range(d - 1) if (i + 1) % side] + [
            (i, i + side) for i in range(d - side)
        ]
        return sa.Incidence(pairs, d)
    if kind == "graph":
        return sa.Incidence([(i, int(rng.integers(i))) for i in range(1, d) for _ in range(2)], d)
    return rng.standard_normal((min(60, 2 * d), d)) / np.sqrt(d)


def target(name: str, z: np.ndarray, rng: np.random.Generator) -> tuple[object, np.ndarray]:
    """Return a loss and targets with the linear predictions z."""
    if name == "multinomial":
        return sa.Multinomial(z.shape[1]), (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    if name in ("logistic", "squared hinge"):
        loss = sa.Logistic() if name == "logistic" else sa.SquaredHinge()
        return loss, np.where(z + rng.logistic(size=z.shape) > 0, 1.0, -1.0)
    if name == "poisson":
        y = rng.poisson(np.exp(np.minimum(z, 3.0))).astype(float)
        return sa.Poisson.for_targets(y), y
    if name == "gamma":
        return sa.Gamma(), np.maximum(rng.gamma(2.0, np.exp(np.clip(z, -3, 3))), 1e-3)
    losses = {"squared": sa.Squared(), "huber": sa.Huber(0.5), "quantile": sa.Quantile(0.7, 0.1)}
    return losses[name], z + 0.3 * rng.standard_t(3, z.shape)


def solve(c: dict, limit: float) -> dict:
    """Return the description of a problem with what came of it."""

    def stop(*_: object) -> None:
        raise OutOfTime

    found: dict = {"status": "OUT_OF_TIME", "gap": np.inf, "passes": np.nan, "route": "?"}
    try:
        problem = build(c)
    except Exception as error:
        return c | found | {"status": f"{type(error).__name__} in build: {error}", "seconds": 0.0}
    profile, before = cProfile.Profile(time.process_time), signal.signal(signal.SIGPROF, stop)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit)
    profile.enable()
    try:
        r = sa.minimize(problem, stop=sa.Gap(TOL))
        gap = np.inf if r.relative_gap is None else float(r.relative_gap)
        found = {"status": r.status.name, "gap": gap, "passes": float(r.n_passes)}
        found["route"] = r.info.get("route", "?")
    except OutOfTime:
        pass
    except Exception as error:
        found["status"] = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        profile.disable()
        signal.signal(signal.SIGPROF, before)
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(4)
    lines = [line.split() for line in out.getvalue().splitlines() if "(" in line and ":" in line]
    top = [f"{x[1]} {x[-1].rsplit('/', 1)[-1]}" for x in lines if len(x) >= 6][:4]
    return c | found | {"seconds": time.process_time() - began, "top": top}


def is_certified(c: dict) -> bool:
    """Say whether the gap is what was asked for."""
    return c["gap"] <= TOL


def line(c: dict) -> str:
    """Return one draw in a line."""
    flags = "".join(f" {k}" for k in ("intercept", "weights", "float32") if c[k])
    return (
        f"{c['seconds']:6.1f} s  gap {c['gap']:.1e}  {c['passes']:5.0f} passes  "
        f"{c['status'][:40]:12} {c['route']:14} {c['loss']}, {c['structure']}, {c['n']} "
        f"x {c['d']} x {c['outputs']} "
        f"{c['storage']}, correlation {c['correlation']}, strength {c['strength']}{flags}"
    )


def main() -> None:
    """Draw, solve, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of processor time")
    parser.add_argument("--resume", type=Path, help="file of results to go on with")
    a = parser.parse_args()
    done: list[dict] = []
    if a.resume is not None and a.resume.exists():
        done = [json.loads(text) for text in a.resume.read_text().splitlines()]
    rng = np.random.default_rng(a.seed)
    draws = [draw(rng) for _ in range(a.count)]
    done = [c for c in done if any(c["seed"] == other["seed"] for other in draws)]
    known = {c["seed"] for c in done}
    for c in draws:
        if c["seed"] not in known:
            done.append(solve(c, a.limit))
            if a.resume is not None:
                with a.resume.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    wrong = [c for c in done if not is_certified(c)]
    long = [c for c in done if is_certified(c) and c["passes"] > PASSES and c["seconds"] > SLOW]
    for title, rows in (("not certified", wrong), (f"above {PASSES} passes and {SLOW:g} s", long)):
        print(f"\n{title}: {len(rows)} of {len(done)}")
        for c in sorted(rows, key=lambda c: -c["seconds"]):
            print(line(c))
    print("\nthe slowest")
    for c in sorted(done, key=lambda c: -c["seconds"])[:20]:
        print(line(c), *c.get("top", []), sep="\n           ")


if __name__ == "__main__":
    main()
