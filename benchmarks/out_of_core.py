"""Rows larger than the memory: a graph-fused logistic model from .npy and from Parquet.

    python benchmarks/out_of_core.py FOLDER [--rows 20000000] [--limit 2GB] [--out lines.json]
                                     [--only npy,parquet,...] [--delete]
                                     [--dask-ml PYTHON] [--roomy 12GB] [--cap 1800]

``--rows`` rows of 100 columns in float32 (8 GB for 20,000,000), generated from a seed into FOLDER
where they are not there yet: five columns are nearly always zero, and the second half of the rows
is sorted by label. The same rows are written as Parquet, plain encoding with snappy, row groups of
250,000 rows. Every line runs in a process of its own, and is kept in ``--out``, so that a run that
was stopped goes on. With ``--delete`` the rows are removed at the end.

The fits run under a limit of their own memory (RLIMIT_DATA), to a certified relative gap of 1e-6.
Before *every* pass the files are dropped from the page cache, so that each comes from the disk.
``MB/s`` counts the bytes of the rows in float32 over the seconds of the passes; a line above it
says what plain reads of the same file and pyarrow's own decoding reach in the same run. Beside
them what a user would do otherwise: one epoch of scikit-learn's ``SGDClassifier.partial_fit``, and
dask-ml's ``LogisticRegression(penalty="l1")`` on a Dask array of the same file, by a Python that
has it (``--dask-ml``; it needs other versions than we do): ten iterations of its proximal
gradients, and one of its default, consensus ADMM over the pieces of the array. dask-ml runs under
the limit first, then with ``--roomy`` memory, and is ended after ``--cap`` seconds. Both packages
have an l1 norm and no graph; their objective is that of our problem at their coefficients.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from lines import Lines, Table

import stochadmm as sa
from stochadmm.risk.streamed import as_bytes

COLUMNS, CLUSTER, RARE, PIECE, GROUP = 100, 5, 5, 100_000, 250_000
ALPHA, GAP = 1e-4, 1e-6
ITERATIONS = {"proximal_grad": 10, "admm": 1}
"""Of dask-ml's solvers for an l1 norm: what ends within a quarter of an hour."""
ENCODING = {"use_dictionary": False, "compression": "snappy"}
NAMES = [f"x{j}" for j in range(COLUMNS)]


