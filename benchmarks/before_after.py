"""The same cells of several benchmarks with an older commit and with this tree, in one run.

    python benchmarks/before_after.py COMMIT [--only WORDS] [--rounds 3] [--seconds 300]

The commit is unpacked into ``out/before_after`` and its extension is compiled there. One process
with each version runs a cell in turn, so that both meet the same load; the data of a cell are made
once and handed to both. Least processor seconds of one thread; cells that take less than a few
seconds are run once before they count. Every time is written down at once, and a later call goes
on where an earlier one stopped (``--seconds`` says when). The last column is after / before; exit
code 1 where a cell is more than ``--limit`` times slower.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tarfile
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "before_after"
SHORT = 3.0  # seconds below which a cell is run once before it counts
REPEATED = 1.5  # seconds a short cell is repeated for in every round; the least counts


# -------------------------------------------------------------------- cells


def cells() -> dict[str, tuple]:
    """Return what is measured: which function makes it, and its arguments, by name."""
    import kernels
    import time_to_gap
    import wide

    made: dict[str, tuple] = {}
    for loss, n, d in wide.SHAPES:
        for share in wide.SHARES:
            made[f"wide {loss} {n} x {d} share {share:g}"] = (of_wide, loss, n, d, share)
    for what in ("path", "cv"):
        for kind in ("regressor", "classifier"):
            made[f"tied {what} of 50, {kind}"] = (of_tied, what, kind)
    for name, storage in time_to_gap.LIMITS:
        for mu in time_to_gap.STRENGTHS:
            for tol in (1e-6, 1e-8):
                key = f"time_to_gap {name} {storage} mu {mu:g} to {tol:g}"
                made[key] = (of_time_to_gap, name, storage, mu, tol)
    for name, (kind, *_) in kernels.tasks().items():
        if kind != "read":
            made[f"kernels {name}"] = (of_kernels, name)
    made["path covtype, 50 values"] = (of_path,)
    made["path 5 x 50, 100,000 x 100"] = (of_cross_validation,)
    made["many_outputs mnist"] = (of_many_outputs, "mnist")
    made["many_outputs clinc150"] = (of_many_outputs, "clinc150")
    return made


def shared(name: str, make):
    """Return data that both versions work on: made by the first that asks, then read."""
    path = OUT / "data" / f"{name}.pickle"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(pickle.dumps(make(), protocol=5))
        unfinished.replace(path)
    return pickle.loads(path.read_bytes())


def of_time_to_gap(name: str, storage: str, mu: float, tol: float):
    import time_to_gap
    from scipy import sparse

    import stochadmm as sa

    X, y, A = shared(f"time_to_gap-{name}", lambda: time_to_gap.load(name))
    X = sparse.csr_array(X) if storage == "csr" else X

    def run():
        problem = time_to_gap.state(X, y, A, mu)
        found = sa.minimize(problem, "auto", stop=sa.Gap(tol), max_passes=1e9, random_state=0)
        assert found.converged

    return run


def of_wide(loss: str, n: int, d: int, share: float):
    import wide

    import stochadmm as sa

    X, y, largest = wide.rows(loss, n, d)

    def run():
        problem = wide.problem(loss, X, y, share * largest)
        assert sa.minimize(problem, "auto", stop=sa.Gap(1e-6)).converged

    return run


def of_tied(what: str, kind: str):
    """Return a path or a cross-validation of 50 strengths with columns tied by a graph."""
    import numpy as np

    import stochadmm as sa

    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 80))
    edges = np.array([rng.choice(80, 2, replace=False) for _ in range(250)])
    z = X @ np.repeat(rng.standard_normal(8), 10) + rng.standard_normal(1500)
    regression = kind == "regressor"
    y = z if regression else (z > 0).astype(int)
    role = "Regressor" if regression else "Classifier"
    if what == "path":
        model = getattr(sa, f"GraphFused{role}")(graph=edges)
        return lambda: model.path(X, y, alphas=50)
    return lambda: getattr(sa, f"GraphFused{role}CV")(graph=edges, alphas=50, cv=5).fit(X, y)


def of_path():
    import numpy as np
    import time_to_gap

    import stochadmm as sa

    X, y, A = shared("time_to_gap-covtype", lambda: time_to_gap.load("covtype"))
    edges = np.array([tuple(row.indices) for row in A[: A.shape[0] - X.shape[1]]])
    return lambda: sa.GraphFusedClassifier(graph=edges, tol=1e-4).path(X, y, alphas=50)


def of_cross_validation():
    from sklearn.model_selection import StratifiedKFold

    import stochadmm as sa

    def make():
        data = sa.datasets.make_graph_fused(100_000, 100)
        return data.X, data.y, data.graph

    X, y, graph = shared("graph-fused", make)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return lambda: sa.GraphFusedClassifierCV(graph=graph, alphas=50, cv=folds, tol=1e-4).fit(X, y)


def of_many_outputs(name: str):
    import many_outputs
    import numpy as np

    import stochadmm as sa

    X, y = shared(f"many_outputs-{name}", lambda: many_outputs.load(name))
    unit = many_outputs.unit_problem(X, y)
    derivatives = unit.f2.gradient(np.zeros(unit.shape2))
    largest = 2 * min(float(np.abs(derivatives).max()), float(np.linalg.norm(derivatives, 2)))

    def run():
        problem = many_outputs.at_strength(many_outputs.unit_problem(X, y), 0.1 * largest)
        assert sa.minimize(problem, stop=sa.Gap(1e-4), max_passes=1e4).converged

    return run


def of_kernels(name: str):
    import kernels

    _, make, *arguments = kernels.tasks()[name]
    return make(*arguments)


# -------------------------------------------------------------------- processes


def work() -> None:
    """Answer names of cells with the processor seconds of one run; a short one is warmed up."""
    use_only(Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]))
    known, ready = cells(), {}
    for line in sys.stdin:
        name = line.strip()
        fresh = name not in ready
        if fresh:
            ready.clear()
            make, *arguments = known[name]
            ready[name] = make(*arguments)
        seconds = timed(ready[name])
        if fresh and seconds < SHORT:
            seconds = timed(ready[name])
        spent = seconds
        while spent < REPEATED:
            spent += (again := timed(ready[name]))
            seconds = min(seconds, again)
        print(json.dumps(seconds), flush=True)


def use_only(folder: Path) -> None:
    """Import the package from this folder, whatever an editable installation says."""
    sys.meta_path[:] = [
        finder for finder in sys.meta_path if "editable" not in type(finder).__module__
    ]
    import stochadmm

    found = Path(stochadmm.__file__).resolve()
    if not found.is_relative_to(folder.resolve()):
        raise SystemExit(f"{found} was imported where {folder} was asked for")


def timed(run) -> float:
    """Return the processor seconds of a call."""
    start = time.process_time()
    run()
    return time.process_time() - start


class Worker:
    """A process with one version of the package and of its benchmarks."""

    def __init__(self, tree: Path) -> None:
        # data sets are loaded by the reproduction, which is no part of older sources
        folders = ("src", "reproduction/src", "benchmarks")
        path = os.pathsep.join(str(tree / folder) for folder in folders)
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--work"],
            env={**os.environ, "PYTHONPATH": path},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def seconds(self, name: str) -> float | None:
        """Return the processor seconds of a cell, None where the process ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        return float(json.loads(line)) if line else None

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def unpacked(commit: str) -> Path:
    """Return a folder with the sources of a commit and its extension, made where it is missing."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.check_output([*git, "rev-parse", "--short", commit], text=True).strip()
    tree = OUT / name
    if (tree / "build" / "ext" / ".built").is_file():
        return tree
    tree.mkdir(parents=True, exist_ok=True)
    archive = subprocess.Popen([*git, "archive", name], stdout=subprocess.PIPE)
    with tarfile.open(fileobj=archive.stdout, mode="r|") as content:
        content.extractall(tree, filter="data")
    build = tree / "build" / "ext"
    configure = ["cmake", "-S", str(tree), "-B", str(build)]
    subprocess.check_call([*configure, f"-DPython_EXECUTABLE={sys.executable}"])
    subprocess.check_call(["cmake", "--build", str(build), "--parallel"])
    subprocess.check_call(["cmake", "--install", str(build), "--prefix", str(tree / "src")])
    (build / ".built").touch()
    return tree


# -------------------------------------------------------------------- the table


def line(name: str, times: dict[str, list[float]]) -> tuple[str, float]:
    """Return a line of the table, and after / before."""
    before, after = (1e3 * min(times[key]) for key in ("before", "after"))
    ratio = after / max(before, 1e-9)
    return f"{name:<58} {before:10.2f} {after:10.2f} {ratio:7.2f}", ratio


def main() -> int:
    """Measure what is missing, print the table; 1 where a cell is too slow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--only", default="", help="cells whose names contain these words")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="when to stop")
    parser.add_argument("--limit", type=float, default=1.1)
    parser.add_argument("--again", action="store_true", help="forget the times of these cells")
    parser.add_argument("--slow", action="store_true", help="only cells that were slower so far")
    parser.add_argument("--build", action="store_true", help="unpack and compile, and stop")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return 0
    if options.commit is None:
        parser.error("name the commit to compare with")
    tree, end = unpacked(options.commit), time.monotonic() + options.seconds
    if options.build:
        return 0
    log = OUT / f"{tree.name}.json"
    known = json.loads(log.read_text()) if log.is_file() else {}
    sys.path.insert(0, str(ROOT / "benchmarks"))
    wanted = [name for name in cells() if options.only in name]
    if options.slow:
        wanted = [w for w in wanted if w in known and line(w, known[w])[1] > options.limit]
    if options.again:
        known = {name: times for name, times in known.items() if name not in wanted}
    workers = {"before": Worker(tree), "after": Worker(ROOT)}
    slow, missing = [], []
    print(f"{'processor milliseconds':<58} {'before':>10} {'after':>10} {'ratio':>7}")
    for name in wanted:
        times = known.setdefault(name, {"before": [], "after": []})
        while len(times["after"]) < options.rounds and time.monotonic() < end:
            found = {key: worker.seconds(name) for key, worker in workers.items()}
            if None in found.values():
                ended = [key for key, value in found.items() if value is None]
                print(f"{name}: the process ended ({', '.join(ended)})")
                workers = {"before": Worker(tree), "after": Worker(ROOT)}
                break
            for key, value in found.items():
                times[key].append(value)
            log.write_text(json.dumps(known, indent=1))
        if not times["after"]:
            missing.append(name)
            continue
        text, ratio = line(name, times)
        print(text + ("  SLOWER" if ratio > options.limit else ""), flush=True)
        slow += [name] if ratio > options.limit else []
    for worker in workers.values():
        worker.close()
    print(
        f"{len(wanted) - len(missing)} of {len(wanted)} cells, {len(slow)} slower by more than "
        f"{100 * (options.limit - 1):.0f} %"
    )
    return int(bool(slow or missing))


if __name__ == "__main__":
    sys.exit(main())
