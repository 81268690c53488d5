"""The pieces of work that an experiment consists of, and who is told about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from .config import DataSpec, Experiment, Variant
from .methods import METHODS


class Watch(Protocol):
    """Who is told about the work: the progress bar, or nobody."""

    def begin(self, total: float) -> None: ...

    def advance(self, cost: float, doing: str) -> None: ...

    def say(self, line: str) -> None: ...


class Silent:
    """Nobody."""

    def begin(self, total: float) -> None:
        """Hear how much there is to do."""

    def advance(self, cost: float, doing: str) -> None:
        """Hear that some of it is done."""

    def say(self, line: str) -> None:
        """Hear a line."""


KINDS = ("sizes", "graphs", "optima", "references", "tuning", "runs")
"""What a piece of work may be, in the order in which they need each other."""


@dataclass(frozen=True)
class Piece:
    """One piece of work; ``seed`` is None for all but runs."""

    kind: str
    experiment: Experiment
    spec: DataSpec
    variant: Variant
    method: str = ""
    seed: int | None = None
    former: bool = False
    """Whether it is of the first report, tuned for the end of runs on a sample of the rows."""

    @property
    def aim(self) -> str:
        """Return what the settings are tuned for: "curve" or "end"; "" without anything tuned."""
        if self.kind not in ("tuning", "runs") or METHODS[self.method].tuned_as is None:
            return ""
        return "end" if self.former else self.experiment.tuning.aim

    @property
    def key(self) -> tuple[str, ...]:
        """Return where the piece is kept."""
        form = "quick" if self.experiment.is_quick else "full"
        scaling = "" if self.variant.scaling == "columns" else f"-{self.variant.scaling}"
        place = (form, self.kind, self.experiment.name, f"{self.spec.name}{scaling}")
        mu = f"mu{self.experiment.strength(self.spec, self.variant):g}"
        aim = "-curve" if self.aim == "curve" else ""
        if self.kind in ("sizes", "graphs"):
            return place
        if self.kind in ("optima", "references"):
            return (*place, mu)
        if self.kind == "tuning":
            return (*place, f"{mu}{aim}", self.method)
        return (*place, f"{self.variant.name}{aim}", f"{self.method}-{self.seed}")

    @property
    def length(self) -> float:
        """Passes of a run."""
        passes, method = self.experiment.length(self.spec), METHODS.get(self.method)
        if self.spec.epochs is None or method is None or method.per_epoch is None:
            return passes
        return method.before + self.spec.epochs * method.per_epoch

    @property
    def cost(self) -> float:
        """Return a guess of the work, for the time left."""
        rows = self.spec.rows or 100_000
        tuning = self.experiment.tuning
        in_paper = self.method not in METHODS or METHODS[self.method].in_paper
        passes = {
            "sizes": 1.0,
            "graphs": 10.0,
            "optima": 50.0,
            "references": 50.0,
            "tuning": tuning.work(in_paper) * self.length,
            "runs": self.length,
        }
        sample = self.experiment.tuning_rows(self.spec)
        if self.kind in ("references", "tuning") and rows > self.experiment.tuning.whole:
            rows = min(rows, sample)
        return rows * passes[self.kind]


def pieces(experiment: Experiment) -> Iterator[Piece]:
    """Yield the work of an experiment in an order in which nothing waits for later pieces."""
    for spec in experiment.datasets:
        seen: set[tuple[str, ...]] = set()  # variants share data, optima and tuning

        def first(piece: Piece, seen: set[tuple[str, ...]] = seen) -> bool:
            known = piece.key in seen
            seen.add(piece.key)
            return not known

        for variant in experiment.variants:
            if variant.datasets and spec.name not in variant.datasets:
                continue
            yield from filter(first, _once(experiment, spec, variant))
            chosen = experiment.chosen(spec, variant)
            for source in dict.fromkeys(METHODS[name].tuned_as for name in chosen):
                if source is not None and spec.tuned_on is None:
                    piece = Piece("tuning", experiment, spec, variant, source)
                    yield from filter(first, [piece])
            for name in chosen:
                for seed in experiment.repetitions(spec):
                    yield Piece("runs", experiment, spec, variant, name, seed)


def _once(experiment: Experiment, spec: DataSpec, variant: Variant) -> Iterator[Piece]:
    """Yield what all methods share."""
    yield Piece("sizes", experiment, spec, variant)
    if experiment.problem == "fused" and spec.graph == "glasso":
        yield Piece("graphs", experiment, spec, variant)
    yield Piece("optima", experiment, spec, variant)
    if spec.tuned_on is None:
        yield Piece("references", experiment, spec, variant)
