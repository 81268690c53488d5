"""Stochastic ADMM (STOC-ADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

H. Ouyang, N. He, L. Tran, A. Gray, "Stochastic Alternating Direction Method of Multipliers",
ICML 2013.

Code and paper: 1 / w_k = eta_{k+1} (the step), dual = lam = -lambda, ergodic = the bars.

One step, with g the gradient of a batch at x2:

    exact       x2+ = x2 - (w_k I + beta A2'A2)^-1 (g + A2'(lam + beta (A1 x1 + A2 x2 - b)))
    linearized  x2+ = prox of h2 after the step 1 / (w_k + beta |A2|^2) along the same vector

then x1 and the multiplier as in ADMM. The exact form is the paper's; the linearized one is what
the ACC-SADMM paper compares with, and takes any h2. Steps:

    "smooth"  w_k = L + c sqrt(k)         smooth losses
    "sqrt"    w_k = max(L, c sqrt(k))     general convex: eta_0 = 1 / c, capped where it is unsafe
    "strong"  w_k = L + c k               strongly convex with modulus c

The expected objective gap and infeasibility of the uniform average are O(1 / sqrt(K)), and
O(log K / K) under strong convexity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...base.protocols import Array
from ...base.validation import Unsuitable
from ...problem import Problem
from .._base import register
from ._stochastic import FreshBatches, FreshState, Plan, check_eigen, structure_eigen

FORMS = ("linearized", "exact")
STEPS = ("smooth", "sqrt", "strong")


@register
@dataclass(frozen=True)
class StocADMM(FreshBatches[FreshState]):
    """STOC-ADMM: stochastic ADMM without variance reduction (Ouyang et al., 2013).

    Parameters
    ----------
    step : {"smooth", "sqrt", "strong"}
        How step sizes shrink: ``1 / (w_k + beta |A2|^2)`` in step k, with w_k = L + c sqrt(k) for
        smooth losses, max(L, c sqrt(k)), or L + c k for losses strongly convex with modulus c.
    form : {"linearized", "exact"}
        Whether the x2 step linearizes the quadratic penalty of the constraint, or solves for it
        with A2'A2 as in the paper.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = X[:, :2].sum(axis=1) + 0.1 * rng.standard_normal(200)
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(5), on_structure=sa.L1(0.1)
    ... )
    >>> sa.minimize(problem, sa.solvers.StocADMM(batch_size=10), max_passes=40).coef.round(1)
    array([0.9, 0.9, 0. , 0. , 0. ])
    """

    name: ClassVar[str] = "stoc-admm"

    step: str = "smooth"
    form: str = "linearized"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step not in STEPS:
            raise ValueError(f"step is {self.step!r}, expected one of {', '.join(STEPS)}")
        if self.form not in FORMS:
            raise ValueError(f"form is {self.form!r}, expected 'linearized' or 'exact'")
        if self.step == "strong" and self.growth == "auto":
            raise ValueError("step='strong' needs growth: the modulus of strong convexity")

    def check(self, problem: Problem) -> None:
        """Raise when the problem lacks something this method needs."""
        super().check(problem)
        if self.form == "exact":
            if problem.h2 is not None:
                raise Unsuitable(
                    "form='exact' of stoc-admm needs h2 absent; use form='linearized', or stack "
                    "the penalty of the coefficients into the structure"
                )
            check_eigen(problem)

    def capped(self) -> bool:
        """Say whether the weights of the steps are c sqrt(k) with a floor, not a sum."""
        return self.step == "sqrt"

    def weights(self, s: FreshState, k: Array) -> Array:
        """Return w_k."""
        if self.step == "strong":
            return s.curvature + s.growth * k
        return super().weights(s, k)

    def move(
        self, p: Problem, s: FreshState, multiplier: Array, gradient: Array, plan: Plan, k: int
    ) -> Array:
        """Return the next x2."""
        if self.form == "linearized":
            return super().move(p, s, multiplier, gradient, plan, k)
        if p.A2 is not None:
            gradient = gradient + p.A2.rmatvec(multiplier)
        vectors, values = structure_eigen(p, s.workspace)
        weights = float(plan.weights[k]) + s.beta * values
        turned = vectors.T @ gradient
        shape = (-1,) + (1,) * (turned.ndim - 1)
        return (s.x.x2 - vectors @ (turned / weights.reshape(shape))).astype(p.dtype, copy=False)

    def extras(self, p: Problem, s: FreshState) -> dict[str, Array]:
        """Return the eigenvectors and eigenvalues of the exact form."""
        if self.form == "linearized":
            return {}
        vectors, values = structure_eigen(p, s.workspace)
        turned = np.ascontiguousarray(vectors.T)
        return {
            "rotation": vectors.astype(p.dtype),
            "turned": turned.astype(p.dtype),
            "spectrum": values.astype(p.dtype),
        }
