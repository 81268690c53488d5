"""The Hessian of the mean loss, from all rows or from a sample of them.

With W_i the second derivatives of the losses in their predictions, q_i the sample weights and
``omega_i`` how often row i of the sample counts, it is

    H = (1/n) sum_i omega_i q_i a_i (W_i + damping I) a_i'

a matrix for all outputs alike where they share their curvatures, a matrix of all entries where
they do not, and products only where that would be too large. The same sample changes the
derivatives of the losses along a step, ``omega_i W_i a_i' step``, so that the model's equation
and the dual equation hold together.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.validation import is_sparse
from ..data import ALL
from ..linear_algebra.dense import weighted_gram
from ..linear_algebra.implicit import Implicit
from .finite_sum import FiniteSum
from .targets import sample_weights, weighted


@dataclass(frozen=True)
class HessianLimits:
    """Sizes above which a Hessian is not made but multiplied with."""

    columns: int = 4000
    """A square matrix of them takes 128 MB, its factorization some seconds."""
    entries: int = 1500
    """Of coupled outputs together: their matrix is factorized as one."""
    products: int = 20_000
    """Columns up to which conjugate gradients solve models: more need too many iterations."""


LIMITS = HessianLimits()


class RowSample:
    """Some rows with their predictions, derivatives of the losses, and weights.

    Parameters
    ----------
    f2 : FiniteSum
        The mean loss.
    predictions, derivatives : array
        Of all rows, sample weights left out.
    rows : array of int, optional
        The rows of the sample, all of them by default.
    omega : array, optional
        How often each row counts, n over their number by default.
    """

    def __init__(
        self,
        f2: FiniteSum,
        predictions: Array,
        derivatives: Array,
        rows: NDArray[np.intp] | None = None,
        omega: Array | None = None,
    ) -> None:
        loss: Any = f2.loss
        self.f2, self.loss = f2, loss
        self.index: Any = ALL if rows is None else rows
        self.size = f2.n_terms if rows is None else len(rows)
        self.omega: Any = f2.n_terms / self.size if omega is None else omega
        self.z, self.u, self.y = predictions[self.index], derivatives[self.index], f2.y[self.index]
        q = sample_weights(f2)
        self.q = None if q is None else q[self.index]
        self.block = f2.X if rows is None else f2.X[rows]
        self.coupled = f2.n_outputs is not None and not _elementwise(f2.loss, self.z, self.y)
        """Whether the derivative of an output depends on the predictions of others."""

    def __recipe__(self) -> tuple[Any, ...]:
        rows = None if self.index is ALL else self.index
        return self.f2, rows, self.omega, self.z, self.u

    @classmethod
    def __made__(cls, f2: FiniteSum, rows: Any, omega: Any, z: Array, u: Array, **_: Any) -> Any:
        index: Any = ALL if rows is None else rows
        every = [np.zeros((f2.n_terms, *part.shape[1:]), part.dtype) for part in (z, u)]
        for whole, part in zip(every, (z, u), strict=True):
            whole[index] = part
        return cls(f2, every[0], every[1], rows, omega)

    def at(self, derivatives: Array) -> RowSample:
        """Return the same rows with the derivatives of the losses of another point."""
        other = copy(self)
        other.u = derivatives[self.index]
        return other

    def predict(self, step: Array) -> Array:
        """Return ``a_i' step`` of the rows, the intercept's part included, no offset."""
        coefficients = step[: self.f2.n_features]
        if self._would_copy(step):
            z = np.empty((self.size, *step.shape[1:]), np.result_type(self.block, step))
            for rows in self.f2.rows.ranges(slice(0, self.size)):
                z[rows] = self.block[rows] @ coefficients
        else:
            z = self.block @ coefficients
        return z + step[-1] if self.f2.intercept else z

    def pull_back(self, du: Array) -> Array:
        """Return ``X'(q du) / n`` over the rows."""
        du = weighted(self.q, du)
        if not self._would_copy(du):
            return self.adjoint(self.block.T, du) / self.f2.n_terms
        total = np.zeros((self.f2.n_columns, *du.shape[1:]))
        for rows in self.f2.rows.ranges(slice(0, self.size)):
            total += self.adjoint(self.block[rows].T, du[rows])
        return total / self.f2.n_terms

    def _would_copy(self, factor: Array) -> bool:
        """Say whether a product copies the rows: NumPy does where types differ."""
        return not is_sparse(self.block) and self.block.dtype != factor.dtype

    def adjoint(self, transposed: Any, u: Array) -> Array:
        """Return ``sum_i u_i a_i``, with the intercept's column of ones."""
        g: Array = transposed @ u
        return np.concatenate([g, u.sum(axis=0, keepdims=True)]) if self.f2.intercept else g

    def gram(self, numbers: Array, single: bool, free: Array | None = None) -> Array:
        """Return ``(1/n) sum_i omega_i numbers_i a_i a_i'`` over the rows, or the free ones."""
        numbers, block = numbers * (self.omega / self.f2.n_terms), self.block
        if free is not None:
            numbers, block = numbers[free], block[free]
        return weighted_gram(block, numbers, self.f2.intercept, single)

    def dual_step_limit(self, change: Array) -> Array:
        """Return how far each row's derivative may go along a change in its domain, at most 1."""
        if not offers(self.loss, Has.DUAL_STEP_LIMIT):
            return np.ones(self.size)
        limit = np.asarray(self.loss.dual_step_limit(self.u, change, self.y))
        if self.q is not None:
            absent = (self.q if self.q.ndim == 1 else self.q.max(axis=1)) == 0
            limit = np.where(absent, 1.0, limit)
        return limit


