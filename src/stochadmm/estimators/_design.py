"""Terms side by side: from the columns of a frame to rows of a problem and its structure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..base.names import did_you_mean
from ..base.protocols import Array, Penalty
from ..operators import Matrix
from ..penalties import L1, GroupL2, Separable
from ..terms import (
    Block,
    Column,
    Free,
    Grid,
    Nominal,
    Ordered,
    Rows,
    Setting,
)
from ._structure import Limits, Structure

MOST_LEVELS = 50  # of a factor whose pairs are fused without being asked for


@dataclass(frozen=True)
class Part:
    """One term with its columns and its place among the encoded columns."""

    key: Any
    """Name of the column, or the pair of them."""
    term: Any
    block: Block
    start: int
    left_out: int | None = None
    """A level without a column of its own, whose coefficient is zero."""

    @property
    def columns(self) -> tuple[Any, ...]:
        """Names of the columns."""
        return columns_of(self.key)

    @property
    def label(self) -> str:
        """What the term is called in tables."""
        return " x ".join(map(str, self.columns))

    @property
    def kept(self) -> Array:
        """The levels with a column."""
        every = np.arange(len(self.block.names))
        return every if self.left_out is None else np.delete(every, self.left_out)

    @property
    def places(self) -> slice:
        """Where its columns are."""
        size = len(self.block.names) - (self.left_out is not None)
        return slice(self.start, self.start + size)

    def spread(self, coef: Array) -> Array:
        """Return one coefficient per level: zero for a level without a column."""
        own = coef[self.places]
        return own if self.left_out is None else np.insert(own, self.left_out, 0.0, axis=0)


def columns_of(key: Any) -> tuple[Any, ...]:
    """Return the names of the columns that the key of a term stands for."""
    return key if isinstance(key, tuple) else (key,)


@dataclass(frozen=True)
class Design:
    """All terms of a model."""

    parts: tuple[Part, ...]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.parts[-1].places.stop if self.parts else 0

    def matrix(self, columns: Mapping[Any, Column]) -> Any:
        """Return the encoded columns of these rows as CSR."""
        blocks = []
        for part in self.parts:
            own = part.block.encoder.matrix([columns[name] for name in part.columns])
            blocks.append(own if part.left_out is None else _without(own, part.left_out))
        found = sparse.hstack(blocks, format="csr")
        found.indices, found.indptr = (
            index.astype(np.int32, copy=False) for index in (found.indices, found.indptr)
        )
        return found

    def names(self) -> list[str]:
        """Return the names of the encoded columns."""
        found = []
        for part in self.parts:
            levels = [part.block.names[code] for code in part.kept]
            factor = part.block.base is not None
            found += [f"{part.label}={level}" if factor else level for level in levels]
        return found

    def units(self, X: Any, weight: Array | None, intercept: bool) -> tuple[Array, Array]:
        """Return centers and scales of the columns: those of numbers, else zero and one."""
        if weight is not None and weight.ndim == 2:
            weight = weight.max(axis=1)
        center, scale = np.zeros(self.width), np.ones(self.width)
        for part in self.parts:
            if part.block.base is not None:
                continue
            values = X[:, [part.start]].toarray().ravel()
            mean = float(np.average(values, weights=weight)) if intercept else 0.0
            deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=weight)))
            center[part.start] = mean
            if deviation > 1e-12 * abs(mean):
                scale[part.start] = deviation
        return center, scale

    @property
    def free(self) -> Array:
        """Mask of the encoded columns whose term has no penalty."""
        found = np.zeros(self.width, dtype=bool)
        for part in self.parts:
            found[part.places] = not any(np.any(rows.weight) for rows in part.block.rows)
        return found

    def limits(self, scale: Array) -> Limits | None:
        """Return the bounds of the terms, of columns divided by their scales; None for none."""
        rows = [(p, r) for p in self.parts for r in p.block.rows if r.bounded and len(r.weight)]
        if not rows:
            return None
        ends = _elementwise([r for _, r in rows])
        placed = sparse.vstack([self._placed(*row, scale) for row in rows], format="csr")
        return Limits(placed, ends.lower, ends.upper)

    def structure(self, scale: Array, sharpness: Array | None = None) -> Structure:
        """Return the penalty at strength one, of columns divided by their scales.

        ``sharpness`` are factors of the rows that are not bounds alone.
        """
        rows, at = [], 0
        for part in self.parts:
            for own in part.block.rows:
                more = own.weight
                if sharpness is not None:
                    more, at = more * sharpness[at : at + len(more)], at + len(more)
                rows.append((part, replace(own, weight=more)))
        single = [(p, r) for p, r in rows if r.kind != "norm" and r.matrix.shape[0]]
        terms: list[tuple[Any, Penalty]] = []
        if single:
            operator = sparse.vstack([self._placed(*row, scale) for row in single], format="csr")
            terms.append((Matrix(operator), _elementwise([r for _, r in single])))
        groups: dict[Any, list[Any]] = {}
        for number, (part, own) in enumerate(rows):
            if own.kind == "norm":
                name = ("own", number) if own.group is None else own.group
                groups.setdefault(name, []).append((part, own))
        for members in groups.values():
            blocks = [sparse.diags_array(r.weight) @ self._placed(p, r, scale) for p, r in members]
            operator = sparse.vstack(blocks, format="csr")
            size = operator.shape[0]
            terms.append((Matrix(operator), GroupL2(1.0, sizes=[size])))
        return Structure(terms)

    def differences(self, coef: Array) -> Array:
        """Return the numbers that are penalized, in the order of the rows."""
        found = [r.matrix @ p.spread(coef) for p in self.parts for r in p.block.rows]
        return np.concatenate([np.zeros(0), *found])

    def _placed(self, part: Part, rows: Rows, scale: Array) -> Any:
        """Return rows of one block as rows on all columns, in units of scaled columns."""
        places = part.places
        matrix = sparse.csr_array(rows.matrix)[:, part.kept]
        own = sparse.csr_array(matrix @ sparse.diags_array(1.0 / scale[places]))
        triple = (own.data, own.indices + places.start, own.indptr)
        return sparse.csr_array(triple, shape=(own.shape[0], self.width))


def _without(X: Any, column: int) -> Any:
    """Return a CSR array without one column, in less time than by a list of the others."""
    kept = X.indices != column
    ends = np.concatenate([[0], np.cumsum(kept)]).astype(X.indptr.dtype)[X.indptr]
    indices = X.indices[kept]
    indices[indices > column] -= 1
    return sparse.csr_array((X.data[kept], indices, ends), shape=(X.shape[0], X.shape[1] - 1))


def _elementwise(rows: list[Rows]) -> Any:
    """Return the penalty of stacked rows: l1 norms, squares and bounds."""
    l1 = np.concatenate([r.weight if r.kind == "l1" else 0.0 * r.weight for r in rows])
    l2 = np.concatenate([r.weight if r.kind == "square" else 0.0 * r.weight for r in rows])
    if not any(r.bounded for r in rows) and not l2.any():
        return L1(1.0, weights=l1)

    def ends(name: str, none: float) -> Array:
        each = [getattr(r, name) for r in rows]
        return np.concatenate(
            [
                np.full(len(r.weight), none) if e is None else e
                for r, e in zip(rows, each, strict=True)
            ]
        )

    return Separable(l1, l2, ends("lower", -np.inf), ends("upper", np.inf))


def built(
    terms: Mapping[Any, Any],
    columns: Mapping[Any, Column],
    mass: Array,
    setting: Setting,
    intercept: bool,
    square: bool,
) -> Design:
    """Return the design of terms on these columns.

    Beside an intercept, a term to which one number may be added without a penalty leaves out the
    column of its largest level: the optimum is the same, and no direction is flat. Without an
    intercept the first such term takes its place. A ``square`` of
    all coefficients is such a penalty for what is not free.
    """
    parts: list[Part] = []
    setting = replace(setting, mains=terms)
    at = 0
    for key, term in terms.items():
        block = term.block([columns[name] for name in columns_of(key)], mass, setting)
        out = None
        loose = block.shift_free and not (square and any(np.any(r.weight) for r in block.rows))
        if intercept and loose and block.mass is not None:
            out = int(np.argmax(block.mass))
        intercept = intercept or loose
        parts.append(Part(key, term, block, at, out))
        at = parts[-1].places.stop
    return Design(tuple(parts))


def chosen(
    given: Any,
    columns: Mapping[Any, Column],
    remainder: str,
    declared: Mapping[Any, Any],
    numbers: Any,
) -> dict[Any, Any]:
    """Return a term for every column: those given, and the default of the type of the others."""
    terms: dict[Any, Any] = {} if given is None else dict(given)
    for key, term in terms.items():
        if not callable(getattr(term, "block", None)):
            raise ValueError(
                f"the term of {key!r} is {term!r}, expected one of stochadmm.terms, such as "
                "Ordered()"
            )
        for name in columns_of(key):
            if name not in columns:
                hint = did_you_mean(str(name), list(map(str, columns)))
                raise ValueError(
                    f"terms names {name!r}, which is no column of X; it has "
                    f"{', '.join(map(repr, list(columns)[:8]))}" + (f"; {hint}" if hint else "")
                )
    if given is not None and remainder == "drop":
        return terms
    mains = {name: term for name, term in terms.items() if name in columns}
    for name, column in columns.items():
        if name not in mains:
            mains[name] = default_term(column, declared, numbers)
    pairs = {key: term for key, term in terms.items() if key not in mains}
    return {**{name: mains[name] for name in columns}, **pairs}


def default_term(column: Column, declared: Mapping[Any, Any], numbers: Any) -> Any:
    """Return the term of a column by its type."""
    if column.kind == "ordered":
        return Ordered()
    if column.kind == "number":
        return numbers
    count = len(declared.get(column.name, column.coded[0]))
    if column.kind == "flag" or count <= 2:
        return Free()
    if count > MOST_LEVELS:
        raise ValueError(
            f"column {column.name!r} has {count} levels; say what it is in terms: Map(edges), "
            "Group(), or Nominal() for all pairs, or leave it out with remainder='drop'"
        )
    return Nominal()


__all__ = ["Design", "Grid", "Part", "built", "chosen", "columns_of", "default_term"]