def truth() -> np.ndarray:
    """Return coefficients that are equal in clusters of columns, most of them zero."""
    rng = np.random.default_rng(1)
    levels = rng.standard_normal(COLUMNS // CLUSTER) * (rng.random(COLUMNS // CLUSTER) < 0.5)
    return np.repeat(levels, CLUSTER) / 3


def edges() -> np.ndarray:
    """Return a chain through the columns, and pairs from anywhere."""
    chain = np.column_stack([np.arange(COLUMNS - 1), np.arange(1, COLUMNS)])
    return np.vstack([chain, np.random.default_rng(2).integers(COLUMNS, size=(50, 2))])


def piece(number: int, rows: int, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one piece of the rows with its labels.

    Rows and their negatives with the other label are equally probable, so that the second half can
    be sorted by label without another distribution.
    """
    rng = np.random.default_rng([0, number])
    X = rng.standard_normal((rows, COLUMNS), dtype=np.float32)
    X[:, -RARE:] *= 10.0 * (rng.random((rows, RARE)) < 0.01)
    y = np.where(X @ truth() + rng.logistic(size=rows) > 0, 1.0, -1.0)
    place = number * PIECE / total
    if place >= 0.5:
        wanted = -1.0 if place < 0.75 else 1.0
        X *= (y * wanted)[:, None].astype(np.float32)
        y[:] = wanted
    return X, y.astype(np.float32)


def generated(folder: Path, total: int) -> None:
    """Write the rows as .npy."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / f"npy-{total}").exists():
        return
    files = {
        name: np.lib.format.open_memmap(
            folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=size
        )
        for name, size in {"X": (total, COLUMNS), "y": (total,)}.items()
    }
    for number, first in enumerate(range(0, total, PIECE)):
        rows = slice(first, min(first + PIECE, total))
        files["X"][rows], files["y"][rows] = piece(number, rows.stop - rows.start, total)
    for each in files.values():
        each.flush()
    (folder / f"npy-{total}").touch()


def encoded(folder: Path, total: int) -> None:
    """Write the same rows as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if (folder / f"parquet-{total}").exists():
        return
    X, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("X", "y"))
    schema = pa.schema([(name, pa.float32()) for name in (*NAMES, "y")])
    with parquet.ParquetWriter(folder / "rows.parquet", schema, **ENCODING) as writer:
        for first in range(0, total, GROUP):
            columns = np.ascontiguousarray(X[first : first + GROUP].T)
            labels = np.array(y[first : first + GROUP])
            writer.write_table(pa.table([*columns, labels], schema=schema), row_group_size=GROUP)
    (folder / f"parquet-{total}").touch()


def drop(paths: list[Path]) -> None:
    """Take files out of the page cache."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_plainly(path: Path, threads: int, size: int = 1 << 24) -> float:
    """Return the bytes per second of reading a file that is not in the page cache."""
    drop([path])
    total = path.stat().st_size

    def part(number: int) -> None:
        buffer = memoryview(bytearray(size))
        with open(path, "rb", buffering=0) as file:
            place, stop = (total * k // threads for k in (number, number + 1))
            file.seek(place)
            while place < stop:
                place += file.readinto(buffer[: min(size, stop - place)])

    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, range(threads)))
    return total / (time.perf_counter() - began)


def disk(folder: Path) -> dict[str, float]:
    """Measure plain reads with one thread and with two."""
    return {str(n): read_plainly(folder / "X.npy", n) for n in (1, 2)}


def decoding(folder: Path, total: int) -> dict[str, float]:
    """Measure pyarrow's own decoding of all columns, in two ways."""
    import pyarrow.parquet as parquet

    found = {}
    for name in ("row groups", "batches"):
        drop([folder / "rows.parquet"])
        wall, cpu = time.perf_counter(), time.process_time()
        with parquet.ParquetFile(folder / "rows.parquet", pre_buffer=False) as file:
            if name == "row groups":
                for group in range(file.num_row_groups):
                    file.read_row_group(group, use_threads=False)
            else:
                for _ in file.iter_batches(1 << 16, use_threads=False):
                    pass
        size = 4.0 * total * COLUMNS
        found[f"{name}, per second"] = size / (time.perf_counter() - wall)
        found[f"{name}, per CPU second"] = size / (time.process_time() - cpu)
    return found


@dataclass(frozen=True)
class Timed(sa.cluster.Local):
    """Threads of this process; every pass begins without the files in the page cache."""

    files: tuple[Path, ...] = ()
    passes: list[tuple[float, float]] = field(default_factory=list)

    def map_reduce(self, shards, work, add):
        """Run a pass, note its seconds and CPU seconds."""
        drop([*self.files, *Path(self.files[0]).parent.glob("scratch/*/*.npy")])
        wall, cpu = time.perf_counter(), time.process_time()
        found = super().map_reduce(shards, work, add)
        self.passes.append((time.perf_counter() - wall, time.process_time() - cpu))
        return found


def stated(source) -> sa.Problem:
    """Return the problem of the benchmark."""
    graph = sa.Incidence(edges(), COLUMNS)
    return sa.Problem.linear(
        sa.Logistic(),
        source,
        structure=sa.VStack([graph, sa.Identity(COLUMNS)]),
        on_structure=sa.L1(ALPHA),
        intercept=True,
    )


def opened(folder: Path, kind: str):
    """Return the rows as a source."""
    if kind == "npy":
        return sa.open(folder / "X.npy", folder / "y.npy")
    return sa.open(folder / "rows.parquet", "y", columns=NAMES, scratch=folder / "scratch")


def own_memory() -> int:
    """Return the largest memory of this process so far, in bytes; libraries included."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def fit(folder: Path, kind: str, limit: int, total: int) -> dict[str, object]:
    """Fit under a limit of memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    before = own_memory()
    source = opened(folder, kind)
    file = folder / ("X.npy" if kind == "npy" else "rows.parquet")
    engine = Timed(2, (file,))
    began = time.perf_counter()
    found = sa.minimize(stated(source), stop=sa.Gap(GAP), cluster=engine)
    seconds = time.perf_counter() - began
    size = 4.0 * total * COLUMNS
    return {
        "converged": found.converged,
        "objective": found.objective,
        "gap": found.relative_gap,
        "passes": len(engine.passes),
        "seconds": seconds,
        "memory": own_memory(),
        "before": before,
        "each": [size / wall for wall, _ in engine.passes],
        "per CPU second": [size / cpu for _, cpu in engine.passes],
        "coef": np.append(found.coef, found.intercept).tolist(),
    }


def sgd(folder: Path, limit: int) -> dict[str, object]:
    """Run one epoch of scikit-learn's SGDClassifier over the same blocks."""
    from sklearn.linear_model import SGDClassifier

    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    source = opened(folder, "npy")
    model = SGDClassifier(loss="log_loss", penalty="l1", alpha=ALPHA, random_state=0)
    drop([folder / "X.npy"])
    began = time.perf_counter()
    for shard in source.shards:
        for block in shard.blocks(1 << 24):
            model.partial_fit(block.X, block.y, classes=[-1.0, 1.0])
    seconds = time.perf_counter() - began
    objective = worth(folder, np.append(model.coef_.ravel(), model.intercept_))
    return {"objective": objective, "seconds": seconds, "memory": own_memory()}


def dask_ml(
    folder: Path, solver: str, limits: tuple[int, int], python: str | None, cap: float
) -> dict[str, object]:
    """Run dask-ml in its own Python, under the limit and then, where it fails, with more."""
    if python is None:
        return {"skipped": "name a Python that has dask-ml by --dask-ml"}
    script, failed = Path(__file__).with_name("dask_ml_rows.py"), []
    for limit in limits:
        drop([folder / "X.npy"])
        asked = [python, script, folder, limit, ALPHA, solver, ITERATIONS[solver]]
        began = time.perf_counter()
        try:
            ended = subprocess.run(
                list(map(str, asked)), capture_output=True, text=True, env=alone(), timeout=cap
            )
        except subprocess.TimeoutExpired:
            failed.append(f"{limit / 1e9:.0f} GB: ended after {cap:.0f} s")
            break  # more memory is no more time
        if ended.returncode == 0:
            found = json.loads(ended.stdout.splitlines()[-1])
            objective = worth(folder, np.array(found["coef"]))
            return found | {"objective": objective, "limit": limit, "failed": failed}
        why = (ended.stderr.splitlines() or ["no word"])[-1]
        failed.append(f"{limit / 1e9:.0f} GB: {why} after {time.perf_counter() - began:.0f} s")
    return {"skipped": "it failed", "failed": failed}


def alone() -> dict[str, str]:
    """Return the environment for another Python: it must not find our packages."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def worth(folder: Path, x2: np.ndarray) -> float:
    """Return the objective of our problem at the coefficients of another model; one read."""
    problem = stated(opened(folder, "npy"))
    point = problem.feasible(sa.Pair(problem.zeros().x1, x2))
    return problem.f2.value(x2) + problem.penalty(point)


def report(lines: dict[str, dict[str, object]], total: int) -> None:
    """Print what was measured."""
    size = 4e-6 * total * COLUMNS
    print(f"\n{total:,} x {COLUMNS} float32, {size:,.0f} MB; Parquet: plain + snappy")
    streaming, decoded = max(lines["disk"].values()), 0.0
    print(
        f"plain reads of the .npy file: {streaming / 1e6:.0f} MB/s (the better of 1 and 2 threads)"
    )
    if "decoding" in lines:
        decoded = max(v for k, v in lines["decoding"].items() if "CPU" in k)
        print(f"pyarrow's own decoding: {decoded / 1e6:.0f} MB per CPU second (best way)")
    table = Table(
        "rows in",
        "objective",
        "certified gap",
        "passes",
        "s",
        "peak MB",
        "first pass",
        "other passes, MB/s",
        "of the disk",
        "first pass per CPU s, of pyarrow",
    )
    best = np.inf
    for kind in ("npy", "parquet"):
        if kind not in lines:
            continue
        found = lines[kind]
        first, *others = found["each"]
        middle = float(np.median(others))
        own = found["per CPU second"][0] / decoded if kind == "parquet" and decoded else np.nan
        best = min(best, found["objective"])
        table.row(
            kind,
            f"{found['objective']:.10f}",
            found["gap"],
            found["passes"],
            f"{found['seconds']:.0f}",
            f"{found['memory'] / 1e6:.0f}",
            f"{first / 1e6:.0f}",
            f"{middle / 1e6:.0f}",
            f"{100 * middle / streaming:.0f} %",
            f"{100 * own:.0f} %",
        )
    others = {"sgd": "SGDClassifier.partial_fit, one epoch"} | {
        f"dask-ml {solver}": f"dask-ml LogisticRegression, penalty l1, {solver}, {n} iterations"
        for solver, n in ITERATIONS.items()
    }
    for name, words in others.items():
        found = lines.get(name, {"skipped": "not asked for"})
        print(f"\n{words}")
        for why in found.get("failed", []):
            print(f"  {why}")
        if "objective" not in found:
            print(f"  left out, {found.get('skipped', 'too late')}")
            continue
        above = (found["objective"] - best) / best
        print(
            f"  {found['seconds']:.0f} s, {found['memory'] / 1e6:.0f} MB, objective "
            f"{found['objective']:.6f}, {100 * above:.2g} % above the optimum, without knowing "
            "it"
        )


def main() -> None:
    """Measure what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--limit", default="2GB")
    others = [f"dask-ml {solver}" for solver in ITERATIONS]
    parser.add_argument("--only", default=",".join(["disk,npy,decoding,parquet,sgd", *others]))
    parser.add_argument("--dask-ml", dest="python", help="a Python that has dask-ml")
    parser.add_argument("--roomy", default="12GB", help="memory for dask-ml beyond the limit")
    parser.add_argument("--cap", type=float, default=1800.0, help="seconds for dask-ml")
    parser.add_argument("--out", default=None)
    parser.add_argument("--delete", action="store_true")
    asked = parser.parse_args()
    generated(asked.folder, asked.rows)
    lines, limit = Lines(asked.out), as_bytes(asked.limit)
    limits = (limit, as_bytes(asked.roomy))
    work = {
        "disk": (disk, asked.folder),
        "npy": (fit, asked.folder, "npy", limit, asked.rows),
        "decoding": (decoding, asked.folder, asked.rows),
        "parquet": (fit, asked.folder, "parquet", limit, asked.rows),
        "sgd": (sgd, asked.folder, limit),
    } | {
        f"dask-ml {solver}": (dask_ml, asked.folder, solver, limits, asked.python, asked.cap)
        for solver in ITERATIONS
    }
    for name in asked.only.split(","):
        if name in ("decoding", "parquet"):
            encoded(asked.folder, asked.rows)
        lines.measured(name, *work[name])
    if "disk" in lines.known:
        report(lines.known, asked.rows)
    if asked.delete:
        shutil.rmtree(asked.folder)


if __name__ == "__main__":
    main()
