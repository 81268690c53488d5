"""A problem of one block, ``f2(w) + H(S w - o)``: the only place where x1 disappears.

With A1 a multiple of the identity, x1 follows from x2 = w and both penalties stack into one:
``S = [-A2 / s; I]``. Its dual is ``D(u, mu) = -mean conjugate(u) - H*(mu) - <mu, o>`` on
``X'(q u)/n + S' mu = 0``. Any other constraint is eliminated first
(`stochadmm.forms.elimination`); where that is too large, the first rows of S are A2 itself and
their penalty is reached through A1.

What is costly depends on S alone (`stochadmm.forms.structure`) and lives in a workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..operators import identity_scale
from ..penalties import Stacked, Zero, segments
from ..problem import Problem
from .structure import (
    LIMITS,
    StructureSolver,
    as_matrix,
    is_diagonal,
    lsmr_columns,
    structure,
)


@dataclass(frozen=True)
class Through:
    """The penalty h1 as a function of the multiplier: ``mu -> h1*(-A1' mu)``."""

    penalty: Any
    A1: Any

    def conjugate(self, mu: Array) -> float:
        """Return ``h1*(-A1' mu)``."""
        return float(self.penalty.conjugate(-self.A1.rmatvec(mu)))

    def dual_scale(self, mu: Array) -> float:
        """Return the largest t in [0, 1] that makes the conjugate of ``t mu`` finite."""
        return dual_scale(self.penalty, -self.A1.rmatvec(mu))


def dual_scale(part: Any, mu: Array) -> float:
    """Return the largest t in [0, 1] with a finite conjugate, by bisection if not offered."""
    if offers(part, Has.DUAL_SCALE):
        return float(part.dual_scale(mu))
    if np.isfinite(part.conjugate(mu)):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.isfinite(part.conjugate(middle * mu)) else (low, middle)
    return low


def project_dual(part: Any, mu: Array) -> Array:
    """Return the nearest point where the conjugate is finite; ``mu`` where that is not offered."""
    if not offers(part, Has.PROJECT_DUAL):
        return mu
    found: Array = part.project_dual(mu)
    return found


def unfold(penalty: Any, n_rows: int) -> tuple[Any, Any]:
    """Write a penalty as ``simple(T x)`` where the dual set of ``simple`` spans whole coordinates.

    A total variation becomes the l1 norm of differences; what does not unfold stays, with T = I.

    Returns
    -------
    T : CSR array
    simple : Penalty
    """
    T, simple = _unfolded(penalty, n_rows)
    return sparse.eye_array(n_rows, format="csr") if T is None else T, simple


def _unfolded(penalty: Any, n_rows: int) -> tuple[Any, Any]:
    """Return T and the simple penalty, None and the penalty itself where T = I."""
    if isinstance(penalty, Stacked):
        made = [(*_unfolded(part, size), size) for part, size in penalty.parts if size]
        if all(T is None for T, *_ in made):
            return None, penalty
        blocks = [sparse.eye_array(size) if T is None else T for T, _, size in made]
        parts = [(made[k][1], block.shape[0]) for k, block in enumerate(blocks)]
        return sparse.csr_array(sparse.block_diag(blocks)), Stacked(parts)
    if offers(penalty, Has.UNFOLDED):
        T, simple = penalty.unfolded(n_rows)
        return T, simple
    return None, penalty


def one_block(problem: Problem, workspace: Workspace | None = None) -> OneBlock:
    """Return the one-block form of a problem, made once per workspace.

    Raises
    ------
    NotImplementedError
        Where x1 cannot be eliminated here: f1 beside a structure, or a large operator that has no
        sparse form.
    """
    workspace = workspace or Workspace()
    return workspace.once(OneBlock, problem, workspace.shared)


def has_one_block(problem: Problem) -> bool:
    """Say whether x1 can be eliminated here."""
    if problem.f1 is not None:
        return False
    small = problem.shape2[0] <= LIMITS.dense
    return problem.A2 is None or small or offers(problem.A2, Has.SPARSE)


class OneBlock:
    """The one-block form of a problem, its dual set and least squares in its structure.

    Parameters
    ----------
    problem : Problem
        What is to have one block.
    shared : Workspace
        Where factorizations of the structure live, for all forms of the same structure.
    """

    def __init__(self, problem: Problem, shared: Workspace) -> None:
        self.shape, self.shared = problem.shape2, shared
        self.scale1: float | None = None
        """The s of ``A1 = s I``; None where h1 is reached through A1."""
        self.unfold1: Any = None
        """The rows of h1 as differences of those of A2, where it is a total variation."""
        self.parts: list[tuple[Any, slice]] = []
        """The penalties that are summed in H, with their rows of S."""
        blocks, offsets, start = [], [], 0
        for matrix, offset, part in self._blocks(problem):
            stop = start + matrix.shape[0]
            self.parts.append((part, slice(start, stop)))
            blocks.append(matrix)
            offsets.append(offset)
            start = stop
        self.structure = structure(sparse.vstack(blocks), shared)
        self.S, self.St = self.structure.S, self.structure.St
        self.offset = np.concatenate(offsets)
        self.rows1 = self.parts[0][1] if problem.constrained else slice(0, 0)
        self.is_through = problem.constrained and self.scale1 is None
        """Whether the first rows are A2 itself, and h1 is reached through A1."""
        sizes = [(part, rows.stop - rows.start) for part, rows in self.parts]
        self.stacked_penalty: Any = None
        """The penalties of all rows as one; None where h1 is reached through A1."""
        if not self.is_through:
            self.stacked_penalty = sizes[0][0] if len(sizes) == 1 else Stacked(sizes)
        probe = np.random.default_rng(0).standard_normal((self.S.shape[0], *self.shape[1:]))
        self.mask: Array = np.asarray((self.project(probe) != 0) | (self.project(-probe) != 0))
        """The entries of mu that may differ from zero: not those of rows that are free."""
        self.groups = outputs_by_mask(self.mask)
        """Groups of outputs that share their mask, as (index, mask)."""

    def _blocks(self, problem: Problem) -> list[tuple[Any, Array, Any]]:
        """Return (matrix, offset, penalty) of the first and of the second block."""
        d, outputs = self.shape[0], self.shape[1:]
        found = []
        if not has_one_block(problem):
            raise NotImplementedError(
                "x1 cannot be eliminated: f1 beside a structure, or A2 without a sparse form; "
                "eliminate the constraint first"
            )
        if problem.constrained:
            A2 = as_matrix(problem.A2, d)
            b = np.zeros(problem.shape_dual) if problem.b is None else problem.b.astype(np.float64)
            h1: Any = Zero() if problem.h1 is None else problem.h1
            s = identity_scale(problem.A1)
            if s is not None:
                self.scale1 = s
                T, h1 = unfold(h1, A2.shape[0])
                self.unfold1 = T
                found.append((-(T @ A2) / s, -(T @ b) / s, h1))
            else:
                found.append((A2, b, Through(h1, problem.A1)))
        if problem.h2 is not None or not found:  # nothing is penalized: every coefficient is free
            T, h2 = unfold(Zero() if problem.h2 is None else problem.h2, d)
            found.append((T, np.zeros((T.shape[0], *outputs)), h2))
        return found

    @property
    def ties_columns(self) -> bool:
        """Whether a row of S has several columns."""
        return self.structure.ties_columns

    # ---------------------------------------------------------------- the dual set

    def project(self, mu: Array) -> Array:
        """Return the nearest point of the dual set, part by part."""
        out = mu.copy()
        for part, rows in self.parts:
            out[rows] = project_dual(part, mu[rows])
        return out

    def scale(self, mu: Array) -> float:
        """Return the largest t in [0, 1] with ``t mu`` in the dual set."""
        return min((dual_scale(part, mu[rows]) for part, rows in self.parts), default=1.0)

    def conjugate(self, mu: Array) -> float:
        """Return ``H*(mu) + <mu, o>``."""
        total = float(np.vdot(mu, self.offset))
        return total + sum(float(part.conjugate(mu[rows])) for part, rows in self.parts)

    def off(self, mu: Array) -> Array:
        """Return how far mu is from the point whose conjugate is told, entry by entry."""
        out = np.zeros_like(mu)
        for part, rows in self.parts:
            for piece, own in segments(part, rows.stop - rows.start):
                if offers(piece, Has.DUAL_OFF):
                    out[rows][own] = piece.dual_off(mu[rows][own])
        return out

    def from_multiplier(self, dual: Array | None, *, deadline: Deadline = NEVER) -> Array:
        """Return mu for a multiplier of the constraint; zero where nothing is known."""
        mu = np.zeros((self.S.shape[0], *self.shape[1:]))
        if dual is None or dual.size == 0 or not np.isfinite(dual).all():
            return mu
        lam = dual.astype(np.float64)
        if self.scale1 is None:
            mu[self.rows1] = lam
        elif self.unfold1.shape[0] == lam.shape[0]:
            mu[self.rows1] = -self.scale1 * lam
        else:  # the running sums undo the differences of a total variation
            mu[self.rows1] = lsmr_columns(self.unfold1.T, -self.scale1 * lam, deadline=deadline)
        return mu

    def to_multiplier(self, mu: Array) -> Array:
        """Return the multiplier of the constraint that belongs to mu."""
        own = mu[self.rows1]
        if self.scale1 is None:
            return own
        if self.unfold1.shape[0] != self.unfold1.shape[1]:  # others are the identity
            own = self.unfold1.T @ own
        return np.asarray(-own / self.scale1)

    # ---------------------------------------------------------------- least squares

    def solver(self, mask: Array) -> StructureSolver:
        """Return least squares with the rows of a mask, factorized once per structure."""
        return self.structure.solver(mask)

    @property
    def setup_seconds(self) -> float:
        """What the first least squares may take before it begins, at most."""
        d = self.shape[0]
        if d > LIMITS.dense or is_diagonal(self.structure.sparse_gram):
            return 0.0
        new = sum(not self.structure.is_factorized(mask) for _, mask in self.groups)
        return LIMITS.seconds * new * d**3

    def absorb(self, residual: Array, *, deadline: Deadline = NEVER) -> Array:
        """Return the smallest change of mu with ``S' change = residual``, in least squares."""
        change = np.zeros((self.S.shape[0], *self.shape[1:]))
        for index, mask in self.groups:
            change[index] = self.solver(mask).absorb(residual[index], deadline=deadline)
        return change

    def null_directions(self) -> list[tuple[Any, Any]]:
        """Return (outputs, basis): directions of x2 that no penalty sees, as sparse columns."""
        found = [(index, self.solver(mask).null) for index, mask in self.groups]
        return [(index, basis) for index, basis in found if basis.shape[1]]

    @property
    def has_many_free(self) -> bool:
        """Whether ten directions or more are free: then rounding along them is what matters."""
        return bool(sum(basis.shape[1] for _, basis in self.null_directions()) >= 10)


def outputs_by_mask(mask: Array) -> list[tuple[Any, Array]]:
    """Return groups of outputs that share their mask, as (index, mask)."""
    if mask.ndim == 1:
        return [(slice(None), mask)]
    if (mask == mask[:, :1]).all():
        return [(slice(None), mask[:, 0])]
    return [((slice(None), c), mask[:, c]) for c in range(mask.shape[1])]
