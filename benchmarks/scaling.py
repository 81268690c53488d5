"""How time and memory of ``auto`` grow with rows and columns; writes out/scaling.png.

    python benchmarks/scaling.py [--rows 10000,100000,1000000,3000000] [--columns 50,...,4000]

Graph-guided fused logistic regression on generated rows. Every size runs in a process of its own,
which compiles on a small part first, and reports the seconds per step and to a certified relative
gap of 1e-6, the kind of model that was used, and the peak of resident memory above the data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

ROWS = "10000,30000,100000,300000,1000000,3000000"
COLUMNS = "50,100,200,500,1000,2000,4000"
ROWS_OF_COLUMNS = 40_000
STRENGTH = 0.02  # of the largest derivative at zero


def resident(which: str) -> float:
    """Return megabytes: VmRSS now, VmHWM the peak."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(which + ":")[1].split()[0]) / 1024


def one(n: int, d: int) -> dict:
    """Solve one size and return what it cost."""
    import time

    import numpy as np

    import stochadmm as sa

    data = sa.datasets.make_graph_fused(n, d, random_state=0)
    X, y = np.ascontiguousarray(data.X), np.asarray(data.y, dtype=np.float64)
    graph = sa.VStack([sa.Incidence(data.graph, d), sa.Identity(d)])

    strength = STRENGTH * float(np.abs(X.T @ y).max()) / (2 * n)

    def solve(rows):
        problem = sa.Problem.linear(
            sa.Logistic(), X[rows], y[rows], structure=graph, on_structure=sa.L1(strength)
        )
        return sa.minimize(problem, stop=sa.Gap(1e-6), max_passes=1000)

    solve(slice(0, min(n, max(3000, 5 * d)) // 2))
    del data
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    start = time.perf_counter()
    result = solve(slice(None))
    seconds = time.perf_counter() - start
    above = resident("VmHWM") - before
    return {
        "n": n,
        "d": d,
        "seconds": seconds,
        "steps": result.n_epochs,
        "reads": result.n_passes,
        "gap": result.relative_gap,
        "status": result.status.name,
        "above": above,
        "data": X.nbytes / 2**20,
        "reason": result.info["reason"],
    }


def run(n: int, d: int) -> dict:
    """Solve one size in a process of its own."""
    out = subprocess.run(
        [sys.executable, __file__, "--one", f"{n},{d}"], capture_output=True, text=True, check=True
    )
    found = json.loads(out.stdout.strip().splitlines()[-1])
    print(
        f"{n:>9,} x {d:<5,} {found['status']} {found['gap']:.0e}  {found['seconds']:7.2f} s, "
        f"{found['seconds'] / found['steps']:7.3f} s a step, {found['reads']:5.1f} reads, memory "
        f"{found['above']:6.0f} MB above {found['data']:6.0f} MB of data "
        f"({100 * found['above'] / found['data']:.0f} %)  {found['reason']}",
        flush=True,
    )
    return found


def draw(rows: list[dict], columns: list[dict], file: Path) -> None:
    """Draw time a step against rows, and time to 1e-6 against columns."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    n = [r["n"] for r in rows]
    left.loglog(n, [r["seconds"] / r["steps"] for r in rows], "o-", label="auto, a step")
    line = rows[-1]["seconds"] / rows[-1]["steps"] / n[-1]
    left.loglog(n, [line * k for k in n], ":", color="gray", label="linear in the rows")
    left.set(xlabel="rows, 54 columns", ylabel="seconds")
    left.legend()
    d = [r["d"] for r in columns]
    right.loglog(d, [r["seconds"] for r in columns], "-", color="gray")
    kinds = {"float64 model": (0, 255), "float32 model": (256, 4000)}
    for (label, (least, most)), marker in zip(kinds.items(), "os", strict=True):
        chosen = [r for r in columns if least <= r["d"] <= most]
        right.loglog([r["d"] for r in chosen], [r["seconds"] for r in chosen], marker, label=label)
    right.set(xlabel=f"columns, {ROWS_OF_COLUMNS:,} rows", ylabel="seconds to 1e-6, certified")
    right.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--columns", default=COLUMNS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(*map(int, arguments.one.split(",")))))
        return
    rows = [run(int(n), 54) for n in arguments.rows.split(",")]
    columns = [run(ROWS_OF_COLUMNS, int(d)) for d in arguments.columns.split(",")]
    worst = max(r["above"] / r["data"] for r in rows if r["data"] > 100)
    print(f"memory above the data at most {100 * worst:.0f} % where it has 100 MB or more")
    draw(rows, columns, Path("out/scaling.png"))


if __name__ == "__main__":
    main()
