"""The tables of a reproduction: data sets, tuning, optima, and the machine."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from .config import DataSpec, Experiment, load, names
from .curves import tuned_for
from .methods import METHODS, n_inner
from .pieces import KINDS, Piece, pieces
from .recipes import RECIPES

if TYPE_CHECKING:
    from .bench import Bench


@dataclass(frozen=True)
class TableOptions:
    """What tables call tight."""

    tight: float = 1e-6
    """Relative gap of an optimum that is certified well enough for every figure."""


OPTIONS = TableOptions()
PACKAGES = ("stochadmm", "numpy", "scipy", "scikit-learn", "matplotlib", "PyYAML")


@dataclass(frozen=True)
class Table:
    """A table of the report: cells are texts."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def sizes_table(quick: bool, optima: dict[str, dict[str, Any]], every: bool = True) -> Table:
    """Return the data sets with their sizes; those of finished problems as they were used.

    Only those unless ``every`` one is asked for.
    """
    rows = []
    specs: dict[str, DataSpec] = {}
    for name in names():
        for spec in load(name, quick=quick).datasets:
            specs.setdefault(spec.name, spec)
    for name, spec in specs.items():
        used = optima.get(name)
        if used is None and not every:
            continue
        cells = ("not loaded", "", "", "")
        if used is not None:
            cells = (
                f"{used['n']:,} + {used['n_test']:,}",
                f"{used['d']:,}" + (f" x {used['outputs']}" if used["outputs"] else ""),
                f"{n_inner(used['n'], spec.batch):,}",
                used["note"] or ("files" if RECIPES[name].files_of else "generated or shipped"),
            )
        rows.append(
            (
                name,
                RECIPES[name].words,
                *cells[:2],
                f"{spec.batch}",
                cells[2],
                RECIPES[name].paper,
                cells[3],
            )
        )
    return Table(
        "table2",
        "Data sets",
        (
            "name",
            "in figures",
            "rows, train + test",
            "features",
            "b",
            "m",
            "in the paper",
            "source",
        ),
        rows,
        "Columns are scaled to a root mean square of one, then rows to unit norm; the variant raw "
        "scales rows only. The paper's a9a has the sizes of the protein set of KDD Cup "
        "2004; both readings are run. dna is generated, one-hot, in the paper's shape.",
    )


def tuning_table(bench: Bench, tunings: Iterable[Piece]) -> Table:
    """Return what tuning chose, what lies beside every choice, and what it cost."""
    rows = []
    for piece in tunings:
        t = bench.tuned(piece)
        scaling = "" if piece.variant.scaling == "columns" else f", {piece.variant.scaling}"
        mu = piece.experiment.strength(piece.spec, piece.variant)
        where = f"{piece.spec.name}{scaling}, μ = {mu:g}"
        cost = (
            f"{t['n_halving']}",
            f"{t['n_trials']}",
            f"{t['passes']:.0f}",
            f"{t['seconds']:.1f}",
        )
        for side in t["sides"]:
            edge = {"inner": "", "edge": "yes"}.get(side["status"], side["status"])
            rows.append(
                (
                    piece.experiment.name,
                    where,
                    METHODS[piece.method].label,
                    tuned_for(piece, t),
                    side["name"],
                    f"{t['setting'][side['name']]:.4g}",
                    edge,
                    _power(side["below"]),
                    _power(t["score"]),
                    _power(side["above"]),
                    *cost,
                )
            )
    return Table(
        "tuning",
        "Tuning: parameters chosen jointly at the full length, and their neighbours",
        (
            "figure",
            "data",
            "method",
            "tuned for",
            "knob",
            "chosen",
            "at the edge",
            "gap below",
            "gap",
            "gap above",
            "runs of halving",
            "runs in all",
            "gradients",
            "seconds",
        ),
        rows,
        "Every knob is a factor. factor: of the curvature of theory (smaller means longer steps); "
        "first: of the automatic penalty parameter (of rho, or of the balance, where a method has "
        "that); rise: the last penalty parameter over the first; noise: of the automatic noise "
        "weight; warm: of curvature and noise weight of the warm start. Gaps are geometric means "
        "over the seeds of tuning, and over the gradients of a run where it is tuned for the "
        "curve, else at its end; at the choice and one grid step below and above. At the edge: "
        "empty if both neighbours are worse; flat if one is within the variation over seeds; "
        "bound if there is no neighbour (a growing penalty parameter "
        "cannot fall, and has a cap); yes if a better value may lie outside of what was tried. "
        "The cost, in runs, gradients and processor seconds, is not part of the curves.",
    )


