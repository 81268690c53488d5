"""The penalty of an estimator at strength one, and the problem it makes with the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from scipy import sparse

from .. import structures
from ..base.protocols import Array, Operator, Penalty
from ..exact import components
from ..operators import (
    Composed,
    Incidence,
    Matrix,
    Selection,
    VStack,
    as_operator,
    csr_parts,
    identity_scale,
)
from ..penalties import Separable, Stacked
from ..problem import Problem
from ..structures.given import Given, Kind, given_graph, given_groups
from ._data import Data


@dataclass(frozen=True)
class Limits:
    """``lower <= rows @ coefficients <= upper``."""

    rows: Any
    """CSR."""
    lower: Array
    upper: Array


@dataclass(frozen=True)
class Columns:
    """The columns of X as structures see them."""

    n: int
    names: list[Any] | None
    free: Array
    """Mask of the unpenalized columns."""
    X: Any = field(repr=False)
    """The rows; None where they are not in memory."""
    several: bool = False
    """Whether the coefficients of a column are several numbers: targets or classes."""
    factor: Array | float = 1.0
    """Of the l1 norm and the square of each column: zero of the unpenalized ones."""
    lower: Array | float = -np.inf
    upper: Array | float = np.inf
    """Bounds of the coefficients, in the units of X."""

    @property
    def penalized(self) -> Array:
        """Indices of the penalized columns."""
        return np.flatnonzero(~self.free)

    @property
    def bounded(self) -> Array:
        """Mask of the columns whose coefficients have a bound."""
        ends = np.isfinite(self.lower) | np.isfinite(self.upper)
        return np.broadcast_to(ends, self.n)

    @property
    def limits(self) -> Limits | None:
        """The rows of the identity whose coefficients have a bound, None for none."""
        held = np.flatnonzero(self.bounded)
        if not held.size:
            return None
        ends = (np.broadcast_to(end, self.n)[held] for end in (self.lower, self.upper))
        return Limits(sparse.eye_array(self.n, format="csr")[held], *ends)

    def spread(self, operator: Operator) -> Operator:
        """Return an operator on the penalized columns as one on all columns."""
        if not self.free.any():
            return operator
        chosen = Selection([self.penalized], self.n)
        return chosen if identity_scale(operator) == 1.0 else Composed(operator, chosen)

    def own(self, source: Any) -> Operator:
        """Return a user's operator, which has one column per penalized column."""
        operator = as_operator(source, "operator", n_columns=None)
        if operator.shape[1] != self.penalized.size:
            raise ValueError(
                f"operator has {operator.shape[1]} columns, expected {self.penalized.size}: one "
                f"per column of X, without the {int(self.free.sum())} unpenalized ones"
            )
        return self.spread(operator)

    def graph(self, source: Any, random_state: Any = 0) -> Operator:
        """Return differences along a graph; edges that touch an unpenalized column are dropped.

        Chains, grids and matrices of the right size count the penalized columns only.
        """
        given = given_graph(source, (self.n, self.penalized.size))
        if given == Given(Kind.NAME, "glasso"):
            if self.X is None:
                raise ValueError(
                    "graph='glasso' needs rows in memory; find the edges in a part of them with "
                    "stochadmm.structures.glasso_edges, and pass these"
                )
            edges = structures.glasso_edges(self.X, random_state=random_state)
            return self._without_free(structures.from_edges(edges, n_features=self.n))
        nameless = given.kind is Kind.MATRIX and given.labels is None
        if given.positional or (nameless and given.source.shape[0] != self.n):
            return self.spread(structures.graph(source, n_features=self.penalized.size))
        count = None if self.names is not None else self.n
        return self._without_free(structures.graph(source, names=self.names, n_features=count))

    def _without_free(self, graph: Any) -> Operator:
        edges = np.asarray(graph.edges)
        kept = ~self.free[edges].any(axis=1)
        if kept.all():
            return graph  # type: ignore[no-any-return]
        weights = None if graph.weights is None else np.asarray(graph.weights)[kept]
        signs = None if graph.signs is None else np.asarray(graph.signs)[kept]
        return Incidence(edges[kept], self.n, weights, signs)

    def groups(self, source: Any, weights: Any) -> tuple[list[Any], Selection]:
        """Return the labels and the copies of groups, without the unpenalized columns."""
        source = [[j] for j in range(self.n)] if source is None else source
        given = given_groups(source, self.n)
        count = None if self.names is not None else self.n
        whole = structures.groups(given, weights, names=self.names, n_features=count)
        labels = list(given)
        lists = [np.asarray(group).tolist() for group in whole.groups]
        members = [[j for j in group if not self.free[j]] for group in lists]
        kept = [g for g, group in enumerate(members) if group]
        strength = None if whole.weights is None else np.asarray(whole.weights)[kept]
        return [labels[g] for g in kept], Selection([members[g] for g in kept], self.n, strength)


def as_grid(source: Any) -> structures.Grid | None:
    """Return the grid of at least two axes that a graph is, None for other graphs."""
    given = given_graph(source)
    return given.source if given.kind is Kind.GRID and len(given.source.shape) > 1 else None


