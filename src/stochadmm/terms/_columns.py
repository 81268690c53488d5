"""Columns of frames of any library, read through narwhals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from ..base.protocols import Array


@dataclass(frozen=True)
class Column:
    """One column: its values, which of them are missing, and what its type says of them."""

    name: Any
    kind: str
    """"number", "flag", "text", or "ordered" for categories with an order."""
    values: Array
    """float64 for numbers, objects otherwise."""
    missing: Array
    categories: tuple[Any, ...] | None = None
    """All categories in their order, those without rows included; only of "ordered"."""

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def coded(self) -> tuple[list[Any], Array]:
        """The different values in their order, and for every row the number of its own, or -1.

        The order is that of the categories, where the column has one.

        Found once: levels, codes and the columns of X all need them.
        """
        if self.kind == "number":
            return _coded_numbers(self.values, self.missing)
        rows = self.values.tolist()
        number = dict.fromkeys(rows, -1)
        found = list(number)
        if self.missing.any():
            found = list(dict.fromkeys(self.values[~self.missing].tolist()))
        try:
            found.sort(key=by_size if self.categories is None else self.categories.index)
        except TypeError:
            found.sort(key=lambda value: (type(value).__name__, str(value)))
        number.update((value, code) for code, value in enumerate(found))
        return found, np.fromiter(map(number.__getitem__, rows), np.int64, len(rows))


def by_size(value: Any) -> Any:
    """Return a key that sorts texts by their letters, and the numbers in them by size.

    Examples
    --------
    >>> from stochadmm.terms._columns import by_size
    >>> sorted(["9-12 kW", "13-15 kW", "6-8 kW"], key=by_size)
    ['6-8 kW', '9-12 kW', '13-15 kW']
    """
    if not isinstance(value, str):
        return value
    pieces = re.split(r"(\d+(?:\.\d+)?)", value)
    return [float(piece) if i % 2 else piece for i, piece in enumerate(pieces)], value


def _coded_numbers(values: Array, missing: Array) -> tuple[list[Any], Array]:
    seen = values[~missing] if missing.any() else values
    codes = np.full(len(values), -1, dtype=np.int64)
    low, high = seen.min(initial=np.inf), seen.max(initial=-np.inf)
    if high - low < len(seen) and (seen == np.rint(seen)).all():  # counting is faster than sorting
        place = (seen - low).astype(np.int64)
        present = np.bincount(place) > 0
        codes[~missing] = (np.cumsum(present) - 1)[place]
        return (low + np.flatnonzero(present)).tolist(), codes
    found, inverse = np.unique(seen, return_inverse=True)
    codes[~missing] = inverse
    return found.tolist(), codes


def as_frame(X: Any) -> Any:
    """Return a pandas, polars or Arrow frame as narwhals sees it, None for anything else."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def read_columns(X: Any) -> dict[Any, Column]:
    """Return the columns of a frame by name, or those of an array by number.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.terms import read_columns
    >>> columns = read_columns(np.array([["a", 1.5], ["b", 2.0]], dtype=object))
    >>> [column.kind for column in columns.values()]
    ['text', 'number']
    """
    frame = as_frame(X)
    if frame is not None:
        return {name: _of_series(name, frame.get_column(name)) for name in frame.columns}
    X = np.asarray(X)
    return {j: of_values(j, X[:, j]) for j in range(X.shape[1])}


def _of_series(name: Any, series: Any) -> Column:
    dtype = series.dtype
    missing = series.is_null().to_numpy().astype(bool)
    if dtype == nw.Boolean:
        return Column(name, "flag", series.to_numpy().astype(object), missing)
    if dtype.is_numeric():
        values = series.to_numpy().astype(np.float64)
        return Column(name, "number", values, missing | np.isnan(values))
    values = series.to_numpy().astype(object)
    if isinstance(dtype, nw.Enum):
        return Column(name, "ordered", values, missing, tuple(dtype.categories))
    if dtype == nw.Object:
        return of_values(name, values)
    if dtype in (nw.String, nw.Categorical):
        return Column(name, "text", values, missing)
    raise ValueError(
        f"column {name!r} has the type {dtype}; make it a number, or texts if it is a factor"
    )


def of_values(name: Any, values: Array) -> Column:
    """Return a column of an array: numbers where all values are, else texts or other objects."""
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
        return Column(name, "number", numbers, np.isnan(numbers))
    values = values.astype(object)
    missing = np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    kinds = {type(value) for value in values[~missing].tolist()}
    if kinds and all(issubclass(kind, bool) for kind in kinds):
        return Column(name, "flag", values, missing)
    if kinds and all(issubclass(kind, (int, float)) for kind in kinds):
        numbers = np.where(missing, np.nan, values).astype(np.float64)
        return Column(name, "number", numbers, missing)
    return Column(name, "text", values, missing)
