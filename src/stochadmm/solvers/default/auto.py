"""The automatic solver: nothing to choose, and it says what it chose.

Small problems are solved in one compiled call. Second-order steps from samples of rows serve most
others. Quadratic losses take the whole Gram
matrix once. Where columns are many and most of them stay at zero, a few at a time are worked on.
More columns than rows that a sparse structure ties go through one factor of it and their levels.
A general constraint is eliminated first, and what is left is chosen for. Problems that no model
fits (operators without a matrix, many rows with tied columns by the thousand) go to ACC-SADMM with
restarts, or to SDCA-ADMM when there are fewer rows than columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from ...base.capabilities import Has
from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...forms.elimination import Elimination
from ...forms.independent_rows import IndependentRows
from ...forms.small import ends_exactly
from ...forms.structure import LIMITS
from ...problem import Pair, Problem
from ...quadratic import DEFAULTS
from ...risk import FiniteSum, StreamedSum, loss_of_rows
from .._base import AnySolver, Solver, State, choose_engine, get, register, start_point
from ..newton import Newton
from .handover import go_on
from .low_rank_newton import LowRankNewton
from .small import Small, SmallState

ROUTES = {"newton": "sampled-newton"}
"""Routes whose method has a longer name."""

SMALL = ("small", "a small problem: one compiled call")
"""The route of small problems, and its reason."""

Rows = Iterator[tuple[str, bool, str | Callable[[], str]]]
"""Routes in the order of preference: when each is asked for, and the reason in words."""

UNASKED = ("acc-sadmm", "sdca-admm")
"""Routes that are taken because no other will do."""


@dataclass
class EliminatedState(State):
    """State of a method that works on the problem in other variables."""

    view: Elimination | IndependentRows = field(kw_only=True, repr=False)
    """The problem without its constraint, or with the rows of its structure as variables."""
    inner: State = field(kw_only=True)
    reads: float = 0.0
    """Of the rows as they are, beside those in the coordinates of the feasible set."""


@register
@dataclass(frozen=True)
class Auto(Solver[State]):
    """The automatic solver: chooses the method and its parameters from the problem.

    Parameters
    ----------
    route : str, default="auto"
        Any value other than "auto" forces a method:

        * "small": small problems, one compiled call;
        * "newton": proximal Newton steps, the Hessian from a sample of rows;
        * "gram": the Gram matrix of a quadratic loss;
        * "low-rank-gram", "low-rank-newton": the same two with a nuclear norm;
        * "coordinate-newton": sparse rows, many columns or outputs, and an l1 norm; a few dense
          rows where outputs are coupled;
        * "few-columns", "working-set": a working set of columns, in one compiled call or in Newton
          steps;
        * "tied-newton": one factorization of a sparse structure, and the levels of tied columns;
        * "streamed-newton": Newton steps on rows that are read from a source;
        * "sdca-admm": steps in the dual variables of few rows;
        * "acc-sadmm": variance-reduced mini-batches.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 8))
    >>> y = np.sign(X[:, :4].sum(axis=1) + 0.5 * rng.standard_normal(500))
    >>> problem = sa.Problem.linear(
    ...     sa.Logistic(), X, y, structure=sa.Differences(8), on_structure=sa.L1(0.01)
    ... )
    >>> result = sa.minimize(problem, stop=sa.Gap(1e-8))
    >>> result.status.name, result.info["route"]
    ('CONVERGED', 'small')
    """

    name: ClassVar[str] = "auto"
    needs_no_rows: ClassVar[bool] = True
    has_kernel: ClassVar[bool] = True
    again: ClassVar[bool] = False
    """Whether one compiled call was made and has not ended with the answer."""

    route: str = "auto"

    def choose(
        self,
        problem: Problem,
        workspace: Workspace | None = None,
        small: bool = True,
        again: bool = False,
    ) -> tuple[str, str]:
        """Return the route and the reason, in words.

        ``small`` allows for the small one; ``again`` says that a route in one call was taken.
        """
        if self.route != "auto":
            return self.route, "asked for"
        workspace = workspace or Workspace()
        if small and _is_small(problem, workspace):
            return SMALL
        for rows in (self._by_penalty, self._by_size):
            for route, asked, reason in rows(problem, workspace, again):
                if asked and _serves(route, problem, workspace):
                    return route, reason() if callable(reason) else reason
            view = _view(problem, workspace, again)
            if view is not None:
                route, why = self.choose(view.reduced, workspace)
                return route, f"{view.reason}; {why}"
        raise AssertionError("acc-sadmm serves every problem")

    def _by_penalty(self, problem: Problem, workspace: Workspace, again: bool) -> Rows:
        """Yield what a source, a nuclear norm or single entries of sparse rows lead to."""
        d = problem.shape2[0]
        large = math.prod(problem.shape2) > DEFAULTS.flatten  # more than a matrix has room for
        from_source = isinstance(problem.f2, StreamedSum)
        yield "streamed-newton", from_source, "rows are read from their source: few passes"
        known = "a squared loss with a nuclear norm: the Gram matrix is enough"
        yield "low-rank-gram", loss_of_rows(problem.f2, Has.SQUARE) is not None, known
        yield "low-rank-newton", large, partial(LowRankNewton().plan, problem)
        # 2 to 60 times as fast as others from 1,000 columns on, level with them at 400 to 600
        many = large or d >= 1000
        yield "coordinate-newton", many, "coefficients held one by one: sweeps over columns"

    def _by_size(self, problem: Problem, workspace: Workspace, again: bool) -> Rows:
        """Yield what numbers of rows and columns lead to."""
        n, d = problem.f2.n_terms, problem.shape2[0]
        sparse = _few_columns_matter(n, d)
        held = f"{d} columns, each of which a penalty can hold at zero"
        yield "few-columns", sparse and not again, f"{held}: one compiled call"
        yield "working-set", sparse, held
        # from 300 columns on a sparse factor is cheaper than square matrices
        tied = d >= (300 if n < d else LIMITS.dense + 1)
        yield "tied-newton", tied, f"{n} rows, {d} columns tied by a sparse structure: one factor"
        reason = Newton().why_not(problem, workspace)
        dense = reason is None
        yield "sdca-admm", dense and n < d and d > 2000, f"{n} rows are far fewer than {d} columns"
        squares = "the loss is quadratic: one Gram matrix makes the rows superfluous"
        yield "gram", dense and loss_of_rows(problem.f2, Has.SQUARE) is not None, squares
        if dense and cast(FiniteSum, problem.f2).n_columns > LIMITS.dense:
            yield "newton", True, f"{d} columns: a model from products with some rows"
        yield "newton", dense, f"{d} columns: a {d} x {d} model is cheap"
        yield "sdca-admm", n < d, reason or ""
        yield "acc-sadmm", True, reason or ""

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> State:
        """Return the state of the chosen method."""
        workspace = workspace or Workspace()
        # without its constraint a problem may be small that is not so itself
        small = self.route == "auto" and not self.again and _is_small(problem, workspace)
        view = None
        if self.route == "auto" and not small:
            view = _view(problem, workspace, self.again)
        if view is not None:
            return self._start_inside(view, x, dual, workspace, deadline)
        route, reason = SMALL
        if not small:
            route, reason = self.choose(problem, workspace, small=False, again=self.again)
            reason += ", after one compiled call" if self.again else ""
        solver = _method(route)
        if route in UNASKED or self.route != "auto":  # the others were asked while choosing
            solver.check(problem)
        state: State = solver.start(problem, x, dual, workspace, deadline)
        state.notes |= {"route": route, "reason": reason}
        return state

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Advance the chosen method by one epoch."""
        if isinstance(state, SmallState) and state.n_epochs > 0 and not state.unfinished:
            go_on(problem, state, _AfterOneCall(), rng)
            return
        if not isinstance(state, EliminatedState):
            _method(state.notes["route"]).epoch(problem, state, rng)
            return
        view = state.view
        state.inner.workspace = state.workspace
        state.inner.target, state.inner.deadline = state.target, state.deadline
        self.epoch(view.reduced, state.inner, rng)
        _follow(view, state)

    def _start_inside(
        self,
        view: Elimination | IndependentRows,
        x: Any,
        dual: Array | None,
        workspace: Workspace,
        deadline: Deadline,
    ) -> EliminatedState:
        """Return the state of the method that was chosen for the problem without constraint."""
        point, multiplier = start_point(view.problem, x, dual)
        inside = None if x is None else view.pair(view.down(point))
        pulled, reads = None, 0.0 if view.keeps_x2 else 1.0  # for their new coordinates
        if dual is not None:
            gradient = None
            if "h2" in view.parts:
                gradient, reads = view.problem.f2.gradient(point.x2), reads + 1.0
            pulled = view.down_dual(point, multiplier, gradient)
        inner = Auto().start(view.reduced, inside, pulled, workspace, deadline)
        inner.engine = choose_engine(view.reduced, "auto", workspace=workspace)
        state = EliminatedState(
            x=point,
            output=point,
            dual=multiplier,
            beta=inner.beta,
            view=view,
            inner=inner,
            workspace=inner.workspace,
            reads=reads,
        )
        _follow(view, state)
        return state


