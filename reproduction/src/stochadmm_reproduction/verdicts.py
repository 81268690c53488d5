"""How a claim is decided: two measures over the seeds, an interval, a margin, and words for them.

"A is faster than B" by ``comparison.advantage`` (gaps after the same gradients) and by
``comparison.speed_up`` (gradients to the same gap), a ratio per seed each. The 95 percent interval
of the mean logarithm over the seeds, by Student's distribution, must lie on one side of a ratio of
one, and the mean beyond ``MARGIN``. Where the two measures differ, nothing is decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from stochadmm import comparison
from stochadmm.comparison import ALONE as ALONE
from stochadmm.comparison import (
    LOST,
    MARGIN,
    WON,
    Interval,
    advantage,
    speed_up,
)
from stochadmm.comparison import OPEN as UNDECIDED

from ._plain import Array, field_values
from .curves import Curve

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decidable"


RULE = (
    "A is compared with B by two measures, each one number per seed.",
    "Gap: B's gap divided by A's after the same gradients, geometric mean over the common range.",
    "Speed: the gradients that B needs to reach a gap divided by those that A needs, geometric "
    "mean over gaps from the end of the first epochs down to the smallest that either reaches. A "
    "gap that is not reached counts as reached at the end of the runs; diverged runs reach "
    "nothing.",
    "By one measure A is faster than B when the geometric mean over the seeds is above "
    f"{MARGIN:.2f} and its 95 percent interval (Student's, on logarithms) is above 1. It is "
    f"not faster when the mean is below 1/{MARGIN:.2f} and the interval below 1. Otherwise "
    "it is not decidable, and the report says what would decide it.",
    "The verdict is what both measures say; where they differ it is not decidable.",
    "At the end: the gap at the last gradient that both methods have made, alone.",
    "Gradients are component gradients / n, as in the paper; reads are rows read / n.",
    "Gaps are to certified optima; below the accuracy of a certificate they count as equal. Where "
    "the optimum is only known to lie in an interval, both measures are taken with the optimum at "
    "either end of it, and what the two ends disagree on is not decidable.",
    "Runs with a single seed are shown and count for no verdict, in either direction.",
    "A claim about all data sets fails as soon as it fails on one. A claim that something happens "
    "sometimes holds as soon as it holds on one.",
    "Gradients decide; what reads and seconds would decide is said beside every claim.",
    "Intervals are per comparison and not corrected for the number of comparisons.",
)
"""The rule in words, a line per point."""


TIGHTER = "an optimum certified more tightly than the gaps that were reached"
"""What would decide where the optimum is known too roughly."""


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
    by_time, by_reads, by_gap, by_speed : str
        The verdict with seconds or reads instead of gradients, and by one measure alone; empty
        where there is none.
    missing : str
        What would decide it, where it is not decided.
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
    missing: str = ""
    by_reads: str = ""
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
    by_reads: str = ""
    by_gap: str = ""
    by_speed: str = ""
    missing: str = ""
    """What would decide it, where it is not decided."""
    earlier: str = ""
    """The verdict of the first publication, where there was one."""
    by_place: dict[str, str] = field(default_factory=dict)


def decide(numbers: Iterable[float], margin: float = MARGIN) -> str:
    """Return the verdict of one comparison from a ratio per seed, above one when it holds.

    Examples
    --------
    >>> decide([2.0, 2.1, 2.2]), decide([0.5, 0.4, 0.5]), decide([2.0, 0.4, 1.0]), decide([2.0])
    ('holds', 'does not hold', 'not decidable', 'one seed')
    """
    words = {WON: HOLDS, LOST: FAILS, UNDECIDED: OPEN, ALONE: ALONE}
    return words[comparison.decide(numbers, margin)]


def no_harm(numbers: Iterable[float]) -> str:
    """Return whether something costs nothing: the interval is above a loss by the margin.

    Examples
    --------
    >>> no_harm([1.0, 0.99, 1.0]), no_harm([0.5, 0.5, 0.6]), no_harm([0.5, 1.0, 0.8])
    ('holds', 'does not hold', 'not decidable')
    """
    return decide([x * MARGIN for x in numbers], 1.0)


def would_decide(numbers: Iterable[float]) -> str:
    """Return what would decide a comparison that the seeds leave open.

    Examples
    --------
    >>> would_decide([2.0]), would_decide([1.05, 1.03])
    ('more seeds: there is one', 'longer runs: so far the two are within 1.04×')
    >>> would_decide([2.0, 0.9, 1.9, 1.1, 0.8])
    'about 15 seeds instead of 5'
    """
    values = list(numbers)
    if any(map(math.isnan, values)):
        return TIGHTER
    if len(values) < 2:
        return "more seeds: there is one"
    found = Interval.of(values)
    size = max(found.mean, 1 / found.mean)
    if size <= MARGIN and found.low > 1 / 2 and found.high < 2:
        return f"longer runs: so far the two are within {size:.2f}×"
    spread = float(np.std(np.log(np.maximum(values, 1e-300)), ddof=1))
    wanted = math.ceil((2.0 * spread / max(abs(math.log(size)), 1e-3)) ** 2)
    if wanted <= len(values):
        wanted = len(values) + 1
    if wanted > 100:
        return f"longer runs: {len(values)} seeds point both ways"
    return f"about {wanted} seeds instead of {len(values)}"


def everywhere(verdicts: Iterable[str]) -> str:
    """Return the verdict of a claim about all cases.

    Examples
    --------
    >>> everywhere([HOLDS, HOLDS, ALONE]), everywhere([HOLDS, OPEN]), everywhere([ALONE])
    ('holds', 'not decidable', 'not decidable')
    """
    found = [v for v in verdicts if v != ALONE]
    if FAILS in found:
        return FAILS
    return OPEN if OPEN in found or not found else HOLDS


def somewhere(verdicts: Iterable[str]) -> str:
    """Return the verdict of a claim that something happens at times."""
    found = [v for v in verdicts if v != ALONE]
    if HOLDS in found:
        return HOLDS
    return OPEN if OPEN in found or not found else FAILS


def agreed(first: str, *others: str) -> str:
    """Return what several measures, or several possible optima, say together.

    Examples
    --------
    >>> agreed(HOLDS, HOLDS), agreed(HOLDS, FAILS), agreed(HOLDS, OPEN)
    ('holds', 'not decidable', 'not decidable')
    """
    return first if all(each == first for each in others) else OPEN


Rule = Callable[[Iterable[float]], str]


def compare(
    a: dict[int, Curve],
    b: dict[int, Curve],
    where: str,
    against: str,
    *,
    at_end: bool = False,
    rule: Rule = decide,
) -> Evidence:
    """Return whether a is faster than b, with the numbers; at the end by gaps alone."""
    seeds = sorted(set(a) & set(b))
    if not seeds:
        return Evidence(where, against, OPEN, "not run")
    pairs = [(a[s].possible(), b[s].possible()) for s in seeds]
    ends = [
        _measured([(x[k], y[k]) for x, y in pairs], at_end)
        for k in range(min(len(x) for x, _ in pairs))
    ]
    found = ends[-1]  # where the optimum is known roughly, as low as it may be
    by_end = [{axis: [rule(x) for x in by.values()] for axis, by in end.items()} for end in ends]
    single = {
        axis: [agreed(*v) for v in zip(*(end[axis] for end in by_end), strict=True)]
        for axis in found
    }
    verdicts = {axis: v[0] if at_end else agreed(*v) for axis, v in single.items()}
    last = [np.array([c[s].height("gap")[-1] for s in seeds]) for c in (a, b)]
    words = {
        axis: ", ".join(f"{k} {times(v)}" for k, v in by.items()) for axis, by in found.items()
    }
    text = (
        f"by reads: {words['reads']}; by time: {words['seconds']}; "
        f"last gaps {mean_gap(last[0])} and {mean_gap(last[1])}; {_ends(a, b, seeds)}"
    )
    numbers = {f"{k} by {axis}": v for axis, by in found.items() for k, v in by.items()}
    numbers |= {"last gap": list(last[0]), "last gap of the other": list(last[1])}
    plain = {k: [float(x) if math.isfinite(x) else None for x in v] for k, v in numbers.items()}
    missing = ""
    if verdicts["gradients"] in (OPEN, ALONE):
        ratios = found["gradients"]
        decided = dict(zip(ratios, single["gradients"], strict=True))
        open_ones = [k for k, v in decided.items() if v in (OPEN, ALONE)]
        missing = "; ".join(f"by {k}: {would_decide(ratios[k])}" for k in open_ones) or (
            "a choice of one measure: gap and speed say opposite things"
        )
        if len(ends) > 1:
            missing = TIGHTER
    return Evidence(
        where,
        against,
        verdicts["gradients"],
        words["gradients"],
        text,
        verdicts["seconds"],
        single["gradients"][0],
        "" if at_end else single["gradients"][1],
        missing,
        verdicts["reads"],
        plain,
    )


def _measured(pairs: list[tuple[Curve, Curve]], at_end: bool) -> dict[str, dict[str, list[float]]]:
    """Return both measures over both axes, a ratio per seed; at the end gaps alone."""
    found: dict[str, dict[str, list[float]]] = {}
    for axis in ("gradients", "reads", "seconds"):
        found[axis] = {"gap": [10 ** advantage(a, b, axis, at_end=at_end) for a, b in pairs]}
        if not at_end:
            found[axis]["speed"] = [speed_up(a, b, axis) for a, b in pairs]
    return found


def claim(
    name: str,
    statement: str,
    evidence: list[Evidence],
    note: str = "",
    rule: Callable[[Iterable[str]], str] = everywhere,
) -> Claim:
    """Return a claim with its verdict, and those by time, by reads and by one measure alone."""
    beside = {}
    for field_name in ("by_time", "by_reads", "by_gap", "by_speed"):
        single = [v for e in evidence if (v := field_values(e)[field_name])]
        beside[field_name] = rule(single) if single else ""
    verdict = rule(e.verdict for e in evidence)
    places = dict.fromkeys(e.where for e in evidence)
    by_place = {w: _at(w, evidence, rule) for w in places}
    missing = ""
    if verdict == OPEN:
        waits = OPEN if any(e.verdict != ALONE for e in evidence) else ALONE
        undecided = [e for e in evidence if e.verdict == waits and e.missing]
        missing = "; ".join(f"{e.where}, {e.against}: {e.missing}" for e in undecided[:6])
        more = len(undecided) - 6
        missing += f"; and {more} more" if more > 0 else ""
    return Claim(
        name, statement, verdict, evidence, note, missing=missing, by_place=by_place, **beside
    )


def _at(where: str, evidence: list[Evidence], rule: Callable[[Iterable[str]], str]) -> str:
    """Return the verdict at one place of a claim."""
    found = [e.verdict for e in evidence if e.where == where]
    return ALONE if set(found) == {ALONE} else rule(found)


def times(numbers: list[float]) -> str:
    """Return the mean of ratios in words, with its interval.

    Examples
    --------
    >>> times([1.501, 1.5, 1.5]), times([2.0, 2.0, 4.0]), times([2.0]), times([float("nan")])
    ('1.50×', '2.5× (0.93 to 6.8)', '2.0× (one seed)', 'no number')
    """
    if any(map(math.isnan, numbers)):
        return "no number"
    found = Interval.of(numbers)
    if len(numbers) < 2:
        return f"{_short(found.mean)}× (one seed)"
    mean, low, high = _short(found.mean), _short(found.low), _short(found.high)
    return f"{mean}×" if low == high else f"{mean}× ({low} to {high})"


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
    return f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}{words}"