class SampledHessian:
    """The Hessian over the rows of a sample.

    Parameters
    ----------
    sample : RowSample
        The rows.
    shared : bool
        Whether one matrix serves all outputs (see `shares_curvature`).
    damping : float, default=0
        Added to the curvatures: any choice keeps the dual equation exact.
    single : bool, default=False
        Multiply in float32: H shapes the model only, the dual equation is closed on the rows.

    Attributes
    ----------
    matrix : array or Implicit
        H; of all entries in row-major order unless the outputs share it.
    """

    def __init__(
        self, sample: RowSample, shared: bool, damping: float = 0.0, single: bool = False
    ) -> None:
        loss: Any = sample.loss
        self.sample, self.shared, self.damping, self.single = sample, shared, damping, single
        self._curvature: Callable[[Array], Array] = (
            loss.curvature_operator(sample.z, sample.y)
            if offers(loss, Has.CURVATURE_OPERATOR)
            else partial(loss.curvature_apply, sample.z, sample.y)
        )
        self.implicit = is_implicit(sample.f2, shared)
        """Whether H is only multiplied with."""
        self._operator: Implicit | None = None
        if self.implicit:
            # the products of conjugate gradients go by rows of the transpose
            turned: Any = sample.block.T
            self._transposed = sparse.csr_array(turned) if is_sparse(turned) else turned
            self._operator = self._implicit(None, self._metric())
        self.matrix = self._hessian(None) if self._operator is None else self._operator

    def __recipe__(self) -> tuple[Any, ...]:
        return self.sample, self.shared, self.damping, self.single

    @classmethod
    def __made__(cls, *given: Any, **_: Any) -> SampledHessian:
        return cls(*given)

    def at(self, derivatives: Array) -> SampledHessian:
        """Return the same matrix with the derivatives of the losses of another point."""
        other = copy(self)
        other.sample = self.sample.at(derivatives)
        return other

    def damped(self, damping: float) -> SampledHessian:
        """Return the Hessian with another damping."""
        if damping == self.damping:
            return self
        return SampledHessian(self.sample, self.shared, damping, self.single)

    def over(self, free: Array) -> Array | Implicit:
        """Return H over the rows that are free."""
        if self._operator is not None:
            return self._implicit(free, self._operator.metric)
        if 2 * np.count_nonzero(~free) < free.size:  # the rows that are not free cost less
            whole: Any = self.matrix
            return np.asarray(whole - self._hessian(~free))
        return self._hessian(free)

    def derivative_change(self, step: Array) -> Array:
        """Return ``omega_i W_i a_i' step``, how the derivatives of the losses change."""
        curved = self._curve(self.sample.predict(step))
        change: Array = by_row(self.sample.omega, curved) * curved
        return change

    def along(self, step: Array) -> float:
        """Return <step, H step>."""
        H = self.matrix
        flat = step if len(H) == len(step) else step.ravel()
        return float(np.vdot(flat, H @ flat))

    def _curve(self, v: Array) -> Array:
        curved = self._curvature(v)
        if not self.damping:
            return curved
        if self.sample.coupled:  # their derivatives add up to zero
            v = v - v.mean(axis=1, keepdims=True)
        return curved + self.damping * v

    def _implicit(self, free: Array | None, metric: Array) -> Implicit:
        return Implicit(self._product(free), metric, is_bound=metric.ndim == 2)

    def _product(self, free: Array | None) -> Callable[[Array], Array]:
        sample = self.sample

        def product(step: Array) -> Array:
            curved = self.derivative_change(step)
            kept = curved if free is None else np.where(by_row(free, curved), curved, 0)
            return sample.adjoint(self._transposed, weighted(sample.q, kept)) / sample.f2.n_terms

        return product

    def _metric(self) -> Array:
        """Return a matrix for all outputs alike that is at least H, or about its diagonal."""
        sample, loss = self.sample, self.sample.loss
        curve = np.asarray(loss.curvature(sample.z, sample.y), dtype=np.float64)
        if curve.ndim == 1:
            numbers = curve
        elif sample.f2.n_columns > LIMITS.columns:
            numbers = curve.mean(axis=1)
        elif sample.coupled:
            # the largest eigenvalue of a row's diag(a) - b b' is at most its trace, and max a
            numbers = curve.sum(axis=1)
            if offers(loss, Has.CURVATURE_PARTS):
                largest = loss.curvature_parts(sample.z, sample.y)[0].max(axis=1)
                numbers = np.minimum(numbers, largest)
        else:
            numbers = curve.max(axis=1)
        numbers = numbers + self.damping
        if sample.q is not None:
            numbers = numbers * (sample.q if sample.q.ndim == 1 else sample.q.max(axis=1))
        if sample.f2.n_columns <= LIMITS.columns:
            return sample.gram(numbers, self.single)
        block: Any = sample.block
        squares = block.power(2) if is_sparse(block) else np.square(block)
        return sample.adjoint(squares.T, numbers * (sample.omega / sample.f2.n_terms))

    def _hessian(self, free: Array | None) -> Array:
        sample = self.sample
        if sample.z.ndim == 1 or self.shared:
            unit = np.zeros_like(sample.z)
            unit[..., 0 if unit.ndim == 2 else slice(None)] = 1.0
            curve = self._curve(unit)
            curve = curve if curve.ndim == 1 else curve[:, 0]
            return sample.gram(weighted(sample.q, curve), self.single, free)
        d, outputs = sample.f2.n_columns, sample.z.shape[1]
        H = np.zeros((d, outputs, d, outputs))
        for c in range(outputs):
            unit = np.zeros_like(sample.z)
            unit[:, c] = 1.0
            curve = weighted(sample.q, self._curve(unit))
            for e in range(c, outputs):
                if curve[:, e].any():
                    H[:, e, :, c] = sample.gram(curve[:, e], self.single, free)
                    H[:, c, :, e] = H[:, e, :, c]
        return H.reshape(d * outputs, d * outputs)


