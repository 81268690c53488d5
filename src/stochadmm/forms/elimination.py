"""The two-block problem without its constraint.

Every pair with ``A1 x1 + A2 x2 = b`` is ``(x1; x2) = o + N c``, so that

    min over c   f2(o2 + N2 c) + h1(o1 + N1 c) + f1(o1 + N1 c) + h2(o2 + N2 c)

is the same problem in the form of a model: data ``X N2`` with the offset ``X o2``, structure
``[N1; N1; N2]``. What solves and certifies models then solves and certifies this. Where A1 can be
inverted c is x2 itself and the data stay as they are; otherwise the columns of N are an
orthonormal basis of the null space of ``[A1, A2]``. Where x1 has no function, only which x2 it
allows for counts, whatever the units of its columns: those of N2 alone are orthonormal then.

A dual point of the model has subgradients mu1 of h1 + f1 and mu2 of h2 with
``N1' mu1 + N2' (grad f2 + mu2) = 0``. Then ``(mu1; grad f2 + mu2)`` is orthogonal to the null
space, which makes it ``-A' lambda`` for a multiplier lambda of the constraint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from scipy import linalg, sparse

from ..base.protocols import Array, Shape
from ..base.workspace import Workspace
from ..linear_algebra.affine import AffineSet, as_sparse
from ..operators import Identity, Matrix, identity_scale
from ..penalties import Stacked
from ..problem import Pair, Problem
from ..risk import FiniteSum, loss_of_rows
from ..risk.finite_sum import as_finite_sum
from .smooth_term import as_penalty

UNITS = 8.0
"""Units of rounding, times the terms of a row, that a constraint may be off at the only pair."""


@dataclass(frozen=True)
class Elimination:
    """A problem without its constraint, and the way there and back.

    Attributes
    ----------
    problem, reduced : Problem
        The problem, and the same in the form of a model.
    origin, basis : array
        ``o`` and ``N``, the rows of x1 first.
    keeps_x2 : bool
        Whether c is x2.
    parts : tuple of str
        What the rows of the structure belong to: "h1", "f1", "h2".
    shared : Workspace
        Where the factorization of the constraint is.
    """

    reason: ClassVar[str] = "the constraint is eliminated"
    keeps_zeros: ClassVar[bool] = False
    problem: Problem
    reduced: Problem
    origin: Array
    basis: Any
    keeps_x2: bool
    parts: tuple[str, ...]
    shared: Workspace = field(repr=False)

    @classmethod
    def of(cls, problem: Problem, workspace: Workspace | None = None) -> Elimination | None:
        """Return the elimination of a constraint, made once per workspace.

        None where none is needed or it is too large.
        """
        if problem.is_model or loss_of_rows(problem.f2) is None:
            return None
        workspace = workspace or Workspace()
        return workspace.once(_eliminated, problem, workspace)

    def __recipe__(self) -> tuple[Any, ...]:
        return (self.problem,)

    @classmethod
    def __made__(cls, problem: Problem, workspace: Workspace) -> Elimination | None:
        return cls.of(problem, workspace)

    # ---------------------------------------------------------------- points

    def up(self, c: Array) -> Pair:
        """Return the pair of given coordinates."""
        z = self.origin + self.basis @ np.asarray(c, dtype=np.float64)
        p = self.problem.shape1[0]
        return Pair(z[:p], np.asarray(c, dtype=np.float64) if self.keeps_x2 else z[p:])

    def down(self, x: Pair) -> Array:
        """Return the coordinates of a pair, of the nearest feasible one where it is not."""
        x2 = np.asarray(x.x2, dtype=np.float64)
        if self.keeps_x2:
            return x2
        p = self.problem.shape1[0]
        if not {"h1", "f1"} & set(self.parts):
            return cast(Array, self.basis[p:].T @ (x2 - self.origin[p:]))
        z = np.concatenate([np.asarray(x.x1, dtype=np.float64), x2])
        return cast(Array, self.basis.T @ (z - self.origin))

    def pair(self, c: Array) -> Pair:
        """Return coordinates as a pair of the model."""
        return self.reduced.feasible(Pair(self.reduced.zeros().x1, np.asarray(c, np.float64)))

    # ---------------------------------------------------------------- multipliers

    def down_dual(self, x: Pair, dual: Array, gradient: Array | None) -> Array | None:
        """Return the multiplier of the model for one of the constraint at a pair.

        ``gradient`` is that of f2, needed where h2 is among the parts.
        """
        p = self.problem
        if not self.reduced.constrained or p.A1 is None or p.A2 is None:
            return None
        lam = np.asarray(dual, dtype=np.float64)
        first = -p.A1.rmatvec(lam)
        own: Any = 0.0
        if p.f1 is not None:
            own = np.asarray(p.f1.gradient(np.asarray(x.x1, dtype=np.float64)))
        found = {"h1": first - own, "f1": first if p.h1 is None else own}
        if "h2" in self.parts:
            found["h2"] = np.zeros(p.shape2) if gradient is None else -gradient - p.A2.rmatvec(lam)
        return np.concatenate([found[part] for part in self.parts])

    @property
    def needs_gradient(self) -> bool:
        """Whether the multiplier of the constraint depends on the gradient of f2."""
        by_x1 = self.keeps_x2 and bool(self.parts)
        return identity_scale(self.problem.A1) is None and not by_x1

    def up_dual(self, mu: Array, gradient: Array | None) -> Array:
        """Return the multiplier of the constraint; ``gradient`` is that of f2, where needed."""
        p = self.problem
        pull1, pull2 = np.zeros(p.shape1), np.zeros(p.shape2)
        if gradient is not None:
            pull2 = np.asarray(gradient, dtype=np.float64)
        start = 0
        for part in self.parts:
            rows = slice(start, start + (p.shape2 if part == "h2" else p.shape1)[0])
            if part == "h2":
                pull2 = pull2 + mu[rows]
            else:
                pull1 = pull1 + mu[rows]
            start = rows.stop
        scale = identity_scale(p.A1)
        if scale is not None:
            return cast(Array, pull1 / -scale)
        if self.keeps_x2 and self.parts:
            return -self.basis_inverse.T @ pull1
        return p.affine_set(self.shared).multiplier(-np.concatenate([pull1, pull2]))

    def bound(self, bound: float | None, c: Array) -> float | None:
        """Return a lower bound of the problem for one of the model: the same."""
        return bound

    @property
    def basis_inverse(self) -> Array:
        """The inverse of A1, where c is x2."""
        assert self.problem.A1 is not None
        return cast(Array, linalg.inv(self.problem.A1.matvec(np.eye(self.problem.shape1[0]))))


def _eliminated(problem: Problem, workspace: Workspace) -> Elimination | None:
    inverse = _inverse(problem.A1)
    if inverse is not None:
        return _with_x2(problem, inverse, workspace.shared)
    return _with_null_space(problem, workspace)


def _inverse(A1: Any) -> Any:
    """Return the inverse of A1 where it is a good one."""
    scale = identity_scale(A1)
    if scale is not None:
        return sparse.csr_array(sparse.eye_array(A1.shape[0]) / scale)
    if A1.shape[0] != A1.shape[1] or not 0 < A1.shape[0] <= 1000:
        return None
    matrix = A1.matvec(np.eye(A1.shape[1]))
    if not np.linalg.cond(matrix) <= 1e6:  # ten digits of x1 are left
        return None
    return linalg.inv(matrix)


def _with_x2(problem: Problem, inverse: Any, shared: Workspace) -> Elimination | None:
    """Express x1 by x2."""
    d, outputs = problem.shape2[0], problem.shape2[1:]
    A2 = as_sparse(problem.A2)
    if A2 is None:
        return None
    first = -(inverse @ A2)
    first = sparse.csr_array(first)
    right = np.zeros(problem.shape_dual) if problem.b is None else problem.b.astype(np.float64)
    origin1 = inverse @ right
    origin = np.concatenate([origin1, np.zeros((d, *outputs))])
    basis = sparse.csr_array(sparse.vstack([first, sparse.eye_array(d)]))
    stacked, parts = _first_parts(problem)
    if not parts:
        return Elimination(
            problem, Problem(problem.f2, h2=problem.h2), origin, basis, True, (), shared
        )
    structure = sparse.csr_array(sparse.vstack([first] * len(parts)))
    reduced = Problem(
        problem.f2,
        h1=_stack(stacked),
        h2=problem.h2,
        A1=Identity(structure.shape[0], scale=-1.0),
        A2=Matrix(structure),
        b=-np.concatenate([origin1] * len(parts)),
    )
    return Elimination(problem, reduced, origin, basis, True, parts, shared)


def _with_null_space(problem: Problem, workspace: Workspace) -> Elimination | None:
    """Express both blocks by coordinates of the null space."""
    f2, shared = as_finite_sum(problem.f2), workspace.shared
    p, d = problem.shape1[0], problem.shape2[0]
    stacked, parts = _first_parts(problem)
    affine = problem.affine_set(workspace)
    if affine.basis is None or f2.n_terms * affine.basis.shape[1] > 5e7:
        return None
    basis, origin = shared.once(_coordinates, affine, p, d, problem.shape2[1:], bool(parts))
    if basis.shape[1] == 0:
        return None
    if problem.h2 is not None:
        stacked, parts = [*stacked, (problem.h2, d)], (*parts, "h2")
    # strengths of a path are on the same rows
    data = workspace.rows.once(_new_data, f2, basis, origin)
    if not parts:
        return Elimination(problem, Problem(data), origin, basis, False, (), shared)
    rows = {"h1": slice(0, p), "f1": slice(0, p), "h2": slice(p, p + d)}
    structure = np.concatenate([basis[rows[part]] for part in parts])
    shift = np.concatenate([origin[rows[part]] for part in parts])
    reduced = Problem(
        data,
        h1=_stack(stacked),
        A1=Identity(len(structure), scale=-1.0),
        A2=Matrix(structure),
        b=-shift,
    )
    return Elimination(problem, reduced, origin, basis, False, parts, shared)


def only_pair(problem: Problem, workspace: Workspace) -> tuple[Pair, Pair] | None:
    """Return the pair that a constraint determines, and how far rounding may put it off.

    Directions that move x1 alone do not count where x1 has no function. None where there is a
    choice, where the constraint is too large to tell, or contradicts itself.
    """
    if problem.is_model or loss_of_rows(problem.f2) is None:
        return None
    p, d = problem.shape1[0], problem.shape2[0]
    affine, sees_x1 = problem.affine_set(workspace), bool(_first_parts(problem)[1])
    if affine.basis is None or affine.inverse is None:
        return None
    basis, z = workspace.shared.once(_coordinates, affine, p, d, problem.shape2[1:], sees_x1)
    if basis.shape[1] > 0:
        return None
    terms = UNITS * (p + d) * np.finfo(np.float64).eps
    off = terms * (abs(affine.matrix) @ np.abs(z) + np.abs(affine.right))
    if not (np.abs(affine.residual(z)) <= off).all():
        return None
    moved = np.abs(affine.inverse) @ off
    return Pair(z[:p], z[p:]), Pair(moved[:p], moved[p:])


def _coordinates(
    affine: AffineSet, p: int, d: int, outputs: Shape, sees_x1: bool
) -> tuple[Array, Array]:
    """Return N and o; where only x2 is seen, none of the directions that move x1 alone."""
    if not sees_x1:
        return _of_x2(affine, p)
    basis = cast(Array, affine.basis)
    if basis.shape[1]:
        basis = _blocks_apart(basis, p)
    return basis, affine.project(np.zeros((p + d, *outputs)))


def _of_x2(affine: AffineSet, p: int) -> tuple[Array, Array]:
    """Return N and o of the x2 for which there is an x1, whatever the units of its columns.

    What A1 reaches is taken out of the rows; those that are left are a constraint of x2 alone.
    """
    A = np.asarray(affine.matrix.toarray())
    length = np.linalg.norm(A, axis=1)
    length[length == 0] = 1.0
    A, b = A / length[:, None], (affine.right.T / length).T
    size = np.linalg.norm(A[:, :p], axis=0)
    size[size == 0] = 1.0
    tiny = max(A.shape) * np.finfo(np.float64).eps
    left, values, right = linalg.svd(A[:, :p] / size, full_matrices=False)
    kept = values > tiny * values.max(initial=0.0)
    reached = left[:, kept]
    solve1 = (right[kept].T / values[kept]) @ reached.T / size[:, None]
    A2 = A[:, p:]
    rows, rest = (part - reached @ (reached.T @ part) for part in (A2, b))
    left, values, right = linalg.svd(rows)
    rank = int((values > tiny * np.linalg.norm(A2)).sum())
    N2 = right[rank:].T
    x2 = (right[:rank].T / values[:rank]) @ (left[:, :rank].T @ rest)
    x2 = x2 + (right[:rank].T / values[:rank]) @ (left[:, :rank].T @ (rest - rows @ x2))
    first = -solve1 @ (A2 @ N2), solve1 @ (b - A2 @ x2)
    return np.concatenate([first[0], N2]), np.concatenate([first[1], x2])


def _blocks_apart(basis: Array, p: int) -> Array:
    """Return N turned so that directions of one block alone have zeros in the other.

    There rounding would be all that the data, or a penalty, see of them: models take it for rows
    of next to no size, and make steps in units of it. Directions that a block does not move are
    told by the sizes in that block, where they are the only ones near zero: in the other one they
    differ from directions that move it a little by the square of that only.
    """
    tiny = UNITS * len(basis) * np.finfo(np.float64).eps
    mixed, apart = basis, list[Array]()
    for block in (slice(0, p), slice(p, None)):
        turned = mixed @ np.linalg.svd(mixed[block])[2].T
        still = np.linalg.norm(turned[block], axis=0) <= tiny
        if still.any():
            turned[block, still] = 0.0
            mixed, apart = turned[:, ~still], [*apart, turned[:, still]]
    return np.concatenate([mixed, *apart], axis=1)


def _first_parts(problem: Problem) -> tuple[list[tuple[Any, int]], tuple[str, ...]]:
    """Return the functions of x1 with their numbers of rows, and their names."""
    p, stacked, parts = problem.shape1[0], [], []
    if problem.h1 is not None:
        stacked.append((problem.h1, p))
        parts.append("h1")
    if problem.f1 is not None:
        stacked.append((as_penalty(problem.f1, problem.shape1), p))
        parts.append("f1")
    return stacked, tuple(parts)


def _stack(stacked: list[tuple[Any, int]]) -> Any:
    return stacked[0][0] if len(stacked) == 1 else Stacked(stacked)


def _new_data(f2: FiniteSum, basis: Array, origin: Array) -> FiniteSum:
    """Return the data term in coordinates: one product with the data, in float64."""
    basis2, origin2 = basis[-f2.n_columns :], origin[-f2.n_columns :]
    at: Any = basis2[:-1] if f2.intercept else basis2
    X = np.concatenate([np.asarray(b.matvec(at), np.float64) for _, b in f2.rows.blocks()])
    if f2.intercept:
        X = X + basis2[-1]
    offset = f2.predict(origin2.astype(np.float64))
    return FiniteSum(f2.loss, X, f2.y, f2.weight, offset=offset if np.any(offset) else None)
