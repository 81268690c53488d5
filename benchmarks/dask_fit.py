"""Fits on a Dask cluster of this machine: two workers against one, and workers that are killed.

    python benchmarks/dask_fit.py speed [--rows N] [--memory 256MiB] [--folder DIR] [--out FILE]
    python benchmarks/dask_fit.py kills [--moments 50] [--rows N] [--out FILE]

``speed`` fits a graph-fused logistic model to a .npy file (4 GB by default, in the page cache)
with one worker and with two, to the same certificate; it prints passes, what a pass costs beside
its work, the bytes of messages, and the memory of the client, where the scheduler lives too. What
the processors did is told apart from the clock: other work on the machine changes the latter.
``kills`` sends SIGKILL to a worker at moments spread over whole fits: of files, of a Dask array
that reads files, of partitions that the workers hold. A fit must end with the bits of one that
nobody disturbed, or with an error that names the checkpoint; a fit that takes five minutes hangs.
A worker that Dask itself does not bring back within a minute after the fit gives way to a new
cluster. Finished parts are kept in FILE and not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import stochadmm as sa

PIECE = 100_000
HANGS = 300
"""Seconds."""
COMES_BACK = 60
"""Seconds that a worker has to come back before the next fit."""


# ---------------------------------------------------------------- data


def made(folder: Path, rows: int, columns: int) -> Any:
    """Return rows in .npy files as a source; they are written first where they are missing."""
    X, y = folder / "X.npy", folder / "y.npy"
    if not y.exists():
        big = np.lib.format.open_memmap(X, "w+", np.float32, (rows, columns))
        signs = np.empty(rows)
        w = np.repeat(np.linspace(-1, 1, 5), -(-columns // 5))[:columns] / np.sqrt(columns)
        for k, first in enumerate(range(0, rows, PIECE)):
            rng = np.random.default_rng([k, 0])
            part = rng.standard_normal((min(PIECE, rows - first), columns), dtype=np.float32)
            big[first : first + len(part)] = part
            signs[first : first + len(part)] = np.sign(part @ w + rng.logistic(size=len(part)))
        big.flush()
        np.save(y, signs)
    return sa.open(X, target=y)


def stated(columns: int, *data: Any) -> sa.Problem:
    """Return the fit."""
    chain = sa.Differences(columns)
    return sa.Problem.linear(
        sa.Logistic(), *data, structure=chain, on_structure=sa.L1(1e-4), intercept=False
    )


def piece(path: str, size: int, k: int) -> np.ndarray:
    """Read one partition of a file."""
    return np.array(np.load(path, mmap_mode="r")[k * size : (k + 1) * size])


def as_array(path: Path, size: int) -> Any:
    """Return a Dask array whose partitions are read from a file when they are asked for."""
    whole = np.load(path, mmap_mode="r")
    count = len(whole) // size
    read = dask.delayed(partial(piece, str(path), size), pure=True)
    shape = (size, *whole.shape[1:])
    return da.concatenate([da.from_delayed(read(k), shape, whole.dtype) for k in range(count)])


@contextmanager
def cluster_of(workers: int) -> Iterator[Client]:
    """Start workers of one thread each; one that is killed has a minute to come back."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "60s"}),
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        yield client


# ---------------------------------------------------------------- speed


class Counting:
    """A client that adds up the bytes and the number of the tasks it hands out."""

    def __init__(self, client: Client) -> None:
        self.client, self.tasks, self.bytes = client, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def submit(self, work: Any, text: bytes, *more: Any, **options: Any) -> Any:
        """Pass a task on."""
        self.tasks, self.bytes = self.tasks + 1, self.bytes + len(text)
        return self.client.submit(work, text, *more, **options)


class Watch:
    """The largest memory of this process while the block runs, above that at its begin, in MB."""

    def __enter__(self) -> Watch:
        self.start, self.most, self.over = resident(), 0.0, threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def _look(self) -> None:
        while not self.over.wait(0.02):
            self.most = max(self.most, resident() - self.start)

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()


