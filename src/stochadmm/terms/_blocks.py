"""What a term makes of its columns: columns of X, and rows of the structure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy import sparse

from ..base.protocols import Array
from ._columns import Column

Columns = list[Column]
MISSING = "(missing)"


@dataclass(frozen=True)
class Setting:
    """What terms are told besides their columns."""

    weights: str = "standard"
    """Of penalties: "standard" or "equal"."""
    unseen: str = "error"
    missing: str = "error"
    declared: Mapping[Any, list[Any]] = field(default_factory=dict)
    """Levels of columns that are known from other rows: those of all folds."""
    mains: Mapping[Any, Any] = field(default_factory=dict)
    """Terms of single columns, which say how an interaction divides these."""


@dataclass(frozen=True)
class Rows:
    """Rows of a structure on the columns of one block: ``penalty(matrix @ coefficients)``."""

    matrix: Any
    """CSR, one row per penalized number."""
    weight: Array
    kind: Literal["l1", "square", "norm"] = "l1"
    lower: Array | None = None
    """Bounds on ``matrix @ coefficients``, none by default."""
    upper: Array | None = None
    group: Any = None
    """Blocks of the same group share one norm; None is a group of its own."""

    @property
    def bounded(self) -> bool:
        """Whether there are bounds."""
        return self.lower is not None or self.upper is not None


@dataclass(frozen=True)
class Block:
    """Columns of X and rows of the structure that one term makes."""

    encoder: Any
    """Has ``matrix(columns)``: the CSR columns of the same columns of any frame."""
    names: tuple[str, ...]
    """One per column of the matrix."""
    rows: tuple[Rows, ...] = ()
    mass: Array | None = None
    """Exposure of every level; None where columns are no levels."""
    base: int | None = None
    """The level with coefficient zero; None where columns are no levels."""
    joined: bool = False
    """Whether neighboring levels may be written as a range."""

    @property
    def shift_free(self) -> bool:
        """Whether one number may be added to all coefficients without any penalty."""
        sums = (np.abs(rows.matrix.sum(axis=1)).max(initial=0.0) for rows in self.rows)
        return self.mass is not None and all(total < 1e-12 for total in sums)


# ---------------------------------------------------------------- levels


@dataclass(frozen=True)
class Levels:
    """The levels of a factor, and how values become codes of them."""

    column: Any
    values: tuple[Any, ...] = ()
    cuts: Array | None = None
    """Where numbers are binned: the ends between bins."""
    lower: float = -np.inf
    upper: float = np.inf
    own_missing: bool = False
    """Whether missing values are a level, the last one."""
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def codes(self, column: Column) -> Array:
        """Return the number of the level of every row: -1 where it is unknown, -2 if missing."""
        if self.cuts is not None:
            codes = np.searchsorted(self.cuts, _numbers(column), side="right").astype(np.int64)
            codes[column.missing] = -2
        else:
            found, own = column.coded
            if column.kind == "number" and all(isinstance(v, (int, float)) for v in self.values):
                found = np.clip(found, self.lower, self.upper).tolist()
            index = {value: code for code, value in enumerate(self.values)}
            codes = np.array([index.get(value, -1) for value in found] + [-2], dtype=np.int64)[own]
        if self.own_missing:
            codes[column.missing] = len(self) - 1
        return codes


def _numbers(column: Column) -> Array:
    if column.kind == "number":
        return column.values
    try:
        return np.where(column.missing, np.nan, column.values).astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"column {column.name!r} holds {column.kind}, expected numbers; bins and limits need "
            "them"
        ) from None


def levels_of(
    column: Column,
    setting: Setting,
    bins: Any = None,
    lower: float | None = None,
    upper: float | None = None,
    with_rows: bool = False,
) -> Levels:
    """Return the levels of a column: declared categories, else sorted values, or bins.

    ``with_rows`` leaves declared categories out that have none.
    """
    own = setting.missing == "level" and bool(column.missing.any())
    extra = (MISSING,) if own else ()
    low = -np.inf if lower is None else float(lower)
    high = np.inf if upper is None else float(upper)
    if bins is not None:
        numbers = np.clip(_numbers(column)[~column.missing], low, high)
        if np.ndim(bins) == 0:
            inner = np.quantile(numbers, np.linspace(0, 1, int(bins) + 1)[1:-1])
            cuts = np.unique(inner[inner > numbers.min(initial=np.inf)])
        else:
            cuts = np.unique(np.asarray(bins, dtype=np.float64))
        names = [bin_name(cuts, code, code) for code in range(len(cuts) + 1)]
        return Levels(column.name, (), cuts, low, high, own, (*names, *extra))
    values: list[Any]
    if column.categories is not None and not with_rows:
        values = list(column.categories)
    elif column.name in setting.declared:
        values = list(setting.declared[column.name])
        if column.kind == "number":
            values = np.unique(np.clip(values, low, high)).tolist()
    else:
        values = distinct(column, low, high)
    names = [f"{v:.15g}" if isinstance(v, float) else str(v) for v in values]
    return Levels(column.name, tuple(values), None, low, high, own, (*names, *extra))


def distinct(column: Column, lower: float = -np.inf, upper: float = np.inf) -> list[Any]:
    """Return the different values of a column, sorted."""
    found = column.coded[0]
    if column.kind != "number":
        return list(found)
    if not np.isfinite(found).all():
        raise ValueError(f"column {column.name!r} contains infinity; drop those rows")
    return list(np.unique(np.clip(found, lower, upper)).tolist())


def bin_name(cuts: Array, first: int, last: int) -> str:
    """Return the name of neighboring bins."""
    if first == 0:
        return "all" if last == len(cuts) else f"below {cuts[last]:g}"
    low = f"{cuts[first - 1]:g}"
    return f"from {low}" if last == len(cuts) else f"{low} to {cuts[last]:g}"


# ---------------------------------------------------------------- encoders


@dataclass(frozen=True)
class OneHot:
    """One column per level."""

    levels: Levels
    base: int = 0
    shares: Array | None = None
    """Of the exposure: what stands for a level that is not known."""
    neighbors: Mapping[Any, tuple[int, ...]] = field(default_factory=dict)
    """Levels beside values that are on a map, but not in the data."""
    unseen: str = "error"
    missing: str = "error"

    def matrix(self, columns: Columns) -> Any:
        """Return the columns of a block for these rows."""
        (column,) = columns
        codes, k = self.levels.codes(column), len(self.levels)
        shares = np.zeros(k) if self.shares is None else self.shares
        first = np.zeros(k)
        first[self.base] = 1.0
        special: dict[Any, Array] = {}
        for row in np.flatnonzero(codes < 0):
            value, code = column.values[row], int(codes[row])
            rule = self.unseen if code == -1 else self.missing
            beside = self.neighbors.get(value, ()) if code == -1 else ()
            if not beside and rule in ("error", "level"):
                raise ValueError(self._refusal(column, value, code))
            stand_in = shares if rule == "mean" else first
            if beside:
                stand_in = np.bincount(beside, minlength=k) / len(beside)
            special.setdefault(beside or rule, stand_in)
            codes[row] = k + list(special).index(beside or rule)
        n = len(codes)
        if not special:
            entries = np.ones(n), codes.astype(np.int32), np.arange(n + 1, dtype=np.int32)
            return sparse.csr_array(entries, shape=(n, k))
        table = sparse.vstack(
            [sparse.eye_array(k, format="csr"), *map(_row, special.values())], "csr"
        )
        return table[codes]

    def _refusal(self, column: Column, value: Any, code: int) -> str:
        if code == -2:
            return (
                f"column {column.name!r} contains NaN or missing values; set missing='level' or "
                "'mean', or drop those rows"
            )
        return (
            f"column {column.name!r} has the level {value!r}, which no row of the fit has; set "
            "unseen='base' or 'mean', or declare it as a category"
        )


def _row(values: Array) -> Any:
    return sparse.csr_array(values[None, :])


@dataclass(frozen=True)
class Number:
    """One column as it is."""

    mean: float
    missing: str = "error"

    def matrix(self, columns: Columns) -> Any:
        """Return the column of a block for these rows."""
        return sparse.csr_array(self._filled(columns)[:, None])

    def _filled(self, columns: Columns) -> Array:
        (column,) = columns
        values = _numbers(column)
        if np.isinf(values).any():
            raise ValueError(f"column {column.name!r} contains infinity; drop those rows")
        if column.missing.any():
            if self.missing != "mean":
                raise ValueError(
                    f"column {column.name!r} contains NaN or missing values; set missing='mean', "
                    "or drop those rows"
                )
            values = np.where(column.missing, self.mean, values)
        return values


@dataclass(frozen=True)
class Hats(Number):
    """Broken lines: a column per knot, one there and zero at its neighbors and beyond."""

    knots: Array = field(default_factory=lambda: np.zeros(2))

    def matrix(self, columns: Columns) -> Any:
        """Return the columns of a block for these rows."""
        values = np.clip(self._filled(columns), self.knots[0], self.knots[-1])
        left = np.clip(np.searchsorted(self.knots, values, "right") - 1, 0, len(self.knots) - 2)
        share = (values - self.knots[left]) / np.diff(self.knots)[left]
        n = len(values)
        entries = np.column_stack([1.0 - share, share]).ravel()
        places = np.column_stack([left, left + 1]).ravel()
        triple = (entries, places, np.arange(0, 2 * n + 1, 2))
        return sparse.csr_array(triple, shape=(n, len(self.knots)))


@dataclass(frozen=True)
class Cells:
    """One column per pair of levels of two factors."""

    first: OneHot
    second: OneHot

    def matrix(self, columns: Columns) -> Any:
        """Return the columns of a block for these rows: products of those of the factors."""
        one, two = self.first.matrix([columns[0]]), self.second.matrix([columns[1]])
        sizes = np.diff(one.indptr) * np.diff(two.indptr)
        if (sizes == 1).all():
            places = one.indices.astype(np.int64) * two.shape[1] + two.indices
            triple = (one.data * two.data, places, np.arange(len(sizes) + 1))
            return sparse.csr_array(triple, shape=(len(sizes), one.shape[1] * two.shape[1]))
        rows = [sparse.kron(one[[i]], two[[i]], "csr") for i in range(len(sizes))]
        return sparse.vstack(rows, "csr")
