"""One run of a method on a data set, measured between epochs.

A run whose epochs take long (``DataSpec.light``) keeps nothing per row, is saved after every epoch
and tells the memory that its steps take.
"""

from __future__ import annotations

import pickle
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stochadmm import FiniteSum, Pair, iterate
from stochadmm.solvers import AnySolver, State

from . import problems, starts
from ._files import replacing
from .methods import METHODS, Task
from .pieces import Piece
from .problems import Optimum
from .store import finite


@dataclass(frozen=True)
class RunOptions:
    """When a run of an experiment ends before its passes are used up, and how it is saved."""

    small: float = 1e-9
    """Relative gap at which a run has nothing left to show."""
    hopeless: float = 100.0
    """Times the objective at zero beyond which a run has diverged, late in its passes."""
    late: float = 0.5
    """Share of the passes that a run may take to come down again: dual methods rise at first."""
    warm_up: float = 2.0
    """Seconds of a first solve that does not count: modules are loaded then, nothing compiled."""


OPTIONS = RunOptions()


class Work(NamedTuple):
    """What was done up to a record."""

    epochs: int
    gradients: float
    reads: float


NOTHING = Work(0, 0.0, 0.0)


@dataclass(frozen=True)
class Unfinished:
    """What a run goes on from."""

    state: State
    generator: np.random.Generator
    records: list[dict[str, Any]]
    solving: float
    """Processor seconds."""
    peak: int


@dataclass(frozen=True)
class Saved:
    """The file of an unfinished run: of one's own, as it is a pickle."""

    path: Path
    identity: str
    """Fingerprint of the run."""

    def load(self) -> Unfinished | None:
        """Return the run as it was saved, None where there is nothing that fits."""
        try:
            with self.path.open("rb") as stream:
                if pickle.load(stream) != self.identity:
                    return None
                kept: Unfinished = pickle.load(stream)
                return kept
        except Exception:  # damaged, or of another version: it is made again
            return None

    def write(self, run: Unfinished) -> None:
        """Write a run; the file is whole or what it was before."""
        state = replace(run.state, cache=None)  # a pass over the data may be large
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as temporary, temporary.open("wb") as stream:
            pickle.dump(self.identity, stream)
            pickle.dump(replace(run, state=state), stream)

    def remove(self) -> None:
        """Delete the file of a run that is finished."""
        self.path.unlink(missing_ok=True)


@dataclass
class ProcessorWatch:
    """Counts processor seconds: what else the machine does is in no curve."""

    solving: float = 0.0

    @contextmanager
    def solves(self) -> Iterator[None]:
        """Count the processor seconds of the block as solving."""
        clock = time.process_time()
        yield
        self.solving += time.process_time() - clock


