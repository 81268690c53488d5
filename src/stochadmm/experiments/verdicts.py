"""How a claim is decided: two measures over the seeds, a margin, and words for them.

"A is faster than B" by ``curves.advantage`` (gaps after the same passes) and by
``curves.speed_up`` (passes to the same gap), a ratio per seed each. All seeds above ``MARGIN``:
holds; all below its inverse: does not hold; otherwise, or with one seed only, not decidable. Where
the two measures differ, the comparison is not decidable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from ..base.immutable import field_values
from ..base.protocols import Array
from .curves import Curve, advantage, speed_up

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decidable"


@dataclass(frozen=True)
class Margin:
    """When a ratio of two methods says something."""

    ratio: float = 10**0.1
    """A tenth of a decade, about a quarter: less is within what seeds do."""


MARGIN = Margin()
RULE = (
    "Two measures, one number per seed. Gap: the gap of B over that of A after the same passes, "
    "as the geometric mean over their common range. Speed: the passes that B needs to a gap over "
    "those that A needs, as the geometric mean over gaps from the end of the first epochs down to "
    "the smallest that either reaches; a gap that is not reached counts as reached at the end of "
    "the runs, and a diverged run reaches nothing. By one measure A is faster than B when every "
    f"seed is above {MARGIN.ratio:.2f}, and is not when every seed is below 1/{MARGIN.ratio:.2f}; "
    "otherwise, or with fewer than two seeds, it is not decidable. The verdict is what both "
    "measures say, and not decidable where they differ. At the end: the gap at the last pass "
    "that both have made, alone. Gaps are to certified optima; below a certificate they count "
    "as equal. A claim about all data sets does not hold as soon as it fails on one, one that "
    "something happens at times holds as soon as it holds on one. Passes decide; what seconds "
    "would decide is said beside. The measure of gaps and the margin were set first; the measure "
    "of speed was added after quick runs and a full run on protein had been seen, which is why "
    "neither decides alone and both are shown."
)


@dataclass(frozen=True)
class Evidence:
    """One comparison: where, against what, the verdict there, and what it rests on.

    Attributes
    ----------
    where, against : str
        Row and column of the claim's table.
    verdict : str
        Of this comparison.
    figure : str
        The number that decided it, in words.
    text : str
        The other numbers in words.
    by_time, by_gap, by_speed : str
        The verdict with seconds instead of passes, and by one measure alone; empty where there is
        none.
    numbers : dict
        One number per seed, by name.
    """

    where: str
    against: str
    verdict: str
    figure: str
    text: str = ""
    by_time: str = ""
    by_gap: str = ""
    by_speed: str = ""
    numbers: dict[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A statement with its verdict and everything that it rests on."""

    name: str
    statement: str
    verdict: str
    evidence: list[Evidence] = field(default_factory=list)
    note: str = ""
    by_time: str = ""
    by_gap: str = ""
    by_speed: str = ""


def decide(numbers: Iterable[float], margin: float = MARGIN.ratio) -> str:
    """Return the verdict of one comparison from a ratio per seed, above one when it holds.

    Examples
    --------
    >>> decide([2.0, 3.0]), decide([0.5, 0.4]), decide([2.0, 0.4]), decide([2.0])
    ('holds', 'does not hold', 'not decidable', 'not decidable')
    """
    values = list(numbers)
    if len(values) < 2 or any(map(math.isnan, values)):
        return OPEN
    if min(values) > margin:
        return HOLDS
    return FAILS if max(values) < 1 / margin else OPEN


def no_harm(numbers: Iterable[float]) -> str:
    """Return whether something costs nothing: no seed loses more than the margin.

    Examples
    --------
    >>> no_harm([1.0, 0.99]), no_harm([0.5, 0.6]), no_harm([0.5, 1.0])
    ('holds', 'does not hold', 'not decidable')
    """
    return decide([x * MARGIN.ratio for x in numbers], 1.0)


def everywhere(verdicts: Iterable[str]) -> str:
    """Return the verdict of a claim about all cases."""
    found = list(verdicts)
    if FAILS in found:
        return FAILS
    return OPEN if OPEN in found or not found else HOLDS


def somewhere(verdicts: Iterable[str]) -> str:
    """Return the verdict of a claim that something happens at times."""
    found = list(verdicts)
    if HOLDS in found:
        return HOLDS
    return OPEN if OPEN in found or not found else FAILS


