"""Second-order models of the data term: Hessians, exact line searches, small problems.

A model of f2 around x is  f2(x) + <g, w - x> + 1/2 <w - x, H (w - x)>. H lies between the Hessian
(share 0) and a matrix that makes the model an upper bound (share 1), so that raising the share of
the bound always ends in descent: losses with flat pieces need no other safeguard.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...base.protocols import Array
from ...losses import Squared
from ...operators import Identity
from ...operators import Scaled as ScaledOperator
from ...penalties import Zero
from ...problem import Pair, Problem
from ...quadratic import minimize_quadratic
from ...risk import Evaluation, FiniteSum
from ...risk.metrics import LARGEST_DENSE

NEEDS = ("gram", "predict", "slopes", "pull_back", "value_at", "curvature", "curvature_apply")
FIRST_SHARE, LEAST_SHARE = 1e-3, 1e-7
COUPLED = 1500
"""Numbers in x2 up to which outputs with Hessians of their own are treated as one vector."""


def is_quadratic(problem: Problem) -> bool:
    """Say whether f2 is a quadratic function."""
    return isinstance(getattr(problem.f2, "loss", None), Squared)


def check_dense(problem: Problem, name: str) -> None:
    """Raise when a d x d matrix would be too large."""
    d = problem.shape2[0]
    if d > LARGEST_DENSE:
        raise ValueError(
            f"{name} works with {d} x {d} matrices; use 'acc-sadmm' above {LARGEST_DENSE} columns"
        )


def square_size(problem: Problem) -> int:
    """Return the numbers in H, outputs with Hessians of their own included."""
    entries = math.prod(problem.shape2)
    coupled = entries <= COUPLED and not is_quadratic(problem)
    return int(entries if coupled else problem.shape2[0]) ** 2


# ---------------------------------------------------------------- the data term


def hessian(f2: FiniteSum, predictions: Array, share: float = 0.0) -> tuple[Array, int]:
    """Return H for the variable (d,) or (d, C), and how often the rows were read.

    A (d, d) matrix serves all outputs alike; otherwise it has all entries in row-major order.
    """
    loss: Any = f2.loss
    d, C, bound = f2.n_columns, f2.n_outputs, float(loss.curvature_bound)
    entries = f2.weight is not None and f2.weight.ndim == 2
    if C is None:
        curvature = loss.curvature(predictions, f2.y).astype(np.float64)
        return f2.gram(_mixed(curvature, bound, share)), 1
    if d * C > COUPLED or (isinstance(loss, Squared) and not entries):
        return bound * f2.gram(), 1
    H, reads = np.zeros((d, C, d, C)), 0
    for a in range(C):
        unit = np.zeros_like(predictions)
        unit[:, a] = 1
        rows = f2.weighted(loss.curvature_apply(predictions, f2.y, unit)).astype(np.float64)
        if f2.row_weight is not None:  # gram multiplies by them
            rows /= np.where(f2.row_weight > 0, f2.row_weight, 1)[:, None]
        for c in range(a, C):
            values = _mixed(rows[:, c], bound if c == a else 0.0, share)
            for sign in (1.0, -1.0):
                part = np.maximum(sign * values, 0.0)
                if part.any():
                    H[:, a, :, c] += sign * f2.gram(part)
                    reads += 1
            H[:, c, :, a] = H[:, a, :, c]
    return H.reshape(d * C, d * C), reads


def _mixed(curvature: Array, bound: float, share: float) -> Array:
    return (1 - share) * curvature + share * bound if np.isfinite(bound) else curvature


def next_share(share: float, t: float) -> float:
    """Return the share of the bound after a step of length t along the model's minimizer."""
    return max(LEAST_SHARE, share / 10) if t == 1 else min(1.0, 10 * share)


def at_predictions(f2: FiniteSum, x: Array, z: Array) -> Evaluation:
    """Return the snapshot at x, whose predictions are known: one read of the rows."""
    u = f2.derivative(z)
    gradient = (f2.pull_back(f2.weighted(u)) / f2.n_terms).astype(f2.dtype, copy=False)
    return Evaluation(x, f2.value_at(z), gradient, z, u)


