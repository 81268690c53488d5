"""The two-block problem: its statement, its objective, its constraint, its checks.

min  h1(x1) + f1(x1) + h2(x2) + f2(x2)     s.t.  A1 x1 + A2 x2 = b
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from .base.capabilities import Has, fact, offers, require
from .base.fingerprint import fingerprint
from .base.immutable import ByValue
from .base.protocols import Array, Loss, Operator, Penalty, Shape, Smooth, SmoothSum
from .base.validation import real_array
from .base.workspace import Workspace
from .data import as_source, half_rows
from .linear_algebra.affine import AffineSet
from .operators import Identity, PadColumns, as_operator, identity_scale, simplest, tied_rows
from .penalties import Stacked, Zero, held_at_zero, segments
from .penalties.bounds import contradiction
from .risk import FiniteSum
from .risk.mean_loss import mean_loss
from .risk.streamed import BUDGET, StreamedSum, streams


@dataclass(frozen=True, eq=False)
class Pair(ByValue):
    """The two blocks x1, x2 of a point, with the arithmetic that the methods are written in.

    ``x1`` is empty where the problem has no constraint.

    Examples
    --------
    >>> (2.0 * Pair(np.zeros(0), np.array([1.0, 2.0]))).x2
    array([2., 4.])
    """

    x1: Array
    x2: Array

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.x1 + other.x1, self.x2 + other.x2)

    def __sub__(self, other: Pair) -> Pair:
        return Pair(self.x1 - other.x1, self.x2 - other.x2)

    def __rmul__(self, factor: float) -> Pair:
        return Pair(factor * self.x1, factor * self.x2)

    def __truediv__(self, divisor: float) -> Pair:
        return Pair(self.x1 / divisor, self.x2 / divisor)

    def add(self, other: Pair) -> None:
        """Add another pair in place."""
        self.x1[...] += other.x1
        self.x2[...] += other.x2

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.x1.nbytes + self.x2.nbytes

    def copy(self) -> Pair:
        """Return a pair with arrays of its own."""
        return Pair(self.x1.copy(), self.x2.copy())


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimize h1(x1) + f1(x1) + h2(x2) + f2(x2) subject to A1 x1 + A2 x2 = b.

    The convex two-block problem of ADMM. `Problem.linear` states a structured linear model.

    Parameters
    ----------
    f2 : FiniteSum or object with the members of ``protocols.SmoothSum``
        The mean of smooth terms.
    h1, h2 : Penalty, optional
        Proximable penalties of the blocks.
    f1 : Smooth, optional
        A smooth function of x1.
    A1, A2 : Operator, matrix or LinearOperator, optional
        The constraint; both or none. Without them there is no x1 and h1, f1 must be absent.
    b : array, optional
        Right-hand side, 0 when absent.

    Attributes
    ----------
    dtype : dtype
        Type of the iterates: that of the data.
    shape1, shape2, shape_dual : tuple of int
        Shapes of x1, of x2, and of the constraint and its multiplier.
    constrained : bool
        Whether there is a constraint (and a first block).
    intercept : bool
        Whether the last row of x2 is an intercept.
    determined : (int, float) or None
        The block that the constraint determines, and the scale of its identity.
    reducible : bool
        Whether one block follows from the other, so that feasible points are easy to make.
    is_model : bool
        Whether x1 is nothing but a function of x2: A1 a multiple of the identity, no f1. Then
        ``coef`` is the answer and x1 follows from it; otherwise the pair is the answer.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Logistic(), X, y, structure=sa.Identity(2), on_structure=sa.L1(0.1)
    ... )
    >>> problem.shape1, problem.shape2
    ((2,), (2,))
    """

    f2: SmoothSum
    h1: Penalty | None = None
    h2: Penalty | None = None
    f1: Smooth | None = None
    A1: Operator | None = None
    A2: Operator | None = None
    b: Array | None = None
    dtype: np.dtype[Any] = field(init=False, repr=False)
    constrained: bool = field(init=False, repr=False)
    intercept: bool = field(init=False, repr=False)
    shape1: Shape = field(init=False, repr=False)
    shape2: Shape = field(init=False, repr=False)
    shape_dual: Shape = field(init=False, repr=False)
    determined: tuple[int, float] | None = field(init=False, repr=False)
    reducible: bool = field(init=False, repr=False)
    is_model: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        require(self.f2, "f2", "n_terms", "shape", "value", "gradient", "gradient_change")
        if self.f1 is not None:
            require(self.f1, "f1", "value", "gradient", "lipschitz")
        if self.A2 is None or self.A1 is None:
            self._check_unconstrained()
        else:
            set_(self, "A1", simplest(as_operator(self.A1, "A1")))
            set_(self, "A2", simplest(as_operator(self.A2, "A2")))
        self._place()
        if self.A2 is not None:
            self._check_constraint()
        self._check_penalties()
        if self.A2 is not None and (tied := tied_rows(self.A2)).any():
            self._tie(tied)

    def _place(self) -> None:
        """Set what follows from the data and the constraint, whatever the penalties."""
        set_, outputs = object.__setattr__, self.f2.shape[1:]
        first, second = identity_scale(self.A1), identity_scale(self.A2)
        determined = None if second is None else (2, second)
        determined = determined if first is None else (1, first)
        constrained = self.A1 is not None
        set_(self, "dtype", np.dtype(fact(self.f2, "dtype")))
        set_(self, "constrained", constrained)
        set_(self, "intercept", bool(fact(self.f2, "intercept")))
        set_(self, "shape1", (0 if self.A1 is None else self.A1.shape[1], *outputs))
        set_(self, "shape2", self.f2.shape)
        set_(self, "shape_dual", (0 if self.A1 is None else self.A1.shape[0], *outputs))
        set_(self, "determined", determined)
        set_(self, "reducible", not constrained or determined is not None)
        set_(self, "is_model", not constrained or (first is not None and self.f1 is None))

    def _check_penalties(self) -> None:
        for name, h, shape in (("h1", self.h1, self.shape1), ("h2", self.h2, self.shape2)):
            if h is not None:
                _check_penalty(h, name, shape)
        if self.h1 is None or self.h2 is None or not self.constrained:
            return
        row = contradiction(self.A1, self.h1, self.shape1, self.A2, self.h2, self.shape2, self.b)
        if row is not None:
            raise ValueError(
                f"the bounds of h1 and h2 leave no point that satisfies row {row} of the "
                "constraint; widen one of them"
            )

    def _check_unconstrained(self) -> None:
        if self.A1 is not None or self.A2 is not None:
            missing = "A1" if self.A1 is None else "A2"
            raise ValueError(f"{missing} is missing; pass both A1 and A2, or neither")
        for name, part in (("h1", self.h1), ("f1", self.f1), ("b", self.b)):
            if part is not None:
                raise ValueError(
                    f"{name} is given without A1 and A2; pass the constraint, or move the "
                    "penalty to h2"
                )

    def _check_constraint(self) -> None:
        A1, A2 = cast(Operator, self.A1), cast(Operator, self.A2)
        if A2.shape[1] != self.f2.shape[0]:
            raise ValueError(
                f"A2 has {A2.shape[1]} columns, expected {self.f2.shape[0]} to match the variable "
                "of f2 (columns of X, one more with an intercept); pad or transpose it"
            )
        if A1.shape[0] != A2.shape[0]:
            raise ValueError(
                f"A1 has {A1.shape[0]} rows and A2 has {A2.shape[0]}; both need one row "
                "per constraint"
            )
        if self.b is not None:
            b = real_array(self.b, "b", self.dtype)
            if b.shape != self.shape_dual:
                raise ValueError(
                    f"b has shape {b.shape}, expected {self.shape_dual}: one number per row of "
                    "A1 and A2"
                )
            if not np.isfinite(b).all():
                raise ValueError("b contains NaN or infinite values; replace them")
            object.__setattr__(self, "b", b if b.any() else None)

    def _tie(self, rows: Array) -> None:
        """Let bounds of h1 hold the differences along edges of infinite weight at zero."""
        if not self.is_model or self.h1 is None or self.b is not None:
            raise ValueError(
                "edges of infinite weight need A1 = -I, b = 0 and an h1 that holds their rows at "
                "zero; give them finite weights, or state the problem by Problem.linear"
            )
        parts = [
            (held_at_zero(part, rows[own]) if rows[own].any() else part, own.stop - own.start)
            for part, own in segments(self.h1, rows.size)
        ]
        h1 = parts[0][0] if len(parts) == 1 else Stacked(parts)
        object.__setattr__(self, "h1", h1)

    @classmethod
    def linear(
        cls,
        loss: Loss,
        X: Any,
        y: Any = None,
        *,
        structure: Any = None,
        on_structure: Penalty | None = None,
        on_coefficients: Penalty | None = None,
        intercept: bool = False,
        sample_weight: Any = None,
        offset: Any = None,
    ) -> Problem:
        """Return the problem of a structured linear model.

        It minimizes ``mean loss + on_structure(structure @ coef) + on_coefficients(coef)``.

        Parameters
        ----------
        loss : Loss
            Loss of a prediction against a target.
        X : ndarray, CSR or Source of shape (n, d)
            Data; a source (`stochadmm.open`) is read in every pass and never loaded as a whole.
        y : array of shape (n,) or (n, C)
            Targets; a source has its own.
        structure : Operator, sparse matrix, LinearOperator or ndarray, optional
            Linear map whose output ``on_structure`` penalizes; the identity by default.
        on_structure, on_coefficients : Penalty, optional
            Penalties of ``structure @ coef`` and of ``coef``.
        intercept : bool, default=False
            Add an unpenalized intercept.
        sample_weight : array of shape (n,), optional
            Row weights; the loss is their weighted mean.
        offset : array, optional
            Added to the predictions.

        Returns
        -------
        Problem
            With x2 = (coef, intercept), x1 = structure @ coef, A1 = -I, b = 0.
        """
        f2 = _data_term(loss, X, y, sample_weight, intercept, offset)
        d = f2.n_features
        h2 = on_coefficients
        if h2 is not None and intercept:
            _check_penalty(h2, "on_coefficients", (d, *f2.shape[1:]))
            h2 = Stacked([(h2, d), (Zero(), 1)])
        if on_structure is None:
            if structure is not None:
                raise ValueError(
                    "structure is given without on_structure; say how it is penalized, e.g. "
                    "on_structure=sa.L1(0.1)"
                )
            return cls(f2, h2=h2)
        A: Operator = Identity(d) if structure is None else as_operator(structure, "structure")
        if A.shape[1] != d:
            raise ValueError(
                f"structure has {A.shape[1]} columns, expected {d}, the number of columns of X; "
                "it acts on the coefficients without the intercept"
            )
        _check_penalty(on_structure, "on_structure", (A.shape[0], *f2.shape[1:]))
        A2 = PadColumns(A, 1) if intercept else A
        return cls(f2, h1=on_structure, h2=h2, A1=Identity(A.shape[0], scale=-1.0), A2=A2)

    # ---------------------------------------------------------------- points

    def zeros(self) -> Pair:
        """Return the point 0."""
        return Pair(np.zeros(self.shape1, self.dtype), np.zeros(self.shape2, self.dtype))

    def zeros_dual(self) -> Array:
        """Return the multiplier 0."""
        return np.zeros(self.shape_dual, self.dtype)

    def split(self, x2: Array) -> tuple[Array, Any]:
        """Return copies of the coefficients and the intercept of x2, None without one."""
        if not self.intercept:
            return x2.copy(), None
        intercept = x2[-1]
        return x2[:-1].copy(), float(intercept) if np.ndim(intercept) == 0 else intercept.copy()

    # ---------------------------------------------------------------- values

    def product(self, x: Pair) -> Array:
        """Return A1 x1 + A2 x2."""
        if self.A1 is None or self.A2 is None:
            return self.zeros_dual()
        return self.A1.matvec(x.x1) + self.A2.matvec(x.x2)

    def constraint(self, x: Pair) -> Array:
        """Return the residual A1 x1 + A2 x2 - b."""
        r = self.product(x)
        return r if self.b is None else r - self.b

    def penalty(self, x: Pair) -> float:
        """Return h1(x1) + f1(x1) + h2(x2), without the data term, in float64."""
        total = 0.0
        if self.h1 is not None:
            total += float(self.h1.value(x.x1))
        if self.f1 is not None:
            total += float(self.f1.value(x.x1))
        if self.h2 is not None:
            total += float(self.h2.value(x.x2))
        return total

    def objective(self, x: Pair) -> float:
        """Return F at the pair as it is; ``feasible`` makes a pair where that means something."""
        return self.penalty(x) + float(self.f2.value(x.x2))

    def affine_set(self, workspace: Workspace | None = None) -> AffineSet:
        """Return the pairs that satisfy the constraint, factorized once per workspace."""
        if self.A1 is None or self.A2 is None:
            raise ValueError("there is no constraint; pass A1 and A2")
        held = (workspace or Workspace()).shared
        return held.once(_affine_set, self.A1, self.A2, self.b, self.shape_dual)

    def feasible(self, x: Pair, workspace: Workspace | None = None) -> Pair:
        """Return a point that satisfies the constraint, made from x.

        With A1 a multiple of the identity, x2 is kept and x1 follows; else with A2 one, x1 is
        kept. Otherwise it is the nearest pair. The blocks that it is made from are first moved
        into the domains of their penalties.
        """
        if not self.constrained:
            return Pair(x.x1, _inside(self.h2, x.x2))
        assert self.A1 is not None and self.A2 is not None
        if self.determined is None:
            return self._nearest(x, workspace)
        block, scale = self.determined
        if block == 1:
            x2 = _inside(self.h2, x.x2)
            rest = self.A2.matvec(x2)
            return Pair((rest if self.b is None else rest - self.b) / -scale, x2)
        x1 = _inside(self.h1, x.x1)
        rest = self.A1.matvec(x1)
        return Pair(x1, (rest if self.b is None else rest - self.b) / -scale)

    def inside(self, x: Pair) -> Pair:
        """Return a pair with both blocks in the domains of their penalties."""
        return Pair(_inside(self.h1, x.x1), _inside(self.h2, x.x2))

    def _nearest(self, x: Pair, workspace: Workspace | None) -> Pair:
        """Return the nearest pair that satisfies the constraint, in the type of x."""
        moved = self.inside(x)
        z = np.concatenate([moved.x1, moved.x2])
        found = self.affine_set(workspace).project(z.astype(np.float64))
        found, p = found.astype(z.dtype, copy=False), self.shape1[0]
        return Pair(found[:p], found[p:])

    @property
    def objective_at_zero(self) -> float:
        """F at the feasible point made from 0: the scale of relative tolerances.

        f2 alone where that point is outside the domain of a penalty. One pass over the data; runs
        ask `objective_at_zero` of their workspace.
        """
        return objective_at_zero(self)

    def identity(self) -> str:
        """Return a text that changes when data, penalties or constraint do."""
        parts = fingerprint(self.h1, self.h2, self.f1, self.A1, self.A2, self.b)
        return fingerprint(fingerprint(self.f2), parts)

    def with_penalties(self, h1: Penalty | None, h2: Penalty | None) -> Problem:
        """Return the same problem with other penalties; data and constraint are shared."""
        other = copy(self)  # whose data and constraint have been looked at
        object.__setattr__(other, "h1", h1)
        object.__setattr__(other, "h2", h2)
        if not other.constrained:
            other._check_unconstrained()
        other._check_penalties()
        return other


