"""The terms: which coefficients of a column are drawn together, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..base.protocols import Array
from ._blocks import (
    Block,
    Cells,
    Columns,
    Hats,
    Levels,
    Number,
    OneHot,
    Rows,
    Setting,
    distinct,
    levels_of,
)

MOST_LEVELS = 2000  # distinct numbers that are taken for levels
MOST_PAIRS_OF = 300  # levels of which all pairs are fused: 44,850 differences


@dataclass(frozen=True, kw_only=True)
class Term:
    """What all terms share.

    Parameters
    ----------
    weight : float or sequence of float, default=1
        Factor of the penalty of this term, or one per penalized number.
    bounds : pair of float, optional
        Limits of the coefficients of levels, relative to that of the base level, or of the slope
        of a number. Where the link is the logarithm they are logarithms of relativities.
    """

    weight: Any = 1.0
    bounds: tuple[float | None, float | None] | None = None

    def block(self, columns: Columns, mass: Array, setting: Setting) -> Block:
        """Return what the term makes of its columns.

        Parameters
        ----------
        columns : list of Column
            One, or two for an interaction.
        mass : array
            Exposure or weight of every row.
        setting : Setting
            Rules for levels, and what is known from other terms and rows.

        Returns
        -------
        Block
        """
        raise NotImplementedError

    def _limits(self, base: int | None, k: int) -> tuple[Rows, ...]:
        """Return the rows that hold coefficients within the bounds."""
        if self.bounds is None:
            return ()
        low, high = (
            none if end is None else float(end)
            for end, none in zip(self.bounds, (-np.inf, np.inf), strict=True)
        )
        matrix = sparse.eye_array(k, format="lil")
        if base is not None:
            matrix[:, base] = matrix[:, [base]].toarray() - 1.0
        rows = np.delete(np.arange(k), base) if base is not None else np.arange(k)
        edge = np.ones(len(rows))
        return (Rows(sparse.csr_array(matrix)[rows], 0.0 * edge, "l1", low * edge, high * edge),)


@dataclass(frozen=True, kw_only=True)
class Factor(Term):
    """A column of levels.

    Parameters
    ----------
    base : object, optional
        The level of relativity one in the table, by default that of the largest exposure. It does
        not change the fit.
    bins : int or sequence of float, optional
        For numbers: how many bins of about the same number of rows, or the ends between bins.
    lower, upper : float, optional
        Limits to which numbers are clipped, in training and in prediction.
    """

    base: Any = None
    bins: Any = None
    lower: float | None = None
    upper: float | None = None

    _with_rows = False  # whether declared levels without rows are left out

    def _learned(self, columns: Columns, setting: Setting) -> Levels:
        """Return the levels of the only column."""
        if len(columns) != 1:
            raise ValueError(f"{type(self).__name__} is for one column, got {len(columns)}")
        levels = levels_of(columns[0], setting, self.bins, self.lower, self.upper, self._with_rows)
        if len(levels) > MOST_LEVELS:
            raise ValueError(
                f"column {columns[0].name!r} has {len(levels)} levels; use bins=20, or Smooth()"
            )
        if not len(levels):
            raise ValueError(f"column {columns[0].name!r} has no values; leave it out")
        return levels

    def _one_hot(
        self, columns: Columns, mass: Array, setting: Setting
    ) -> tuple[OneHot, Array, int]:
        """Return the encoder, the exposure of every level, and the base."""
        levels = self._learned(columns, setting)
        codes = levels.codes(columns[0])
        known = codes >= 0
        each = np.bincount(codes[known], mass[known], minlength=len(levels))
        base = self._base(levels, each)
        total = each.sum()
        shares = each / total if total > 0 else np.full(len(levels), 1.0 / len(levels))
        encoder = OneHot(levels, base, shares, unseen=setting.unseen, missing=setting.missing)
        return encoder, each, base

    def _base(self, levels: Levels, each: Array) -> int:
        if self.base is None:
            return int(np.argmax(each))
        for code, value in enumerate(levels.values):
            if value == self.base:
                return code
        if str(self.base) in levels.names:
            return levels.names.index(str(self.base))
        raise ValueError(
            f"column {levels.column!r} has no level {self.base!r}, given as base; it has "
            f"{', '.join(levels.names[:8])}"
        )


@dataclass(frozen=True, kw_only=True)
class Fused(Factor):
    """A factor whose levels are drawn together along edges."""

    _chain = False

    def _pairs(self, levels: Levels) -> Array:
        """Return the pairs of levels whose difference is penalized, missing values left out."""
        raise NotImplementedError

    def block(self, columns: Columns, mass: Array, setting: Setting) -> Block:
        """Return one column per level, and differences along the edges."""
        encoder, each, base = self._one_hot(columns, mass, setting)
        k, levels = len(encoder.levels), encoder.levels
        pairs = self._pairs(levels)
        if levels.own_missing:  # not part of the order or the map: beside every other level
            others = np.arange(k - 1)
            pairs = np.concatenate([pairs, np.column_stack([others, np.full(k - 1, k - 1)])])
        chain = self._chain and not levels.own_missing
        weight = edge_weights(pairs, each, chain, setting.weights) * np.asarray(self.weight)
        low, high = self._direction(len(pairs), k)
        rows = Rows(differences(pairs, k), weight, "l1", low, high)
        limits = self._limits(base, k)
        return Block(encoder, levels.names, (rows, *limits), each, base, joined=self._chain)

    def _direction(self, m: int, k: int) -> tuple[Array | None, Array | None]:
        """Return bounds on the differences."""
        return None, None


@dataclass(frozen=True, kw_only=True)
class Ordered(Fused):
    """A factor with an order: neighboring levels are drawn together, and merge.

    Parameters
    ----------
    increasing, decreasing : bool, default=False
        Whether coefficients may only rise, or only fall, along the order.
    order : {1, 2}, default=1
        2 draws second differences to zero: coefficients on a broken line instead of steps.
    {factor}

    Examples
    --------
    >>> import stochadmm as sa
    >>> sa.terms.Ordered(increasing=True, upper=85).increasing
    True
    """

    increasing: bool = False
    decreasing: bool = False
    order: int = 1
    _chain = True

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"order is {self.order!r}, expected 1 for steps or 2 for lines")
        if self.increasing and self.decreasing:
            raise ValueError("increasing and decreasing are both set, expected one at most")

    def _pairs(self, levels: Levels) -> Array:
        """Return neighbors along the order."""
        k = len(levels) - levels.own_missing
        return np.column_stack([np.arange(k - 1), np.arange(1, k)])

    def block(self, columns: Columns, mass: Array, setting: Setting) -> Block:
        """Return one column per level, and first or second differences along the order."""
        found = super().block(columns, mass, setting)
        if self.order == 1:
            return found
        k = len(found.names) - found.encoder.levels.own_missing
        first, *rest = found.rows
        steps = first.matrix[: k - 1]
        parts = [Rows(steps[1:] - steps[:-1], np.ones(max(k - 2, 0)) * np.asarray(self.weight))]
        if first.lower is not None or first.upper is not None:
            parts.append(replace(first, weight=0.0 * first.weight))
        beside = Rows(first.matrix[k - 1 :], first.weight[k - 1 :])
        return replace(found, rows=(*parts, beside, *rest))

    def _direction(self, m: int, k: int) -> tuple[Array | None, Array | None]:
        if not self.increasing and not self.decreasing:
            return None, None
        inner = np.arange(m) < k - 1  # edges to missing values have no direction
        low = np.where(inner & self.increasing, 0.0, -np.inf)
        return low, np.where(inner & self.decreasing, 0.0, np.inf)


@dataclass(frozen=True, kw_only=True)
class Periodic(Fused):
    """A factor whose last level is a neighbor of its first: hours, weekdays, months.

    Parameters
    ----------
    {factor}
    """

    def _pairs(self, levels: Levels) -> Array:
        """Return neighbors around the ring."""
        k = len(levels) - levels.own_missing
        if k < 3:
            return np.column_stack([np.arange(k - 1), np.arange(1, k)])
        return np.column_stack([np.arange(k), np.roll(np.arange(k), -1)])


@dataclass(frozen=True, kw_only=True)
class Nominal(Fused):
    """A factor without an order: all pairs of levels are drawn together, and merge.

    Levels declared by the type of the column but without rows are left out.

    Parameters
    ----------
    {factor}
    """

    _with_rows = True

    def _learned(self, columns: Columns, setting: Setting) -> Levels:
        """Return the levels that have rows."""
        found = super()._learned(columns, setting)
        if len(found) > MOST_PAIRS_OF:
            raise ValueError(
                f"column {found.column!r} has {len(found)} levels, too many for all pairs; use "
                "Map(edges) or Group()"
            )
        return found

    def _pairs(self, levels: Levels) -> Array:
        """Return all pairs."""
        return np.column_stack(np.triu_indices(len(levels) - levels.own_missing, 1))


@dataclass(frozen=True)
class Map(Fused):
    """A factor whose levels lie beside each other on a map: neighbors merge.

    Levels without rows stay when they are on the map: their neighbors place them. A level that is
    met in prediction only, and is on the map, has the mean of its neighbors.

    Parameters
    ----------
    edges : sequence of pairs
        Pairs of levels that are neighbors.
    points : mapping, optional
        Coordinates ``(x, y)`` of levels, for pictures.
    {factor}

    Examples
    --------
    >>> import stochadmm as sa
    >>> sa.terms.Map([("north", "middle"), ("middle", "south")]).edges
    (('north', 'middle'), ('middle', 'south'))
    """

    edges: tuple[tuple[Any, Any], ...] = ()
    points: Mapping[Any, tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        try:
            given = np.asarray(self.edges, dtype=object).tolist()
            pairs = tuple((a, b) for a, b in given)
        except (TypeError, ValueError):
            raise ValueError(
                "Map needs pairs of levels, two in each; pass a list of them"
            ) from None
        object.__setattr__(self, "edges", pairs)

    @classmethod
    def from_points(cls, levels: Sequence[Any], points: Any, **options: Any) -> Map:
        """Return the map of points: neighbors are those of Delaunay's triangulation.

        Parameters
        ----------
        levels : sequence
            One level per point.
        points : array of shape (n_levels, 2)
            Longitudes and latitudes, or any other coordinates. Levels at the same place are
            neighbors of each other.
        **options
            Passed to `Map`.

        Returns
        -------
        Map
        """
        from scipy.spatial import Delaunay

        points = np.asarray(points, dtype=np.float64)
        names = np.asarray(levels, dtype=object).tolist()
        if points.shape != (len(names), 2):
            raise ValueError(
                f"points have the shape {points.shape}, expected two coordinates for each of "
                f"{len(names)} levels"
            )
        places, which = np.unique(points, axis=0, return_inverse=True)
        which = np.ravel(which)
        edges: set[tuple[int, int]] = set()
        firsts = [np.flatnonzero(which == place) for place in range(len(places))]
        if len(places) > 2:
            for corners in Delaunay(places).simplices:
                for a, b in ((0, 1), (1, 2), (0, 2)):
                    one, two = sorted((firsts[corners[a]][0], firsts[corners[b]][0]))
                    edges.add((int(one), int(two)))
        elif len(places) == 2:
            edges.add((int(firsts[0][0]), int(firsts[1][0])))
        for same in firsts:
            edges.update((int(same[0]), int(other)) for other in same[1:])
        pairs = tuple((names[a], names[b]) for a, b in sorted(edges))
        return cls(pairs, dict(zip(names, map(tuple, points.tolist()), strict=True)), **options)

    def _learned(self, columns: Columns, setting: Setting) -> Levels:
        """Return the levels with rows, and those of the map that are declared categories."""
        found = super()._learned(columns, setting)
        known = set(found.values)
        if found.values and not any(a in known and b in known for a, b in self.edges):
            raise ValueError(
                f"column {found.column!r}: no pair of the map joins two of its levels; levels are "
                f"such as {found.values[0]!r}, the map has {self.edges[:1]}"
            )
        return found

    def _pairs(self, levels: Levels) -> Array:
        """Return the pairs of the map that both have rows."""
        code = {value: place for place, value in enumerate(levels.values)}
        known = {
            tuple(sorted((code[a], code[b])))
            for a, b in self.edges
            if a in code and b in code and a != b
        }
        return np.array(sorted(known), dtype=np.int64).reshape(-1, 2)

    def block(self, columns: Columns, mass: Array, setting: Setting) -> Block:
        """Return one column per level, and differences along the map."""
        found = super().block(columns, mass, setting)
        code = {value: place for place, value in enumerate(found.encoder.levels.values)}
        beside: dict[Any, list[int]] = {}
        for pair in self.edges:
            for one, other in (pair, pair[::-1]):
                if one not in code and other in code:
                    beside.setdefault(one, []).append(code[other])
        neighbors = {value: tuple(sorted(set(codes))) for value, codes in beside.items()}
        return replace(found, encoder=replace(found.encoder, neighbors=neighbors))


@dataclass(frozen=True, kw_only=True)
class Grid(Term):
    """An interaction of two columns: cells are drawn together along both.

    The terms of the two columns say how each is divided and which levels are neighbors; they stay
    in the model. Cells without rows are placed by their neighbors.
    """

    def block(self, columns: Columns, mass: Array, setting: Setting) -> Block:
        """Return one column per cell, and differences along both axes."""
        if len(columns) != 2:
            raise ValueError(f"Grid is for two columns, got {len(columns)}; use a pair as the key")
        terms = [setting.mains.get(column.name) for column in columns]
        axes = [term if isinstance(term, Fused) else Ordered() for term in terms]
        parts = [
            term._one_hot([column], mass, setting)[0]
            for term, column in zip(axes, columns, strict=True)
        ]
        sizes = [len(part.levels) for part in parts]
        encoder = Cells(*parts)
        number = np.arange(sizes[0] * sizes[1]).reshape(sizes)
        along = axes[0]._pairs(parts[0].levels), axes[1]._pairs(parts[1].levels)
        pairs = np.concatenate(
            [
                number[along[0]].transpose(0, 2, 1).reshape(-1, 2),
                number[:, along[1]].reshape(-1, 2),
            ]
        )
        each = np.asarray(encoder.matrix(columns).T @ mass)
        k = len(each)
        weight = edge_weights(pairs, each, False, setting.weights) * np.asarray(self.weight)
        names = tuple(f"{a} x {b}" for a in parts[0].levels.names for b in parts[1].levels.names)
        base = int(np.argmax(each))
        rows = Rows(differences(pairs, k), weight)
        return Block(encoder, names, (rows, *self._limits(base, k)), each, base)


@dataclass(frozen=True, kw_only=True)
class Plain(Factor):
    """A number with one slope, or a factor with one coefficient per level.

    Parameters
    ----------
    levels : bool, default=False
        Whether a column of numbers is a factor. Texts and categories always are.
    """

    levels: bool = False

    def _is_number(self, columns: Columns) -> bool:
        bins = self.bins is not None
        return columns[0].kind == "number" and not self.levels and not bins

    def _number(self, columns: Columns, mass: Array, setting: Setting) -> Number:
        if len(columns) != 1:
            raise ValueError(f"{type(self).__name__} is for one column, got {len(columns)}")
        (column,) = columns
        seen = ~column.missing & (mass > 0)
        mean = float(np.average(column.values[seen], weights=mass[seen])) if seen.any() else 0.0
        return Number(mean, setting.missing)

    def _deviation(self, encoder: Any, columns: Columns, mass: Array) -> Array:
        """Return the deviation of every column."""
        X = encoder.matrix(columns)
        total = mass.sum()
        mean = X.T @ mass / total
        deviation = np.sqrt(np.maximum(X.multiply(X).T @ mass / total - mean**2, 0.0))
        return np.asarray(np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0))


@dataclass(frozen=True)
class Free(Plain):
    """A column without a penalty: a number with one slope, or a factor, such as of two levels.

    Parameters
    ----------
    levels : bool, default=False
        Whether a column of numbers is a factor. Texts and categories always are.
    {factor}
    """

    _with_rows = True

    def block(self, columns: Columns, mass: Array, setting: Setting) -> Block:
        """Return one column, or one per level."""
        if self._is_number(columns):
            encoder = self._number(columns, mass, setting)
            return Block(encoder, (str(columns[0].name),), self._limits(None, 1))
        one_hot, each, base = self._one_hot(columns, mass, setting)
        rows = self._limits(base, len(each))
        return Block(one_hot, one_hot.levels.names, rows, each, base)


@dataclass(frozen=True)
class Sparse(Plain):
    """A column whose coefficients are drawn to zero one by one, standardized.

    A number has one slope, a factor one coefficient per level; the average level is zero.

    Parameters
    ----------
    levels : bool, default=False
        Whether a column of numbers is a factor. Texts and categories always are.
    {factor}
    """

    def block(self, columns: Columns, mass: Array, setting: Setting) -> Block:
        """Return one column per number or level, and each of them as a row."""
        return self._standardized(columns, mass, setting, "l1", None)

    def _standardized(
        self, columns: Columns, mass: Array, setting: Setting, kind: Any, group: Any
    ) -> Block:
        number = self._is_number(columns)
        if number:
            encoder: Any = self._number(columns, mass, setting)
            names: tuple[str, ...] = (str(columns[0].name),)
        else:
            encoder, each, base = self._one_hot(columns, mass, setting)
            names = encoder.levels.names
        deviation = self._deviation(encoder, columns, mass)
        rows = Rows(
            sparse.diags_array(deviation, format="csr"),
            np.ones(len(names)) * np.asarray(self.weight),
            kind,
            group=group,
        )
        if number:
            return Block(encoder, names, (rows, *self._limits(None, 1)))
        return Block(encoder, names, (rows, *self._limits(base, len(names))), each, base)


@dataclass(frozen=True)
class Group(Sparse):
    """A column that is in the model or out of it as a whole.

    Parameters
    ----------
    name : object, optional
        Columns of the same name are in or out together.
    levels : bool, default=False
        Whether a column of numbers is a factor. Texts and categories always are.
    {factor}
    """

    name: Any = None

    def block(self, columns: Columns, mass: Array, setting: Setting) -> Block:
        """Return one column per number or level, and all of them as one norm."""
        return self._standardized(columns, mass, setting, "norm", self.name)


@dataclass(frozen=True, kw_only=True)
class Smooth(Term):
    """A smooth curve of a number, or of an ordered factor: small second differences.

    Parameters
    ----------
    knots : int, default=10
        How many knots; they lie at quantiles, and the curve is straight between them. An ordered
        factor has its levels as knots.
    """

    knots: int = 10

    def block(self, columns: Columns, mass: Array, setting: Setting) -> Block:
        """Return one column per knot, and second differences."""
        if len(columns) != 1:
            raise ValueError(f"Smooth is for one column, got {len(columns)}")
        (column,) = columns
        if column.kind != "number":
            block = Ordered(order=2, weight=self.weight, bounds=self.bounds).block(
                columns, mass, setting
            )
            first, *rest = block.rows
            return replace(block, rows=(replace(first, kind="square"), *rest))
        values = distinct(column)
        if len(values) < 3:
            raise ValueError(f"column {column.name!r} has {len(values)} values; use Free()")
        seen = column.values[~column.missing]
        knots = np.unique(np.quantile(seen, np.linspace(0, 1, max(int(self.knots), 3))))
        mean = float(np.average(seen, weights=np.maximum(mass[~column.missing], 1e-300)))
        encoder = Hats(mean, setting.missing, knots)
        k = len(knots)
        steps = differences(np.column_stack([np.arange(k - 1), np.arange(1, k)]), k)
        slopes = sparse.diags_array((knots[-1] - knots[0]) / (k - 1) / np.diff(knots)) @ steps
        bend = sparse.csr_array(slopes[1:] - slopes[:-1])
        rows = Rows(bend, np.ones(k - 2) * np.asarray(self.weight), "square")
        each = np.asarray(encoder.matrix(columns).T @ mass)
        base = int(np.argmax(each))
        names = tuple(f"{knot:g}" for knot in knots)
        return Block(encoder, names, (rows, *self._limits(base, k)), each, base, joined=True)


def differences(pairs: Array, k: int) -> Any:
    """Return the differences of pairs of k levels, second less first."""
    m = len(pairs)
    rows = np.repeat(np.arange(m), 2)
    values = np.tile([-1.0, 1.0], m)
    return sparse.csr_array((values, (rows, np.ravel(pairs))), shape=(m, k))


def edge_weights(pairs: Array, each: Array, chain: bool, rule: str) -> Array:
    """Return sqrt((E_a + E_b)/E) (k - 1)/m (Bondell, Reich 2009), without the last on chains."""
    if rule == "equal" or not len(pairs):
        return np.ones(len(pairs))
    share = each[pairs].sum(axis=1) / max(float(each.sum()), 1e-300)
    factor = 1.0 if chain else (len(each) - 1) / len(pairs)
    # an edge between levels without rows still holds them together
    return np.asarray(np.sqrt(np.maximum(share, 1e-6)) * factor)


_FACTOR = """
base : object, optional
        The level of relativity one in the table, by default that of the largest exposure. It does
        not change the fit.
    bins : int or sequence of float, optional
        For numbers: how many bins of about the same number of rows, or the ends between bins.
    lower, upper : float, optional
        Limits to which numbers are clipped, in training and in prediction.
    weight : float or sequence of float, default=1
        Factor of the penalty of this term, or one per penalized number.
    bounds : pair of float, optional
        Limits of the coefficients of levels, relative to that of the base level, or of the slope
        of a number. Where the link is the logarithm they are logarithms of relativities.
""".strip("\n")

for _term in (Ordered, Periodic, Nominal, Map, Free, Sparse, Group):
    _term.__doc__ = (_term.__doc__ or "").replace("{factor}", _FACTOR)
