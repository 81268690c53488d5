"""The only loop over epochs: measuring, stopping, history, interrupts.

Solving and measuring are timed apart. An interrupt at any moment gives back the best point that
was measured, with the state that belongs to the last one; before there is one, the start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from ..base import engines
from ..base.capabilities import fact
from ..base.clock import NEVER, Deadline
from ..base.fingerprint import Unidentified, fingerprint
from ..base.protocols import Array
from ..base.validation import generator, is_between, is_whole
from ..base.workspace import Workspace
from ..forms.dense_step import LARGEST_DENSE
from ..problem import Problem
from ..risk import StreamedSum
from ..risk.passes import counted_reads
from ..risk.streamed import facts_of
from ..solvers import ENGINES, AnySolver, State, choose_engine, start_point
from .answer import About, Resumable, finish
from .checkpoint import Checkpoint, load
from .monitor import Measured, Monitor
from .result import Record, Result, Status, point_and_dual
from .stopping import Rule, at_rounding, without_progress

Callback = Callable[[Record, State], Any]
RESERVE = 0.2
"""Fraction of the seconds kept for a certificate while there is none."""
LARGEST_COPY = 1 << 28
"""Bytes of a state that is copied before each epoch, so that an interrupt loses nothing."""


@dataclass(frozen=True)
class Limits:
    """Budgets of a run.

    Parameters
    ----------
    max_passes : float
        Reads of the data.
    max_seconds : float, optional
        Seconds of waiting.
    max_epochs : int, optional
        Epochs of the method.
    """

    max_passes: float = 100.0
    max_seconds: float | None = None
    max_epochs: int | None = None

    def __post_init__(self) -> None:
        if not is_between(self.max_passes, 0, math.inf, above=True):
            raise ValueError(f"max_passes is {self.max_passes!r}, expected a number > 0")
        if self.max_seconds is not None and not is_between(
            self.max_seconds, 0, math.inf, above=True
        ):
            raise ValueError(f"max_seconds is {self.max_seconds!r}, expected None or a number > 0")
        if self.max_epochs is not None and not (is_whole(self.max_epochs) and self.max_epochs > 0):
            raise ValueError(f"max_epochs is {self.max_epochs!r}, expected None or an integer > 0")


@dataclass
class Stopwatch:
    """The clock of a run: solving and measuring apart, and what the user waited."""

    limits: Limits = field(default_factory=Limits)
    solving: float = 0.0
    measuring: float = 0.0
    before: float = 0.0
    """Seconds of the runs that this one resumes."""
    began: float = field(default_factory=time.perf_counter)

    @contextmanager
    def solves(self) -> Iterator[None]:
        """Count the seconds of the block as solving."""
        clock = time.perf_counter()
        yield
        self.solving += time.perf_counter() - clock

    @contextmanager
    def measures(self) -> Iterator[None]:
        """Count the seconds of the block as measuring."""
        clock = time.perf_counter()
        yield
        self.measuring += time.perf_counter() - clock

    @property
    def seconds(self) -> float:
        """What the user waited."""
        return self.before + time.perf_counter() - self.began

    def left(self, certified: bool) -> float:
        """Return what is left for steps; some is kept for the certificate of the answer."""
        if self.limits.max_seconds is None:
            return math.inf
        fraction = 1.0 if certified else 1.0 - RESERVE
        return fraction * self.limits.max_seconds - self.seconds

    @property
    def last_words(self) -> float:
        """Seconds that the certificate of the answer may take at least."""
        limit = self.limits.max_seconds
        return math.inf if limit is None else RESERVE * limit


def epochs(
    problem: Problem,
    solver: AnySolver,
    state: State,
    rng: np.random.Generator,
    watch: Stopwatch | None = None,
    engine: str = "auto",
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> Iterator[State]:
    """Yield the state after every epoch, for ever; only the epochs are timed as solving.

    Every loop over the epochs of a method, in a run, in tuning or in an experiment, is this one.
    """
    watch = watch or Stopwatch()
    while True:
        state.deadline = Deadline.after(seconds_left())
        with engines.engine(engine), watch.solves():
            solver.epoch(problem, state, rng)
        yield state


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
        state: State = solver.start(
            problem, *point_and_dual(start), workspace=workspace, deadline=deadline
        )
        if isinstance(problem.f2, StreamedSum):  # whatever a method asks of the rows first counts
            facts_of(problem.f2, workspace)
            state.n_passes = reads.rows / problem.f2.n_terms
    # a method that does all in one compiled call needs no view of the problem
    one = state.one_step and engine in ENGINES
    state.engine = (
        "compiled" if one else choose_engine(problem, engine, solver.has_kernel, workspace)
    )
    state.workspace = workspace
    return state


@dataclass
class Run:
    """One call of ``minimize``: clocks, history and the best point so far."""

    problem: Problem
    solver: AnySolver
    rule: Rule
    watch: Stopwatch
    callback: Callback | None = None
    start: Any = None
    engine: str = "auto"
    workspace: Workspace = field(default_factory=Workspace)
    state: State = field(init=False)
    rng: np.random.Generator = field(init=False)
    history: list[Record] = field(default_factory=list)
    best: Measured | None = None
    monitor: Monitor = field(init=False)
    show: Callable[[Record], None] | None = None
    undo: tuple[State, Any] | None = None
    """State and generator before the epoch that is under way, where they are small enough."""
    identity: str = ""
    """Fingerprint of problem and method; empty where the run cannot be resumed."""
    not_resumable: str = "it was run with resumable=False"
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        self.monitor = Monitor(self.problem, self.rule, None, self.workspace)

    def set_up(self, random_state: Any, resumable: bool) -> None:
        """Make the first state."""
        self.rng = generator(random_state)
        if resumable or self.checkpoint is not None:
            self._identify()
        if self.checkpoint is not None and not self.identity:
            raise ValueError(f"checkpoint: this run cannot be resumed, {self.not_resumable}")
        self.state = begin(
            self.problem,
            self.solver,
            self.start,
            self.engine,
            self.workspace,
            Deadline.after(self.seconds_left),
        )

    def _identify(self) -> None:
        try:
            self.identity = fingerprint(self.problem.identity(), self.solver)
        except Unidentified as error:
            self.not_resumable = f"a part of it cannot be identified: {error}"

    def take_up(self, resume: Result | str | Path) -> None:
        """Continue from where a result or a checkpoint stopped."""
        kept = self._kept(resume)
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
        self.watch.before, self.watch.solving, self.watch.measuring = kept.seconds

    def _kept(self, resume: Result | str | Path) -> Resumable:
        """Return what a result or a file holds of a run of this problem and method."""
        remedy = "pass start=result to begin at its point"
        if not isinstance(resume, (Result, str, Path)):
            raise TypeError(
                f"resume is a {type(resume).__name__}, expected a Result or the name of a "
                f"checkpoint; {remedy}"
            )
        self._identify()
        if not isinstance(resume, Result):
            if not self.identity:
                raise ValueError(f"this run cannot be resumed: {self.not_resumable}")
            return load(resume, self.identity, self.problem, self.solver, self.workspace)
        if resume.state is None:
            reason = resume.info.get("not_resumable", "one loaded from a file keeps no state")
            raise ValueError(f"this result cannot be resumed ({reason}); {remedy}")
        kept: Resumable = resume.state
        if self.identity != kept.identity:
            raise ValueError(
                "resume belongs to another problem or method: data, penalties, structure and the "
                f"parameters of the solver must be the same; {remedy}"
            )
        return kept

    def loop(self) -> Status:
        """Run epochs until a rule, a limit or the callback says stop."""
        self.state.target = self.monitor.target
        status = None
        if self.best is None and not self.state.one_step:
            self._keep()
            self._save()
            status = self._first_look()
        elif self.best is not None:
            # a run that is taken up may have ended where it stands
            self.best = self.monitor.judged(self.best, self.state)
            if self.history and self.history[-1].epoch == self.state.n_epochs:
                status = self._ending(self.history[-1])
        steps = epochs(
            self.problem,
            self.solver,
            self.state,
            self.rng,
            self.watch,
            self.engine,
            lambda: self.seconds_left,
        )
        while status is None:
            self._keep()
            self._save()
            next(steps)
            if self._due():
                self._note(self._look())
                status = self._verdict()
        return status

    def _save(self, at_once: bool = False) -> None:
        """Write a checkpoint where one is due."""
        if self.checkpoint is not None and self.identity and (at_once or self.checkpoint.due):
            self.checkpoint.write(self._resumable(), self.problem, self.solver)

    def _resumable(self) -> Resumable:
        watch = self.watch
        return Resumable(
            self.state,
            self.rng.bit_generator.state,
            self.best,
            self.monitor.memory,
            self.engine,
            (watch.seconds, watch.solving, watch.measuring),
            self.history,
            self.identity,
        )

    def rescue(self) -> None:
        """Write where a run stands that cannot go on."""
        if self.undo is not None:
            self.interrupted()
            self._save(at_once=True)

    def _keep(self) -> None:
        """Copy the state, so that an epoch that is cut short can be undone."""
        size = sum(getattr(value, "nbytes", 0) for value in vars(self.state).values())
        small = size < LARGEST_COPY
        self.undo = (self.state.copy(), self.rng.bit_generator.state) if small else None

    def interrupted(self) -> Status:
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

    def _due(self) -> bool:
        """Say whether to measure: always where it is free or watched, else at growing intervals.

        The certificate of many coefficients, or of a general constraint, may cost more than an
        epoch; a tenth more epochs than needed cost less. That of few coefficients costs little,
        but most of the time in a long run of short epochs.
        """
        if self.state.bound is not None or self.monitor.tol is None or self.callback is not None:
            return True
        few = self.problem.is_model and math.prod(self.problem.shape2) <= LARGEST_DENSE
        factor = 1.005 if few else 1.1  # 1.005: each of the first two hundred
        last = self.history[-1].epoch if self.history else 0
        return self.state.n_epochs >= factor * last or self._limit() is not None

    def _limit(self) -> Status | None:
        limits = self.watch.limits
        if limits.max_epochs is not None and self.state.n_epochs >= limits.max_epochs:
            return Status.MAX_EPOCHS
        if self.state.n_passes >= limits.max_passes:
            return Status.MAX_PASSES
        return Status.MAX_TIME if self.seconds_left <= 0 else None

    def _look(self, end: Deadline | None = None) -> Measured:
        """Measure the state, and keep the point if it is the best."""
        with self._measuring(end):
            measured = self.monitor.measure(self.state)
        if self.best is not None:  # a bound that was found later certifies earlier points too
            self.best = self.monitor.judged(self.best, self.state)
        if self.best is None or measured.better_than(self.best):
            self.best = measured.copy()
        return measured

    @contextmanager
    def _measuring(self, end: Deadline | None = None) -> Iterator[None]:
        """Count the block as measuring; its loops end with the time for steps, or as told."""
        self.state.deadline = Deadline.after(self.seconds_left) if end is None else end
        with self.watch.measures():
            yield

    def _note(self, measured: Measured) -> None:
        seconds = (self.watch.solving, self.watch.measuring)
        self.history.append(measured.record(self.state, seconds))

    def _first_look(self) -> Status | None:
        """Measure the start; end the run where it is certified as the answer."""
        self._look()
        with self._measuring():
            found = self.monitor.at_rest(self.state)
        if found is None:
            return None
        self.best = found
        self._note(found)
        return self._verdict()

    def _verdict(self) -> Status | None:
        record = self.history[-1]
        if self.show is not None:
            self.show(record)
        stop = False
        if self.callback is not None:
            before = _arrays(self.state)
            stop = bool(self.callback(record, self.state))
            if not all(map(np.array_equal, before, _arrays(self.state), repeat(True))):
                raise ValueError(
                    "the callback changed the state of the run, which is no longer what was "
                    "measured; work on copies, such as state.output.x2.copy()"
                )
        return self._ending(record, stop)

    def _ending(self, record: Record, stop: bool = False) -> Status | None:
        if not math.isfinite(record.objective) and not np.isfinite(self.state.output.x2).all():
            return Status.DIVERGED
        if self.best is not None and self.best.meets:
            return Status.CONVERGED
        if stop:
            return Status.STOPPED
        return self._stalled(record) or self._limit()

    def _stalled(self, record: Record) -> Status | None:
        """Say whether to stop because going on is of no use."""
        if self.best is None or self.monitor.tol is None:
            return None
        if not self.best.in_range:
            return Status.STALLED
        state, done = self.state, without_progress(self.history)
        if done or (state.settled and self.rule.accepts(record)):
            if self.monitor.accepts(self.best, state):
                return Status.CONVERGED
            if done and at_rounding(self.history, self.best.scale, state.settled):
                return Status.STALLED
        return None

    @property
    def seconds_left(self) -> float:
        """What is left of the time for steps."""
        return self.watch.left(self.best is not None and self.best.gap != math.inf)

    @contextmanager
    def progress(self, verbose: bool) -> Iterator[None]:
        """Show a bar while running, when asked."""
        if not verbose:
            yield
            return
        from .progress import bar

        read_bytes = fact(self.problem.f2, "read_bytes")
        with bar(self.solver.name, self.watch.limits.max_passes, self.rule, read_bytes) as show:
            self.show = show
            yield
            self.show = None

    def result(self, status: Status) -> Result:
        """Return the best point with its history; a last checkpoint goes before it."""
        self._save(at_once=True)
        self.undo = None  # no epoch is under way
        if self.best is None:  # interrupted before the start was measured
            self._look(Deadline.after(0.0))
            return self._finish(status, as_it_is=True)
        try:
            self.state.deadline = Deadline.after(max(self.watch.last_words, self.seconds_left))
            return self._finish(status)
        except KeyboardInterrupt:
            return self._finish(Status.INTERRUPTED, as_it_is=True)

    def _finish(self, status: Status, as_it_is: bool = False) -> Result:
        assert self.best is not None
        info = {
            "seconds_solving": self.watch.solving,
            "seconds_measuring": self.watch.measuring,
            "solver": self.solver.name,
            "threads": fact(self.problem.f2, "n_threads"),
        }
        kept = None
        if self.identity:
            kept = self._resumable().alone()
        else:
            info["not_resumable"] = self.not_resumable
        about = About(self.history, self.watch.seconds, info)
        return finish(self.state, self.best, self.monitor, status, about, kept, as_it_is)


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