@dataclass(frozen=True)
class _AfterOneCall(Auto):
    """The choice where one compiled call has not ended with the answer."""

    again: ClassVar[bool] = True


def _view(
    problem: Problem, workspace: Workspace, again: bool
) -> Elimination | IndependentRows | None:
    """Return the problem in variables that serve it better, None where there are none."""
    if not problem.is_model:
        return Elimination.of(problem, workspace)
    # Differences of order k have the condition number d^k: squared, no digit of float64 is left
    # for d = 150 and k = 3.
    d = problem.shape2[0]
    hard = again or d >= 128 or _few_columns_matter(problem.f2.n_terms, d)
    return IndependentRows.of(problem, workspace) if hard else None


def _few_columns_matter(n: int, d: int) -> bool:
    """Say whether most columns will hardly differ from zero, where a penalty can hold them there.

    They are thousands, or more than one for ten rows: with more rows the square model is cheap.
    """
    return d >= 2000 or (d >= 200 and n < 10 * d)


def _follow(view: Elimination | IndependentRows, state: EliminatedState) -> None:
    """Bring a state to where the method without constraint is."""
    inner, dtype = state.inner, view.problem.dtype
    pair = view.up(inner.output.x2)
    state.x = state.output = Pair(pair.x1.astype(dtype), pair.x2.astype(dtype))
    gradient = None
    if view.needs_gradient:
        gradient, state.reads = view.problem.f2.gradient(state.x.x2), state.reads + 1.0
    mu = inner.dual if view.reduced.constrained else np.zeros((0, *view.problem.shape2[1:]))
    state.dual = view.up_dual(mu.astype(np.float64), gradient).astype(dtype)
    state.beta, state.notes = inner.beta, dict(inner.notes)
    state.notes["reason"] = f"{view.reason}; {inner.notes['reason']}"
    state.bound = view.bound(inner.bound, inner.output.x2)
    state.settled, state.exact = inner.settled, view.keeps_zeros
    state.n_epochs, state.n_gradients = inner.n_epochs, inner.n_gradients
    state.n_passes = inner.n_passes + state.reads


def _is_small(problem: Problem, workspace: Workspace) -> bool:
    suits = Small().why_not(problem, workspace) is None
    return suits and ends_exactly(problem, workspace)


def _serves(route: str, problem: Problem, workspace: Workspace) -> bool:
    method = _method(route)
    if route in UNASKED:
        return route == "acc-sadmm" or method.serves(problem)
    return method.why_not(problem, workspace) is None


def _method(route: str) -> AnySolver:
    return get(ROUTES.get(route, route))()
