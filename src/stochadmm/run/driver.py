"""The only loop over epochs: measuring, stopping, history, interrupts, messages.

Solving and measuring are timed apart. An interrupt at any moment gives back the best point that
was measured, with the state that belongs to the last one; before there is one, the start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..base import engines
from ..base.clock import limited
from ..base.fingerprint import Unidentified, fingerprint
from ..base.workspace import Workspace
from ..cluster import Engine, use
from ..forms.equilibrate import equilibrated
from ..problem import Pair, Problem
from ..risk.metrics import LARGEST_DENSE
from ..solvers import as_solver
from ..solvers._base import Solver, State, choose_engine, start_point
from ..streaming import StreamedSum, as_bytes
from .answer import Measured, Meter, Resumable, finish
from .restore import result_of, start_in
from .result import Record, Result, Status
from .stopping import Gap, Rule

Callback = Callable[[Record, State], Any]
SELDOM = 1.1
"""The next measurement of a method without a certificate of its own is at so many times the epochs
of the last."""
KEEP_COPY_BELOW = 1 << 28  # bytes: larger states are not copied before each epoch
KEPT_TIME = 0.2  # share of the seconds that is kept for a certificate while there is none


def iterate(
    problem: Problem,
    solver: Any = "auto",
    random_state: Any = 0,
    *,
    start: Any = None,
    engine: str = "auto",
) -> Iterator[State]:
    """Yield the state after every epoch, for ever.

    Examples
    --------
    >>> from itertools import islice
    >>> import numpy as np, stochadmm as sa
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), np.eye(4), np.arange(4.0), on_coefficients=sa.L1(0.1)
    ... )
    >>> [state.n_epochs for state in islice(sa.iterate(problem, "acc-sadmm"), 3)]
    [1, 2, 3]
    """
    method = as_solver(solver)
    with engines.engine(engine):
        state = begin(problem, method, start, engine, Workspace())
    rng = np.random.default_rng(random_state)
    while True:
        with engines.engine(engine):
            method.epoch(problem, state, rng)
        yield state


def begin(
    problem: Problem, solver: Solver, start: Any, engine: str, workspace: Workspace
) -> State:
    """Check that a solver can serve a problem and return its first state."""
    if hasattr(solver, "check"):
        solver.check(problem)
    chosen = choose_engine(problem, engine, getattr(solver, "has_kernel", False))
    state = solver.start(problem, *_point_and_dual(start), workspace=workspace)
    state.engine, state.workspace = chosen, workspace
    return state


def _point_and_dual(start: Any) -> tuple[Any, Any]:
    if isinstance(start, Result):
        return start.pair, start.dual
    return start if isinstance(start, tuple) else (start, None)


def minimize(
    problem: Problem,
    solver: Any = "auto",
    *,
    stop: Rule | float | None = None,
    max_passes: float = 100.0,
    max_seconds: float | None = None,
    start: Any = None,
    resume: Result | None = None,
    callback: Callback | None = None,
    random_state: Any = 0,
    engine: str = "auto",
    verbose: bool = False,
    resumable: bool = True,
    memory: int | str | None = None,
    cluster: Engine | None = None,
) -> Result:
    """Solve a problem.

    Ctrl-C ends the run with what it has: the best point measured so far, or the start where none
    was, with the status ``INTERRUPTED``. A certificate of that point may still be computed; Ctrl-C
    again leaves it out.

    Parameters
    ----------
    problem : Problem
        What to minimize.
    solver : str or solver object, default="auto"
        A name from ``solvers.names()`` or an object such as ``AccSADMM(beta=0.1)``.
    stop : stopping rule or float, optional
        ``Gap(1e-6)`` by default; a number is a relative gap.
    max_passes : float, default=100
        Budget in reads of the data.
    max_seconds : float, optional
        Budget in seconds of waiting. Inner loops end early when it is spent, and a certificate
        that would outlast it is not begun: the gap may then be infinite.
    start : array, Pair, (Pair, dual) or Result, optional
        Where to begin; it is copied.
    resume : Result, optional
        Go on with the run that returned it, as if it had not stopped. Problem and method must be
        the same, by their content (see ``stochadmm.base.fingerprint``); stopping rule, limits and
        engine may be others.
    callback : callable, optional
        ``callback(record, state)`` after every measurement; true stops the run.
    random_state : int or Generator, default=0
        Source of the row order.
    engine : {"auto", "compiled", "reference"}
        Compiled loops, readable Python and NumPy only (passes over the data included), or
        compiled where every part allows.
    verbose : bool, default=False
        Show a progress bar.
    resumable : bool, default=True
        Let the result be resumed. It then holds a copy of the method's state, and the data is
        read once more before the run, for its fingerprint and to notice data that was changed in
        place since the last one.
    memory : int or str, optional
        Bytes of our own for rows that are read from a source, such as ``"2GB"``; 256 MiB by
        default.
    cluster : Engine, optional
        Where passes over a source run: ``stochadmm.cluster.Local()``, ``Processes(4)``,
        ``Dask(client)``; threads of this process by default.

    Returns
    -------
    Result
        The best certified point; ``status`` says how the run ended.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 0.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.25))
    >>> sa.minimize(problem).coef.round(6)
    array([2., 0., 0., 0.])
    """
    asked = Request(
        stop, max_passes, max_seconds, start, resume, callback, random_state, engine, verbose,
        resumable,
    )  # fmt: skip
    if memory is not None:
        problem = _within(problem, as_bytes(memory))
    with nullcontext() if cluster is None else use(cluster):
        return solve(problem, solver, asked, Workspace())


@dataclass(frozen=True)
class Request:
    """What ``minimize`` is asked for, beside the problem and the method."""

    stop: Rule | float | None = None
    max_passes: float = 100.0
    max_seconds: float | None = None
    start: Any = None
    resume: Result | None = None
    callback: Callback | None = None
    random_state: Any = 0
    engine: str = "auto"
    verbose: bool = False
    resumable: bool = True


def solve(problem: Problem, solver: Any, asked: Request, workspace: Workspace) -> Result:
    """Solve a problem with what other runs have left in the workspace.

    Paths and folds hand the same one to all their runs; the answer does not depend on it.
    """
    method, rule, start = as_solver(solver), _as_rule(asked.stop), asked.start
    _check_limits(asked.max_passes, asked.max_seconds)
    units = equilibrated(problem)
    if units is not None:
        problem, start = units.problem, start_in(units, start)
    run = Run(
        problem, method, rule, asked.max_passes, asked.max_seconds, asked.callback, start,
        asked.engine, workspace,
    )  # fmt: skip
    if asked.resume is not None:
        run.take_up(asked.resume)
    with engines.engine(run.engine):
        try:
            if asked.resume is None:
                run.set_up(asked.random_state, asked.resumable)
            run.state.target = run.meter.target
            with run.progress(asked.verbose):
                status = run.loop()
        except KeyboardInterrupt:
            status = run.interrupted()
        result = run.result(status)
    return result if units is None else result_of(units, result, rule)


@dataclass
class Run:
    """One call of ``minimize``: clocks, history and the best point so far."""

    problem: Problem
    solver: Solver
    rule: Rule
    max_passes: float
    max_seconds: float | None
    callback: Callback | None
    start: Any = None
    engine: str = "auto"
    workspace: Workspace = field(default_factory=Workspace)
    state: State = field(init=False)
    rng: np.random.Generator = field(init=False)
    history: list[Record] = field(default_factory=list)
    best: Measured | None = None
    meter: Meter = field(init=False)
    began: float = field(default_factory=time.perf_counter)
    solving: float = 0.0
    measuring: float = 0.0
    before: float = 0.0
    """Seconds of the runs that this one resumes."""
    show: Callable[[Record], None] | None = None
    kept: tuple[State, Any] | None = None
    """State and generator before the epoch that is under way, where they are small enough."""
    identity: str = ""
    """Fingerprint of problem and method; empty where the run cannot be resumed."""
    not_resumable: str = "it was run with resumable=False"

    def __post_init__(self) -> None:
        self.meter = Meter(self.problem, self.rule, workspace=self.workspace)

    def set_up(self, random_state: Any, resumable: bool) -> None:
        """Make the first state."""
        self.rng = np.random.default_rng(random_state)
        if resumable:
            self._identify()
        with limited(self.seconds_left):
            self.state = begin(self.problem, self.solver, self.start, self.engine, self.workspace)

    def _identify(self) -> None:
        try:
            self.identity = fingerprint(self.problem.renew(), self.solver)
        except Unidentified as error:
            self.not_resumable = f"a part of it cannot be identified: {error}"

    def take_up(self, resume: Result) -> None:
        """Continue from where a result stopped."""
        remedy = "pass start=result to begin at its point"
        if not isinstance(resume, Result):
            raise TypeError(f"resume is a {type(resume).__name__}, expected a Result; {remedy}")
        if resume.state is None:
            reason = resume.info.get("not_resumable", "one loaded from a file keeps no state")
            raise ValueError(f"this result cannot be resumed ({reason}); {remedy}")
        kept: Resumable = resume.state
        self._identify()
        if self.identity != kept.identity:
            raise ValueError(
                "resume belongs to another problem or method: data, penalties, structure and the "
                f"parameters of the solver must be the same; {remedy}"
            )
        self.state = replace(kept.state.copy(), workspace=self.workspace)
        self.best = kept.best
        self.meter = Meter(self.problem, self.rule, kept.memory, self.workspace)
        if self.engine != "auto":
            has_kernel = getattr(self.solver, "has_kernel", False)
            self.state.engine = choose_engine(self.problem, self.engine, has_kernel)
        else:
            self.engine = kept.engine
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = kept.generator
        self.history = list(resume.history)
        self.before = resume.seconds
        if self.history:
            self.solving = self.history[-1].seconds
            self.measuring = self.history[-1].seconds_measuring

    def loop(self) -> Status:
        """Run epochs until a rule, a limit or the callback says stop."""
        status: Status | None = None
        self._keep()
        if self.best is None:
            self._measure(record=False)
            status = self._rest()
        while status is None:
            self._keep()
            clock = time.perf_counter()
            with limited(self.seconds_left):
                self.solver.epoch(self.problem, self.state, self.rng)
            self.solving += time.perf_counter() - clock
            if self._due():
                status = self._verdict(self._measure())
        return status

    def _keep(self) -> None:
        """Copy the state, so that an epoch that is cut short can be undone."""
        small = _bytes(self.state) < KEEP_COPY_BELOW
        self.kept = (self.state.copy(), self.rng.bit_generator.state) if small else None

    def interrupted(self) -> Status:
        """Go back to the last moment at which everything fitted together."""
        if self.kept is not None:
            self.state, self.rng.bit_generator.state = self.kept
            self.history = [r for r in self.history if r.epoch <= self.state.n_epochs]
            return Status.INTERRUPTED
        self.identity = ""
        if self.best is None:
            self.not_resumable = "it was interrupted before its first epoch"
            x, dual = start_point(self.problem, *_point_and_dual(self.start))
            self.state = State(x=x, output=x, dual=dual, beta=1.0, workspace=self.workspace)
            return Status.INTERRUPTED
        self.not_resumable = (
            f"it was interrupted, and states above {KEEP_COPY_BELOW >> 20} MB are not copied"
        )
        best, last = self.best, self.history[-1:]
        self.state = State(
            x=best.point, output=best.point, dual=best.dual, beta=best.beta,
            ergodic=None, engine=self.state.engine, notes=self.state.notes,
            workspace=self.workspace,
            n_epochs=last[0].epoch if last else 0, n_passes=last[0].passes if last else 0.0,
            n_gradients=last[0].gradients if last else 0.0,
        )  # fmt: skip
        return Status.INTERRUPTED

    def _due(self) -> bool:
        """Say whether to measure: always where it is cheap or watched, else at growing intervals.

        The certificate of many coefficients, or of a general constraint, may cost more than an
        epoch; a tenth more epochs than needed cost less.
        """
        few = self.problem.is_model and math.prod(self.problem.shape2) <= LARGEST_DENSE
        cheap = self.state.bound is not None or few
        if cheap or self.meter.tol is None or self.callback is not None:
            return True
        last = self.history[-1].epoch if self.history else 0
        return self.state.n_epochs >= SELDOM * last or self._limit() is not None

    def _limit(self) -> Status | None:
        if self.state.n_passes >= self.max_passes:
            return Status.MAX_PASSES
        return Status.MAX_TIME if self.seconds_left <= 0 else None

    def _measure(self, record: bool = True) -> Measured:
        clock = time.perf_counter()
        with limited(self.seconds_left):
            measured = self.meter.measure(self.state)
        self.measuring += time.perf_counter() - clock
        if self.best is not None:  # a bound that was found later certifies earlier points too
            self.best = self.meter.judged(self.best, self.state)
        if self.best is None or measured.better_than(self.best):
            self.best = measured.copy()
        if record:
            self.history.append(measured.record(self.state, self.solving, self.measuring))
        return measured

    def _rest(self) -> Status | None:
        """End the run before its first epoch where the start is certified as the answer."""
        clock = time.perf_counter()
        with limited(self.seconds_left):
            found = self.meter.at_rest(self.state)
        self.measuring += time.perf_counter() - clock
        if found is None:
            return None
        self.best = found
        self.history.append(found.record(self.state, self.solving, self.measuring))
        return self._verdict(found)

    def _verdict(self, measured: Measured) -> Status | None:
        record = self.history[-1]
        if self.show is not None:
            self.show(record)
        stop = self.callback is not None and bool(self.callback(record, self.state))
        if not math.isfinite(measured.objective) and not np.isfinite(self.state.output.x2).all():
            return Status.DIVERGED
        if self.best is not None and self.best.meets:
            return Status.CONVERGED
        return Status.STOPPED if stop else self._limit()

    @property
    def seconds(self) -> float:
        """What the user waited."""
        return self.before + time.perf_counter() - self.began

    @property
    def seconds_left(self) -> float:
        """What is left of the time for steps; some is kept for the certificate of the answer."""
        if self.max_seconds is None:
            return math.inf
        certified = self.best is not None and self.best.gap != math.inf
        return (1.0 if certified else 1.0 - KEPT_TIME) * self.max_seconds - self.seconds

    @contextmanager
    def progress(self, verbose: bool) -> Iterator[None]:
        """Show a bar while running, when asked."""
        if not verbose:
            yield
            return
        from .progress import bar

        with bar(self.solver, self.max_passes, self.rule) as show:
            self.show = show
            yield
            self.show = None

    def result(self, status: Status) -> Result:
        """Return the best point with its history."""
        spare = math.inf if self.max_seconds is None else KEPT_TIME * self.max_seconds
        if self.best is None:  # interrupted before the start was measured
            with limited(0.0):
                self._measure(record=False)
                return self._finish(status, as_it_is=True)
        try:
            with limited(max(spare, self.seconds_left)):
                return self._finish(status)
        except KeyboardInterrupt:
            return self._finish(Status.INTERRUPTED, as_it_is=True)

    def _finish(self, status: Status, as_it_is: bool = False) -> Result:
        assert self.best is not None
        about = {
            "seconds_solving": self.solving,
            "seconds_measuring": self.measuring,
            "solver": getattr(self.solver, "name", type(self.solver).__name__),
            "threads": getattr(self.problem.f2, "n_threads", 1),
        }
        if not self.identity:
            about["not_resumable"] = self.not_resumable
        return finish(
            self.problem, self.state, self.best, self.meter, status, self.rule, self.history,
            self.seconds, about, self.rng.bit_generator.state, self.identity, self.engine,
            as_it_is,
        )  # fmt: skip


def _within(problem: Problem, memory: int) -> Problem:
    """Return the problem with another budget of memory for its rows; rows in memory have none."""
    if not isinstance(problem.f2, StreamedSum):
        return problem
    return replace(problem, f2=problem.f2.with_memory(memory))


def _as_rule(stop: Any) -> Rule:
    if stop is None:
        return Gap(1e-6)
    if isinstance(stop, (int, float)):
        return Gap(float(stop))
    if not callable(stop) or not hasattr(stop, "describe"):
        raise TypeError(f"stop is {stop!r}, expected a rule such as sa.Gap(1e-6) or a number")
    return stop  # type: ignore[no-any-return]


def _check_limits(max_passes: float, max_seconds: float | None) -> None:
    if not max_passes > 0:
        raise ValueError(f"max_passes is {max_passes!r}, expected a number > 0")
    if max_seconds is not None and not max_seconds > 0:
        raise ValueError(f"max_seconds is {max_seconds!r}, expected None or a number > 0")


def _bytes(state: State) -> int:
    total = 0
    for value in vars(state).values():
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif isinstance(value, Pair):
            total += value.x1.nbytes + value.x2.nbytes
    return total
