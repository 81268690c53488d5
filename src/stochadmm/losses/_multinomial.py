"""Softmax cross-entropy of several classes: the loss with coupled outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import entr, logsumexp, wrightomega

from ..base.capabilities import Capabilities, Has
from ..base.immutable import as_float
from ..base.protocols import Array
from ._base import COMPLETE, check_finite, rows, step_limit, weighted_mean

_MAX_NEWTON = 100


@dataclass(frozen=True)
class Multinomial:
    """Softmax cross-entropy, ``log(sum_c exp(z_c)) - z_y``, for labels 0, 1, ..., C - 1.

    Predictions have shape (n, C), targets are the (n,) integer labels.

    Parameters
    ----------
    n_classes : int, optional
        C. Taken as the largest label plus one when not given; needed when the last classes may
        be absent from ``y``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import Multinomial
    >>> y = np.array([0, 2])
    >>> round(Multinomial().value(np.zeros((2, 3)), y), 6)  # log(3)
    1.098612
    >>> Multinomial().derivative(np.zeros((2, 4)), y)
    array([[-0.75,  0.25,  0.25,  0.25],
           [ 0.25,  0.25, -0.75,  0.25]])
    """

    n_classes: int | None = None
    name: ClassVar[str] = "multinomial"
    capabilities: ClassVar[Capabilities] = COMPLETE | {
        Has.LOG_LIKELIHOOD,
        Has.BY_CLASS,
        Has.PROBABILITY,
    }
    by_class: ClassVar[bool] = True
    """Each class has a prediction of its own."""

    def __post_init__(self) -> None:
        if self.n_classes is not None and self.n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {self.n_classes}")

    @property
    def curvature_bound(self) -> float:
        """Bound on the largest eigenvalue of ``diag(p) - p p'``: 1/2."""
        return 0.5

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops."""
        return "multinomial", 0.0, 0.0

    def value(self, z: Array, y: Array, weight: Array | None = None) -> float:
        """Return the mean over the rows, weighted by one number per row, in float64."""
        return weighted_mean(self.values(z, y), weight)

    def values(self, z: Array, y: Array) -> Array:
        """Return the loss of every row, in float64."""
        z, y = np.asarray(z, dtype=np.float64), np.asarray(y)
        own = z[np.arange(len(y)), y]
        # from the label on: beside large predictions a small loss would round away
        shift = np.where(np.isfinite(own), own, 0.0)
        found: Array = _log_of_sum(z - shift[:, None]) + (shift - own)
        return found

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``: probabilities minus the indicator of the label."""
        y = np.asarray(y)
        out = _softmax(as_float(z))
        out[np.arange(len(y)), y] -= 1
        return out

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the diagonal of the Hessian in ``z``, row by row."""
        p = _softmax(as_float(z))
        curvature: Array = p * (1 - p)
        return curvature

    def curvature_apply(self, z: Array, y: Array, v: Array) -> Array:
        """Return ``(diag(p) - p p') v``, row by row."""
        return self.curvature_operator(z, y)(v)

    def curvature_operator(self, z: Array, y: Array) -> Callable[[Array], Array]:
        """Return ``curvature_apply`` for many v at the same predictions."""
        p = _softmax(as_float(z))

        def apply(v: Array) -> Array:
            pv: Array = p * v
            image: Array = pv - p * pv.sum(axis=1, keepdims=True)
            return image

        return apply

    def curvature_parts(self, z: Array, y: Array) -> tuple[Array, Array | None]:
        """Return (p, p): the Hessian is ``diag(p) - p p'``, row by row."""
        p = _softmax(as_float(z))
        return p, p

    def conjugate(self, u: Array, y: Array) -> Array:
        """Return ``sup_z <u, z> - loss(z, y)``, row by row.

        With ``p = u + indicator(y)`` it is ``sum_c p_c log p_c`` where p is a vector of
        probabilities and ``inf`` elsewhere. Entries below zero, and sums away from one, by at
        most four units of rounding per class (of the dtype of ``u``) count as exact.
        """
        p, guard = self._probabilities(u, y)
        inside = (p >= -guard).all(axis=1) & (np.abs(p.sum(axis=1) - 1.0) <= guard * p.shape[1])
        return np.where(inside, -entr(np.maximum(p, 0.0)).sum(axis=1), np.inf)

    def dual_step_limit(self, u: Array, du: Array, y: Array) -> Array:
        """Return the largest t in [0, 1], row by row, that keeps ``u + t du`` in the domain.

        It is 0 where the entries of ``du`` do not sum to zero up to rounding.
        """
        p, guard = self._probabilities(u, y)
        du = np.asarray(du, dtype=np.float64)
        size = np.maximum(1.0, np.abs(du).max(axis=1))
        level = np.abs(du.sum(axis=1)) <= guard * du.shape[1] * size
        return np.where(level, step_limit(p, du, 0.0, np.inf), 0.0)

    def dual_margin(self, u: Array, size: Array, y: Array) -> Array:
        """Return the largest t in [0, 1], row by row, with ``u +- t size`` in the domain.

        Meant are points whose entries still sum to zero: no probability may fall below zero.
        """
        p, _ = self._probabilities(u, y)
        return step_limit(p, -np.asarray(size, dtype=np.float64), 0.0, np.inf)

    def largest_conjugate(self, u: Array, size: Array, y: Array) -> Array:
        """Return 0, the largest value of the conjugate on its domain, for every row."""
        return np.zeros(len(np.asarray(y)))

    def _probabilities(self, u: Array, y: Array) -> tuple[Array, float]:
        u, y = as_float(u), np.asarray(y)
        guard = 4.0 * float(np.finfo(u.dtype).eps)
        p = u.astype(np.float64)
        p[np.arange(len(y)), y] += 1.0
        return p, guard

    def prox(self, v: Array, step: Array | float, y: Array) -> Array:
        """Return ``argmin_z loss(z, y) + |z - v|^2 / (2 step)``, row by row."""
        v, y = as_float(v), np.asarray(y)
        return self._solve(v, step, y)[0].astype(v.dtype, copy=False)

    def prox_conjugate(self, v: Array, step: Array | float, y: Array) -> Array:
        """Return ``argmin_u conjugate(u, y) + |u - v|^2 / (2 step)``, row by row."""
        v, y = as_float(v), np.asarray(y)
        step = rows(step, v)
        return self._solve(v / step, 1.0 / step, y)[1].astype(v.dtype, copy=False)

    def _solve(self, v: Array, step: Array | float, y: Array) -> tuple[Array, Array]:
        """Return the prox of the loss and the derivative there.

        With ``a = v + step * indicator(y)`` the optimality conditions are
        ``z_c + step p_c = a_c`` and ``p_c = exp(z_c - shift)``. Given the shift, ``step p_c`` is
        Wright's omega at ``a_c + log(step) - shift``, and the shift makes the probabilities sum
        to one: a convex decreasing equation that Newton's method solves from the left, where
        the largest class alone would already have probability one.
        """
        label = np.arange(len(y)), y
        step = np.broadcast_to(rows(step, v), (len(v), 1))
        a = v.astype(np.float64)
        a[label] += step[:, 0]
        shift = a.max(axis=1, keepdims=True) - step
        for _ in range(_MAX_NEWTON):
            omega = wrightomega(a + np.log(step) - shift)
            excess = omega.sum(axis=1, keepdims=True) - step
            change = excess / (omega / (1.0 + omega)).sum(axis=1, keepdims=True)
            shift = shift + change
            if (np.abs(change) <= 1e-15 * np.maximum(1.0, np.abs(shift))).all():
                break
        omega = wrightomega(a + np.log(step) - shift)
        # two forms of z: the difference cancels when omega is large, the log when it is small
        z = np.where(omega > 1.0, np.log(np.maximum(omega, 1.0) / step) + shift, a - omega)
        derivative = omega / omega.sum(axis=1, keepdims=True)
        derivative[label] -= 1.0
        return z, derivative

    def scored(self) -> Multinomial:
        """Return the loss that scores are made of: this one."""
        return self

    def log_likelihood(self, total: float, y: Array, entries: int) -> float:
        """Return the log-likelihood of the labels."""
        return -total

    def mean(self, z: Array) -> Array:
        """Return the probabilities of the classes."""
        return _softmax(as_float(z))

    def probability(self, z: Array) -> Array:
        """Return the probabilities of the classes."""
        return self.mean(z)

    def check_targets(self, y: Array) -> Array:
        """Return ``y`` as integer labels, or say what is wrong with it."""
        y = np.asarray(y)
        if y.dtype.kind not in "biuf":
            raise ValueError(
                f"y has dtype {y.dtype}; Multinomial needs the labels 0, 1, ..., C - 1: use "
                "np.unique(y, return_inverse=True)[1], or the classifier estimators"
            )
        if y.ndim != 1:
            raise ValueError(f"y has shape {y.shape}; Multinomial expects (n,) integer labels")
        check_finite(y)
        labels = y.astype(np.intp)
        if (labels != y).any() or labels.min() < 0:
            raise ValueError(
                "y must hold the labels 0, 1, ..., C - 1 for Multinomial; use "
                "np.unique(y, return_inverse=True)[1], or the classifier estimators"
            )
        if self.n_classes is not None and labels.max() >= self.n_classes:
            raise ValueError(
                f"y has the label {labels.max()} but n_classes is {self.n_classes}; "
                f"use Multinomial(n_classes={labels.max() + 1})"
            )
        return labels

    def n_outputs(self, y: Array) -> int:
        """Return the number of classes C."""
        return self.n_classes if self.n_classes is not None else max(2, int(np.max(y)) + 1)


def _log_of_sum(z: Array) -> Array:
    """Return ``log sum_c exp(z_c)`` of each row, exact to rounding where one entry dominates."""
    largest = z.max(axis=1)
    if not np.isfinite(largest).all():
        return np.asarray(logsumexp(z, axis=1))
    others = np.asarray(z - largest[:, None])
    np.exp(others, out=others)
    others[np.arange(len(z)), z.argmax(axis=1)] = 0.0
    return np.asarray(np.log1p(others.sum(axis=1)) + largest)


def _softmax(z: Array) -> Array:
    # scipy's spends several times as long on the small batches of an inner loop
    p = np.asarray(z - z.max(axis=1, keepdims=True))
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p