@dataclass
class Run:
    """One run under way: what was measured, and the clock."""

    piece: Piece
    task: Task
    held: FiniteSum
    best: Optimum
    advance: Callable[[float], None]
    saved: Saved | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    watch: ProcessorWatch = field(default_factory=ProcessorWatch)
    point: Pair | None = None
    """The last point that was measured."""
    peak: int = 0
    """Bytes that the steps have taken at most beyond the data, where that is traced."""

    def __post_init__(self) -> None:
        self.measured = problems.measured(self.task.problem, self.piece.spec.measured)

    def whole(self) -> str:
        """Run to the end and return how it ended."""
        method, rng = METHODS[self.piece.method], np.random.default_rng(self.piece.seed)
        before = None
        if method.warm and not self._is_saved():
            with self.watch.solves():
                solver, state = starts.warm(self.task)
            for _ in self._epochs(solver, state, rng):
                break
            before = state
            if not starts.is_finite(before):
                self.measure(self.task.problem.zeros(), "last", NOTHING)
                return "diverged"
        with self.watch.solves():
            solver, state = starts.first(self.task, method, method.make(self.task), before)
        del before
        state.target = problems.OPTIMUM.tolerance
        state, rng = self._taken_up(state, rng)
        if not self.records:  # where all begin, also after a warm start
            self.measure(self.task.problem.zeros(), "last", NOTHING)
        for _ in self._epochs(solver, state, rng):
            done = Work(state.n_epochs, state.n_gradients, state.n_passes)
            value = self.measure(state.output, "last", done)
            if method.ergodic and state.ergodic is not None:
                self.measure(state.ergodic, "ergodic", done)
            self.advance(state.n_gradients)
            status = self._status(value, state)
            if status is not None:
                return status
            self._save(state, rng)
        raise AssertionError("epochs have no end")

    def measure(self, point: Pair, name: str, done: Work) -> float:
        """Keep a record of a point and return the objective there."""
        if done.epochs:  # the start need not be kept
            self.point = point
        feasible, value = problems.feasible_value(self.measured, point)
        loss, error = problems.test_losses(self.held, feasible.x2)
        away = float(np.linalg.norm(self.task.problem.constraint(point)))
        self.records.append(
            {
                "point": name,
                "epoch": done.epochs,
                "passes": done.gradients,
                "reads": done.reads,
                "seconds": self.watch.solving,
                "objective": finite(value),
                "test_loss": finite(loss),
                "test_error": error,
                "feasibility": finite(away),
            }
        )
        return value

    def _status(self, value: float, state: State) -> str | None:
        spec, best = self.piece.spec, self.best
        limit = OPTIONS.hopeless * abs(self.measured.objective_at_zero)
        nothing_left = OPTIONS.small * abs(best.value)
        used, ended = state.n_gradients / self.task.passes, None
        if state.n_epochs == spec.cut if spec.cut is not None else used >= 1:
            ended = "passes"
        elif self.watch.solving >= self.piece.experiment.seconds:
            ended = "seconds"
        late = ended is not None or used >= OPTIONS.late
        if not np.isfinite(value) or (late and value > limit):
            return "diverged"
        if best.certified and value - best.value <= max(best.floor, nothing_left):
            return "solved"
        return ended

    # ---------------------------------------------------------------- long epochs

    def _epochs(self, solver: AnySolver, state: State, rng: np.random.Generator) -> Any:
        """Yield after every epoch; trace its memory where epochs are long."""
        light = self.saved is not None
        steps = iterate(self.task.problem, solver, rng, start=state)
        while True:
            if light:
                tracemalloc.reset_peak()
            with self.watch.solves():
                next(steps)
            if light:
                self.peak = max(self.peak, tracemalloc.get_traced_memory()[1])
            yield state

    def _save(self, state: State, rng: np.random.Generator) -> None:
        if self.saved is not None:
            now = Unfinished(state, rng, self.records, self.watch.solving, self.peak)
            self.saved.write(now)

    def _is_saved(self) -> bool:
        """Say whether a run has been saved, without making anything for it."""
        return self.saved is not None and self.saved.load() is not None

    def _taken_up(
        self, state: State, rng: np.random.Generator
    ) -> tuple[State, np.random.Generator]:
        """Return state and generator as they were saved, or as they are."""
        kept = None if self.saved is None else self.saved.load()
        if kept is None:
            return state, rng
        self.records, self.watch.solving, self.peak = kept.records, kept.solving, kept.peak
        return replace(kept.state, workspace=state.workspace), kept.generator


def run(
    piece: Piece,
    task: Task,
    held: FiniteSum,
    best: Optimum,
    advance: Callable[[float], None],
    saved: Saved | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the records of one run, and how it ended; only solving is timed."""
    going = Run(piece, task, held, best, advance, saved)
    ended: dict[str, Any] = {"status": traced(going)}
    if saved is not None:
        ended["peak"] = going.peak
    return going.records, ended


def traced(going: Run) -> str:
    """Make a run and return how it ended; memory is traced where the run is saved on the way."""
    light = going.saved is not None
    if light:
        tracemalloc.start()
    try:
        with np.errstate(all="ignore"):
            return going.whole()
    finally:
        if light:
            tracemalloc.stop()