def resident() -> float:
    """Return the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def nothing(shard: Any) -> int:
    """Do no work on a shard."""
    return shard.n_rows


def measured(source: Any, workers: int, memory: str) -> dict[str, Any]:
    """Return what one fit takes with so many workers."""
    with cluster_of(workers) as client:
        watched = Counting(client)
        engine = sa.cluster.Dask(watched)
        engine.map_reduce(source.shards, nothing, int.__add__)  # modules are loaded
        began = time.perf_counter()
        for _ in range(5):
            engine.map_reduce(source.shards, nothing, int.__add__)
        empty = (time.perf_counter() - began) / 5
        watched.tasks = watched.bytes = 0
        problem = stated(source.n_columns, source)
        busy = sum(client.run(time.process_time).values())
        own = time.process_time()
        with Watch() as watch:
            began = time.perf_counter()
            found = sa.minimize(problem, stop=sa.Gap(1e-6), cluster=engine, memory=memory)
            seconds = time.perf_counter() - began
        own = time.process_time() - own
        busy = sum(client.run(time.process_time).values()) - busy
    return {
        "workers": workers,
        "seconds": seconds,
        "CPU s of workers": busy,
        "of client": own,
        "status": found.status.name,
        "passes": found.n_passes,
        "relative gap": float(found.relative_gap),
        "bits": found.coef.tobytes().hex(),
        "client MB above start": watch.most,
        "empty pass ms": 1e3 * empty,
        "tasks": watched.tasks,
        "bytes of tasks": watched.bytes,
    }


def speed(asked: argparse.Namespace) -> int:
    """Fit with one worker and with two."""
    done = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="dask-fit-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        source = made(folder, asked.rows or 10_000_000, 100)
        size = os.path.getsize(folder / "X.npy") / 1e9
        print(
            f"{source.n_rows} x {source.n_columns}, {size:.2f} GB, {len(source.shards)} shards, "
            f"memory={asked.memory!r}"
        )
        for workers in (1, 2, 1, 2):
            name = f"{workers} workers, {sum(k.startswith(str(workers)) for k in done)}"
            if len([k for k in done if k.startswith(str(workers))]) < 2:
                stated(100, source).f2.value(np.zeros(100))  # the file is in the page cache
                done[name] = measured(source, workers, asked.memory)
                asked.out.write_text(json.dumps(done, indent=1))
    finally:
        if asked.folder is None:
            shutil.rmtree(folder)
    for name, one in done.items():
        print(
            f"{name}: "
            + ", ".join(
                f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                for k, v in one.items()
                if k != "bits"
            )
        )
    best = {w: min(one["seconds"] for one in done.values() if one["workers"] == w) for w in (1, 2)}
    same = len({one["bits"] for one in done.values()}) == 1
    most = max(one["client MB above start"] for one in done.values())
    ratio = best[1] / best[2]
    cpu = {
        w: min(
            one["CPU s of workers"] / w + one["of client"]
            for one in done.values()
            if one["workers"] == w
        )
        for w in (1, 2)
    }
    print(f"by CPU seconds on a machine with nothing else to do: {cpu[1] / cpu[2]:.2f} times")
    print(f"two workers are {ratio:.2f} times faster, same bits: {same}, client {most:.0f} MB")
    return 0 if same and ratio >= 1.5 and most <= 200 else 1


# ---------------------------------------------------------------- kills


class Hung(Exception):
    """The watchdog."""


def alarmed(*_: object) -> None:
    """Raise from the watchdog's signal."""
    raise Hung


class Incomplete(Exception):
    """A worker that was killed has not come back."""


def workers_of(client: Client) -> list[int]:
    """Return the processes of both workers, when they are back."""
    end = time.monotonic() + COMES_BACK
    while time.monotonic() < end:
        with suppress(OSError):  # one that was killed may still be listed
            pids = sorted(client.run(os.getpid).values())
            if len(pids) == 2:
                return pids
        time.sleep(0.2)
    raise Incomplete


