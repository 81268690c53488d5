"""The claims of the paper on finished runs; ``verdicts`` says how each is decided."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from .config import names
from .curves import Curves
from .methods import METHODS, RIVALS
from .tables import Table
from .verdicts import (
    ALONE,
    FAILS,
    HOLDS,
    OPEN,
    Claim,
    Evidence,
    claim,
    compare,
    no_harm,
    somewhere,
)

MAIN = (("fig1", "theory"), ("fig2", "tuned"))
STRONG = (("fig1", "strong"), ("fig2", "strong"))
STEPS = ["theory", "step-1.25", "step-1.5", "step-2", "step-4"]
FASTER = "ACC-SADMM is faster than"
ARRAYS = {
    "svrg-admm": ("x1", "x2", "λ", "x̃2", "∇f2(x̃2)", "Σx2", "batch gradient"),
    "acc-sadmm": (
        "x1",
        "x2",
        "y1",
        "y2",
        "x̃1",
        "x̃2",
        "Σx1",
        "Σx2",
        "λ̃",
        "A x̃",
        "∇f2(x̃2)",
        "batch gradient",
    ),
}
"""The d x C arrays of a method as it is written, with A1 = -I and A2 = I."""


EARLIER = {
    "lasso": OPEN,
    "lasso-end": OPEN,
    "fused": OPEN,
    "fused-end": HOLDS,
    "multitask": FAILS,
    "multitask-end": FAILS,
    "steps": FAILS,
    "steps-end": FAILS,
    "non-ergodic": OPEN,
    "slow-svrg": OPEN,
    "tuned-svrg": HOLDS,
    "growth": OPEN,
    "memory": FAILS,
    "auto": FAILS,
}
"""The verdicts of the first publication, tuned one coordinate at a time on unscaled columns."""


def decide_all(
    curves: Curves, memory: dict[str, float], peaks: dict[str, float] | None = None
) -> list[Claim]:
    """Return every claim; ``memory`` holds bytes by method at ImageNet's shape.

    ``peaks`` are those that were measured, by label, in single precision.
    """
    # of steps that were not run, in the quick form above all, nothing is said
    steps = [name for name in STEPS if curves.datasets("fig1", name)]
    longest = steps[-1].removeprefix("step-") if len(steps) > 1 else ""
    found = [
        *(
            _faster(curves, name, *spec, at_end=at_end)
            for name, spec in {
                "lasso": ("fig1", ["theory"], "the lasso with steps from theory"),
                "fused": ("fig2", ["tuned"], "the graph-guided fused lasso with tuned steps"),
                "multitask": ("fig3", ["tuned"], "multitask learning with tuned steps"),
                "steps": (
                    "fig1",
                    steps,
                    f"the lasso with fixed steps up to {longest} times theory's",
                ),
                "imagenet": (
                    "imagenet",
                    ["tuned"],
                    "multitask learning at ImageNet's shape",
                ),
                "overlap": ("overlap", ["tuned"], "overlapping groups with tuned steps"),
                "rows-and-rank": (
                    "rows-and-rank",
                    ["tuned"],
                    "l2,1 and nuclear norm with tuned steps",
                ),
                "raw-lasso": ("fig1", ["raw"], "the lasso, columns not scaled"),
                "raw-fused": ("fig2", ["raw"], "the fused lasso, columns not scaled"),
            }.items()
            for at_end in (False, True)
            if name != "steps" or longest
        ),
        *(
            _faster(curves, f"{figure}-{variant}", figure, [variant], figure, at_end=at_end)
            for figure, variant in dict.fromkeys(key[:2] for key in curves.runs)
            if figure not in names()  # experiments of one's own
            for at_end in (False, True)
        ),
        _non_ergodic(curves),
        _slow_svrg(curves),
        _tuned_svrg(curves),
        _growth(curves),
        _katyusha(curves),
        _memory(memory, peaks or {}),
        _auto(curves),
    ]
    return [replace(c, earlier=EARLIER.get(c.name, "")) for c in found]


ASIDE = ("steps", "raw-lasso", "raw-fused", "imagenet")
"""Claims about speed that vary what another one is about, or rest on few epochs."""


def compared(decided: list[Claim]) -> list[Claim]:
    """Return the claims that ACC-SADMM is faster, one per kind of problem."""
    return [c for c in decided if c.name not in ASIDE and c.statement.startswith(FASTER)]


def comparisons(decided: list[Claim]) -> Table:
    """Return won, lost and open problems of ACC-SADMM against each rival, by unit of work."""
    chosen = compared(decided)
    evidence = [e for c in chosen for e in c.evidence if e.verdict != ALONE]
    rows = []
    for rival in dict.fromkeys(e.against for e in evidence):
        mine = [e for e in evidence if e.against == rival]
        units = zip(*((e.verdict, e.by_reads, e.by_time) for e in mine), strict=True)
        cells = [" / ".join(str(v.count(k)) for k in (HOLDS, FAILS, OPEN)) for v in units]
        rows.append((rival, str(len(mine)), *cells))
    words = ("gradients", "reads", "processor seconds")
    return Table(
        "comparisons",
        "ACC-SADMM against its rivals: problems won / lost / open",
        ("against", "problems", *(f"by {unit}" for unit in words)),
        rows,
        "Problems with several seeds: "
        + "; ".join(c.statement.split(" on ", 1)[1] for c in chosen)
        + ". Won or lost by the rule below; what is open is neither.",
    )


def _faster(
    curves: Curves, name: str, figure: str, variants: list[str], what: str, at_end: bool
) -> Claim:
    evidence = [
        compare(
            curves.get(figure, variant, dataset, "acc-sadmm", "last"),
            rival,
            f"{dataset}, {variant}" if len(variants) > 1 else dataset,
            METHODS[method].label,
            at_end=at_end,
        )
        for variant in variants
        for dataset in curves.datasets(figure, variant)
        for method in RIVALS
        if (rival := curves.get(figure, variant, dataset, method, "last"))
    ]
    *others, last = list(dict.fromkeys(e.against for e in evidence)) or [""]
    rivals = f"{', '.join(others)} and {last}" if others else last
    statement = f"{FASTER} {rivals} on {what}"
    if at_end:
        name, statement = f"{name}-end", f"At the end, ACC-SADMM has the smallest gap on {what}"
    return claim(name, statement, evidence)


def _places(curves: Curves, *figures: tuple[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield figure, variant and data set of columns, and their name in a table."""
    for figure, variant in figures:
        for dataset in curves.datasets(figure, variant):
            words = f"{figure}, {variant}" if variant == "strong" else figure
            yield figure, variant, dataset, f"{words}: {dataset}"