def is_implicit(f2: FiniteSum, shared: bool) -> bool:
    """Say whether the Hessian is too large to be made."""
    if f2.n_columns > LIMITS.columns:
        return True
    return f2.n_outputs is not None and not shared and f2.n_columns * f2.n_outputs > LIMITS.entries


def shares_curvature(f2: FiniteSum, predictions: Array) -> bool:
    """Tell whether all outputs have the same curvature, as those of the squared error."""
    if f2.n_outputs is None:
        return True
    if f2.weight is not None and f2.weight.ndim == 2:
        return False
    if not _elementwise(f2.loss, predictions, f2.y):
        return False
    loss: Any = f2.loss
    curve = loss.curvature(predictions, f2.y)
    return bool((curve == curve[:, :1]).all())


def by_row(numbers: Any, like: Array) -> Any:
    """Return one number per row so that it broadcasts against an array of rows."""
    return numbers if like.ndim == 1 or np.ndim(numbers) == 0 else numbers[:, None]


def _elementwise(loss: Any, z: Array, y: Array) -> bool:
    """Say whether the derivative of an output depends on its own prediction only, by some rows."""
    few = slice(0, 100)
    unit = np.zeros_like(z[few])
    unit[:, 0] = 1.0
    return not loss.curvature_apply(z[few], y[few], unit)[:, 1:].any()