def at_strength(unit: Problem, alpha: float) -> Problem:
    """Return the problem of a family at strength alpha; data and operators are shared."""
    parts: tuple[Any, Any] = (unit.h1, unit.h2)
    h1, h2 = (None if part is None else part.scaled(alpha) for part in parts)
    if alpha == 0 and unit.is_model:
        # h1 is zero everywhere if its dual set holds nothing but zero
        ends = (np.ones(unit.shape1), -np.ones(unit.shape1))
        if h1 is None or (
            offers(h1, Has.PROJECT_DUAL) and not any(h1.project_dual(end).any() for end in ends)
        ):
            return Problem(unit.f2, h2=h2)
    return unit.with_penalties(h1, h2)


def objective_at_zero(problem: Problem, workspace: Workspace | None = None) -> float:
    """Return ``Problem.objective_at_zero``, found once per workspace."""
    workspace = workspace or Workspace()
    return workspace.once(_objective_at_zero, problem, workspace)


def _objective_at_zero(problem: Problem, workspace: Workspace) -> float:
    zero = problem.zeros()
    penalty, moved = problem.penalty(zero), False
    if problem.b is not None or not np.isfinite(penalty):  # 0 itself is not feasible
        zero = problem.feasible(zero, workspace)
        penalty, moved = problem.penalty(zero), bool(zero.x2.any())
    data = float(problem.f2.value(zero.x2)) if moved else loss_at_zero(problem, workspace)
    return penalty + data if np.isfinite(penalty + data) else data