def _non_ergodic(curves: Curves) -> Claim:
    evidence = [
        compare(
            curves.get(figure, variant, dataset, name, "last"),
            mean,
            where,
            f"{method.label}'s average",
        )
        for figure, variant, dataset, where in _places(curves, *MAIN)
        for name, method in METHODS.items()
        if (mean := curves.get(figure, variant, dataset, name, "ergodic"))
    ]
    return claim(
        "non-ergodic", "Last iterates (non-ergodic) are faster than averages (ergodic)", evidence
    )


def _slow_svrg(curves: Curves) -> Claim:
    evidence = [
        compare(
            curves.get(figure, variant, dataset, "stoc-admm", "last"),
            curves.get(figure, variant, dataset, "svrg-admm", "last"),
            where,
            "STOC-ADMM's lead",
        )
        for figure, variant, dataset, where in _places(curves, MAIN[0])
    ]
    statement = "SVRG-ADMM is sometimes slower than STOC-ADMM with steps from theory"
    return claim("slow-svrg", statement, evidence, rule=somewhere)


def _tuned_svrg(curves: Curves) -> Claim:
    evidence = [
        compare(
            curves.get(figure, variant, dataset, "svrg-admm", "last"),
            curves.get(figure, variant, dataset, "stoc-admm", "last"),
            where,
            "SVRG-ADMM's lead",
        )
        for figure, variant, dataset, where in _places(curves, MAIN[1])
    ]
    return claim("tuned-svrg", "SVRG-ADMM is faster than STOC-ADMM with tuned steps", evidence)


def _growth(curves: Curves) -> Claim:
    evidence = [
        compare(
            growing,
            curves.get(figure, variant, dataset, "acc-sadmm-reset", "last"),
            where,
            "penalty reset",
            rule=no_harm,
        )
        for figure, variant, dataset, where in _places(curves, *MAIN, *STRONG, ("fig3", "tuned"))
        if (growing := curves.get(figure, variant, dataset, "acc-sadmm-momentum", "last"))
    ]
    return claim(
        "growth",
        "The growth of the penalty parameter in ACC-SADMM does no harm",
        evidence,
        "Two methods that restart their momentum every five epochs are compared: in one the "
        "penalty parameter goes on growing, in the other it is reset too. They differ in nothing "
        "else; the claim holds when the growing one is not behind by more than the margin.",
    )


