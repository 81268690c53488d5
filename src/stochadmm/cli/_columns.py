"""A table: columns by name, and how the cells of text files and the values of others are told."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stochadmm.base.names import did_you_mean
from stochadmm.base.protocols import Array
from stochadmm.base.validation import MISSING_CELLS, is_sparse


@dataclass(frozen=True)
class Table:
    """Columns by name; ``matrix`` holds them where a file has one matrix and no names."""

    path: str
    columns: dict[str, Array]
    matrix: Any = None
    aside: tuple[str, ...] = ()
    """Columns that number the rows, such as an index of pandas: no features."""
    first: int = 0
    """Rows of the file before those of this table."""
    from_zero: bool | None = None
    """Whether columns of libsvm text are counted from zero."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.matrix is not None:
            return int(self.matrix.shape[0])
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str, role: str) -> Array:
        """Return one column; a wrong name lists the nearest ones."""
        if name not in self.columns:
            hint = did_you_mean(name, self.columns, listed(list(self.columns)))
            raise ValueError(f"{self.path} has no column {name!r} for the {role}; {hint}")
        return self.columns[name]

    def numbers(self, name: str, role: str) -> Array:
        """Return one column of finite numbers."""
        values = self.column(name, role)
        if values.dtype == object:
            bad = next((k for k, value in enumerate(values) if not is_number(value)), 0)
            raise ValueError(
                f"column {name!r} of {self.path} has the text {values[bad]!r} in row "
                f"{self.first + bad + 1}; the {role} needs numbers"
            )
        self._refuse_missing(name, ~np.isfinite(values))
        return np.asarray(values, dtype=np.float64)

    def weights(self, name: str) -> Array:
        """Return one column of numbers >= 0."""
        values = self.numbers(name, "weight")
        below = np.flatnonzero(values < 0)
        if below.size:
            raise ValueError(
                f"column {name!r} of {self.path} has the weight {values[below[0]]:g} in row "
                f"{self.first + below[0] + 1}, expected numbers >= 0; correct it"
            )
        return values

    def labels(self, name: str) -> Array:
        """Return the labels of all rows; a cell without one is no class of its own."""
        values = self.column(name, "target")
        is_text = values.dtype == object
        self._refuse_missing(name, values == "" if is_text else ~np.isfinite(values))
        if values.dtype.kind == "f" and (values == np.rint(values)).all():
            return values.astype(np.int64)
        return as_texts(values) if is_text else values

    def check_matrix(self) -> None:
        """Raise where a number of the matrix is not finite."""
        X = self.matrix
        if is_sparse(X):
            rows = np.repeat(np.arange(self.n_rows), np.diff(X.indptr))[~np.isfinite(X.data)]
        else:
            rows = np.nonzero(~np.isfinite(X))[0]
        self._refuse("the matrix", rows)

    def _refuse_missing(self, name: str, is_missing: Array) -> None:
        self._refuse(f"column {name!r}", np.flatnonzero(is_missing))

    def _refuse(self, what: str, rows: Array) -> None:
        if rows.size:
            raise ValueError(
                f"{what} of {self.path} has {rows.size} empty or infinite values, the first in "
                f"row {self.first + rows[0] + 1}; fill or drop these rows (fit: --missing drop)"
            )

    def features(self, taken: Collection[str | None], drop: Collection[str]) -> list[str]:
        """Return the names of the columns that are not taken, dropped or an index."""
        for name in drop:
            self.column(name, "columns to drop")
        names = [name for name in self.columns if name not in {*taken, *drop, *self.aside}]
        if self.matrix is None and not names:
            raise ValueError(f"{self.path} has no column besides the target; add one")
        return names

    def complete(self, drop: Collection[str]) -> tuple[Table, int]:
        """Return the rows without gaps, but in columns to drop, and how many others there are."""
        kept = np.ones(self.n_rows, dtype=bool)
        for name, values in self.columns.items():
            if name not in {*drop, *self.aside} and values.dtype != bool:
                kept &= values != "" if values.dtype == object else ~np.isnan(values)
        X = self.matrix
        if X is not None:
            sums = np.asarray(X.sum(axis=1)).ravel()  # one that is NaN makes the sum NaN
            kept &= ~np.isnan(sums)
        if not kept.any():
            raise ValueError(
                f"every row of {self.path} has a missing value; use --drop to leave out "
                "columns that have many"
            )
        columns = {name: values[kept] for name, values in self.columns.items()}
        left = replace(self, columns=columns, matrix=None if X is None else X[kept])
        return left, int((~kept).sum())

    def notes(self, taken: Collection[str | None], factors: Collection[str] = ()) -> list[str]:
        """Say which columns are left out though nobody has asked for it, and which look odd.

        ``factors`` are columns of which a user has said what they are.
        """
        found = [
            f"a column of {self.path} without a name, most likely an index, is left out"
            if not name
            else f"column {name!r} of {self.path}, the index of a pandas table, is left out"
            for name in self.aside
            if name not in taken
        ]
        for name, values in self.columns.items():
            if self.matrix is None and name not in {*taken, *self.aside, *factors}:
                odd = oddity(values)
                found += [f"column {name!r} of {self.path} {odd}"] if odd else []
        return found


