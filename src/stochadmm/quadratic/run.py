"""One solution of the small problem in progress: the splitting, and when Newton takes over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from ..base.capabilities import Has, offers
from ..base.clock import Deadline
from ..base.protocols import Array
from ..kernels.extension import available
from .newton import augmented_lagrangian, column_view
from .options import QuadraticOptions
from .parts import shifted_inverse, tall, top

if TYPE_CHECKING:
    from .model import QuadraticModel

M = TypeVar("M")
"""A matrix, or an operator that is only multiplied with."""


class Run(Generic[M]):
    """One solution in progress, relative to the center so that small steps are exact."""

    has_matrix: ClassVar[bool] = True
    """Whether H is a matrix, which the compiled splitting and Newton's method need."""

    def __init__(
        self,
        model: QuadraticModel,
        H: M,
        c: Array,
        center: Array,
        w: Array,
        mu: Array,
        tol: float,
        deadline: Deadline,
    ) -> None:
        self.model, self.H, self.tol, self.deadline = model, H, tol, deadline
        diagonal, o = self.diagonal(), model.options
        trace = float(diagonal.sum())
        self.center = tall(center)
        self.c = tall(c)
        self.step = np.ascontiguousarray(tall(w) - self.center)
        self.at_center = model.S @ self.center - tall(model.b)
        self.shift = np.ascontiguousarray(-self.at_center)
        self.dual = np.ascontiguousarray(tall(mu))
        self.image = np.ascontiguousarray(self.at_center + model.S @ self.step)
        self.primal = self.stationary = np.inf
        self.n_iter = 0
        self.next_newton = o.patience
        self.penalty = 1.0
        # sizes below which a number is zero for the relative residuals
        self.force = max(top(self.c), 1e-300)
        reach = self.force / max(float(diagonal.max(initial=0.0)), 1e-300)
        self.length = max(top(self.at_center), min(reach, 1.0), 1e-300)
        self.far = o.far * max(top(self.center), top(self.step), min(reach, 1.0))
        self.unbounded = False
        size = trace if trace > 0 else model.gram_trace  # no row may see any column
        self.ridge = o.ridge * max(size, np.finfo(float).tiny) / len(diagonal)
        self.usual = trace / max(model.gram_trace, 1e-300)

    def diagonal(self) -> Array:
        """Return the diagonal of H, or of what resembles it."""
        raise NotImplementedError

    def times(self, step: Array) -> Array:
        """Return H times a step."""
        raise NotImplementedError

    def inverse(self) -> Any:
        """Return what solves the systems of the splitting, or nearly so."""
        raise NotImplementedError

    def solved(self, inverse: Any, right: Array, left: Array) -> Array:
        """Solve the system of one iteration; ``left`` is what the last one left."""
        raise NotImplementedError

    @property
    def w(self) -> Array:
        """The minimizer, in the shape of the center."""
        return np.asarray((self.center + self.step).reshape(self.model.shape))

    @property
    def z(self) -> Array:
        """The structure of the minimizer as the prox leaves it."""
        return self.image.reshape(self.model.b.shape)

    @property
    def mu(self) -> Array:
        """The multiplier."""
        return self.dual.reshape(self.model.b.shape)

    @property
    def residual(self) -> float:
        """The larger of the relative residuals."""
        finite = math.isfinite(self.primal) and math.isfinite(self.stationary)
        return max(self.primal, self.stationary) if finite else math.inf

    def choose_penalty(self, given: float | None) -> None:
        """Start from a penalty that is given, or from the sizes of multiplier and structure."""
        usual = self.usual
        size, pull = float(np.linalg.norm(self.image)), float(np.linalg.norm(self.dual))
        guess = 0.1 * usual if usual > 0 else 1.0
        if given is not None:
            guess = given
        elif size > 0 and pull > 0:
            guess = pull / size
        self.penalty = float(np.clip(guess, 1e-7 * usual, 1e4 * usual)) if usual > 0 else guess
        self.usual = usual if usual > 0 else max(guess, 1.0)

    def solve(self, max_iter: int) -> None:
        """Go on until both residuals are at most ``tol``."""
        can_newton = self.model.views is not None and self.has_matrix
        can_compile = self.model.loop_views is not None and self.has_matrix and available()
        splitting = self._compiled if can_compile else self._python
        stretch = max(50, len(self.step) // 8)  # a new penalty costs about so many iterations
        near = max(self.tol, self.model.options.near) if can_newton else self.tol
        best = Best(self.model.options)
        while self.n_iter < max_iter and self.residual > self.tol:
            if can_newton and (self.residual <= near or self.n_iter >= self.next_newton):
                if self.residual <= near:
                    near = self.tol  # if this does not do, the splitting goes on alone
                self._newton()
                self.next_newton = 2 * self.n_iter + 50
                if self.unbounded or self.residual <= self.tol:
                    break
            before, was = self.n_iter, self.penalty
            splitting(self.inverse(), min(stretch, max_iter - self.n_iter), near)
            if self.residual <= self.tol:
                self._measure()  # the inverse may be worth less than it seems
                if near == self.tol:
                    break
            if not top(self.step) <= self.far:
                self.unbounded = True
                break
            if self.deadline.passed() or best.stands_still(self):
                break
            self.balance()
            if self.penalty == was:
                stretch = max(stretch, self.n_iter - before)
        if self.unbounded:
            self.primal = np.inf

    def _measure(self) -> None:
        """Measure stationarity from its definition."""
        pull = self.model.St @ self.dual
        self.stationary = top(self.c + self.times(self.step) + pull) / max(top(pull), self.force)

    def balance(self) -> None:
        """Move the penalty towards equal residuals, each in the unit of its own side.

        Multipliers of rows that say the same may cancel: their own size then is the unit.
        """
        length, St = top(self.image), self.model.St
        alone = self.model.options.cancelled * top(abs(St) @ np.abs(self.dual))
        force = max(top(St @ self.dual), alone)
        primal = self.primal * max(length, self.length) * force
        stationary = self.stationary * max(force, self.force) * length
        if primal > 0 and stationary > 0:
            ratio = float(np.clip(np.sqrt(primal / stationary), 0.1, 10.0))
            if ratio > 2 or ratio < 0.5:
                new = self.penalty * ratio
                self.penalty = float(np.clip(new, 1e-9 * self.usual, 1e6 * self.usual))

    def project_dual(self) -> None:
        """Remove what rounding puts outside the dual set, and measure the rest again."""
        if offers(self.model.h, Has.PROJECT_DUAL):
            self.dual = tall(self.model.h.project_dual(self.mu))
            self._measure()

    # ---------------------------------------------------------------- splitting

    def _compiled(self, inverse: Array, n_iter: int, tol: float) -> None:
        from ..kernels.quadratic import Splitting, splitting

        assert self.model.loop_views is not None
        problem = Splitting(
            *self.model.loop_views,
            np.ascontiguousarray(inverse),
            -self.c,
            self.shift,
            self.step,
            self.image,
            self.dual,
            self.penalty,
            self.model.options.relaxation,
            n_iter,
            10,
            tol,
            self.length,
            self.force,
        )
        done, self.primal, self.stationary = splitting(problem)
        self.n_iter += done

    def _python(self, inverse: Any, n_iter: int, tol: float) -> None:
        """Run the loop of ``kernels.quadratic.splitting`` on any penalty, and on NumPy."""
        S, St, penalty = self.model.S, self.model.St, self.penalty
        shape, left = self.model.b.shape, np.full_like(self.step, np.inf)
        relaxation = self.model.options.relaxation
        for k in range(n_iter):
            pull = penalty * (self.image + self.shift) - self.dual
            self.step = self.solved(inverse, St @ pull - self.c, left)
            image = S @ self.step - self.shift
            exact = self.dual + penalty * (image - self.image)
            mixed = relaxation * image + (1 - relaxation) * self.image
            ahead = mixed + self.dual / penalty
            self.image = tall(self.model.h.prox(ahead.reshape(shape), 1 / penalty))
            self.dual = penalty * (ahead - self.image)
            left = St @ (self.dual - exact)
            self.n_iter += 1
            if (k + 1) % 10 == 0 or k + 1 == n_iter:
                self.primal = top(image - self.image) / max(top(image), self.length)
                self._measure()
                if self.residual <= tol or self.deadline.passed():
                    break

    # ---------------------------------------------------------------- Newton

    def _newton(self) -> None:
        """Run the augmented Lagrangian, output by output where there are several."""
        assert self.model.views is not None
        S, h = self.model.views
        outputs = self.c.shape[1]
        if outputs > 1 and h.kinds.any():
            return
        kept = (self.step.copy(), self.image.copy(), self.dual.copy())
        primal = stationary = 0.0
        for column in range(outputs):
            view = h if outputs == 1 else column_view(h, column, outputs)
            found = augmented_lagrangian(self, S, view, column)
            primal, stationary = max(primal, found[0]), max(stationary, found[1])
        if max(primal, stationary) < self.residual:
            self.primal, self.stationary = primal, stationary
        else:
            self.step, self.image, self.dual = kept


class Best:
    """Remembers the best point of a run, and sees when rounding lets it get no better."""

    def __init__(self, options: QuadraticOptions) -> None:
        self.options, self.residual, self.idle = options, np.inf, 0
        self.point: tuple[Any, ...] = ()

    def stands_still(self, run: Run[Any]) -> bool:
        """Say whether a run has come to rest; it is then back at its best point."""
        o = self.options
        if run.residual > o.least and not self.point:
            return False
        if run.residual < o.gain * self.residual:
            self.residual, self.idle = run.residual, 0
            self.point = (
                run.step.copy(),
                run.image.copy(),
                run.dual.copy(),
                run.primal,
                run.stationary,
                run.penalty,
            )
            return False
        self.idle += 1
        if self.idle < o.idle:
            return False
        run.step, run.image, run.dual, run.primal, run.stationary, run.penalty = self.point
        return True


class MatrixRun(Run[Array]):
    """A solution in progress with a matrix H."""

    def diagonal(self) -> Array:
        """Return the diagonal of H."""
        return np.diag(self.H)

    def times(self, step: Array) -> Array:
        """Return H times a step."""
        return np.asarray(self.H @ step)

    def inverse(self) -> Array:
        """Return (H + penalty S'S)^-1."""
        model = self.model
        return model.workspace.latest(
            shifted_inverse, self.H, model.gram(), self.penalty, self.ridge
        )

    def solved(self, inverse: Array, right: Array, left: Array) -> Array:
        """Multiply with the inverse.

        The compiled loop leaves the digits that a ridge costs to Newton's method.
        """
        if self.model.options.anchored:
            right = right + self.ridge * self.step
        return np.asarray(inverse @ right)