def _katyusha(curves: Curves) -> Claim:
    evidence = [
        compare(
            curves.get("smooth", "tuned", dataset, "acc-sadmm", "last"),
            other,
            dataset,
            "Katyusha",
            rule=no_harm,
        )
        for dataset in curves.datasets("smooth", "tuned")
        if (other := curves.get("smooth", "tuned", dataset, "katyusha", "last"))
    ]
    return claim(
        "katyusha",
        "Without a constraint ACC-SADMM is as fast as Katyusha",
        evidence,
        "The claim holds when ACC-SADMM is not behind by more than the margin.",
    )


def _memory(memory: dict[str, float], peaks: dict[str, float]) -> Claim:
    evidence = []
    tables = {
        "SAG-ADMM, points": ("SAG-ADMM", 38.2 * 2**40, "38.2 TB"),
        "SDCA-ADMM": ("SDCA-ADMM", 9.6 * 2**30, "9.6 GB"),
    }
    for name, (label, stated, words) in tables.items():
        if name in memory:
            verdict = HOLDS if 0.9 <= memory[name] / stated <= 1.1 else FAILS
            evidence.append(Evidence(label, words, verdict, readable(memory[name])))
    for name, arrays in ARRAYS.items():
        if memory:
            size = len(arrays) * memory["one array"]
            verdict = HOLDS if size <= 250 * 2**20 else FAILS
            text = (
                f"{len(arrays)} arrays of one number per feature and class: {', '.join(arrays)}; "
                f"{readable(size / 2)} in single precision"
            )
            label = METHODS[name].label
            if label in peaks:
                text += (
                    f"; measured, with nothing kept per row, batches and the workspace of the "
                    f"nuclear norm included: {readable(peaks[label])} in single precision"
                )
            evidence.append(Evidence(label, "at most 250 MB", verdict, readable(size), text))
    return claim(
        "memory",
        "Memory at ImageNet's size: 38.2 TB, 9.6 GB, at most 250 MB",
        evidence,
        "The paper's units are binary and its numbers double precision. For SAG- and SDCA-ADMM "
        "what is kept for all rows has to agree within ten percent; for the two others the arrays "
        "of the method as it is written are counted.",
    )


def _auto(curves: Curves, target: float = 1e-4) -> Claim:
    """Decide who reaches a relative gap first that is small enough for most uses."""
    evidence = []
    for figure, variant, dataset, where in _places(curves, *MAIN, ("fig3", "tuned")):
        ours = curves.get(figure, variant, dataset, "auto", "last")
        rivals = [
            runs
            for name, method in METHODS.items()
            if method.in_paper and (runs := curves.get(figure, variant, dataset, name, "last"))
        ]
        if not ours or not rivals:
            continue
        mine = [c.reaches(target, "seconds") for c in ours.values()]
        theirs = [min(r[s].reaches(target, "seconds") for r in rivals) for s in rivals[0]]
        certain = all(c.floor <= target * c.scale for c in ours.values())
        verdict = ALONE if len(mine) == 1 else OPEN
        if verdict == OPEN and certain and max(mine) < min(theirs):
            verdict = HOLDS
        elif verdict == OPEN and certain and min(mine) > max(theirs):
            verdict = FAILS
        numbers = {"auto": _finite(mine), "best of the others": _finite(theirs)}
        figures = f"{_seconds(mine)}; the others {_seconds(theirs)}"
        evidence.append(
            Evidence(where, "time of auto", verdict, figures, "", verdict, numbers=numbers)
        )
    return claim(
        "auto",
        f"(ours) auto reaches a relative gap of {target:g} before the paper's methods",
        evidence,
        "Processor seconds of solving; the tuning of the others is not counted. The claim holds "
        "when the slowest seed of auto is faster than the fastest seed of every other method.",
    )


def readable(n_bytes: float) -> str:
    """Return a size in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n_bytes) < 1024:
            return f"{n_bytes:.4g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.4g} TiB"


def _finite(numbers: list[float]) -> list[float | None]:
    return [x if math.isfinite(x) else None for x in numbers]


def _seconds(numbers: list[float]) -> str:
    low, high = min(numbers), max(numbers)
    if not math.isfinite(low):
        return "never"
    return f"{low:.2g} to {high:.2g} s" if math.isfinite(high) else f"{low:.2g} s at best"
