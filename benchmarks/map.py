"""A map of random problems: which are not certified, which take long.

Every draw combines a loss, penalties, a structure, a shape, a storage, a correlation, a strength
and what else a problem may have. Each is solved by `auto` to a relative gap of 1e-4 in a limit of
processor time, so that the load of the machine decides nothing. Shown are the draws that are not
certified, those that need more than 300 passes and a second, and the slowest with their profile.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/map.py --count 300 --seed 7
    python benchmarks/map.py --count 300 --seed 7 --resume map.jsonl      # goes on where it was
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.signal import lfilter
from scipy.sparse.linalg import lsqr

import stochadmm as sa
from stochadmm.base.workspace import Workspace
from stochadmm.problem import at_strength
from stochadmm.run.null_model import null_model
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
    "tweedie",
    "negative binomial",
)
STRUCTURES = (
    "none",
    "l1",
    "elastic net",
    "rows",
    "groups",
    "overlapping groups",
    "chain",
    "trend 1",
    "trend 2",
    "graph",
    "grid",
    "dense operator",
    "low rank",
)
OPERATORS = ("chain", "trend 1", "trend 2", "graph", "grid", "dense operator")
ROWS, COLUMNS = (20, 1e6), (5, 1e5)
ENTRIES = 2e7  # stored numbers of the rows: 160 MB


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """Return the description of one problem, as it goes to the file of results."""
    while True:
        c: dict[str, Any] = {
            "loss": str(rng.choice(LOSSES)),
            "structure": str(rng.choice(STRUCTURES)),
            "l1": bool(rng.random() < 0.3),
            "n": int(np.exp(rng.uniform(*np.log(ROWS)))),
            "d": int(np.exp(rng.uniform(*np.log(COLUMNS)))),
            "storage": str(rng.choice(["dense", "csr"])),
            "correlation": float(rng.choice([0.0, 0.5, 0.97])),
            "strength": float(np.exp(rng.uniform(*np.log((1e-3, 0.5))))),
            "outputs": int(rng.choice([1, 1, 1, 3, 10, 50])),
            "intercept": bool(rng.random() < 0.6),
            "unpenalized": int(rng.choice([0, 0, 0, 0, 0, 1, 3])),
            "weights": bool(rng.random() < 0.2),
            "float32": bool(rng.random() < 0.15),
            "seed": int(rng.integers(1 << 30)),
        }
        if c["loss"] not in ("squared", "multinomial"):
            c["outputs"] = 1
        if c["loss"] == "multinomial":
            c["outputs"] = min(max(c["outputs"], 3), 10)
        if c["structure"] in ("rows", "low rank") and c["outputs"] == 1:
            continue
        if c["structure"] == "none" and c["n"] < 5 * c["d"] * c["outputs"]:
            continue  # without an optimum, or without any interest
        if c["structure"] == "dense operator" and c["d"] > 5000:
            continue
        if c["structure"] == "dense operator" and not c["l1"] and c["n"] < 5 * (c["d"] - 60):
            continue  # its 60 rows leave as many directions free
        if c["structure"] in ("none", "l1", "elastic net", "rows"):
            c["l1"] = False
        c["unpenalized"] = min(c["unpenalized"], c["d"] - 4, c["n"] // 10)
        share = 1.0 if c["storage"] == "dense" else min(1.0, 20 / c["d"])
        if c["n"] * c["d"] * share <= ENTRIES and c["n"] * c["outputs"] <= 5e6:
            return c


def build(c: dict[str, Any]) -> sa.Problem:
    """Return the problem of a description, its strength relative to the largest of use."""
    rng = np.random.default_rng(c["seed"])
    n, d, C, free = c["n"], c["d"], c["outputs"], c["unpenalized"]
    if c["storage"] == "csr":
        k = min(20, d)  # entries per row; some fall together
        numbers = rng.standard_normal(n * k), rng.integers(d, size=n * k)
        X = sparse.csr_array((*numbers, np.arange(0, n * k + 1, k)), shape=(n, d))
        X.sum_duplicates()
    else:
        X, rho = rng.standard_normal((n, d)), c["correlation"]
        if rho:  # neighbours are alike
            X[:, 0] /= np.sqrt(1 - rho**2)
            X = np.sqrt(1 - rho**2) * lfilter([1.0], [1.0, -rho], X, axis=1)
    w = np.zeros((d, C))
    w[: max(2, d // 5)] = rng.standard_normal(C)
    w[rng.random((d, C)) < 0.3 / np.sqrt(d)] += 1.0
    z = X @ w
    z = z / max(z.std(), 1e-12) + 0.5 * rng.standard_normal(z.shape)
    loss, y = target(c["loss"], z if C > 1 else z[:, 0], rng)
    if c["float32"]:
        X = X.astype(np.float32)
        y = y if c["loss"] == "multinomial" else y.astype(np.float32)
    given: dict[str, Any] = {"intercept": c["intercept"]}
    if c["weights"]:
        given["sample_weight"] = rng.uniform(0.2, 2.0, n)
    kind, p = c["structure"], d - free  # the last columns are free
    if kind == "none":
        return sa.Problem.linear(loss, X, y, **given)

    def beside(penalty: Any) -> Any:
        return sa.Stacked([(penalty, p), (sa.Zero(), free)]) if free else penalty

    if kind in OPERATORS or kind == "overlapping groups":
        A, penalty = operator(kind, p, rng)
        structure = sa.operators.PadColumns(A, free) if free else A
        given |= {"structure": structure, "on_structure": penalty}
    else:
        sizes = [5] * (p // 5) + ([p % 5] if p % 5 else [])
        penalty = {
            "l1": sa.L1(1.0),
            "elastic net": sa.ElasticNet(1.0, l1_ratio=0.5),
            "rows": sa.RowsL21(1.0),
            "low rank": sa.Nuclear(1.0),
            "groups": sa.SparseGroupNorm(1.0, sizes=sizes, l1_ratio=0.3)
            if c["l1"]
            else sa.GroupL2(1.0, sizes=sizes),
        }[kind]
        given |= {"on_coefficients": beside(penalty)}
        if kind == "low rank" and c["l1"]:
            first = sparse.eye_array(p, d, format="csr")
            given |= {"structure": first, "on_structure": sa.L1(1.0)}
    problem = sa.Problem.linear(loss, X, y, **given)
    problem = at_strength(problem, c["strength"] * largest(problem))
    if kind in OPERATORS and c["l1"]:
        gradient = problem.f2.gradient(problem.zeros().x2)[:p]
        l1 = sa.L1(0.3 * c["strength"] * float(np.abs(gradient).max()))
        given |= {"on_structure": problem.h1, "on_coefficients": beside(l1)}
        problem = sa.Problem.linear(loss, X, y, **given)
    return problem


def largest(unit: sa.Problem) -> float:
    """Return the largest strength of use, or more where it is a large linear program.

    Graphs of thousands of columns take minutes there; the shortest multiplier is no more than a
    few times larger than the least.
    """
    h1: Any = unit.h1
    if not isinstance(h1, sa.L1) or unit.shape2[0] <= 2000:
        return alpha_max(unit)
    x, gradient = null_model(unit, Workspace())
    A = unit.A2.tosparse()
    if A.shape[0] < A.shape[1] and A.nnz < 5 * A.shape[0]:  # independent rows: one multiplier
        return alpha_max(unit, null=(x, gradient))
    outputs = gradient.reshape(len(gradient), -1)
    return max(float(np.abs(lsqr(A.T, g)[0]).max()) for g in outputs.T)


def operator(kind: str, d: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return the operator of a structure on d columns, and its penalty of strength one."""
    l1 = sa.L1(1.0)
    if kind == "overlapping groups":  # of six columns, four apart
        groups = [np.arange(i, min(i + 6, d)) for i in range(0, max(d - 2, 1), 4)]
        A = sa.Selection(groups, d)
        return A, sa.GroupL2(1.0, sizes=A.sizes)
    if kind in ("chain", "trend 1", "trend 2"):
        return sa.Differences(d, order=("chain", "trend 1", "trend 2").index(kind) + 1), l1
    if kind == "grid":
        side = int(np.sqrt(d))
        pairs = [(i, i + 1) for i in range(d - 1) if (i + 1) % side]
        pairs += [(i, i + side) for i in range(d - side)]
        return sa.Incidence(pairs, d), l1
    if kind == "graph":
        pairs = [(i, int(rng.integers(i))) for i in range(1, d) for _ in range(2)]
        return sa.Incidence(pairs, d), l1
    return rng.standard_normal((min(60, 2 * d), d)) / np.sqrt(d), l1