def rounding(dtype: Any) -> float:
    """Return the relative change of a value below which rounding decides.

    A value is a sum over rows whose terms are rounded to the type of the data; 64 units leave room
    for the sums inside a prediction, and are 1.4e-14 in float64, 7.6e-6 in float32.
    """
    return 64 * float(np.finfo(dtype).eps)


def line_search(
    value: Callable[[float], float], now: float, decrease: float, relative: float
) -> float:
    """Return the largest of 1, 1/2, 1/4 ... with value(t) <= now + t decrease / 1000, or 0.

    ``relative`` is the rounding of the values.
    """
    t, slack = 1.0, relative * abs(now)
    for _ in range(30):
        if value(t) <= now + 1e-3 * t * min(decrease, 0.0) + slack:
            return t
        t /= 2
    return 0.0


def factor(matrix: Array) -> Array:
    """Return a lower Cholesky factor; a ridge of rounding's size keeps flat directions still."""
    lifted = matrix.copy()
    lifted.flat[:: len(matrix) + 1] += 1e-13 * max(float(np.trace(matrix)) / len(matrix), 1e-300)
    return np.asarray(cho_factor(lifted, lower=True, overwrite_a=True)[0])


def solve(lower: Array, right: Array) -> Array:
    """Solve for the shape of ``right``, with a matrix for every output or for all entries."""
    tall = right if len(lower) == len(right) else right.ravel()
    return np.asarray(cho_solve((lower, True), tall)).reshape(right.shape)


def apply(matrix: Array, x: Array) -> Array:
    """Multiply likewise."""
    return np.asarray(matrix @ (x if len(matrix) == len(x) else x.ravel())).reshape(x.shape)


def widen(gram: Array, like: Array) -> Array:
    """Return a (d, d) matrix for all entries when ``like`` is one."""
    return gram if gram.shape == like.shape else np.kron(gram, np.eye(len(like) // len(gram)))


# ---------------------------------------------------------------- one block


@dataclass(frozen=True)
class OneBlock:
    """The problem in x2 alone, f2(w) + h1(A w - b) + h2(w), where A1 = scale I."""

    A: Any
    h1: Any
    h2: Any
    b: Array | None
    scale: float

    @classmethod
    def of(cls, problem: Problem, name: str) -> OneBlock:
        """Eliminate x1, or say why that is impossible."""
        if problem.A1 is None:
            h = Zero() if problem.h2 is None else problem.h2
            return cls(Identity(problem.shape2[0]), h, None, None, -1.0)
        if problem.f1 is not None:
            raise ValueError(f"{name} needs f1 absent; use 'acc-sadmm', which steps along f1")
        if not isinstance(problem.A1, Identity) or problem.A1.scale == 0:
            raise ValueError(
                f"{name} needs A1 = scale * identity, such as Identity(p, scale=-1.0); use "
                "'acc-sadmm', which takes any A1"
            )
        scale = float(problem.A1.scale)
        A = problem.A2 if scale == -1 else ScaledOperator(problem.A2, -1 / scale)
        b = None if problem.b is None else problem.b / -scale
        return cls(A, Zero() if problem.h1 is None else problem.h1, problem.h2, b, scale)

    def minimize(
        self, problem: Problem, H: Array, gradient: Array, at: Pair, dual: Array,
        tol: float, penalty: float | None,
    ) -> tuple[Pair, Array, float]:  # fmt: skip
        """Return the minimizer of the model around ``at``, its multiplier, the inner penalty."""
        found = minimize_quadratic(
            H, gradient.astype(np.float64), at.x2.astype(np.float64), self.A, self.h1, self.h2,
            b=self.b, dual=-self.scale * dual if problem.constrained else None, tol=tol,
            penalty=penalty,
        )  # fmt: skip
        x2 = found.w.astype(problem.dtype)
        if not problem.constrained:
            return Pair(at.x1, x2), dual, found.penalty
        multiplier = (found.dual / -self.scale).astype(problem.dtype)
        return Pair(found.z.astype(problem.dtype), x2), multiplier, found.penalty
