"""Metrics of proximal Newton steps: a cheap diagonal part in some basis plus L-BFGS.

    B = tau B_0 + L-BFGS,     B_0 = R' diag R   for an orthogonal rotation R of the matrices

``Kronecker``: the Gram matrix of the rows, weighted by their curvature, times the mean
curvature of the outputs: diagonal in the two eigenbases. ``Diagonal``: the exact diagonal of
the Hessian, for sparse rows, whose columns are nearly orthogonal. Shifted systems are solved by
Woodbury's formula in the rotated coordinates.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import linalg

from ..base.protocols import Array
from ..risk.split_columns import SquaredColumns
from .curved import CurvedLoss, Point, pseudo_inverse


def most_pairs(size: int) -> int:
    """Return how many pairs of L-BFGS of matrices of a size are kept, each in two bases.

    More than ten cost as much as they save; fewer, but for the last two, where they would take
    more than half a gigabyte.
    """
    return min(10, max(2, (1 << 26) // (4 * size)))


@dataclass
class Metric:
    """``tau B_0 + L-BFGS`` with shifted inverses; subclasses make ``diagonal`` and rotate."""

    can_be_masked: ClassVar[bool] = False
    """Whether it still preconditions equations of some coefficients only."""
    fraction: ClassVar[float] = 1.0
    is_exact: ClassVar[bool] = False

    loss: CurvedLoss
    steps: list[Array] = field(default_factory=list, repr=False)
    changes: list[Array] = field(default_factory=list, repr=False)
    diagonal: Array = field(init=False, repr=False)
    single: bool = False
    """Whether numbers in rotated coordinates are of float32."""
    _psi: Array | None = field(default=None, init=False, repr=False)
    """Columns of the compact form of L-BFGS, in rotated coordinates."""
    _middle: Array | None = field(default=None, init=False, repr=False)
    _solved: tuple[float, Array, Array | None] | None = field(default=None, init=False, repr=False)

    def copy(self) -> Metric:
        """Return a metric with lists of its own."""
        twin = copy(self)
        twin.steps, twin.changes = list(self.steps), list(self.changes)
        return twin

    def restricted(self, rows: Array) -> Metric:
        """Return the metric of some rows of a matrix (where ``rotate`` leaves rows alone)."""
        twin, shape = copy(self), self.diagonal.shape
        twin.diagonal, twin._solved = self.diagonal[rows], None
        if self._psi is not None:
            psi = self._psi.reshape(-1, *shape)[:, rows]
            twin._psi = psi.reshape(len(psi), -1)
        return twin

    @property
    def dtype(self) -> type[np.floating]:
        """The type of what is kept."""
        return np.float32 if self.single else np.float64

    def rotate(self, A: Array) -> Array:
        """Return A in the coordinates where B_0 is diagonal."""
        return A

    def back(self, A: Array) -> Array:
        """Undo ``rotate``."""
        return A

    def renew(self, point: Point) -> None:
        """Take the curvature at a point."""
        raise NotImplementedError

    def renew_rows(self, point: Point) -> None:
        """Take what is costly of the curvature at a point, where it is kept between steps."""

    def remember(self, step: Array, change: Array) -> None:
        """Add a step and the change of the gradient along it."""
        if np.vdot(step, change) > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            self.steps.append(step.astype(self.dtype, copy=False))
            self.changes.append(change.astype(self.dtype, copy=False))
            kept = most_pairs(step.size)
            del self.steps[:-kept], self.changes[:-kept]

    def forget(self) -> None:
        """Drop all pairs."""
        self.steps.clear()
        self.changes.clear()

    def prepare(self) -> None:
        """Scale B_0 to the steps and set up the compact form of L-BFGS."""
        self.release()
        if not self.steps:
            return
        m, b = len(self.steps), self.diagonal
        psi = np.empty((2 * m, b.size), self.dtype)  # tau B_0 S above, Y below, row by row
        for k, (step, change) in enumerate(zip(self.steps, self.changes, strict=True)):
            psi[k], psi[m + k] = self.rotate(step).ravel(), self.rotate(change).ravel()
        S, Y = psi[:m], psi[m:]
        self.diagonal = b = self._scaled(S.reshape(m, *b.shape), Y.reshape(m, *b.shape))
        SY, SBS = (S @ Y.T).astype(np.float64), np.empty((m, m))
        for k in range(m):
            SBS[k] = S @ (b.ravel() * S[k])
        S *= b.ravel()
        lower = np.tril(SY, -1)
        self._psi = psi
        self._middle = np.block([[SBS, lower], [lower.T, -np.diag(np.diag(SY))]])

    def release(self) -> None:
        """Forget what ``prepare`` has made: as much as the pairs themselves."""
        self._psi = self._middle = self._solved = None

    def _scaled(self, S: Array, Y: Array) -> Array:
        """Return the diagonal of B_0 times tau: the curvature along the last step."""
        tau = float(np.vdot(S[-1], Y[-1]) / np.vdot(S[-1], self.diagonal * S[-1]))
        return np.asarray(float(np.clip(tau, 1e-2, 1e2)) * self.diagonal)

    def apply(self, A: Array) -> Array:
        """Return B A."""
        R = self.rotate(A)
        out = self.diagonal * R
        if self._psi is not None and self._middle is not None:
            inner = np.linalg.solve(self._middle, self._psi @ R.ravel())
            out -= (inner.astype(self.dtype) @ self._psi).reshape(R.shape)
        return self.back(out)

    def quadratic(self, step: Array) -> float:
        """Return ``<step, B step>``."""
        return float(np.vdot(step, self.apply(step)))

    def damped(self, damping: float) -> Metric:
        """Return itself: B_0 has a floor, so that every model has a minimizer."""
        return self

    def solve(self, A: Array, shift: float) -> Array:
        """Return ``(B + shift)^-1 A``."""
        psi = self._psi
        if self._solved is None or self._solved[0] != shift:
            inverse = 1 / (self.diagonal + shift)
            core = None
            if psi is not None and self._middle is not None:
                bent = np.array([psi @ (inverse.ravel() * row) for row in psi])
                core = np.linalg.inv(self._middle - bent)
            self._solved = shift, inverse, core
        _, inverse, core = self._solved
        out = inverse * self.rotate(A)
        if psi is not None and core is not None:
            inner = (core @ (psi @ out.ravel())).astype(self.dtype)
            out += inverse * (inner @ psi).reshape(out.shape)
        return self.back(out)


@dataclass
class Kronecker(Metric):
    """The Gram matrix of the rows times the mean curvature of the outputs."""

    _values: Array | None = field(default=None, init=False, repr=False)
    _vectors: Array | None = field(default=None, init=False, repr=False)
    _outputs: Array | None = field(default=None, init=False, repr=False)

    def renew_rows(self, point: Point) -> None:
        """Take the Gram matrix with the rows' curvature at a point; free columns are cleared."""
        gram = self._gram(point)
        values, vectors = linalg.eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
        self._vectors = np.ascontiguousarray(vectors)
        # the rounding of a Gram matrix made in float32
        self._values = np.maximum(values, 1e-7 * values[-1])

    def _gram(self, point: Point) -> Array:
        loss = self.loss
        w = loss.row_curvature(point)
        w = w / max(float(w.mean()), 1e-300)
        G = loss.columns.gram(w)
        G /= loss.n
        if loss.free.size:
            cross = loss.columns.rmatvec(w[:, None] * loss.columns.free) / loss.n
            own = (loss.columns.free * w[:, None]).T @ loss.columns.free / loss.n
            G -= cross @ pseudo_inverse(own) @ cross.T
        return np.asarray(G.T, dtype=self.dtype, order="F")  # where LAPACK can work in place

    def renew(self, point: Point) -> None:
        """Take the mean curvature of the outputs at a point, and of the rows at the first."""
        if self._vectors is None or self._vectors.dtype != self.dtype:
            self.renew_rows(point)
        values, outputs = np.linalg.eigh(self.loss.output_curvature(point))
        self._outputs = outputs.astype(self.dtype, copy=False)
        assert self._values is not None
        floor = max(1e-3 * float(values.mean()), 1e-300)  # rare classes have next to none
        own = np.maximum(values, floor).astype(self.dtype, copy=False)
        self.diagonal = np.outer(self._values, own)

    def _scaled(self, S: Array, Y: Array) -> Array:
        """Return the diagonal of B_0, scaled for each eigenvector of the rows.

        The product of means cannot know in which directions the rows of an output that curve
        most lie; the steps tell. Where they say little of a direction, it is scaled as all are.
        """
        b = self.diagonal
        curved = np.einsum("kij,kij->ki", S, Y).astype(np.float64)
        modelled = np.array([np.einsum("ij,ij->i", s, b * s) for s in S], dtype=np.float64)
        tau = float(np.clip(curved[-1].sum() / modelled[-1].sum(), 1e-2, 1e2))
        total = modelled.sum(axis=1, keepdims=True)  # each step counts alike
        curved, modelled = (curved / total).sum(axis=0), (modelled / total).sum(axis=0)
        little = 0.1 * modelled.mean()
        own = (curved + tau * little) / (modelled + little)
        scales = np.clip(own, tau / 10, tau * 10)  # single steps are noisy
        return np.asarray(scales[:, None].astype(self.dtype) * b)

    def rotate(self, A: Array) -> Array:
        """Return V' A Q."""
        assert self._vectors is not None and self._outputs is not None
        return np.asarray(self._vectors.T @ A.astype(self.dtype, copy=False) @ self._outputs)

    def back(self, A: Array) -> Array:
        """Return V A Q'."""
        assert self._vectors is not None and self._outputs is not None
        return np.asarray(self._vectors @ A @ self._outputs.T)


@dataclass
class Diagonal(Metric):
    """The exact diagonal of the Hessian."""

    can_be_masked: ClassVar[bool] = True

    _squares: SquaredColumns | None = field(default=None, init=False, repr=False)

    def renew(self, point: Point) -> None:
        """Take the diagonal at a point."""
        loss = self.loss
        if self._squares is None:
            self._squares = SquaredColumns(loss.columns)
        c, s = loss.curvature(point)
        entries = loss.weighted(c if s is None else c - s * s)
        diagonal = (self._squares @ entries) / loss.n
        # rare columns have next to no curvature
        self.diagonal = diagonal + 1e-2 * max(float(diagonal.mean()), 1e-300)
