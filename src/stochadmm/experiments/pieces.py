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


@dataclass(frozen=True)
class Piece:
    """One piece of work; ``seed`` is None for all but runs."""

    kind: str
    experiment: Experiment
    spec: DataSpec
    variant: Variant
    method: str = ""
    seed: int | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Return where the piece is kept."""
        form = "quick" if self.experiment.is_quick else "full"
        place = (form, self.kind, self.experiment.name, self.spec.name)
        mu = f"mu{self.experiment.strength(self.variant):g}"
        if self.kind in ("sizes", "graphs"):
            return place
        if self.kind == "optima":
            return (*place, mu)
        if self.kind == "tuning":
            return (*place, mu, self.method)
        return (*place, self.variant.name, f"{self.method}-{self.seed}")

    @property
    def cost(self) -> float:
        """Return a guess of the work, for the time left."""
        rows = self.spec.rows or 100_000
        passes = {
            "sizes": 1.0,
            "graphs": 10.0,
            "optima": 50.0,
            "tuning": self.experiment.tuning.n_trials * self.experiment.tuning.passes,
            "runs": self.experiment.passes,
        }
        return rows * passes[self.kind]


def pieces(experiment: Experiment) -> Iterator[Piece]:
    """Yield the work of an experiment in an order in which nothing waits for later pieces."""
    for spec in experiment.datasets:
        yield Piece("sizes", experiment, spec, experiment.variants[0])
        if experiment.problem == "fused" and spec.graph == "glasso":
            yield Piece("graphs", experiment, spec, experiment.variants[0])
        for variant in experiment.variants:
            if variant.datasets and spec.name not in variant.datasets:
                continue
            left_out = {*spec.without, *variant.without}
            chosen = [name for name in experiment.methods if name not in left_out]
            yield Piece("optima", experiment, spec, variant)
            for name in chosen:
                if METHODS[name].tuned_as == name:
                    yield Piece("tuning", experiment, spec, variant, name)
            for name in chosen:
                for seed in experiment.seeds:
                    yield Piece("runs", experiment, spec, variant, name, seed)
