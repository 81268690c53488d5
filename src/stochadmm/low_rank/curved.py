"""A smooth loss of the penalized rows alone: free rows are minimized out at every point.

    phi(W) = min over V   mean loss(X_p W + X_f V)

V (an intercept, unpenalized columns) is found by Newton's method on the predictions, without
reading the other columns. phi is as smooth as the loss, its gradient is that of the loss in W at
the best V, and the derivatives there satisfy the dual constraint of the free rows. Where the free
columns nearly depend on each other, V are the coefficients of a basis (`risk.split_columns`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..data import CSR, Blocking
from ..risk import FiniteSum
from ..risk.dual import mean_conjugate
from ..risk.split_columns import SplitColumns
from ..risk.targets import sample_weights


@dataclass(frozen=True)
class Point:
    """The loss at a point."""

    W: Array
    V: Array
    """Free rows, in the basis of `SplitColumns.free`."""
    base: Array
    """Predictions of the penalized rows (and the offset)."""
    z: Array
    value: float
    derivatives: Array
    """Derivatives in the predictions, weights left out."""
    gradient: Array
    """With respect to the penalized rows."""


class Line:
    """The loss along a line from a point, where the predictions of both ends are known."""

    def __init__(self, loss: CurvedLoss, point: Point, direction: Array) -> None:
        self.loss, self.origin, self.change = loss, point, loss.product(direction)

    def fitted(self, t: float, W: Array) -> tuple[float, Array]:
        """Return the loss and the free rows at ``W = origin + t direction``."""
        base = self.origin.base + t * self.change
        V, z, value, u = self.loss.fit_free(base, self.origin.V)
        self._last = W, V, base, z, value, u
        return value, V

    def point(self) -> Point:
        """Return the point that was fitted last: half a read."""
        return Point(*self._last, self.loss.pull_back(self._last[-1]))


def is_sparse(f2: FiniteSum) -> bool:
    """Say whether columns are nearly orthogonal because rows are nearly empty."""
    return f2.storage == CSR and f2.n_entries <= 0.1 * f2.n_terms * f2.n_features


class CurvedLoss:
    """The data term as a function of the penalized rows of the coefficients."""

    keeps_rows: ClassVar[bool] = True
    """Whether points hold numbers of every row and output."""

    def __init__(self, f2: FiniteSum, rows: Array, free: Array) -> None:
        self.f2, self.rows, self.free = f2, rows, free
        self.n, self.outputs = f2.n_terms, int(f2.n_outputs or 1)
        self.loss: Any = f2.loss
        q = sample_weights(f2)
        self.weight = q if q is None or q.ndim == 2 else q[:, None]
        self.columns = SplitColumns(f2, rows, free)
        self.labels = f2.y if offers(self.loss, Has.BY_CLASS) else None
        self.is_sparse = is_sparse(f2)
        self.reads = 0.0

    # ---------------------------------------------------------------- products

    def product(self, W: Array) -> Array:
        """Return X_p W."""
        self.reads += 0.5
        return self.columns.matvec(W)

    def pull_back(self, u: Array) -> Array:
        """Return X_p' (q u) / n."""
        self.reads += 0.5
        return self.columns.rmatvec(self.weighted(u)) / self.n

    def pull_back_free(self, u: Array) -> Array:
        """Return X_f' (q u) / n."""
        return np.asarray(self.columns.free.T @ self.weighted(u)) / self.n

    def weighted(self, u: Array) -> Array:
        """Return u times the weights of rows or entries."""
        return u if self.weight is None else u * self.weight

    # ---------------------------------------------------------------- the loss of predictions

    def value_and_derivatives(self, z: Array) -> tuple[float, Array]:
        """Return the mean loss and its derivatives in the predictions."""
        if self.labels is None:
            return self.f2.value_at(z), np.asarray(
                self.loss.derivative(z, self.f2.y), dtype=np.float64
            )
        p, losses = np.empty_like(z), np.empty(self.n)
        for part in self.parts():
            losses[part] = log_losses(z[part], self.labels[part], p[part])
            p[part][np.arange(len(p[part])), self.labels[part]] -= 1.0
        mean = losses.mean() if self.weight is None else losses @ self.weight[:, 0] / self.n
        return float(mean), p

    def parts(self) -> Iterator[slice]:
        """Yield ranges of rows whose numbers, one per output, stay in a cache."""
        return Blocking().ranges(self.n, 8 * self.outputs)

    def curvature(self, point: Point) -> tuple[Array, Array | None]:
        """Return (c, s): the Hessian in a row's predictions is ``diag(c_i) - s_i s_i'``."""
        if self.labels is not None:
            p = point.derivatives.copy()
            p[np.arange(self.n), self.labels] += 1.0
            return p, p
        c, s = self.loss.curvature_parts(point.z, self.f2.y)
        return np.asarray(c), s

    def row_curvature(self, point: Point) -> Array:
        """Return the trace of the Hessian in each row's predictions."""
        c, s = self.curvature(point)
        w = c.sum(axis=1) if s is None else (c - s * s).sum(axis=1)
        return np.asarray(w if self.weight is None else w * self.weight.mean(axis=1))

    def output_curvature(self, point: Point) -> Array:
        """Return the mean Hessian in a row's predictions."""
        c, s = self.curvature(point)
        D = np.diag(self.weighted(c).mean(axis=0))
        return D if s is None else D - self.weighted(s).T @ s / self.n

    def conjugate(self, u: Array) -> float:
        """Return the mean conjugate at dual numbers u of the predictions."""
        return mean_conjugate(self.f2, u)

    def room(self, u: Array, du: Array) -> float:
        """Return the largest t in [0, 1] that keeps ``u + t du`` in the conjugate's domain."""
        y = self.f2.y
        return min(
            float(np.min(self.loss.dual_step_limit(u[p], du[p], y[p]))) for p in self.parts()
        )

    # ---------------------------------------------------------------- points

    def at(self, W: Array, V: Array | None = None) -> Point:
        """Return the loss at W, free rows minimized from V."""
        return self.at_base(W, self.base(W), V)

    def towards(self, point: Point, direction: Array, single: bool) -> Line:
        """Return the loss along a line; ``single`` allows for products in float32."""
        return Line(self, point, direction)

    def exact(self, point: Point) -> Point:
        """Return a point with products in float64: all of them are."""
        return point

    def representable(self, W: Array) -> Array:
        """Return coefficients as they would be returned, where points are exact at these only."""
        return W

    def base(self, W: Array) -> Array:
        """Return the predictions of the penalized rows, offset included."""
        z = self.product(W) if W.any() else np.zeros((self.n, W.shape[1]))
        return z if self.f2.offset is None else z + self.f2.offset

    def fit_free(self, base: Array, V: Array | None) -> tuple[Array, Array, float, Array]:
        """Return (V, z, value, derivatives) at the best free rows, the others given."""
        if not self.free.size:
            value, u = self.value_and_derivatives(base)
            return np.zeros((0, base.shape[1])), base, value, u
        V = np.zeros((self.free.size, base.shape[1])) if V is None else V
        z = base + self.columns.free @ V
        value, u = self.value_and_derivatives(z)
        for _ in range(30):  # Newton steps, which converge in a handful
            left = self.pull_back_free(u)
            if np.abs(left).max() <= 1e-14 * max(1.0, float(np.abs(self.columns.free).max())):
                break
            c, s = self._curvature_at(z, u)
            step = -self.free_inverse(c, s) @ left.ravel()
            expected, t = float(left.ravel() @ step), 1.0
            ahead = self.columns.free @ step.reshape(V.shape)
            while True:
                new, derivatives = self.value_and_derivatives(z + t * ahead)
                if new <= value + 1e-4 * t * expected + 1e-15 * abs(value) or t < 1e-6:
                    break
                t /= 2
            done = -expected <= 1e-28 * max(abs(value), 1e-300) or t < 1e-6
            V, z, value, u = V + t * step.reshape(V.shape), z + t * ahead, new, derivatives
            if done or -expected <= 1e-16 * abs(value):
                break
        return V, z, value, u

    def _curvature_at(self, z: Array, u: Array) -> tuple[Array, Array | None]:
        return self.curvature(Point(z, z, z, z, 0.0, u, z))

    def at_base(self, W: Array, base: Array, V: Array | None) -> Point:
        """Return the loss at W whose predictions are known: half a read."""
        V, z, value, u = self.fit_free(base, V)
        return Point(W, V, base, z, value, u, self.pull_back(u))

    # ---------------------------------------------------------------- curvature

    def free_inverse(self, c: Array, s: Array | None) -> Array:
        """Return the pseudo-inverse of the Hessian of the free coefficients, row-major."""
        f, C = self.free.size, self.outputs
        H = np.zeros((f, C, f, C))
        qc = self.weighted(c)
        qs = None if s is None else self.weighted(s)
        for a in range(f):
            for b in range(a, f):
                both = (self.columns.free[:, a] * self.columns.free[:, b])[:, None]
                block = np.diag((both * qc).sum(axis=0))
                if s is not None and qs is not None:
                    block -= (both * qs).T @ s
                H[a, :, b, :] = block / self.n
                H[b, :, a, :] = H[a, :, b, :].T
        return pseudo_inverse(H.reshape(f * C, f * C))

    def hessian(self, point: Point) -> Hessian:
        """Return the Hessian of phi at a point, by products."""
        return Hessian(self, *self.curvature(point))


