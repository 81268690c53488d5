"""A table: columns by name, and how the cells of text files and the values of others are told."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stochadmm.base.names import did_you_mean
from stochadmm.base.protocols import Array
from stochadmm.base.validation import is_sparse


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
                f"{self.first + below[0] + 1}, expected numbers >= 0; mend it, or name another"
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
                f"row {self.first + rows[0] + 1}; fill or drop these rows"
            )

    def features(self, taken: Collection[str | None], drop: Collection[str]) -> list[str]:
        """Return the names of the columns that are not taken, dropped or an index."""
        for name in drop:
            self.column(name, "columns to drop")
        names = [name for name in self.columns if name not in {*taken, *drop, *self.aside}]
        if self.matrix is None and not names:
            raise ValueError(f"{self.path} has no column left beside the target; add some")
        return names

    def notes(self, taken: Collection[str | None]) -> list[str]:
        """Say which columns are left out though nobody has asked for it."""
        return [
            f"a column of {self.path} without a name, most likely an index, is left out"
            if not name
            else f"column {name!r} of {self.path}, the index of a pandas table, is left out"
            for name in self.aside
            if name not in taken
        ]


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


def typed(cells: Sequence[str]) -> Array:
    """Return numbers or truths where every cell is one or empty, text otherwise.

    Columns are told as pyarrow does when a file is streamed: one model, one meaning of a file.
    """
    if not _is_plain(" ".join(cells)):
        return texts(cells)
    for read in (float, _truth):
        try:
            values = np.array([read(cell) if cell.strip() else np.nan for cell in cells])
        except ValueError:
            continue
        return values if values.dtype == bool else values.astype(np.float64)
    return texts(cells)


def _truth(cell: str) -> bool:
    if cell.strip() not in TRUTHS:
        raise ValueError(f"{cell!r} is neither true nor false")
    return TRUTHS[cell.strip()]


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
