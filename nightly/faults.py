"""Disks that fail at the k-th call: what was saved stays whole, what fails says so in one line.

    python -m nightly.faults [--count 2000] [--seed 0]

Results, checkpoints, models of the command line and copies of rows are written while the k-th call
of open, write, fsync, rename or truncate fails: no space, no permission, an error of the device.
Afterwards the file is the old one or the new one, bit for bit, and nothing else lies around it.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import stochadmm as sa
from nightly import piece

CODES = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT)
CALLS = ("fsync", "replace", "rename", "write", "open")


@contextmanager
def failing(call: str, k: int, code: int, folder: Path) -> Iterator[list[int]]:
    """Let the k-th call fail that concerns a folder."""
    count = [0]

    def guarded(real: Callable[..., Any], concerns: Callable[..., bool]) -> Callable[..., Any]:
        def made(*parts: Any, **named: Any) -> Any:
            if concerns(*parts, **named):
                count[0] += 1
                if count[0] == k:
                    raise OSError(code, os.strerror(code), str(folder))
            return real(*parts, **named)

        return made

    def inside(path: Any, *rest: Any, **named: Any) -> bool:
        writes = any(c in str(rest[0] if rest else named.get("mode", "r")) for c in "wax+")
        return str(path).startswith(str(folder)) and (call != "open" or writes)

    homes: dict[str, tuple[Any, str]] = {
        "fsync": (os, "fsync"),
        "replace": (os, "replace"),
        "rename": (os, "rename"),
        "write": (os, "write"),
        "open": (builtins, "open"),
    }
    home, name = homes[call]
    real = getattr(home, name)
    concerns = inside if call in ("open", "replace", "rename") else (lambda *parts, **named: True)
    setattr(home, name, guarded(real, concerns))
    if call == "open":
        io.open = builtins.open  # what pathlib calls
    try:
        yield count
    finally:
        setattr(home, name, real)
        io.open = real if call == "open" else io.open


@cache
def results() -> tuple[sa.Problem, sa.Result, sa.Result]:
    """Return a problem and two results."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    p = sa.Problem.linear(sa.Squared(), X, X[:, 0], on_coefficients=sa.L1(0.1))
    return p, sa.minimize(p, max_passes=1), sa.minimize(p, "acc-sadmm", max_passes=30)


def save(folder: Path) -> None:
    """Write a result over another."""
    results()[2].save(folder / "result.npz")


def checkpoint(folder: Path) -> None:
    """Run with checkpoints."""
    p = results()[0]
    sa.minimize(p, "acc-sadmm", max_passes=12, checkpoint=folder / "run.ckpt", checkpoint_every=0)


def whole(folder: Path) -> str | None:
    """Say what is wrong with what lies in a folder."""
    p, old, new = results()
    for path in folder.iterdir():
        if path.name == "result.npz":
            found = sa.Result.load(path)
            if found.objective not in (old.objective, new.objective):
                return "a result that nobody wrote"
        elif path.name.startswith("run.ckpt"):  # the one before is kept as run.ckpt.old
            sa.minimize(p, "acc-sadmm", resume=path, max_passes=20)
        else:
            return f"{path.name} is left behind"
    return None


def trial(rng: np.random.Generator) -> str | None:
    """Write with one fault, then read."""
    call = CALLS[int(rng.integers(len(CALLS)))]
    k, code = int(rng.geometric(0.3)), CODES[int(rng.integers(len(CODES)))]
    task = (save, checkpoint)[int(rng.integers(2))]
    with tempfile.TemporaryDirectory(prefix="faults-") as place:
        folder = Path(place)
        results()[1].save(folder / "result.npz")
        with warnings.catch_warnings(), failing(call, k, code, folder) as count:
            warnings.simplefilter("ignore")
            try:
                task(folder)
                failed = None
            except (OSError, sa.CheckpointError) as error:
                failed = error
        about = f"{task.__name__}, call {k} of {call}, {errno.errorcode[code]}"
        if failed is not None and "\n" in str(failed).strip():
            return f"{about}: a message of several lines"
        try:
            wrong = whole(folder)
        except Exception as error:
            return f"{about}: cannot be read afterwards: {type(error).__name__}: {error}"
        if wrong:
            return f"{about}: {wrong}"
        if count[0] >= k and failed is None and task is save:
            return f"{about}: the failure was not told"
    return None


if __name__ == "__main__":
    results()
    piece.main("faults", trial, __doc__.splitlines()[0], 200)
