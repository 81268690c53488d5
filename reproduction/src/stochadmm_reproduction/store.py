"""Files of an output folder: one small JSON file per finished piece of work, and one table.

A file is whole or absent (see ``files``). It carries a fingerprint of everything that its content
depends on; with another fingerprint it counts as absent. What is not in the folder is looked for
in an archive, if there is one.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import tempfile
from dataclasses import is_dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ._files import replacing, write_text
from ._plain import field_values
from .archive import Archive

COLUMNS = (
    "experiment",
    "variant",
    "dataset",
    "method",
    "point",
    "seed",
    "epoch",
    "passes",
    "reads",
    "seconds",
    "objective",
    "gap",
    "floor",
    "test_loss",
    "test_error",
    "feasibility",
    "status",
)


class Store:
    """The folder of one reproduction."""

    def __init__(self, folder: Path, archive: Archive | None = None) -> None:
        self.folder, self.archive = folder, archive
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise OSError(
                f"cannot write to {folder} ({error.strerror}); name another folder with --out"
            ) from error

    def path(self, key: tuple[str, ...]) -> Path:
        """Return the file of a piece of work."""
        return self.folder.joinpath(*key[:-1], f"{key[-1]}.json")

    def trials(self, key: tuple[str, ...]) -> Path:
        """Return the file of the trials of a tuning, with those of the archive in it."""
        place = tuple("trials" if part == "tuning" else part for part in key)
        path = self.path(place).with_suffix(".csv")
        if not path.exists() and (earlier := self._archived(path)) is not None:
            write_text(path, earlier)
        return path

    def get(self, key: tuple[str, ...], fingerprint: str | None) -> dict[str, Any] | None:
        """Return what was finished under this key, None when there is nothing that fits.

        Without a fingerprint everything fits.
        """
        path = self.path(key)
        try:
            found = _fitting(path.read_text(encoding="utf-8"), fingerprint)
        except (OSError, ValueError):
            found = None
        if found is None and (earlier := self._archived(path)) is not None:
            found = _fitting(earlier, fingerprint)
        return found

    def _archived(self, path: Path) -> str | None:
        if self.archive is None:
            return None
        return self.archive.text(PurePosixPath(path.relative_to(self.folder).as_posix()))

    def put(self, key: tuple[str, ...], fingerprint: str, content: dict[str, Any]) -> None:
        """Keep a finished piece of work."""
        whole = {"fingerprint": fingerprint} | content
        text = json.dumps(whole, default=_plain, separators=(",", ":"))
        write_text(self.path(key), text)

    def table(self, rows: list[dict[str, Any]]) -> list[Path]:
        """Write the tidy table as CSV, and as Parquet where pandas and pyarrow are here."""
        path = self.folder / "table.csv"
        with (
            replacing(path) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as stream,
        ):
            writer = csv.DictWriter(stream, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        try:
            import pandas as pd
            import pyarrow  # noqa: F401
        except ImportError:
            return [path]
        columns = path.with_suffix(".parquet")
        with replacing(columns) as temporary:
            pd.DataFrame(rows, columns=list(COLUMNS)).to_parquet(temporary)
        return [path, columns]


def _fitting(text: str, fingerprint: str | None) -> dict[str, Any] | None:
    """Return a finished piece from its text, None where it depends on something else."""
    content: dict[str, Any] = json.loads(text)
    return content if fingerprint in (None, content.get("fingerprint")) else None


def fingerprint(*parts: Any) -> str:
    """Return a short text that changes with any of the parts."""
    text = json.dumps(parts, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def finite(number: float | None) -> float | None:
    """Return a number that JSON can hold."""
    return None if number is None or not math.isfinite(number) else float(number)


def columns(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return records as columns, short enough for many of them: objectives keep all digits.

    Examples
    --------
    >>> columns([{"objective": 0.1 + 0.2, "seconds": 1 / 3}])
    {'objective': [0.30000000000000004], 'seconds': [0.333333]}
    """

    def cell(name: str, value: Any) -> Any:
        short = isinstance(value, float) and name != "objective"
        return float(f"{value:.6g}") if short else value

    return {name: [cell(name, r[name]) for r in records] for name in records[0]}


def records(kept: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return what ``columns`` was given."""
    return [dict(zip(kept, values, strict=True)) for values in zip(*kept.values(), strict=True)]


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return field_values(value)
    if hasattr(value, "item"):
        return value.item()
    return str(value)