def log_losses(z: Array, labels: Array, p: Array) -> Array:
    """Return the multinomial losses of some predictions; write the probabilities to p."""
    top = z.max(axis=1, keepdims=True)
    np.exp(np.subtract(z, top, out=p), out=p)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    return np.asarray(np.log(total[:, 0]) + top[:, 0] - z[np.arange(len(z)), labels])


def pseudo_inverse(matrix: Array) -> Array:
    """Return the pseudo-inverse of a symmetric matrix; what underflows counts as none."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > max(1e-12 * float(values[-1]), 1e-200)
    half = vectors[:, kept] / np.sqrt(values[kept])
    inverse: Array = half @ half.T
    return inverse


class Hessian:
    """Products with the Hessian of phi: free rows follow."""

    def __init__(self, loss: CurvedLoss, c: Array, s: Array | None) -> None:
        self.loss, self.c, self.s = loss, c, s
        self.inverse = loss.free_inverse(c, s) if loss.free.size else None

    def derivative_change(self, z: Array) -> Array:
        """Return the change of the derivatives along a change of the predictions."""
        out = np.empty_like(z)
        for part in self.loss.parts():
            np.multiply(self.c[part], z[part], out=out[part])
            if self.s is not None:
                s = self.s[part]
                out[part] -= s * np.einsum("ij,ij->i", s, z[part])[:, None]
        return out

    def __matmul__(self, D: Array) -> tuple[Array, Array]:
        """Return the Hessian times D and the change of the derivatives along it."""
        du = self.derivative_change(self.loss.product(D))
        if self.inverse is not None:
            left = self.loss.pull_back_free(du)
            V = (self.inverse @ left.ravel()).reshape(left.shape)
            du = du - self.derivative_change(self.loss.columns.free @ V)
        return self.loss.pull_back(du), du