@dataclass(frozen=True)
class Structure:
    """A penalty at alpha = 1: ``sum_k penalty_k(A_k w) + sum_j c_j (l1 |w_j| + l2/2 w_j^2)``.

    The c_j are the factors of `Columns`. With ``copies`` the variable holds one entry per listed
    column, the A_k act on the variable, and the coefficient of a column is the sum of its copies.
    """

    terms: list[tuple[Operator, Penalty]] = field(default_factory=list)
    l1: float = 0.0
    l2: float = 0.0
    copies: Array | None = None
    labels: list[Any] | None = None
    """Names of the groups."""
    members: list[Array] | None = None
    """Entries of the variable in each group."""

    def beside_square(self, share: float) -> Structure:
        """Return ``(1 - share)`` of the penalty and ``share`` of half the square of w."""
        if not share:
            return self
        rest = 1.0 - share
        terms = [(A, cast(Any, penalty).scaled(rest)) for A, penalty in self.terms if rest]
        return replace(self, terms=terms, l1=rest * self.l1, l2=rest * self.l2 + share)

    def fold(self, variable: Array, n: int) -> Array:
        """Return the coefficients of the columns."""
        if self.copies is None:
            return variable
        out = np.zeros((n, *variable.shape[1:]), dtype=variable.dtype)
        np.add.at(out, self.copies, variable)
        return out

    def problem(self, data: Data, columns: Columns, ridge: bool = True) -> Problem:
        """Return the problem at alpha = 1; ``ridge=False`` leaves the square out."""
        terms = [(A, penalty) for A, penalty in self.terms if A.shape[0]]
        operator: Any = None
        penalty: Any = None
        on_coefficients: Any = self._on_coefficients(columns, self.l2 if ridge else 0.0)
        if self.copies is not None and on_coefficients is not None:
            sums, of_sums, on_coefficients = self._of_copies(on_coefficients, columns.n)
            terms += [(sums, of_sums)] if sums.shape[0] else []
        if len(terms) == 1 and on_coefficients is None and identity_scale(terms[0][0]) == 1.0:
            on_coefficients = terms[0][1]  # its prox needs no splitting
        elif len(terms) == 1:
            operator, penalty = terms[0]
        elif terms:
            operator = VStack([A for A, _ in terms])
            penalty = Stacked([(part, A.shape[0]) for A, part in terms])
        problem = Problem.linear(
            data.loss,
            data.X if self.copies is None else data.repeated(self.copies),
            data.y,
            structure=operator,
            on_structure=penalty,
            on_coefficients=on_coefficients,
            intercept=data.intercept,
            sample_weight=data.weight,
            offset=data.offset,
        )
        rows: Any = data
        return rows.within_memory(problem) if data.streamed else problem

    def _of_copies(self, penalty: Separable, n: int) -> tuple[Operator, Separable, Separable]:
        """Return a penalty of coefficients as one of sums of copies, and one of the copies.

        Columns with one copy need no sum. Nor do signs: copies that go against the sign of their
        sum only make norms longer.
        """
        assert self.copies is not None
        given = (penalty.l1, penalty.l2, penalty.lower, penalty.upper)
        numbers = np.stack([np.broadcast_to(number, n) for number in given])
        nothing = np.array([[0.0], [0.0], [-np.inf], [np.inf]])
        single = np.bincount(self.copies, minlength=n) == 1
        alone = single | ((numbers == 0) & (nothing != 0))
        of_sums = np.where(alone, nothing, numbers)
        summed = np.flatnonzero((of_sums != nothing).any(axis=0))
        cells = (np.ones(self.copies.size), (self.copies, np.arange(self.copies.size)))
        sums = sparse.csr_array(cells, shape=(n, self.copies.size))[summed]
        own = np.where(alone, numbers, nothing)[:, self.copies]
        return Matrix(sums), Separable(*of_sums[:, summed]), Separable(*own)

    def _on_coefficients(self, columns: Columns, l2: float) -> Separable | None:
        """Return l1 norm, square and bounds of the coefficients, None where nothing is left."""
        factor = np.asarray(columns.factor)
        numbers = (self.l1 * factor, l2 * factor, columns.lower, columns.upper)
        if not (np.any(numbers[0]) or np.any(numbers[1]) or columns.bounded.any()):
            return None
        return Separable(*map(_one_for_all, numbers))


def _one_for_all(values: Any) -> Any:
    """Return the number that all entries have in common, else the entries."""
    flat = np.ravel(values)
    return float(flat[0]) if (flat == flat[0]).all() else values


def tied(operator: Any, coef: Array, positive: bool = False) -> tuple[Array, Array]:
    """Return labels and signs of the coefficients: one label for all that exact ties connect.

    A sign is +1 or -1, that of a coefficient over the first of its level. It is 0 where ties hold
    the level at zero: they contradict each other, or make opposite what is not negative.
    """
    if coef.ndim == 2:
        found = [tied(operator, column, positive) for column in coef.T]
        labels, signs = (np.stack(part, axis=1) for part in zip(*found, strict=True))
        return labels, signs
    d = operator.shape[1]
    pointers, columns, values = csr_parts(operator)
    first = pointers[:-1][(operator.matvec(coef) == 0) & (np.diff(pointers) == 2)]
    first = first[(values[first] != 0) & (values[first + 1] != 0)]  # weight zero ties nothing
    ends = np.column_stack([columns[first], columns[first + 1]])
    factors = np.column_stack([values[first], values[first + 1]])
    i, j = ends.T
    along = bool((j == i + 1).all() and (np.diff(i) > 0).all())
    if along and (factors[:, 0] == -factors[:, 1]).all():  # neighbors on a line
        begins = np.ones(d, dtype=np.intp)
        begins[j] = 0
        return np.cumsum(begins) - 1, np.ones(d)
    labels, scales, dead = components(ends, factors, np.zeros(d, dtype=bool))
    if positive:
        dead[labels[scales < 0]] = True
    return labels, np.where(dead[labels], 0.0, scales)
