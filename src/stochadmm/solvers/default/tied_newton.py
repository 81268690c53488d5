"""Second-order steps for few rows and thousands of columns that a sparse structure ties.

    min over w   f2(w) + H(S w - o),        S = [-A2 / s; I],  A1 = s I

One sparse factor of L = S'S, made once, carries everything; n rows are a rank-n correction of it
(``docs/design/wide.md``). An epoch

    splits:    over-relaxed ADMM on the second-order model of f2 at w, with the exact systems
               (X'D X + rho L) x = r
    collapses: columns that the prox has tied become levels, w = P v, and Newton's method solves
               the whole problem in the few levels
    certifies: the derivatives there and a multiplier from the same factor, S' mu = -X'u, are a
    dual
               point

The splitting only has to find out which columns are tied; the levels give the last digits of the
point, and with them those of the bound. Without levels (a structure whose rows have three entries
or more) the splitting's own point is taken, along which the objective is minimized.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ...base.capabilities import Has, offers
from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...certificates import (
    clear_free_directions,
)
from ...forms.one_block import OneBlock, dual_scale, one_block
from ...problem import Pair, Problem, objective_at_zero
from ...risk import Evaluation, FiniteSum, loss_of_rows
from ...risk.metrics import column_energies
from ...risk.parts import as_finite_sum
from ...risk.weights import sample_weights
from ...second_order import inside, why_no_form
from ...tied import (
    TIED_OPTIONS,
    Model,
    Pieces,
    Reduced,
    Splitting,
    Structure,
    TiedOptions,
    dual_point,
    factored_rows,
    free_levels,
    levels_of,
)
from .._base import Solver, State, own_state, register, start_point
from .handover import take_over


@dataclass
class TiedState(State):
    """State of the second-order steps on a factored structure."""

    split: Splitting = field(kw_only=True, repr=False)
    w: Array = field(kw_only=True, repr=False)
    """The point in float64."""
    free: list[tuple[Any, Any]] = field(kw_only=True, repr=False)
    """Directions that no penalty sees, as sparse columns."""
    first: bool = True
    """Whether nothing has been done yet."""
    warm: bool = False
    """Whether the start was given: it is collapsed before anything else."""
    damping: float = 0.0
    """Share of the curvature bound in the model, raised when steps fail."""
    model: Model | None = field(default=None, repr=False)
    """The last model of the data term, where it is costly, and"""
    curvature: Array | None = field(default=None, repr=False)
    """the curvatures it was made of."""
    stretch: int = 1
    """Times the usual iterations of the splitting, doubled when an epoch brings little."""
    least: float = np.inf
    """Smallest gap so far,"""
    idle: int = 0
    """and the epochs since it has fallen by a fifth."""
    before: float = np.inf
    """Objective at the beginning of the last step."""
    other: State | None = None
    """State of the method that takes over from steps that do not help."""


@register
@dataclass(frozen=True)
class TiedNewton(Solver[TiedState]):
    """Newton steps through one sparse factor of the structure, and the problem in its levels.

    Parameters
    ----------
    n_inner : int, default=20
        Iterations of the splitting in an epoch: enough to change what is tied.
    relaxation : float, default=1.6
        Over-relaxation of the splitting, between 1 and 2.
    reflections : int, default=30
        Most solves of a certificate.
    most_levels : int, default=1000
        Levels up to which the small problem is solved: its matrices are dense.
    patience : int, default=10
        Epochs that may pass while the gap falls by less than a fifth; then another method goes on.
    most_rows : int, default=3000
        Rows up to which they are a correction of the factor: its matrix is dense.
    most_columns : int, default=6000
        Columns up to which more rows than that are served, by a square matrix of them.
    most_bytes : int, default=2**29
        Bytes of these matrices where they take more than ten times the data: sparse rows of a
        million columns would not fit.
    shift : float, default=1e-7
        Share of the data's diagonal that is added to L where the structure leaves directions free.
    options : TiedOptions
        Numbers that rarely need a change.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((30, 100))
    >>> y = np.sign(X[:, 20:40].sum(axis=1))
    >>> problem = sa.Problem.linear(
    ...     sa.Logistic(),
    ...     X,
    ...     y,
    ...     structure=sa.GridDifferences((10, 10)),
    ...     on_structure=sa.L1(0.02),
    ...     on_coefficients=sa.L1(0.02),
    ...     intercept=True,
    ... )
    >>> sa.minimize(problem, "tied-newton", stop=sa.Gap(1e-8)).status.name
    'CONVERGED'
    """

    name: ClassVar[str] = "tied-newton"
    has_kernel: ClassVar[bool] = False

    n_inner: int = 20
    relaxation: float = 1.6
    reflections: int = 30
    most_levels: int = 1000
    patience: int = 10
    most_rows: int = 3000
    most_columns: int = 6000
    most_bytes: int = 1 << 29
    shift: float = 1e-7
    options: TiedOptions = TIED_OPTIONS

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return why these steps cannot serve a problem, None if they can."""
        f2 = loss_of_rows(problem.f2, Has.CURVATURE)
        if f2 is None:
            return "the loss offers no curvature"
        if f2.n_outputs is not None:
            return "it has several outputs"
        if f2.n_terms > self.most_rows and f2.n_columns > self.most_columns:
            return f"{f2.n_terms} rows and {f2.n_columns} columns are too many for dense matrices"
        if problem.h1 is None and problem.h2 is None:
            return "no penalty"
        workspace = workspace or Workspace()
        reason = why_no_form(problem, workspace)
        if reason is not None:
            return reason
        form = one_block(problem, workspace)
        if not form.mask.any():
            return "no penalty"
        if any(_is_cone(part, rows) for part, rows in form.parts):
            return "a penalty takes multipliers of one sign only"
        needed, given = self._dense_bytes(problem), f2.n_bytes + form.S.nnz * 12
        if needed > max(self.most_bytes, 10 * given):
            return f"dense matrices of its rows would take {needed / 2**30:.1f} GB"
        if not form.structure.has_sparse_gram(self.options.most_entries):
            return "the structure's own matrix is not sparse"
        return None

    def _dense_bytes(self, problem: Problem) -> int:
        """Return the bytes of the dense matrices that the rows are made of."""
        n, d = problem.f2.n_terms, problem.shape2[0]
        return 8 * (2 * n * d + 3 * n * n if n <= self.most_rows else 2 * d * d)

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> TiedState:
        """Factor the structure; on a path that of the strength before is used again."""
        point, multiplier = start_point(problem, x, dual)
        point = inside(problem, point)
        workspace = workspace or Workspace()
        form, f2 = one_block(problem, workspace), as_finite_sum(problem.f2)
        penalty = Pieces.of(form)
        made_of = (
            f2,
            workspace.rows.once(column_energies, f2),
            form.structure,
            form.mask.tobytes(),
            penalty.sigma().tobytes(),
            self.shift,
            f2.n_terms <= self.most_rows,
            self.options,
        )
        passes = 0.0 if workspace.rows.holds(factored_rows, *made_of) else 2.0
        rows = workspace.rows.once(factored_rows, *made_of)
        warm = bool(point.x2.any())
        free = _free_directions(form, rows.structure, workspace)
        if free and not warm:  # begin where nothing is penalized
            at = f2.evaluate_exactly(point.x2.astype(np.float64))
            cleared = clear_free_directions(f2, at, free, deadline=deadline)
            if cleared is not None:
                point = inside(problem, Pair(point.x1, cleared[0].x.astype(problem.dtype)))
        w = point.x2.astype(np.float64)
        cache = replace(f2.evaluate(point.x2), x=point.x2)
        mu = form.project(
            form.from_multiplier(None if dual is None else multiplier, deadline=deadline)
        )
        offset = np.where(form.mask, form.offset, 0.0)
        split = Splitting(
            rows,
            penalty,
            offset,
            rows.structure.S @ w - offset,
            mu,
            1.0,
            self.relaxation,
            max(self.n_inner // 3, 1),
        )
        split.rho = _first_penalty(f2, split, f2.evaluate_exactly(w, cache))
        return TiedState(
            workspace=workspace,
            x=point,
            output=point,
            dual=form.to_multiplier(mu).astype(problem.dtype),
            beta=1.0,
            split=split,
            w=w,
            warm=warm or dual is not None,
            bound=-np.inf,
            cache=cache,
            n_passes=1.0 + passes,
            n_gradients=1.0,
            own_bound=True,
            free=free,
            notes={"bytes": rows.n_bytes + rows.structure.n_bytes},
        )

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Split, collapse, certify."""
        s, f2 = own_state(state, TiedState), as_finite_sum(problem.f2)
        form = one_block(problem, s.workspace)
        if s.idle >= self.patience:
            s.own_bound = s.exact = False
            take_over(problem, s, rng)
            return
        warm, s.first = s.first and s.warm, False
        if warm:  # what is tied there may still be
            self._settle(problem, f2, form, s)
        if not (warm and self._certify(problem, f2, form, s)):
            self._advance(problem, f2, form, s)
            self._certify(problem, f2, form, s)
        s.n_epochs += 1

    def _settle(self, problem: Problem, f2: FiniteSum, form: OneBlock, s: TiedState) -> None:
        """Move to the minimizer in the levels of a given point."""
        s.exact = not s.w.any()  # zero has no levels
        if s.exact:
            return
        at = f2.evaluate_exactly(s.w, s.cache)
        s.n_passes += at.n_passes
        s.before = at.value + problem.penalty(s.output)
        w = self._collapsed(f2, form, s, s.w, s.before)
        if w is not None:
            s.exact = True
            self._move(problem, f2, s, w)

    def _advance(self, problem: Problem, f2: FiniteSum, form: OneBlock, s: TiedState) -> None:
        """Split, collapse, move."""
        at = f2.evaluate_exactly(s.w, s.cache)
        s.n_passes += at.n_passes
        now = s.before = at.value + problem.penalty(s.output)
        near = self._split(f2, s, at)
        w = self._collapsed(f2, form, s, near, now)
        s.exact = w is not None
        if w is None:
            w = self._along(problem, f2, s, at, near, now)
        self._move(problem, f2, s, w)

    # ---------------------------------------------------------------- the three parts

    def _split(self, f2: FiniteSum, s: TiedState, at: Evaluation) -> Array:
        """Return the splitting's point on the model at the present one."""
        loss: Any = f2.loss
        curvature = np.asarray(loss.curvature(at.predictions, f2.y), dtype=np.float64)
        bound = float(loss.curvature_bound)
        bound = bound if np.isfinite(bound) else float(curvature.max(initial=1.0))
        D = _unit(f2) * np.maximum(curvature, max(s.damping, 1e-6) * bound)
        rows = s.split.rows
        if (
            s.model is None
            or not rows.costly
            or (s.stretch > 1 and _differs(D, s.curvature, self.options.model_change))
        ):
            s.model, s.curvature = rows.model(D), D
            s.n_passes += 1.0
        lin = at.gradient - s.model.product(s.w, _linear(f2, at.predictions))
        return s.split.run(s.model, lin, s.w, s.stretch * self.n_inner, deadline=s.deadline)

    def _collapsed(
        self, f2: FiniteSum, form: OneBlock, s: TiedState, near: Array, now: float
    ) -> Array | None:
        """Return the minimizer in the levels of the splitting, None where that is no progress.

        Where its levels alone do not lower the objective, they are joined with those of the
        present point, from which the objective can only fall. Once the gap stays, a point that
        rounding cannot tell from the present one is taken too: an objective feels an error to the
        second order, a certificate to the first.
        """
        if form.offset.any():
            return None
        S = s.split.rows.structure.S
        zero = _zeros(form, s.split.z)
        for joined in (False, True):
            if joined:
                here = np.abs(S @ s.w) <= 1e-14 * np.abs(s.w).max(initial=0.0)
                if here[zero].all():
                    return None  # the same levels again
                zero = zero & here
            levels = levels_of(S, zero)
            if levels is None or levels.count > self.most_levels:
                return None
            small = Reduced.of(f2, form, S, levels)
            s.n_passes += 1.0
            tol = 1e-4 * (1e-6 if s.target is None else s.target)
            v = small.minimize(
                levels.project(s.w if joined else near),
                s.split.mu,
                max(tol, 1e-13),
                self.options,
                deadline=s.deadline,
            )
            if small.value(v) < now + self.options.rounding * abs(now) * (s.idle > 0):
                return np.asarray(levels.P @ v)
        return None

    def _along(
        self,
        problem: Problem,
        f2: FiniteSum,
        s: TiedState,
        at: Evaluation,
        near: Array,
        now: float,
    ) -> Array:
        """Return the first point from the splitting's to the present one that is better."""
        t, first, change = 1.0, np.inf, f2.predict(near) - at.predictions
        s.n_passes += 1.0
        while t > 1e-4:
            w = s.w + t * (near - s.w)
            point = inside(problem, Pair(s.output.x1, w.astype(problem.dtype)), s.workspace)
            value = f2.value_at(at.predictions + t * change) + problem.penalty(point)
            if value < now:
                s.damping = s.damping / 10 if s.damping > 1e-6 else 0.0
                return w
            first = value if t == 1 else first
            t /= 2
        if first - now > s.least:  # not what is left to gain, but what the model does not see
            s.damping = min(1.0, max(10 * s.damping, 1e-2))
        return s.w

    def _move(self, problem: Problem, f2: FiniteSum, s: TiedState, w: Array) -> None:
        """Make w the output, with its pass over the data."""
        point = inside(problem, Pair(s.output.x1, w.astype(problem.dtype)), s.workspace)
        s.w = point.x2.astype(np.float64)
        s.x = s.output = point
        s.cache = replace(f2.evaluate(point.x2), x=point.x2)
        s.n_passes += 1.0
        s.n_gradients += 1.0
        split = s.split
        split.z = split.rows.structure.S @ s.w - split.offset

    def _certify(self, problem: Problem, f2: FiniteSum, form: OneBlock, s: TiedState) -> bool:
        """Improve the bound by derivatives at the output and the factor, and judge it."""
        split = s.split
        structure = split.rows.structure
        at = f2.evaluate_exactly(s.w, s.cache)
        s.n_passes += at.n_passes
        value = at.value + problem.penalty(s.output)
        if structure.shift is not None:
            cleared = clear_free_directions(f2, at, s.free, deadline=s.deadline)
            if cleared is None:
                self._count(s, np.inf)
                return False
            at = cleared[1]
            s.n_passes += 1.0
        scale = max(abs(value), 1e-3 * abs(objective_at_zero(problem, s.workspace)))
        wanted = (1e-6 if s.target is None else s.target) * scale
        # a point that no longer moves has the solution's levels: the rest is the bound's to gain
        o = self.options
        still = s.before - value <= o.still * wanted
        options = replace(o, hopeless=np.inf) if still else o
        found = dual_point(
            f2,
            form,
            structure,
            split.penalty,
            at,
            split.mu,
            self.reflections,
            value - o.enough * wanted,
            options,
            deadline=s.deadline,
            workspace=s.workspace,
        )
        split.mu = found.mu
        if s.bound is None or found.point.bound > s.bound:
            s.bound = found.point.bound
        self._count(s, value - s.bound)
        s.dual = form.to_multiplier(split.mu).astype(problem.dtype)
        unit = float(structure.sigma[form.rows1].mean()) if problem.constrained else 1.0
        s.beta = split.rho * unit / (form.scale1 or 1.0) ** 2
        return s.target is not None and value - s.bound <= wanted

    def _count(self, s: TiedState, gap: float) -> None:
        """Count the epochs without progress."""
        s.idle = 0 if gap < 0.8 * s.least else s.idle + 1
        s.stretch = 1 if gap < self.options.little * s.least else 2 * s.stretch
        s.stretch = min(s.stretch, self.options.most_stretch)
        s.least = min(gap, s.least)


def _differs(D: Array, before: Array | None, share: float) -> bool:
    """Say whether curvatures have changed by so much that a model is worth making again."""
    return before is None or bool(np.abs(D - before).sum() > share * before.sum())


def _linear(f2: FiniteSum, predictions: Array) -> Array:
    """Return predictions without the offset."""
    return predictions if f2.offset is None else predictions - f2.offset


def _is_cone(part: Any, rows: slice) -> bool:
    """Say whether zero is at the edge of the dual set: no factor leads back into it."""
    probe = np.random.default_rng(0).standard_normal(rows.stop - rows.start)
    inside = part.project_dual(probe) if offers(part, Has.PROJECT_DUAL) else probe
    return any(dual_scale(part, sign * np.where(inside == 0, 0.0, probe)) == 0 for sign in (1, -1))


def _unit(f2: FiniteSum) -> Any:
    """Return the weight of every row's term in f2."""
    q = sample_weights(f2)
    return (1.0 if q is None else q) / f2.n_terms


def _zeros(form: OneBlock, z: Array) -> Array:
    """Return the rows that their penalty holds at zero."""
    out = np.zeros(z.shape, dtype=bool)
    for part, rows in form.parts:
        own = z[rows]
        out[rows] = part.zeros(own) if offers(part, Has.ZEROS) else own == 0
    return out & form.mask


def _free_directions(
    form: OneBlock, structure: Structure, workspace: Workspace
) -> list[tuple[Any, Any]]:
    """Return the directions that no penalty sees, as sparse columns."""
    if structure.shift is None:
        return []
    free = workspace.rows.once(free_levels, structure.S)
    return form.null_directions() if free is None else free


def _first_penalty(f2: FiniteSum, split: Splitting, at: Evaluation) -> float:
    """Return the ratio of the data's curvature to the structure's along L^-1 times the gradient.

    From a given start it is the ratio of multiplier and structure.
    """
    root = np.sqrt(split.rows.structure.sigma)
    size, pull = float(np.linalg.norm(root * split.z)), float(np.linalg.norm(split.mu / root))
    if size > 0 and pull > 0:
        return pull / size
    p = split.rows.structure.solve(-at.gradient)
    ahead = np.asarray(f2.predict(p.astype(f2.dtype)), dtype=np.float64)
    ahead = ahead if f2.offset is None else ahead - f2.offset
    loss: Any = f2.loss
    curved = float((_unit(f2) * loss.curvature(at.predictions, f2.y)) @ ahead**2)
    length = float(-at.gradient @ p)
    return curved / length if curved > 0 and length > 0 else 1.0