def cost_table(bench: Bench, chosen: list[Experiment]) -> Table:
    """Return what the finished work has cost, by experiment and kind of work."""
    rows = []
    for experiment in chosen:
        found: dict[str, list[list[float]]] = {}
        every = list(pieces(experiment))
        former = (dataclasses.replace(p, former=True) for p in every if p.aim == "curve")
        for piece in [*every, *former]:
            kept = bench.finished(piece) if piece.kind == "runs" else bench.kept(piece)
            if kept is not None and (took := _took(piece.kind, kept)) is not None:
                found.setdefault(piece.kind, []).append(took)
        for kind in KINDS:
            if kind in found:
                wall, processor = np.sum(found[kind], axis=0)
                rows.append(
                    (
                        experiment.name,
                        kind,
                        f"{len(found[kind])}",
                        f"{wall / 60:.1f}",
                        f"{processor / 60:.1f}",
                    )
                )
    return Table(
        "cost",
        "What it cost",
        ("figure", "work", "pieces", "minutes", "processor minutes"),
        rows,
        "For tuning all trials count; other pieces that were interrupted count from where they "
        "were resumed. Loading data counts with the piece that needed it first.",
    )


def _took(kind: str, kept: dict[str, Any]) -> list[float] | None:
    """Return seconds of waiting and of the processor; of a tuning those of all its trials."""
    took: list[float] | None = kept.get("took")
    if kind != "tuning":
        return took
    trials = float(kept["seconds"])
    return [max(took[0] if took else 0.0, trials), trials]


def _power(score: float | None) -> str:
    """Return a gap from its logarithm, empty where there is none."""
    if score is None:
        return ""
    return f"{10.0**score:.2e}" if np.isfinite(score) else "diverged"


def graph_tables(bench: Bench, chosen: list[Experiment]) -> list[Table]:
    """Return the estimated edges, a table per data set, for the files alone."""
    found = {}
    for experiment in chosen:
        for piece in pieces(experiment):
            kept = bench.kept(piece) if piece.kind == "graphs" else None
            if kept is not None:
                rows = [(str(a), str(b)) for a, b in kept["edges"]]
                name = f"graph-{piece.key[-1]}"
                found[name] = Table(name, "", ("column", "column of the other end"), rows)
    return list(found.values())


def optima_table(optima: dict[tuple[str, str], dict[str, Any]]) -> Table:
    """Return the certified optima."""
    rows = [
        (
            figure,
            dataset,
            f"{o['value']:.10g}",
            "none" if o["gap"] is None else f"{o['gap']:.1e}",
            _tight(o),
            f"{o['seconds']:.1f}",
            f"{o['lipschitz_max']:.3g}",
            "" if o["lipschitz_mean"] is None else f"{o['lipschitz_mean']:.3g}",
        )
        for (figure, dataset), o in optima.items()
    ]
    return Table(
        "optima",
        "Certified optima",
        ("figure", "data", "F*", "certified within", "tight", "seconds", "Lmax", "Lf"),
        rows,
        "Computed by the automatic solver, with its duality gap. Curves end at the accuracy of "
        "the certificate: smaller gaps cannot be told from zero. Tight: certified within "
        f"{OPTIONS.tight:g} of the optimum, relative to it; where it is not, the claims about "
        "this data set rest on larger gaps only.",
    )


def _tight(optimum: dict[str, Any]) -> str:
    gap = optimum["gap"]
    return "yes" if gap is not None and gap <= OPTIONS.tight * abs(optimum["value"]) else "no"


def environment() -> dict[str, str]:
    """Return versions and machine facts."""
    facts = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    facts["processor"] = _processor()
    facts["cores"] = str(os.cpu_count())
    facts["threads of BLAS"] = _threads()
    for name in PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "not installed"
    return facts


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _threads() -> str:
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool.get("user_api") == "blas"]
    return ", ".join(str(pool["num_threads"]) for pool in pools) or "unknown"
