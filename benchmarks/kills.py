"""SIGKILL of a fitting process at random moments: is the resumed result bit-equal?

    python benchmarks/kills.py [--moments 100] [--small] [--out FILE]

Every trial forks a process that fits with a checkpoint before every epoch, kills it at a moment
that was drawn, and takes the run up in another process; every fourth of these is killed as well
and taken up once more. Two fifths of the moments are drawn inside of a checkpoint's write. What is
compared: arrays, history, counts, verdict. Finished trials are kept in FILE and not repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import shutil
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import stochadmm as sa
from stochadmm.run import checkpoint as files

SHARED = struct.Struct("ii")
"""Writes that have begun, and whether one is under way."""


def problems(folder: Path, small: bool) -> dict[str, tuple[object, object, dict[str, object]]]:
    """Return problems, methods and limits: in memory, from a file, stochastic and second-order."""
    rng, n = np.random.default_rng(0), 3000 if small else 40_000
    X = rng.standard_normal((n, 40))
    y = np.where(X[:, :8].sum(axis=1) + 2 * rng.standard_normal(n) > 0, 1.0, -1.0)
    part = {"structure": sa.Differences(40), "on_structure": sa.L1(1e-3)}
    inside = sa.Problem.linear(sa.Logistic(), X, y, **part)
    np.save(folder / "X.npy", X.astype(np.float32))
    np.save(folder / "y.npy", y)
    source = sa.open(folder / "X.npy", target=folder / "y.npy")
    outside = sa.Problem.linear(sa.Logistic(), source, **part)
    steps = {"stop": sa.Never(), "max_passes": 12 if small else 40}
    tight = {"stop": sa.Gap(1e-11), "max_passes": 60, "memory": "4MiB"}
    return {
        "acc-sadmm": (inside, "acc-sadmm", steps),
        "sampled-newton": (inside, sa.Auto("newton"), {"stop": sa.Gap(1e-11), "max_passes": 60}),
        "sag-admm": (inside, "sag-admm", steps),
        "streamed-newton": (outside, "auto", tight),
    }


def bits(result: sa.Result) -> str:
    """Return a digest of everything a result says but for times."""
    total = hashlib.blake2b()
    for array in (result.coef, result.x1, result.x2, result.dual):
        total.update(array.tobytes())
    records = [
        [
            float("nan") if v is None else float(v)
            for k, v in vars(record).items()
            if not k.startswith("seconds")
        ]
        for record in result.history
    ]
    told = [
        float(result.objective),
        float(result.gap),
        result.status,
        result.message,
        result.n_epochs,
        result.n_passes,
        result.n_gradients,
    ]
    said = {k: v for k, v in result.info.items() if not k.startswith("seconds")}
    total.update(repr((records, told, said)).encode())
    return total.hexdigest()


def fit(problem: object, solver: object, limits: dict[str, object], path: Path) -> sa.Result:
    """Fit, or go on."""
    return sa.minimize(
        problem, solver, checkpoint=path, checkpoint_every=0.0, resume=True, **limits
    )


def watch_writes(board: mmap.mmap) -> None:
    """Let the board tell of the writes of this process."""
    write = files.Checkpoint.write

    def told(self: files.Checkpoint, *run: object) -> None:
        begun, _ = SHARED.unpack_from(board)
        SHARED.pack_into(board, 0, begun + 1, 1)
        write(self, *run)
        SHARED.pack_into(board, 0, begun + 1, 0)

    files.Checkpoint.write = told


def killed(task: tuple, path: Path, moment: dict[str, float]) -> tuple[str | None, bool]:
    """Fit in a process and kill it; return its bits if it ended before, and whether it wrote."""
    board = mmap.mmap(-1, SHARED.size)
    result = path.with_name("result")
    result.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        watch_writes(board)
        result.write_text(bits(fit(*task, path)))
        os._exit(0)
    began = time.perf_counter()
    if "write" in moment:
        while SHARED.unpack_from(board) != (moment["write"], 1) and not over(child):
            pass
        began = time.perf_counter()
    while time.perf_counter() - began < moment["seconds"] and not over(child):
        pass
    if not over(child):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    ended.discard(child)
    found = result.read_text() if result.exists() else None
    return found or None, bool(SHARED.unpack_from(board)[1])


ended: set[int] = set()


def over(child: int) -> bool:
    """Say whether a child has ended by itself."""
    if child not in ended and os.waitpid(child, os.WNOHANG)[0]:
        ended.add(child)
    return child in ended


def trial(
    task: tuple, folder: Path, whole: dict[str, float], rng: np.random.Generator
) -> dict[str, object]:
    """Kill once or twice, go on to the end; return what was seen."""
    path, inside, seen = folder / "run.ckpt", [], None
    wanted = 2 if rng.random() < 0.25 else 1
    while len(inside) < wanted:
        moment = {"seconds": whole["seconds"] * float(rng.random())}
        if rng.random() < 0.4:
            most = whole["writes"] if not inside else max(1, whole["writes"] // 2)
            moment = {
                "write": int(rng.integers(1, most + 1)),
                "seconds": whole["write"] * float(rng.random()),
            }
        seen, writing = killed(task, path, moment)
        if seen is None:
            inside.append(writing)
        elif inside:  # it had less left to do than was drawn
            break
        else:  # too late: a trial without a kill is none
            for left in folder.iterdir():
                left.unlink()
    if seen is None:
        # three minutes without an end count as never
        seen, _ = killed(task, path, {"seconds": 180.0})
    return {"same": seen == whole["bits"], "while writing": any(inside), "kills": len(inside)}


def reference(task: tuple, path: Path) -> dict[str, float]:
    """Return bits, seconds, writes and the seconds of one write of a fit that nobody stops."""
    spent, write = [], files.Checkpoint.write

    def timed(self: files.Checkpoint, *run: object) -> None:
        began = time.perf_counter()
        write(self, *run)
        spent.append(time.perf_counter() - began)

    found = bits(sa.minimize(task[0], task[1], **task[2]))
    files.Checkpoint.write = timed
    began = time.perf_counter()
    again = bits(fit(*task, path))
    seconds = time.perf_counter() - began
    files.Checkpoint.write = write
    if found != again:
        sys.exit("a run with checkpoints differs from one without")
    return {
        "bits": found,
        "seconds": seconds,
        "writes": len(spent),
        "write": float(np.mean(spent)),
    }


def main() -> None:
    """Run the trials that are missing and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--small", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--out", type=Path, default=Path("kills.json"))
    asked = parser.parse_args()
    done = json.loads(asked.out.read_text()) if asked.out.exists() else []
    base = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        tasks = problems(base, asked.small)
        wholes = {name: reference(task, base / f"{name}.ckpt") for name, task in tasks.items()}
        for number in range(len(done), asked.moments):
            name = list(tasks)[number % len(tasks)]
            folder = base / str(number)
            folder.mkdir()
            rng = np.random.default_rng([number, 1])
            done.append({"fit": name} | trial(tasks[name], folder, wholes[name], rng))
            shutil.rmtree(folder)
            asked.out.write_text(json.dumps(done, indent=1))
    finally:
        shutil.rmtree(base)
    report(done)


def report(done: list[dict[str, object]]) -> None:
    """Print a line per fit; fail where bits differ."""
    print(f"{'fit':>16} {'moments':>8} {'while writing':>14} {'kills':>6} {'same bits':>10}")
    for name in [*dict.fromkeys(trial["fit"] for trial in done), "all"]:
        own = [trial for trial in done if name in (trial["fit"], "all")]
        inside, kills, same = (sum(t[k] for t in own) for k in ("while writing", "kills", "same"))
        print(f"{name:>16} {len(own):>8} {inside:>14} {kills:>6} {same:>10}")
    sys.exit(0 if all(trial["same"] for trial in done) else 1)


if __name__ == "__main__":
    main()
