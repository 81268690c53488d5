"""The only loop over epochs: measuring, stopping, history, interrupts.

Solving and measuring are timed apart. An interrupt at any moment gives back the best point that
was measured, with the state that belongs to the last one; before there is one, the start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from ..base.capabilities import fact
from ..base.clock import NEVER, Deadline
from ..base.fingerprint import Unidentified, fingerprint
from ..base.protocols import Array
from ..base.validation import generator, is_between, is_whole
from ..base.workspace import Workspace
from ..cluster import EngineLost
from ..forms.dense_step import LARGEST_DENSE
from ..kernels import extension
from ..problem import Problem
from ..risk import StreamedSum
from ..risk.passes import counted_reads
from ..risk.streamed import facts_of
from ..solvers import ENGINES, AnySolver, State, choose_engine, start_point
from .checkpoint import Checkpoint, Resumable, load
from .monitor import Measured, Monitor
from .result import Record, Result, Status
from .stopping import Rule, at_rounding, without_progress

Callback = Callable[[Record, State], Any]
RESERVE = 0.2
"""Fraction of the seconds kept for a certificate while there is none."""
LARGEST_COPY = 1 << 28
"""Bytes of a state that is copied before each epoch, so that an interrupt loses nothing."""


@dataclass(frozen=True)
class Request:
    """What ``minimize`` is asked for, beside the problem and the method."""

    stop: Rule | float | None = None
    max_passes: float = 100.0
    max_seconds: float | None = None
    max_epochs: int | None = None
    start: Any = None
    resume: Result | str | Path | bool | None = None
    callback: Callback | None = None
    random_state: Any = 0
    engine: str = "auto"
    verbose: bool = False
    resumable: bool = True
    checkpoint: str | Path | None = None
    checkpoint_every: float = 60.0

    def __post_init__(self) -> None:
        if not is_between(self.max_passes, 0, math.inf, above=True):
            raise ValueError(f"max_passes is {self.max_passes!r}, expected a number > 0")
        if self.max_seconds is not None and not is_between(
            self.max_seconds, 0, math.inf, above=True
        ):
            raise ValueError(f"max_seconds is {self.max_seconds!r}, expected None or a number > 0")
        if self.max_epochs is not None and not (is_whole(self.max_epochs) and self.max_epochs > 0):
            raise ValueError(f"max_epochs is {self.max_epochs!r}, expected None or an integer > 0")

    def before(self) -> Result | str | Path | None:
        """Return what the run goes on from, None where it begins."""
        if not isinstance(self.resume, bool):
            if self.resume is not None and self.start is not None:
                raise ValueError(
                    "resume and start are both given, but a resumed run starts where it stopped; "
                    "leave one of them out"
                )
            return self.resume
        if self.resume and self.checkpoint is None:
            raise ValueError("resume=True goes on from a checkpoint; name one by checkpoint=PATH")
        there = self.checkpoint is not None and Path(self.checkpoint).exists()
        return self.checkpoint if self.resume and there else None


def begin(
    problem: Problem,
    solver: AnySolver,
    start: Any,
    engine: str,
    workspace: Workspace,
    deadline: Deadline = NEVER,
) -> State:
    """Check that a solver can serve a problem and return its first state."""
    solver.check(problem)
    with counted_reads() as reads:
        point, dual = point_and_dual(start)
        state: State = solver.start(problem, point, dual, workspace=workspace, deadline=deadline)
        if isinstance(problem.f2, StreamedSum):  # whatever a method asks of the rows first counts
            facts_of(problem.f2, workspace)
            state.n_passes = reads.rows / problem.f2.n_terms
    state.workspace = workspace
    _choose_engine(problem, solver, state, engine)
    return state


def go_on(problem: Problem, solver: AnySolver, state: State, engine: str) -> State:
    """Check that a state belongs to a problem that a solver can serve, and choose its engine."""
    solver.check(problem)
    found = [a.shape for a in (state.x.x1, state.x.x2, state.dual)]
    wanted = [problem.shape1, problem.shape2, problem.shape_dual]
    if found != wanted:
        raise ValueError(
            f"start is a state with x1, x2 and dual of the shapes {found}, expected {wanted}; go "
            "on with the problem and the method that made it"
        )
    _choose_engine(problem, solver, state, engine)
    return state


def _choose_engine(problem: Problem, solver: AnySolver, state: State, engine: str) -> None:
    # a method that does all in one compiled call needs no view of the problem
    one = state.one_step and engine in ENGINES
    state.engine = (
        "compiled" if one else choose_engine(problem, engine, solver.has_kernel, state.workspace)
    )


def epochs(
    problem: Problem,
    solver: AnySolver,
    state: State,
    rng: np.random.Generator,
    engine: str = "auto",
) -> Iterator[State]:
    """Yield the state after every epoch, for ever, where nothing is measured or stopped."""
    while True:
        with extension.engine(engine):
            solver.epoch(problem, state, rng)
        yield state


def point_and_dual(start: Any) -> tuple[Any, Any]:
    """Return the point and the multiplier of whatever a run may start from."""
    if isinstance(start, Result):
        return start.pair, start.dual
    return start if isinstance(start, tuple) else (start, None)


@dataclass
class Run:
    """One call of ``minimize``: clocks, history and the best point so far."""

    problem: Problem
    solver: AnySolver
    rule: Rule
    asked: Request
    start: Any
    """Where to begin, in the units of the problem, which may not be the user's."""
    workspace: Workspace
    state: State = field(init=False)
    rng: np.random.Generator = field(init=False)
    history: list[Record] = field(default_factory=list)
    best: Measured | None = None
    show: Callable[[Record], None] | None = None
    undo: tuple[State, Any] | None = None
    """State and generator before the epoch that is under way, where they are small enough."""
    identity: str = ""
    """Fingerprint of problem and method; empty where the run cannot be resumed."""
    not_resumable: str = "it was run with resumable=False"
    checkpoint: Checkpoint | None = None
    solving: float = 0.0
    measuring: float = 0.0
    before: float = 0.0
    """Seconds of the runs that this one resumes."""
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.engine = self.asked.engine
        self.monitor = Monitor(self.problem, self.rule, None, self.workspace)

    def to_the_end(self) -> Result:
        """Begin, or go on where a run stopped, and return the best point with its history."""
        asked = self.asked
        before = None if asked.resume is None else asked.before()
        if asked.checkpoint is not None:
            self.checkpoint = Checkpoint(Path(asked.checkpoint), asked.checkpoint_every)
        if before is not None:
            self._take_up(before)
        # a start at 1e300 overflows: what is not finite is measured as such, the status says it
        with extension.engine(self.engine), np.errstate(over="ignore", invalid="ignore"):
            try:
                with self._bar() if asked.verbose else nullcontext():
                    if before is None:
                        self._begin()
                    status = self._loop()
            except KeyboardInterrupt:
                status = self._interrupted()
            except EngineLost:
                if self.undo is not None:
                    self._interrupted()
                    self._save(at_once=True)
                raise
            return self._result(status)

    # ---------------------------------------------------------------- beginnings

    def _begin(self) -> None:
        """Make the first state."""
        self.rng = generator(self.asked.random_state)
        if self.asked.resumable or self.checkpoint is not None:
            self._identify()
        if self.checkpoint is not None and not self.identity:
            raise ValueError(f"checkpoint: this run cannot be resumed, {self.not_resumable}")
        deadline = Deadline.after(self.seconds_left)
        self.state = begin(
            self.problem, self.solver, self.start, self.engine, self.workspace, deadline
        )

    def _identify(self) -> None:
        try:
            self.identity = fingerprint(self.problem.identity(), self.solver)
        except Unidentified as error:
            self.not_resumable = f"a part of it cannot be identified: {error}"

    def _take_up(self, resume: Result | str | Path) -> None:
        """Continue from where a result or a checkpoint of this problem and method stopped."""
        remedy = "pass start=result to begin at its point"
        if not isinstance(resume, (Result, str, Path)):
            raise TypeError(
                f"resume is a {type(resume).__name__}, expected a Result or the name of a "
                f"checkpoint; {remedy}"
            )
        self._identify()
        kept: Resumable
        if not isinstance(resume, Result):
            if not self.identity:
                raise ValueError(f"this run cannot be resumed: {self.not_resumable}")
            kept = load(resume, self.identity, self.problem, self.solver, self.workspace)
        elif resume.state is None:
            reason = resume.info.get("not_resumable", "one loaded from a file keeps no state")
            raise ValueError(f"this result cannot be resumed ({reason}); {remedy}")
        else:
            kept = resume.state
            if self.identity != kept.identity:
                raise ValueError(
                    "resume belongs to another problem or method: data, penalties, structure and "
                    f"the parameters of the solver must be the same; {remedy}"
                )
        self.state = replace(kept.state.copy(), workspace=self.workspace)
        self.best = kept.best
        self.monitor = Monitor(self.problem, self.rule, kept.memory, self.workspace)
        if self.engine != "auto":
            self.state.engine = choose_engine(
                self.problem, self.engine, self.solver.has_kernel, self.workspace
            )
        else:
            self.engine = kept.engine
        self.rng = generator_of(kept.generator)
        self.history = list(kept.history)
        self.before, self.solving, self.measuring = kept.seconds

    # ---------------------------------------------------------------- the loop

    def _loop(self) -> Status:
        """Run epochs until a rule, a limit or the callback says stop."""
        self.state.target = self.monitor.target
        status = None
        if self.best is None and not self.state.one_step:
            self._keep()
            self._look()
            found = self._timed(self.monitor.at_rest)
            if found is not None:  # the start is certified as the answer
                self.best = found
                status = self._verdict(found)
        elif self.best is not None:
            # a run that is taken up may have ended where it stands
            self.best = self.monitor.judged(self.best, self.state)
            if self.history and self.history[-1].epoch == self.state.n_epochs:
                status = self._ending(self.history[-1])
        while status is None:
            self._keep()
            self.state.deadline = Deadline.after(self.seconds_left)
            clock = time.perf_counter()
            self.solver.epoch(self.problem, self.state, self.rng)
            self.solving += time.perf_counter() - clock
            if self._due():
                status = self._verdict(self._look())
        return status

    def _keep(self) -> None:
        """Copy the state, so that an epoch cut short can be undone; write a checkpoint if due."""
        size = sum(getattr(value, "nbytes", 0) for value in vars(self.state).values())
        small = size < LARGEST_COPY
        self.undo = (self.state.copy(), self.rng.bit_generator.state) if small else None
        if self.checkpoint is not None:
            self._save()

    def _due(self) -> bool:
        """Say whether to measure: always where it is free or watched, else at growing intervals.

        The certificate of many coefficients, or of a general constraint, may cost more than an
        epoch; a tenth more epochs than needed cost less. That of few coefficients costs little,
        but most of the time in a long run of short epochs.
        """
        watched = self.asked.callback is not None
        if self.state.bound is not None or self.monitor.tol is None or watched:
            return True
        few = self.problem.is_model and math.prod(self.problem.shape2) <= LARGEST_DENSE
        factor = 1.005 if few else 1.1  # 1.005: each of the first two hundred
        last = self.history[-1].epoch if self.history else 0
        return self.state.n_epochs >= factor * last or self._limit() is not None

    def _limit(self) -> Status | None:
        asked, state = self.asked, self.state
        if asked.max_epochs is not None and state.n_epochs >= asked.max_epochs:
            return Status.MAX_EPOCHS
        if state.n_passes >= asked.max_passes:
            return Status.MAX_PASSES
        return Status.MAX_TIME if self.seconds_left <= 0 else None

    @property
    def seconds_left(self) -> float:
        """What is left for steps; some is kept for the certificate of the answer."""
        limit = self.asked.max_seconds
        if limit is None:
            return math.inf
        certified = self.best is not None and self.best.gap != math.inf
        waited = self.before + time.perf_counter() - self.began
        return (1.0 if certified else 1.0 - RESERVE) * limit - waited

    def _timed(self, measure: Callable[[State], Any], end: Deadline | None = None) -> Any:
        """Measure the state; loops on the way end with the time for steps, or as given."""
        self.state.deadline = Deadline.after(self.seconds_left) if end is None else end
        clock = time.perf_counter()
        found = measure(self.state)
        self.measuring += time.perf_counter() - clock
        return found

    def _look(self, end: Deadline | None = None) -> Measured:
        """Measure the state, and keep the point if it is the best."""
        measured: Measured = self._timed(self.monitor.measure, end)
        if self.best is not None:  # a bound that was found later certifies earlier points too
            self.best = self.monitor.judged(self.best, self.state)
        if self.best is None or measured.better_than(self.best):
            self.best = measured.copy()
        return measured

    def _verdict(self, measured: Measured) -> Status | None:
        """Note a measurement, tell whoever watches, and say whether the run ends."""
        record = measured.record(self.state, (self.solving, self.measuring))
        self.history.append(record)
        if self.show is not None:
            self.show(record)
        stop = False
        if self.asked.callback is not None:
            before = _arrays(self.state)
            stop = bool(self.asked.callback(record, self.state))
            if not all(map(np.array_equal, before, _arrays(self.state), repeat(True))):
                raise ValueError(
                    "the callback changed the state of the run, which is no longer what was "
                    "measured; work on copies, such as state.output.x2.copy()"
                )
        return self._ending(record, stop)

    def _ending(self, record: Record, stop: bool = False) -> Status | None:
        best, state = self.best, self.state
        if not math.isfinite(record.objective) and not np.isfinite(state.output.x2).all():
            return Status.DIVERGED
        if best is not None and best.meets:
            return Status.CONVERGED
        if stop:
            return Status.STOPPED
        if best is not None and self.monitor.tol is not None:  # is going on of any use?
            if not best.in_range:
                return Status.STALLED
            done = without_progress(self.history)
            if done or (state.settled and self.rule.accepts(record)):
                if best.accepted:
                    return Status.CONVERGED
                if done and at_rounding(self.history, best.scale, state.settled):
                    return Status.STALLED
        return self._limit()

    @contextmanager
    def _bar(self) -> Iterator[None]:
        """Show a bar while running."""
        from .progress import bar

        read_bytes = fact(self.problem.f2, "read_bytes")
        with bar(self.solver.name, self.asked.max_passes, self.rule, read_bytes) as show:
            self.show = show
            yield
            self.show = None

    # ---------------------------------------------------------------- ends

    def _save(self, at_once: bool = False) -> None:
        """Write a checkpoint where one is due."""
        if self.checkpoint is not None and self.identity and (at_once or self.checkpoint.due):
            self.checkpoint.write(self._resumable(), self.problem, self.solver)

    def _resumable(self) -> Resumable:
        waited = self.before + time.perf_counter() - self.began
        return Resumable(
            self.state,
            self.rng.bit_generator.state,
            self.best,
            self.monitor.memory,
            self.engine,
            (waited, self.solving, self.measuring),
            self.history,
            self.identity,
        )

    def _interrupted(self) -> Status:
        """Go back to the last moment at which everything fitted together."""
        if self.undo is not None:
            self.state, self.rng.bit_generator.state = self.undo
            self.history = [r for r in self.history if r.epoch <= self.state.n_epochs]
            return Status.INTERRUPTED
        self.identity = ""
        if self.best is None:
            self.not_resumable = "it was interrupted before its first epoch"
            x, dual = start_point(self.problem, *point_and_dual(self.start))
            self.state = State(x=x, output=x, dual=dual, beta=1.0, workspace=self.workspace)
            return Status.INTERRUPTED
        most = LARGEST_COPY >> 20
        self.not_resumable = f"it was interrupted, and states above {most} MB are not copied"
        best, last = self.best, self.history[-1:]
        self.state = State(
            x=best.point,
            output=best.point,
            dual=best.dual,
            beta=best.beta,
            ergodic=None,
            engine=self.state.engine,
            notes=self.state.notes,
            workspace=self.workspace,
            n_epochs=last[0].epoch if last else 0,
            n_passes=last[0].passes if last else 0.0,
            n_gradients=last[0].gradients if last else 0.0,
        )
        return Status.INTERRUPTED

    def _result(self, status: Status) -> Result:
        """Return the best point with its history; a last checkpoint goes before it."""
        if self.checkpoint is not None:
            self._save(at_once=True)
        self.undo = None  # no epoch is under way
        if self.best is None:  # interrupted before the start was measured
            self._look(Deadline.after(0.0))
            return self._finish(status, as_it_is=True)
        try:
            limit = self.asked.max_seconds
            last = math.inf if limit is None else max(RESERVE * limit, self.seconds_left)
            self.state.deadline = Deadline.after(last)
            return self._finish(status)
        except KeyboardInterrupt:
            return self._finish(Status.INTERRUPTED, as_it_is=True)

    def _finish(self, status: Status, as_it_is: bool = False) -> Result:
        """Return the result: the best point, with exact structure where that costs nothing.

        ``as_it_is`` leaves out whatever takes time.
        """
        assert self.best is not None
        problem, monitor, state, best = self.problem, self.monitor, self.state, self.best
        if not as_it_is and monitor.could_know_more(best, state):
            best = monitor.certified(best, state)
        best = monitor.judged(best, state)
        if not as_it_is:
            best = monitor.structured(best, state)
            best = monitor.inside(best, state) if problem.constrained else best
        if status is not Status.INTERRUPTED and best.accepted:
            status = Status.CONVERGED
        elif status is Status.CONVERGED:
            # no step helps: the rule held before the arrays were rounded on their way to the user
            status = Status.STALLED
        coef, intercept = problem.split(best.point.x2)
        message = monitor.message(best, state)
        info = {
            "engine": state.engine,
            **state.notes,
            # "beta" of the notes is where a method began; this one belongs to the multiplier
            "last_beta": float(best.beta),
            "seconds_solving": self.solving,
            "seconds_measuring": self.measuring,
            "solver": self.solver.name,
            "threads": fact(problem.f2, "n_threads"),
        }
        if not self.identity:
            info["not_resumable"] = self.not_resumable
        notes = fact(problem.f2, "notes")
        if notes:
            info["data"] = list(notes)
        if not best.in_range:
            info["beyond_range"] = best.beyond
        if status is Status.STALLED or not best.in_range:
            info["limited_by"] = monitor.limit(best)
            message = f"{message}; {info['limited_by']}"
        return Result(
            coef=coef,
            intercept=intercept,
            x1=best.point.x1,
            x2=best.point.x2,
            dual=best.dual,
            objective=best.objective,
            feasibility=best.feasibility,
            gap=best.gap,
            relative_gap=best.relative_gap,
            kkt_residual=best.kkt_residual,
            status=status,
            message=message,
            n_epochs=state.n_epochs,
            n_passes=state.n_passes,
            n_gradients=state.n_gradients,
            seconds=self.before + time.perf_counter() - self.began,
            output=state.output.copy(),
            ergodic=state.ergodic,
            history=self.history,
            info=info,
            state=self._resumable().alone() if self.identity else None,
        )


GENERATORS = (
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.MT19937,
    np.random.Philox,
    np.random.SFC64,
)


def generator_of(state: Any) -> np.random.Generator:
    """Return a generator in a given state."""
    kind = {kind.__name__: kind for kind in GENERATORS}.get(str(state["bit_generator"]))
    if kind is None:
        raise ValueError(f"{state['bit_generator']!r} is no generator of NumPy")
    generator = np.random.Generator(kind())
    generator.bit_generator.state = state
    return generator


def _arrays(state: State) -> list[Array]:
    """Return copies of what a method stands on, for callbacks, which may only look."""
    x, output = state.x, state.output
    return [a.copy() for a in (x.x1, x.x2, output.x1, output.x2, state.dual)]
