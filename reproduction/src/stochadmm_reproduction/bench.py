"""Doing pieces of work: optima, tuned settings and runs, each kept as soon as it is finished.

An interrupt loses one piece at most, and the same command goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from stochadmm import Gap, Problem, Status, iterate, minimize
from stochadmm.solvers import Workspace

from . import methods, problems, starts
from .methods import METHODS, Guide, Setting, Task
from .pieces import Piece, Watch
from .problems import Optimum, Sample
from .recipes import recipe_of
from .runs import OPTIONS, Run, Saved, run, traced
from .search import Candidate
from .store import Store, columns, fingerprint, finite
from .store import records as records_of
from .trials import TrialLog
from .tuning import Tuned, tune

FORMAT = 2  # raise when the meaning of what is kept changes
UNKNOWN = Optimum(0.0, np.inf, 0.0, False)
"""Before there is a reference."""


class Bench:
    """Does pieces of work; data and problem are loaded when the first piece needs them."""

    def __init__(self, store: Store, watch: Watch) -> None:
        self.store, self.watch = store, watch
        self._rows: tuple[Any, Sample] | None = None
        self._problem: tuple[Any, Problem] | None = None
        self._warm: set[tuple[str, str, str]] = set()
        self._told: set[str] = set()
        self._work: dict[str, Callable[[Piece], dict[str, Any]]] = {
            "sizes": self._sizes,
            "graphs": self._graphs,
            "optima": self._optima,
            "references": self._references,
            "tuning": self._tuning,
            "runs": self._runs,
        }

    def kept(self, piece: Piece) -> dict[str, Any] | None:
        """Return a finished piece of work; a tuning of the first report whatever its plan was."""
        published = piece.former and piece.kind == "tuning"
        return self.store.get(piece.key, None if published else self.fingerprint(piece))

    def finished(self, piece: Piece) -> dict[str, Any] | None:
        """Return a finished run, None where it, its tuning or its optimum is missing."""
        source = METHODS[piece.method].tuned_as
        before = [dataclasses.replace(piece, kind="optima", method="", seed=None)]
        if source is not None:
            before.append(self.tuning_of(piece))
        return None if any(self.kept(p) is None for p in before) else self.kept(piece)

    def do(self, piece: Piece) -> dict[str, Any]:
        """Return a piece of work, from the folder if it is finished."""
        kept = self.kept(piece)
        if kept is not None:
            self.watch.advance(piece.cost, "")
            return kept
        wall, processor = time.perf_counter(), time.process_time()
        content = self._work[piece.kind](piece)
        took = [time.perf_counter() - wall, time.process_time() - processor]
        self.store.put(piece.key, self.fingerprint(piece), content | {"took": took})
        if piece.kind == "runs" and piece.spec.light:
            self._saved(piece).remove()
        return self.kept(piece) or content

    def fingerprint(self, piece: Piece) -> str:
        """Return the fingerprint of everything that a piece depends on."""
        e = piece.experiment
        recipe = recipe_of(piece.spec, e.problem)
        real = not e.is_quick or recipe.here
        # which runs there are and what they are tuned on, not what they are
        unused = {"without", "only", "seeds", "passes", "tuning_rows", "tuned_on", "mu"}
        seldom = {"epochs", "cut", "measured", "reference", "certified_in", "light", "edges"}
        seldom |= {"format", "target", "scaling"}
        unused |= {"path"}  # what is in the file counts, not where it is
        spec = {
            k: v
            for k, v in dataclasses.asdict(piece.spec).items()
            if k not in unused and (v or k not in seldom)
        }
        parts: list[Any] = [FORMAT, piece.kind, spec, piece.variant.scaling, real]
        if recipe.shape:
            parts += [recipe.shape]
        if piece.kind not in ("sizes", "graphs"):
            parts += [e.problem, e.strength(piece.spec, piece.variant)]
        if piece.kind == "references":
            parts += [e.tuning_rows(piece.spec)]
        if piece.kind == "tuning":
            plan = dataclasses.asdict(e.tuning.plan(METHODS[piece.method].in_paper))
            parts += [piece.method, plan, e.tuning.steps, e.tuning_rows(piece.spec)]
            parts += [piece.length]
            if piece.aim == "curve":
                parts += ["curve", e.tuned_whole(piece.spec)]
        if piece.kind == "runs":
            setting = self.setting(piece)
            parts += [piece.method, setting, piece.seed, piece.length, e.seconds]
            parts += ["processor seconds"]
        return fingerprint(*parts)

    def trial_fingerprint(self, piece: Piece, kind: str) -> str:
        """Return that of what one trial depends on: not of how many candidates there are.

        ``kind`` is "references" on the rows for tuning, "optima" on all.
        """
        e = piece.experiment
        reference = self.fingerprint(dataclasses.replace(piece, kind=kind, method=""))
        knobs = methods.knobs_of(piece.method, e.tuning.steps == "tuned", True)
        parts: list[Any] = [reference, piece.method, [(k.name, k.base) for k in knobs]]
        parts += [piece.length] + (["curve"] if piece.aim == "curve" else [])
        return fingerprint(*parts)

    def setting(self, piece: Piece) -> Setting:
        """Return the tuned setting of a method, with the steps of the variant."""
        source = METHODS[piece.method].tuned_as
        if source is None:
            return Setting()
        tuned = Tuned.from_plain(self.tuned(piece))
        return dataclasses.replace(
            tuned.setting, factor=tuned.setting.factor * piece.variant.factor
        )

    def tuned(self, piece: Piece) -> dict[str, Any]:
        """Return the finished tuning of a method."""
        wanted = self.tuning_of(piece)
        kept = self.kept(wanted)
        if kept is None:
            raise ValueError(
                f"{wanted.method} is not tuned yet on {wanted.spec.name}; do the stage "
                "tuning first"
            )
        sizes = self.kept(dataclasses.replace(wanted, kind="sizes", method="")) or {}
        most = piece.experiment.tuning_rows(wanted.spec)
        n = sizes.get("n", most)  # the first report did not write down on which rows it was tuned
        rows = {"rows": min(n, most), "whole": n <= most}
        return rows | {k: v for k, v in kept.items() if k not in ("fingerprint", "took")}

    @staticmethod
    def tuning_of(piece: Piece) -> Piece:
        """Return the tuning that a run takes its setting from."""
        spec = piece.experiment.tuned_on(piece.spec)
        source = METHODS[piece.method].tuned_as or piece.method
        return dataclasses.replace(piece, kind="tuning", spec=spec, method=source, seed=None)

    def _saved(self, piece: Piece) -> Saved:
        """Return where an unfinished run is."""
        path = self.store.folder.joinpath("unfinished", *piece.key)
        return Saved(path, self.fingerprint(piece))

    def optimum(self, piece: Piece, kind: str = "optima") -> Optimum:
        """Return the certified optimum of a problem; of the rows for tuning: "references"."""
        wanted = dataclasses.replace(piece, kind=kind, method="", seed=None)
        kept = self.kept(wanted) or self.do(wanted)
        gap = kept["gap"]
        return Optimum(
            kept["value"], np.inf if gap is None else gap, kept["seconds"], kept["certified"]
        )

    def edges(self, piece: Piece) -> Any:
        """Return the estimated edges between columns, None for problems without them."""
        if piece.experiment.problem != "fused" or piece.spec.graph != "glasso":
            return None
        wanted = dataclasses.replace(piece, kind="graphs", method="", seed=None)
        kept = self.kept(wanted) or self.do(wanted)
        return np.asarray(kept["edges"], dtype=np.intp).reshape(-1, 2)

    # ---------------------------------------------------------------- the work

    def rows(self, piece: Piece) -> Sample:
        """Return the data set of a piece; the last one is remembered."""
        quick, scaling = piece.experiment.is_quick, piece.variant.scaling
        bare = dataclasses.replace(
            piece.spec,
            without=[],
            only=[],
            seeds=[],
            passes=None,
            graph="",
            batch=1,
            tuning_rows=None,
            tuned_on=None,
            mu=None,
            epochs=None,
            cut=None,
            measured=None,
            reference=None,
            certified_in=None,
            light=False,
        )
        problem = piece.experiment.problem
        known = (bare, quick, scaling, problem if bare.path else "")
        if self._rows is None or self._rows[0] != known:
            self._rows = self._problem = None  # two large data sets are never held at once
            self._rows = (known, problems.sample(piece.spec, quick, scaling, problem))
            note = self._rows[1].note
            if note and note not in self._told:
                self._told.add(note)
                self.watch.say(note)
        return self._rows[1]

    def problem(self, piece: Piece) -> Problem:
        """Return the problem of a piece; the last one is remembered."""
        return self._built(piece, None)

    def small(self, piece: Piece) -> Problem:
        """Return the problem that a piece is tuned on: some of the rows, the same graph."""
        return self._built(piece, piece.experiment.tuning_rows(piece.spec))

    def _built(self, piece: Piece, most: int | None) -> Problem:
        e = piece.experiment
        mu = e.strength(piece.spec, piece.variant)
        known = (e.name, piece.spec, piece.variant.scaling, mu, most)
        rows = self.rows(piece)
        if self._problem is None or self._problem[0] != known:
            used = rows if most is None else problems.fewer(rows, most)
            built = problems.build(e, piece.spec, piece.variant, used, self.edges(piece))
            if piece.spec.light and most is None:
                f2: Any = built.f2
                built = dataclasses.replace(built, f2=f2.with_memory(0))
            self._problem = (known, built)
        return self._problem[1]

    def _sizes(self, piece: Piece) -> dict[str, Any]:
        rows = self.rows(piece)
        train, test = rows.data.X.shape, rows.data.X_test.shape  # type: ignore[union-attr]
        self.watch.advance(piece.cost, f"{piece.spec.name}: loaded")
        return {
            "n": train[0],
            "d": train[1],
            "n_test": test[0],
            "outputs": rows.n_outputs,
            "note": rows.note,
        }

    def _graphs(self, piece: Piece) -> dict[str, Any]:
        rows, clock = self.rows(piece), time.perf_counter()
        edges = problems.estimated(rows)
        seconds = time.perf_counter() - clock
        self.watch.advance(piece.cost, f"{piece.spec.name}: graph")
        return {"edges": edges.tolist(), "seconds": seconds}

    def _optima(self, piece: Piece) -> dict[str, Any]:
        problem = self.problem(piece)
        more: dict[str, Any] = {}
        if piece.spec.reference is not None:
            found, more = self._long_run(piece, problem)
        else:
            limit = piece.spec.certified_in or 2 * piece.experiment.seconds
            found = problems.optimum(problem, limit, piece.spec.certified_in is None)
        self._warm.add((piece.experiment.name, piece.spec.name, "auto"))
        self.watch.advance(piece.cost, f"{piece.spec.name}: optimum")
        return dataclasses.asdict(found) | {
            "gap": finite(found.gap),
            "rows_of_a": problem.shape_dual[0],
            "lipschitz_max": problem.f2.lipschitz_max,
            "lipschitz_mean": None if piece.spec.light else problem.f2.lipschitz_mean,
            **more,
        }

    def _long_run(self, piece: Piece, problem: Problem) -> tuple[Optimum, dict[str, Any]]:
        """Return the lowest value of a long run of the best tuned method, with a bound.

        The run that is published of this method is the beginning of it.
        """
        e, spec, clock = piece.experiment, piece.spec, time.perf_counter()
        tuned = [name for name in e.chosen(spec, piece.variant) if METHODS[name].tuned_as]
        name = min(
            tuned,
            key=lambda m: self.tuned(dataclasses.replace(piece, kind="runs", method=m))["score"],
        )
        spec = dataclasses.replace(spec, cut=spec.reference)
        long = dataclasses.replace(
            piece, kind="runs", spec=spec, method=name, seed=e.repetitions(spec)[0]
        )
        going = Run(
            long,
            self._task(long, problem),
            problems.held_out(e, self.rows(piece)),
            UNKNOWN,
            lambda passes: None,
            self._saved(long),
        )
        status = traced(going)
        assert going.point is not None
        value = min(r["objective"] for r in going.records if r["objective"] is not None)
        feasible, whole = problems.feasible_value(problem, going.point)
        bound = problems.lower_bound(problem, feasible.x2)
        self._saved(long).remove()
        found = Optimum(value, whole - bound, time.perf_counter() - clock, False)
        return found, {"long": self._content(long, going.records, status, peak=going.peak)}

    def _references(self, piece: Piece) -> dict[str, Any]:
        most, n = piece.experiment.tuning_rows(piece.spec), self.rows(piece).data.X.shape[0]
        if n <= most:
            found = self.optimum(piece)
        else:
            found = problems.optimum(self.small(piece), piece.experiment.seconds)
        self.watch.advance(piece.cost, f"{piece.spec.name}: optimum for tuning")
        return dataclasses.asdict(found) | {"gap": finite(found.gap), "n": min(n, most)}

    def _tuning(self, piece: Piece) -> dict[str, Any]:
        e, done, total = piece.experiment, 0.0, piece.cost
        work = e.tuning.work(METHODS[piece.method].in_paper)
        doing = f"{piece.spec.name}: tuning {METHODS[piece.method].label}"

        def advance(share: float) -> None:
            nonlocal done
            step = min(share / work, 1.0 - done)  # the walk may be longer than guessed
            done += step
            self.watch.advance(step * total, doing)

        n, most = self.rows(piece).data.X.shape[0], e.tuning_rows(piece.spec)
        whole = piece.aim == "curve" and (n <= e.tuned_whole(piece.spec) or n <= most)

        def found(kind: str, start: Candidate | None = None) -> Tuned:
            log = TrialLog(self.store.trials(piece.key), self.trial_fingerprint(piece, kind))
            best = self.optimum(piece, kind)
            problem = self.problem(piece) if kind == "optima" else self.small(piece)
            given = (piece.method, problem, piece.spec.batch, e.tuning, piece.length, best, log)
            return tune(*given, advance, start)

        tuned = found("optima" if whole else "references")
        if piece.aim == "curve" and not whole:
            tuned = found("optima", tuple(s.exponent for s in tuned.sides)).after(tuned)
        advance(np.inf)
        rows = n if piece.aim == "curve" else min(n, most)
        return tuned.plain() | {"score": finite(tuned.score), "rows": rows, "whole": whole}

    def _runs(self, piece: Piece) -> dict[str, Any]:
        # runs that make all their epochs need not wait for what gaps are to, a long run itself
        best = UNKNOWN if piece.spec.cut is not None else self.optimum(piece)
        long = self._beginning(piece)
        if long is not None:
            self.watch.advance(piece.cost, "")
            return long
        problem = self.problem(piece)
        self._warm_up(piece, problem)
        doing = f"{piece.spec.name}: {METHODS[piece.method].label}, seed {piece.seed}"
        held = problems.held_out(piece.experiment, self.rows(piece))
        done = 0.0

        def advance(passes: float) -> None:
            nonlocal done
            share = min(passes / piece.length, 1.0)
            self.watch.advance((share - done) * piece.cost, doing)
            done = share

        saved = self._saved(piece) if piece.spec.light else None
        records, ended = run(piece, self._task(piece, problem), held, best, advance, saved)
        advance(np.inf)
        return self._content(piece, records, **ended)

    def _content(
        self, piece: Piece, records: list[dict[str, Any]], status: str, **more: Any
    ) -> dict[str, Any]:
        """Return what is kept of a run."""
        return {
            "method": piece.method,
            "seed": piece.seed,
            "setting": self.setting(piece),
            "status": status,
            **more,
            "records": columns(records),
        }

    def _beginning(self, piece: Piece) -> dict[str, Any] | None:
        """Return a run that the reference is the continuation of, None for another."""
        kept = self.kept(dataclasses.replace(piece, kind="optima", method="", seed=None)) or {}
        long: dict[str, Any] | None = kept.get("long")
        if long is None or (long["method"], long["seed"]) != (piece.method, piece.seed):
            return None
        first = [r for r in records_of(long["records"]) if r["epoch"] <= (piece.spec.cut or 0)]
        return long | {"records": columns(first), "status": "passes"}

    def _task(self, piece: Piece, problem: Problem) -> Task:
        """Return what a run is made of, without anything that earlier runs have left."""
        guide = Guide.of(self.small(piece), piece.spec.batch) if piece.spec.light else None
        fresh, setting = dataclasses.replace(problem), self.setting(piece)
        return Task(fresh, piece.spec.batch, piece.length, setting, Workspace(), guide)

    def _warm_up(self, piece: Piece, problem: Problem) -> None:
        """Load what is loaded on first use: work that does not count, once per method and data.

        One epoch, or the beginning of a solve by the automatic solver.
        """
        key = (piece.experiment.name, piece.spec.name, piece.method)
        if key in self._warm or piece.spec.light:  # steps of seconds do not show it
            return
        if piece.method == "auto":
            found = minimize(
                problem,
                "auto",
                stop=Gap(problems.OPTIMUM.tolerance),
                max_passes=piece.length,
                max_seconds=OPTIONS.warm_up,
            )
            if found.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
        else:
            rng, length = np.random.default_rng(0), piece.length
            solver, state = starts.start(
                piece.method, problem, piece.spec.batch, Setting(), length, rng
            )
            next(iterate(problem, solver, rng, start=state))
        self._warm.add(key)