def target(name: str, z: np.ndarray, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return a loss and targets with the linear predictions z."""
    if name == "multinomial":
        return sa.Multinomial(z.shape[1]), (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    if name in ("logistic", "squared hinge"):
        loss = sa.Logistic() if name == "logistic" else sa.SquaredHinge()
        return loss, np.where(z + rng.logistic(size=z.shape) > 0, 1.0, -1.0)
    mean = np.exp(np.clip(z, -3.0, 3.0))
    if name == "poisson":
        y = rng.poisson(mean).astype(float)
        return sa.Poisson.for_targets(y), y
    if name == "negative binomial":
        y = rng.poisson(mean * rng.gamma(1.0, 1.0, z.shape)).astype(float)
        return sa.NegativeBinomial.for_targets(y), y
    if name == "gamma":
        y = np.maximum(rng.gamma(2.0, mean), 1e-3)
        return sa.Gamma.for_targets(y), y
    if name == "tweedie":  # sums of as many amounts as a Poisson number says
        y = rng.gamma(np.maximum(rng.poisson(mean), 1e-9), 1.0)
        return sa.Tweedie.for_targets(y), y
    losses = {"squared": sa.Squared(), "huber": sa.Huber(0.5), "quantile": sa.Quantile(0.7, 0.1)}
    return losses[name], z + 0.3 * rng.standard_t(3, z.shape)


class Watch:
    """A limit of processor time, and what it was spent on.

    After ``limit`` seconds the run is interrupted and returns the best point it has; three
    seconds later whatever it then does is interrupted too. A look every 50 ms counts the innermost
    lines of the package: a profiler that sees every call would slow small problems down.
    """

    def __init__(self, limit: float) -> None:
        self.limit, self.lines = limit, Counter[str]()

    def __enter__(self) -> Watch:
        self.began = self.last = time.process_time()
        self.before = signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, 0.05, 0.05)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self.before)
        self.seconds = time.process_time() - self.began

    def _look(self, _: int, frame: Any) -> None:
        while frame is not None and "stochadmm/" not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is not None:
            name = frame.f_code.co_filename.rsplit("stochadmm/", 1)[1]
            self.lines[f"{name}:{frame.f_lineno}"] += 1
        now = time.process_time()
        if now - self.began > self.limit and now - self.last > 3:
            self.last = now
            raise KeyboardInterrupt

    @property
    def top(self) -> list[str]:
        """The lines with most seconds."""
        return [f"{0.05 * count:.1f} s {line}" for line, count in self.lines.most_common(4)]


def solve(c: dict[str, Any], limit: float) -> dict[str, Any]:
    """Return the description of a problem with what came of it."""
    found: dict[str, Any] = {"gap": np.inf, "passes": np.nan, "route": "?"}
    watch = Watch(6 * limit)  # the largest strength of a graph may take longer than a fit
    try:
        with watch:
            problem = build(c)
    except KeyboardInterrupt:
        return c | found | {"status": "OUT_OF_TIME in build", "seconds": limit, "top": watch.top}
    except Exception as error:
        return c | found | {"status": f"{type(error).__name__} in build: {error}", "seconds": 0.0}
    built, watch = watch.seconds, Watch(limit)
    try:
        with watch:
            r = sa.minimize(problem, stop=sa.Gap(TOL), max_passes=1e9)
        gap = np.inf if r.relative_gap is None else float(r.relative_gap)
        found = {"status": r.status.name, "gap": gap, "passes": float(r.n_passes)}
        found |= {"route": r.info.get("route", "?"), "objective": float(r.objective)}
    except KeyboardInterrupt:
        found["status"] = "OUT_OF_TIME"
    except Exception as error:
        found["status"] = f"{type(error).__name__}: {error}"
    return c | found | {"built": built, "seconds": watch.seconds, "top": watch.top}


def solve_apart(c: dict[str, Any], limit: float) -> dict[str, Any]:
    """Return what `solve` does, from a process of its own.

    A call that lets no signal in ends with it; so does a problem that needs too much memory.
    """
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        resource.setrlimit(resource.RLIMIT_CPU, (int(8 * limit + 10), int(8 * limit + 10)))
        with os.fdopen(write, "w") as pipe:
            json.dump(solve(c, limit), pipe)
            pipe.flush()
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    killed = {"gap": np.inf, "passes": np.nan, "route": "?", "status": "KILLED", "seconds": limit}
    return json.loads(text) if text else c | killed


def is_certified(c: dict[str, Any]) -> bool:
    """Say whether the gap was there in time."""
    return c["gap"] <= TOL and c["status"] != "INTERRUPTED"


def line(c: dict[str, Any]) -> str:
    """Return one draw in a line."""
    flags = "".join(f" {k}" for k in ("intercept", "weights", "float32") if c[k])
    flags += f" {c['unpenalized']} unpenalized" if c["unpenalized"] else ""
    return (
        f"{c['seconds']:6.1f} s  gap {c['gap']:.1e}  {c['passes']:5.0f} passes  "
        f"{c['status'][:40]:12} {c['route']:14} {c['loss']}, {c['structure']}"
        f"{' + l1' if c['l1'] else ''}, {c['n']} x {c['d']} x {c['outputs']} "
        f"{c['storage']}, correlation {c['correlation']}, strength {c['strength']:.4f}{flags}"
        f"  ({c['seed']})"
    )


def main() -> None:
    """Draw, solve, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of processor time")
    parser.add_argument("--resume", type=Path, help="file of results to go on with")
    parser.add_argument("--again", type=int, nargs="*", help="solve these draws only, by number")
    a = parser.parse_args()
    done: list[dict[str, Any]] = []
    if a.resume is not None and a.resume.exists():
        done = [json.loads(text) for text in a.resume.read_text().splitlines()]
    rng = np.random.default_rng(a.seed)
    draws = [draw(rng) for _ in range(a.count)]
    if a.again is not None:  # the number that ends the line of a draw
        draws = [c for c in draws if c["seed"] in a.again]
        done = []
    done = [c for c in done if any(c["seed"] == other["seed"] for other in draws)]
    known = {c["seed"] for c in done}
    for c in draws:
        if c["seed"] not in known:
            done.append(solve_apart(c, a.limit))
            if a.resume is not None and a.again is None:
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
