"""From tables to the columns of a model: numbers as they are, one column per level of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from stochadmm.base.protocols import Array
from stochadmm.base.validation import is_sparse

from ._columns import Expected, Table, as_texts, check_names, is_number, oddity


@dataclass(frozen=True)
class Design:
    """How the columns of a table become those of a model.

    ``levels`` has the categories of each text column; a column of numbers has None. A file with
    one matrix and no names has no sources.
    """

    sources: dict[str, list[str] | None]
    n_columns: int
    from_zero: bool | None = None
    """Whether the columns of libsvm text are counted from zero."""

    @classmethod
    def of(cls, table: Table, names: Sequence[str], most_levels: int = 1000) -> Design:
        """Return the design of some columns of a table.

        A column with more than ``most_levels`` texts, or with one for every other row, looks like
        names of rows, not like categories.
        """
        if table.matrix is not None:
            return cls({}, int(table.matrix.shape[1]), table.from_zero)
        sources: dict[str, list[str] | None] = {}
        for name in names:
            values = table.column(name, "model")
            sources[name] = None
            if values.dtype == object:
                _check_text(table, name, values)
                sources[name] = sorted({str(value) for value in values})
                _check_categories(table, name, len(sources[name] or ()), most_levels)
        design = cls(sources, sum(1 if kind is None else len(kind) for kind in sources.values()))
        check_names(f"the model of {table.path}", design.names)
        return design

    @property
    def names(self) -> list[str]:
        """Names of the model's columns: that of a number, ``name=level`` of a category."""
        if not self.sources:
            return [f"x{j}" for j in range(self.n_columns)]
        found: list[str] = []
        for name, kinds in self.sources.items():
            found += [name] if kinds is None else [f"{name}={kind}" for kind in kinds]
        return found

    def as_plain(self) -> dict[str, Any]:
        """Return the fields as values of JSON."""
        return {
            "sources": self.sources,
            "n_columns": self.n_columns,
            "from_zero": self.from_zero,
        }

    @property
    def expected(self) -> Expected:
        """What is known of the files that have these columns."""
        texts = frozenset(name for name, kinds in self.sources.items() if kinds is not None)
        return Expected(texts, 0 if self.sources else self.n_columns, self.from_zero)

    def rows(self, table: Table) -> Any:
        """Return the model's columns of a table, sparse where categories are many."""
        if not self.sources:
            if table.matrix is None:
                raise ValueError(
                    f"{table.path} has named columns, the model was fitted to a matrix without "
                    "them; pass a file of the same kind"
                )
            if table.matrix.shape[1] != self.n_columns:
                raise ValueError(
                    f"{table.path} has {table.matrix.shape[1]} columns, the model {self.n_columns}"
                )
            table.check_matrix()
            return table.matrix
        blocks: list[Any] = [self._block(table, *source) for source in self.sources.items()]
        if any(kinds is not None for kinds in self.sources.values()) and self.n_columns > 50:
            return sparse.csr_array(sparse.hstack(blocks))
        return np.hstack([b.toarray() if is_sparse(b) else b for b in blocks])

    def _block(self, table: Table, name: str, kinds: list[str] | None) -> Any:
        if kinds is None:
            return table.numbers(name, "model")[:, None]
        values = as_texts(table.column(name, "model"))
        given = np.array(kinds)
        order = np.argsort(given)
        found = np.searchsorted(given, values, sorter=order)
        place = order[np.minimum(found, len(kinds) - 1)]
        known = np.flatnonzero(given[place] == values)  # other levels are all zeros
        cells = (np.ones(known.size), (known, place[known]))
        return sparse.csr_array(cells, shape=(len(values), len(kinds)))

    def unseen(self, table: Table) -> dict[str, int]:
        """Return how many rows have a level that the model does not know, by column."""
        found = {}
        for name, kinds in self.sources.items():
            if kinds is not None:
                known = set(kinds)
                count = sum(v not in known for v in as_texts(table.column(name, "model")).tolist())
                if count:
                    found[name] = count
        return found


def _check_categories(table: Table, name: str, count: int, most: int, few: int = 20) -> None:
    """Raise where a column names its rows: too many texts, or nearly as many as rows."""
    rows = table.n_rows
    if count > most or (count > few and count > rows / 2):
        odd = oddity(table.columns[name])
        if odd:
            raise ValueError(f"column {name!r} of {table.path} {odd}")
        raise ValueError(
            f"column {name!r} of {table.path} has {count:,} different texts in {rows:,} rows, "
            "too many for categories; leave it out with --drop, or encode it first"
        )


def _check_text(table: Table, name: str, values: Array, few: int = 20) -> None:
    """Raise where a text stands among numbers: more than ``few`` of them are no categories."""
    kinds = {str(value) for value in values} - {""}
    texts = {kind for kind in kinds if not is_number(kind)}
    if not texts or len(kinds) - len(texts) <= max(few, len(texts)):
        return
    place = next(k for k, value in enumerate(values) if str(value) in texts)
    raise ValueError(
        f"column {name!r} of {table.path} has the text {str(values[place])!r} in row {place + 1} "
        "among numbers; correct it, or leave the column out with --drop"
    )
