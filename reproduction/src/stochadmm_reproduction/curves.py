"""Finished runs as curves: gaps over gradients, reads and seconds, one array per seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import store
from ._plain import Array
from .problems import Optimum

if TYPE_CHECKING:
    from .pieces import Piece


@dataclass(frozen=True)
class CurveOptions:
    """Which accuracy of a certificate ends a curve."""

    tight: float = 1e-6
    """Relative gap of a certificate at which drawn lines may end."""
    beyond: float = 0.01
    """Share of a certificate that is not tight, down to which lines are drawn; it is printed."""


OPTIONS = CurveOptions()
Key = tuple[str, str, str, str, str]
"""Experiment, variant, data set, method, point ("last" or "ergodic")."""


@dataclass(frozen=True)
class Curve:
    """One run of one method: arrays over its records; gaps are at least ``floor``."""

    gradients: Array
    """Component gradients / n."""
    seconds: Array
    gap: Array
    test_loss: Array
    test_error: Array
    floor: float
    scale: float
    """Absolute optimal value, which relative gaps are relative to."""
    status: str = "passes"
    epochs: Array | None = None
    reads: Array | None = None
    """Rows read / n."""
    drawn: Array | None = None
    """Gaps as they are drawn: below a certificate that is not tight too."""
    within: float = 0.0
    """Distance in which the optimum is known to lie, where that is not tight; else zero."""

    def along(self, axis: str) -> Array:
        """Return the horizontal axis: "gradients", "reads", "seconds" or "epochs"."""
        if axis == "epochs" and self.epochs is not None:
            return self.epochs
        if axis == "reads" and self.reads is not None:
            return self.reads
        return self.seconds if axis == "seconds" else self.gradients

    def height(self, what: str) -> Array:
        """Return the vertical axis: "gap", "test_loss" or "test_error"."""
        gap = self.gap if self.drawn is None else self.drawn
        return {"gap": gap, "test_loss": self.test_loss, "test_error": self.test_error}[what]

    def possible(self) -> list[Curve]:
        """Return the curve at both ends of what a rough certificate leaves of the optimal value.

        One that is tight leaves nothing, and one that is none is no end.
        """
        if not self.within or not np.isfinite(self.within) or self.drawn is None:
            return [self]
        ends = (self.drawn, self.drawn + self.within)
        return [replace(self, gap=gap, drawn=None, floor=0.0, within=0.0) for gap in ends]

    def reaches(self, relative_gap: float, axis: str) -> float:
        """Return where the gap first falls to a share of the optimum, inf when it never does."""
        below = np.flatnonzero(self.gap <= relative_gap * self.scale)
        return float(self.along(axis)[below[0]]) if below.size else np.inf


@dataclass
class Curves:
    """All runs: curves by key and seed, and the rows of the tidy table."""

    runs: dict[Key, dict[int, Curve]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """Rows and columns by experiment and data set."""
    tunings: dict[tuple[str, ...], Piece] = field(default_factory=dict)
    """The tuning pieces that finished runs rest on, by their keys."""
    aims: dict[Key, str] = field(default_factory=dict)
    """What the settings of a line were tuned for, and on which rows, in words."""
    to_come: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Runs that are not made yet, by experiment, variant and data set."""

    def add(self, piece: Piece, content: dict[str, Any], best: Optimum) -> None:
        """Take in a finished run."""
        names = (piece.experiment.name, piece.variant.name, piece.spec.name, piece.method)
        every = store.records(content["records"])
        start = every[0]
        for point in ("last", "ergodic"):
            records = [r for r in every if r["point"] == point]
            if not records:
                continue
            if point == "ergodic":  # both begin at the same point
                records = [start | {"point": point}, *records]
            for record in records:
                self.rows.append(self._row(names, content, record, best))
            seed = int(content["seed"])
            key = (*names, point)
            self.runs.setdefault(key, {})[seed] = curve(records, best, content["status"])

    def tuned(self, run: Piece, tuning: Piece, content: dict[str, Any]) -> None:
        """Take note of the tuning that a run rests on."""
        self.tunings.setdefault(tuning.key, tuning)
        name = run.experiment.name, run.variant.name, run.spec.name, run.method
        self.aims[(*name, "last")] = tuned_for(tuning, content)

    def miss(self, piece: Piece) -> None:
        """Take note of a run that is not made yet."""
        place = (piece.experiment.name, piece.variant.name, piece.spec.name)
        self.to_come[place] = self.to_come.get(place, 0) + 1

    @staticmethod
    def _row(
        names: tuple[str, str, str, str],
        content: dict[str, Any],
        record: dict[str, Any],
        best: Optimum,
    ) -> dict[str, Any]:
        objective = record["objective"]
        kept = ("epoch", "passes", "reads", "seconds", "test_loss", "test_error", "feasibility")
        return {
            "experiment": names[0],
            "variant": names[1],
            "dataset": names[2],
            "method": names[3],
            "point": record["point"],
            "seed": content["seed"],
            "status": content["status"],
            "objective": objective,
            "floor": best.floor,
            "gap": None if objective is None else objective - best.value,
        } | {name: record[name] for name in kept}

    def keys(self, experiment: str, variant: str, dataset: str | None = None) -> Iterator[Key]:
        """Yield the keys of one figure, or of one of its columns."""
        for key in self.runs:
            if key[:2] == (experiment, variant) and dataset in (None, key[2]):
                yield key

    def datasets(self, experiment: str, variant: str) -> list[str]:
        """Return the columns of a figure."""
        return list(dict.fromkeys(key[2] for key in self.keys(experiment, variant)))

    def get(
        self, experiment: str, variant: str, dataset: str, method: str, point: str
    ) -> dict[int, Curve]:
        """Return the runs of one method, empty when there are none."""
        return self.runs.get((experiment, variant, dataset, method, point), {})


def tuned_for(tuning: Piece, content: dict[str, Any]) -> str:
    """Return what settings were tuned for, and on which rows."""
    end = tuning.aim == "end"
    some = f"{content['rows']:,} rows" if end else "a sample; checked on all"
    return f"the {tuning.aim}, {'all rows' if content['whole'] else some}"


def curve(records: list[dict[str, Any]], best: Optimum, status: str) -> Curve:
    """Return the arrays of one run."""
    columns = {
        name: np.array([np.nan if r.get(name) is None else r[name] for r in records], dtype=float)
        for name in ("passes", "reads", "seconds", "objective", "test_loss", "test_error", "epoch")
    }
    objective = np.where(np.isfinite(columns["objective"]), columns["objective"], np.inf)
    away, scale = objective - best.value, max(abs(best.value), 1e-300)
    tight, known = OPTIONS.tight * scale, np.isfinite(best.gap)
    within = best.gap if not best.floor <= tight else 0.0
    least = max(tight, OPTIONS.beyond * best.gap if known else 0.0) if within else best.floor
    return Curve(
        columns["passes"],
        columns["seconds"],
        np.maximum(away, best.floor),
        columns["test_loss"],
        columns["test_error"],
        best.floor,
        scale,
        status,
        columns["epoch"],
        columns["reads"],
        np.maximum(away, least),
        within,
    )