def killed(
    client: Client, data: tuple[Any, ...], columns: int, folder: Path, moment: float, pick: int
) -> dict[str, Any]:
    """Fit while a worker is killed; return how it ended."""
    pids = workers_of(client)
    path = folder / "run.ckpt"
    for left in folder.glob("run.ckpt*"):
        left.unlink()
    ended = threading.Event()
    struck: list[bool] = []

    def strike() -> None:
        struck.append(not ended.wait(moment))
        if struck[0]:
            os.kill(pids[pick], signal.SIGKILL)

    killer = threading.Thread(target=strike)
    signal.signal(signal.SIGALRM, alarmed)
    signal.alarm(HANGS)
    began = time.perf_counter()
    killer.start()
    bits, error = "", ""
    try:
        found = sa.minimize(
            stated(columns, *data),
            stop=sa.Gap(1e-8),
            memory="16MiB",
            cluster=sa.cluster.Dask(client),
            checkpoint=path,
            checkpoint_every=0.0,
        )
        bits = found.coef.tobytes().hex()
    except Hung:
        error = "hangs"
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    signal.alarm(0)
    seconds = time.perf_counter() - began
    ended.set()
    killer.join()
    return {
        "bits": bits,
        "error": error,
        "named": str(path) in error,
        "seconds": seconds,
        "moment": moment,
        "during the fit": struck[0],
    }


def kills(asked: argparse.Namespace) -> int:
    """Kill workers during fits of three kinds of rows."""
    done = json.loads(asked.out.read_text()) if asked.out.exists() else []
    folder, columns = Path(tempfile.mkdtemp(prefix="dask-kills-")), 20
    rows = asked.rows or 2_000_000
    try:
        source = made(folder, rows, columns)
        while len(done) < asked.moments:
            with cluster_of(2) as client, suppress(Incomplete):
                some_kills(client, source, folder, asked, done)
    finally:
        shutil.rmtree(folder)
    return report(done)


def some_kills(
    client: Client, source: Any, folder: Path, asked: argparse.Namespace, done: list[Any]
) -> None:
    """Go on with the kills on one cluster, as long as its workers come back."""
    size, columns = source.n_rows // 16, source.n_columns
    arrays = as_array(folder / "X.npy", size), as_array(folder / "y.npy", size)
    sources = {"files": (source,), "Dask array": arrays}
    sources["held"] = tuple(client.persist(list(arrays)))
    wholes = {}
    for name, data in sources.items():
        began = time.perf_counter()
        here = sa.minimize(
            stated(columns, *data),
            stop=sa.Gap(1e-8),
            memory="16MiB",
            cluster=sa.cluster.Dask(client),
        )
        wholes[name] = here.coef.tobytes().hex(), time.perf_counter() - began
        print(f"{name}: {wholes[name][1]:.1f} s, {here.n_passes:.0f} passes", flush=True)
    for number in range(len(done), asked.moments):
        name = list(sources)[number % 3]
        rng = np.random.default_rng([number, 2])
        bits, seconds = wholes[name]
        found: dict[str, Any] = {"during the fit": False}
        while not found["during the fit"]:  # a fit that ended before is none
            moment = seconds * float(rng.random())
            found = killed(client, sources[name], columns, folder, moment, number % 2)
        found |= {"rows": name, "same": found.pop("bits") == bits}
        done.append(found)
        asked.out.write_text(json.dumps(done, indent=1))


def report(done: list[dict[str, Any]]) -> int:
    """Print a line per kind of rows."""
    print(
        f"{'rows':>12} {'kills':>6} {'in the fit':>11} {'same bits':>10} {'named':>6} {'hung':>5}"
    )
    for name in ("files", "Dask array", "held", "all"):
        own = [t for t in done if name in (t["rows"], "all")]
        inside, same = sum(t["during the fit"] for t in own), sum(t["same"] for t in own)
        named, hung = sum(t["named"] for t in own), sum(t["error"] == "hangs" for t in own)
        print(f"{name:>12} {len(own):>6} {inside:>11} {same:>10} {named:>6} {hung:>5}")
    bad = [t for t in done if not t["same"] and not t["named"]]
    for trial in bad:
        print(trial)
    return 1 if bad else 0


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["speed", "kills"])
    parser.add_argument("--rows", type=int, help="10,000,000 for speed, 2,000,000 for kills")
    parser.add_argument("--memory", default="256MiB", help="the budget, by default the library's")
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="where the rows of `speed` are, or are made")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    asked.out = asked.out or Path(f"dask_{asked.part}.json")
    sys.exit(speed(asked) if asked.part == "speed" else kills(asked))


if __name__ == "__main__":
    main()