@dataclass(frozen=True)
class Expected:
    """What a model knows of the files that it is applied to."""

    texts: frozenset[str] = frozenset()
    """Columns that are text even where all cells of a chunk are numbers."""
    n_columns: int = 0
    """Columns of a matrix, of which the last ones may be empty in a file."""
    from_zero: bool | None = None
    """Whether columns of libsvm text are counted from zero; each file tells where not known."""


ANYTHING = Expected()
"""Files that no model is applied to."""


def check_names(path: str, names: Sequence[str]) -> None:
    """Raise where two columns have the same name."""
    repeated = {name for name in names if name and names.count(name) > 1}
    if repeated:
        raise ValueError(f"{path} has two columns named {min(repeated)!r}; rename one")


def listed(names: list[str]) -> str:
    """Return the first names for a message."""
    shown = ", ".join(names[:8])
    return f"columns: {shown}{', ...' if len(names) > 8 else ''}" if names else "no named columns"


# ---------------------------------------------------------------- cells


TRUTHS = {
    **dict.fromkeys(("true", "True", "TRUE", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "0"), False),
}
"""Cells of a column of truths, as pyarrow knows them."""


def oddity(values: Array) -> str:
    """Say what is odd about a column: one value, a number for each row, numbers as text."""
    n = len(values)
    if n > 1 and (values == values[0]).all():
        value = values[0] if values.dtype.kind in "Ob" else f"{values[0]:g}"
        return f"has the value {value} in every row, and says nothing; leave it out with --drop"
    if values.dtype == object:
        cells = [cell for cell in values.tolist() if cell]
        plain = [cell.strip("%€$£ ").replace(" ", "").replace("'", "") for cell in cells]
        if cells and all(map(is_number, plain)):
            return (
                f"is text, though its cells look like numbers, such as {cells[0]!r}; write these "
                "plainly, or leave it out with --drop"
            )
        if cells and all(is_number(cell.replace(",", ".", 1)) for cell in plain):
            return (
                f"is text, though its cells look like numbers with a decimal comma, such as "
                f"{cells[0]!r}; --decimal , reads them"
            )
        return ""
    if n >= 20 and values.dtype != bool and (np.abs(np.diff(values)) == 1).all():
        return "numbers the rows, as an identifier; leave it out with --drop if it is one"
    return ""


def is_number(text: str) -> bool:
    """Say whether a cell is a number; ``1_000`` and digits of other scripts are text."""
    try:
        float(text)
    except ValueError:
        return False
    return _is_plain(text)


def _is_plain(text: str) -> bool:
    return text.isascii() and "_" not in text


def texts(cells: Sequence[str]) -> Array:
    """Return cells as text; spaces around it are no part of it."""
    return np.array([cell.strip() for cell in cells], dtype=object)


def typed(cells: Sequence[str], decimal: str = ".") -> Array:
    """Return numbers or truths where every cell is one or missing, text otherwise.

    Columns are told as pyarrow does when a file is streamed: one model, one meaning of a file.
    Words such as NA are missing among numbers or truths; among texts they are one more.
    """
    if not _is_plain(" ".join(cells)):
        return texts(cells)
    stripped = [cell.strip() for cell in cells]
    known = [cell for cell in stripped if cell not in MISSING_CELLS]
    if not known and any(stripped):
        return texts(cells)
    number: Any = float if decimal == "." else lambda cell: float(cell.replace(decimal, "."))
    for read in (number, _truth):
        try:
            values = np.array([np.nan if c in MISSING_CELLS else read(c) for c in stripped])
        except ValueError:
            continue
        return values if values.dtype == bool else values.astype(np.float64)
    return texts(cells)


def _truth(cell: str) -> bool:
    if cell not in TRUTHS:
        raise ValueError(f"{cell!r} is neither true nor false")
    return TRUTHS[cell]


def as_texts(values: Array) -> Array:
    """Return values as text: whole numbers without a decimal point, a missing one empty."""
    if values.dtype == object:
        return np.array([str(value) for value in values])
    if values.dtype == bool:
        return values.astype(str)
    known = np.isfinite(values)
    whole = bool((values[known] == np.rint(values[known])).all())
    shown = [str(int(v)) if whole else repr(float(v)) for v in np.where(known, values, 0)]
    return np.where(known, shown, "")
