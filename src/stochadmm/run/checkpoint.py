"""Runs on disk: a file from which a run goes on as if it had never stopped.

See ``docs/design/checkpoints.md`` for the format and what is promised.
"""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ..base.clock import NEVER
from ..base.files import load_arrays, replacing, save_arrays, sweep
from ..base.immutable import field_values
from ..base.serialize import Reader, Unwritable, Writer
from ..base.workspace import Workspace
from ..problem import Problem
from ..solvers import AnySolver, State
from .monitor import Measured, Memory
from .result import Record

FORMAT = 1
MAGIC = b"stochadmm checkpoint "
DIGITS = 64
"""Of the checksum, in hexadecimal."""


class CheckpointError(ValueError):
    """A run cannot be resumed from this file; the message says why in one line."""


class _Damaged(CheckpointError):
    """Perhaps the file before it is whole."""


class Resumable(NamedTuple):
    """What a later run needs to go on as if there had been no end."""

    state: State
    generator: Any
    """State of the random generator."""
    best: Measured | None
    """The best point so far, None before the start was measured."""
    memory: Memory
    engine: str
    """The engine that was asked for."""
    seconds: tuple[float, float, float]
    """What the user has waited, of it for steps and for measuring."""
    history: list[Record]
    identity: str
    """Fingerprint of the problem and the method."""

    def alone(self) -> Resumable:
        """Return copies, without what can be computed again."""
        state = replace(self.state.copy(), workspace=Workspace(), deadline=NEVER)
        bare = None if self.best is None else replace(self.best, cache=None)
        return self._replace(state=state, best=bare, history=list(self.history))


@dataclass
class Checkpoint:
    """Where and how often a run is written to disk.

    Parameters
    ----------
    path : Path
        The file; the one before it is kept as ``NAME.old``.
    every : float
        Seconds between two of them.
    """

    path: Path
    every: float
    last: float = field(default_factory=time.perf_counter)
    """When the last one was tried."""
    written: int = 0
    """How many are on the disk."""

    def __post_init__(self) -> None:
        if not self.every >= 0:
            raise ValueError(f"checkpoint_every is {self.every!r}, expected seconds >= 0")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint: there is no folder {self.path.parent}; make it")
        if self.path.is_dir():
            raise IsADirectoryError(f"checkpoint: {self.path} is a folder; name a file in it")
        if self.path.exists():
            first = b"?"  # what is no file is none either
            if self.path.is_file():
                with open(self.path, "rb") as file:
                    first = file.read(len(MAGIC))
            if not MAGIC.startswith(first):  # an empty file may become one
                raise FileExistsError(
                    f"checkpoint: {self.path} exists and is no checkpoint; name another file"
                )
        sweep(self.path)

    @property
    def due(self) -> bool:
        """Whether it is time for one."""
        return time.perf_counter() - self.last >= self.every

    def write(self, kept: Resumable, problem: Problem, solver: AnySolver) -> None:
        """Write a run, or warn that it goes on without."""
        try:
            with replacing(self.path, keep=older(self.path)) as temporary:
                _write(temporary, *_described(kept, problem, solver))
            self.written += 1
        except (OSError, Unwritable) as error:
            reason = getattr(error, "strerror", None) or str(error)
            stays = "the last good one stays" if self.path.exists() else "there is none yet"
            warnings.warn(
                f"the checkpoint {self.path} could not be written ({reason}); the run goes on, "
                f"{stays}",
                RuntimeWarning,
                stacklevel=2,
            )
        self.last = time.perf_counter()


def older(path: Path) -> Path:
    """Return the name of the checkpoint before the last one."""
    return path.with_name(f"{path.name}.old")


def load(
    path: str | Path, identity: str, problem: Problem, solver: AnySolver, workspace: Workspace
) -> Resumable:
    """Return a run from a file, or from the one before it where that is damaged.

    Raises
    ------
    CheckpointError
        The file is damaged, no checkpoint, of a newer version, or of another problem or method.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no checkpoint {path}; leave out resume to begin")
    try:
        meta, arrays = read(path)
    except _Damaged as error:
        try:
            meta, arrays = read(older(path))
        except (CheckpointError, OSError):
            raise error from None
        warnings.warn(
            f"{error}; the run goes on from the one before it, {older(path)}",
            RuntimeWarning,
            stacklevel=2,
        )
    if meta.get("identity") != identity:
        raise CheckpointError(
            f"{path} belongs to another problem or method: data, penalties, structure and the "
            "parameters of the solver must be the same; name another file, or remove it to begin "
            "again"
        )
    reader = Reader({"problem": problem}, arrays, workspace, _trusted(solver))
    try:
        kept = {name: reader.value(text) for name, text in meta["run"].items()}
        history = [Record(**record) for record in meta["history"]]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CheckpointError(
            f"{path} was written by another version of stochadmm ({error}); go on with that one"
        ) from error
    return Resumable(**kept, history=history, identity=identity)


_APART = ("identity", "history")


def _described(
    kept: Resumable, problem: Problem, solver: AnySolver
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the text and the arrays that stand for a run."""
    writer = Writer({"problem": problem}, _trusted(solver))
    parts = {name: value for name, value in kept._asdict().items() if name not in _APART}
    meta = {
        "solver": solver.name,
        "identity": kept.identity,
        "history": [asdict(record) for record in kept.history],
        "run": {name: writer.describe(value, name) for name, value in parts.items()},
    }
    return meta, writer.arrays


def _trusted(solver: AnySolver) -> tuple[str, ...]:
    """Return the modules of a method of the user's own: its states are of its classes."""
    return tuple(type(each).__module__ for each in (solver, field_values(solver).get("method")))


# ---------------------------------------------------------------- the file


def _write(path: Path, meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with open(path, "w+b") as file:
        file.write(MAGIC + b"%d\n" % FORMAT + b"0" * DIGITS + b"\n")
        begin = file.tell()
        save_arrays(file, {"meta": text, **arrays})
        file.seek(begin)
        digest = _digest(file)
        file.seek(begin - DIGITS - 1)
        file.write(digest)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the text and the arrays of a checkpoint whose format and sum are right."""
    with open(path, "rb") as file:
        first, told = file.readline(100), file.readline(DIGITS + 2)
        if not first.startswith(MAGIC):
            saved = "a saved result, which keeps no state" if first[:2] == b"PK" else "none"
            raise _Damaged(f"{path} is no checkpoint of stochadmm ({saved})")
        version = first[len(MAGIC) :].strip()
        if not version.isdigit() or int(version) < 1:
            raise _Damaged(f"the checkpoint {path} is damaged: its format is {version!r}")
        if int(version) > FORMAT:
            raise CheckpointError(
                f"the checkpoint {path} has the format {int(version)} of a newer stochadmm, this "
                f"one knows {FORMAT}; update stochadmm"
            )
        begin = file.tell()
        if told.strip() != _digest(file):
            raise _Damaged(f"the checkpoint {path} is damaged: it was cut short or changed")
        file.seek(begin)
        try:
            arrays = load_arrays(file)
            meta: dict[str, Any] = json.loads(arrays.pop("meta").tobytes())
        except (ValueError, KeyError) as error:
            raise _Damaged(f"the checkpoint {path} is damaged: {error}") from error
    return meta, arrays


def _digest(file: IO[bytes]) -> bytes:
    total = blake2b(digest_size=DIGITS // 2)
    while chunk := file.read(1 << 20):
        total.update(chunk)
    return total.hexdigest().encode()