def agreed(first: str, second: str) -> str:
    """Return what two measures say together.

    Examples
    --------
    >>> agreed(HOLDS, HOLDS), agreed(HOLDS, FAILS), agreed(HOLDS, OPEN)
    ('holds', 'not decidable', 'not decidable')
    """
    return first if first == second else OPEN


Rule = Callable[[Iterable[float]], str]


def compare(
    a: dict[int, Curve], b: dict[int, Curve], where: str, against: str, *,
    at_end: bool = False, rule: Rule = decide,
) -> Evidence:  # fmt: skip
    """Return whether a is faster than b, with the numbers; at the end by gaps alone."""
    seeds = sorted(set(a) & set(b))
    if not seeds:
        return Evidence(where, against, OPEN, "not run")
    found: dict[str, dict[str, list[float]]] = {}
    for axis in ("passes", "seconds"):
        gaps = [10 ** advantage(a[s], b[s], axis, at_end=at_end) for s in seeds]
        found[axis] = {"gap": gaps}
        if not at_end:
            found[axis]["speed"] = [speed_up(a[s], b[s], axis) for s in seeds]
    single = {axis: [rule(x) for x in by.values()] for axis, by in found.items()}
    verdicts = {axis: v[0] if at_end else agreed(*v) for axis, v in single.items()}
    last = [np.array([c[s].gap[-1] for s in seeds]) for c in (a, b)]
    words = {axis: ", ".join(f"{k} {times(v)}" for k, v in by.items())
             for axis, by in found.items()}  # fmt: skip
    text = (
        f"by time: {words['seconds']}; last gaps {mean_gap(last[0])} and {mean_gap(last[1])}; "
        f"{_ends(a, b, seeds)}"
    )
    numbers = {f"{k} by {axis}": v for axis, by in found.items() for k, v in by.items()}
    numbers |= {"last gap": list(last[0]), "last gap of the other": list(last[1])}
    plain = {k: [float(x) if math.isfinite(x) else None for x in v] for k, v in numbers.items()}
    return Evidence(
        where, against, verdicts["passes"], words["passes"], text, verdicts["seconds"],
        single["passes"][0], "" if at_end else single["passes"][1], plain,
    )  # fmt: skip


def claim(
    name: str, statement: str, evidence: list[Evidence], note: str = "",
    rule: Callable[[Iterable[str]], str] = everywhere,
) -> Claim:  # fmt: skip
    """Return a claim with its verdict, and those by time and by one measure alone."""
    beside = {}
    for field_name in ("by_time", "by_gap", "by_speed"):
        single = [v for e in evidence if (v := field_values(e)[field_name])]
        beside[field_name] = rule(single) if single else ""
    return Claim(name, statement, rule(e.verdict for e in evidence), evidence, note, **beside)


def times(numbers: list[float]) -> str:
    """Return a range of ratios in words.

    Examples
    --------
    >>> times([1.501, 1.5]), times([0.5, 12.3]), times([float("nan")])
    ('1.50×', '0.50 to 12×', 'no number')
    """
    if any(map(math.isnan, numbers)):
        return "no number"
    low, high = _short(min(numbers)), _short(max(numbers))
    return f"{low}×" if low == high else f"{low} to {high}×"


def mean_gap(gaps: Array) -> str:
    """Return the geometric mean of gaps in words."""
    finite = gaps[np.isfinite(gaps)]
    if not finite.size:
        return "none"
    middle = float(np.exp(np.mean(np.log(finite))))
    return f"{middle:.1e}" if middle < 1e9 else "beyond measure"


def _short(x: float) -> str:
    if x >= 9.95:
        return f"{x:.0f}" if x < 1e4 else f"{x:.0e}"
    return f"{x:.1f}" if x >= 1.995 else f"{x:.2f}" if x >= 0.01 else f"{x:.0e}"


def _ends(a: dict[int, Curve], b: dict[int, Curve], seeds: list[int]) -> str:
    """Return the number of seeds, and of runs that have diverged."""
    lost = [sum(c[s].status == "diverged" for s in seeds) for c in (a, b)]
    words = f", diverged: {lost[0]} and {lost[1]}" if any(lost) else ""
    return f"{len(seeds)} seeds{words}"
