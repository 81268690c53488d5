"""One line of a CSV file per finished trial, so that a search goes on where it was stopped.

A line is appended by one write and is on the disk before the next trial begins. What a killed
process has left of a line is no line: it is cut off by whoever writes next.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .search import Candidate


@dataclass(frozen=True)
class Trial:
    """One run of a search: what was run and what came of it."""

    fingerprint: str
    """Of everything that the outcome depends on beside the next three."""
    candidate: str
    """Exponents of the knobs."""
    share: float
    seed: int
    objective: float
    passes: float
    seconds: float
    curve: float = math.nan
    """Mean of log10 of the gap over the run, where that decides."""

    @property
    def key(self) -> tuple[str, str, float, int]:
        """What tells trials apart."""
        return (self.fingerprint, self.candidate, self.share, self.seed)


COLUMNS = tuple(f.name for f in fields(Trial))


def written(candidate: Candidate) -> str:
    """Return a candidate as a text."""
    return " ".join(map(str, candidate))


class TrialLog:
    """The trials of one method on one problem, in a file."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path, self.fingerprint = path, fingerprint
        self.trials = {t.key: t for t in read(path)}
        self.used: dict[tuple[str, str, float, int], Trial] = {}
        """The trials that this search has asked for."""

    def once(
        self, candidate: Candidate, share: float, seed: int, run: Callable[[], tuple[Any, ...]]
    ) -> Trial:
        """Return a trial from the file; made now, and kept, where it is not there."""
        key = (self.fingerprint, written(candidate), share, seed)
        found = self.trials.get(key)
        if found is None:
            found = Trial(*key, *run())
            self._append(found)
            self.trials[key] = found
        self.used[key] = found
        return found

    def _append(self, trial: Trial) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(0)
            content = stream.read()
            whole = content.rfind(b"\n") + 1
            if whole < size:
                stream.truncate(whole)
            head = "" if whole else ",".join(COLUMNS) + "\n"
            line = ",".join(_cell(v) for v in asdict(trial).values()) + "\n"
            stream.write((head + line).encode())
            stream.flush()
            os.fsync(stream.fileno())


def read(path: Path) -> list[Trial]:
    """Return the trials of a file, [] when there is none; half a line at its end is no trial."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    lines = text[: text.rfind("\n") + 1].splitlines()
    found = []
    for row in csv.DictReader(lines):
        try:
            numbers = {name: float(row[name]) for name in COLUMNS[2:-1]}
            numbers["curve"] = float(row.get("curve") or "nan")  # not in the first files
        except (TypeError, ValueError, KeyError):
            continue
        numbers["seed"] = int(numbers["seed"])
        found.append(Trial(row["fingerprint"], row["candidate"], **numbers))  # type: ignore[arg-type]
    return found


def _cell(value: Any) -> str:
    return repr(value) if isinstance(value, float) and math.isfinite(value) else str(value)