def loss_at_zero(problem: Problem, workspace: Workspace) -> float:
    """Return f2 at 0, one number for all strengths of a path; a first pass over files knows it."""
    f2: Any = mean_loss(problem.f2)
    f2 = problem.f2 if f2 is None else f2.opened(workspace)
    return workspace.rows.once(_loss_at_zero, f2, problem.shape2, problem.dtype)


def _loss_at_zero(f2: Any, shape: Shape, dtype: Any) -> float:
    return float(f2.value(np.zeros(shape, dtype)))


def _affine_set(A1: Operator, A2: Operator, b: Array | None, shape: Shape) -> AffineSet:
    return AffineSet.of(A1, A2, np.zeros(shape) if b is None else b.astype(np.float64))


def _data_term(
    loss: Loss, X: Any, y: Any, sample_weight: Any, intercept: bool, offset: Any
) -> FiniteSum | StreamedSum:
    """Return the mean loss over rows in memory, or over a source of rows."""
    # maps under a loss of classes are worked on in place: steps for low rank keep rows at hand
    in_place = offers(loss, Has.BY_CLASS) or not streams(loss)
    source = as_source(X, y, sample_weight, offset, math.inf if in_place else BUDGET)
    if source is not None:
        return StreamedSum(loss, source, intercept=intercept)
    if y is None:
        raise ValueError("y is missing; pass one target per row of X")
    rows = half_rows(X) if in_place else None
    rows = X if rows is None else rows
    return FiniteSum(loss, rows, y, sample_weight, intercept=intercept, offset=offset)


def _inside(penalty: Any, x: Array) -> Array:
    """Return the nearest point of the domain of a penalty."""
    return cast(Array, penalty.project(x)) if offers(penalty, Has.PROJECT) else x


def _check_penalty(penalty: Any, name: str, shape: Shape) -> None:
    require(penalty, name, "value", "prox")
    if offers(penalty, Has.CHECK):
        try:
            penalty.check(shape)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
