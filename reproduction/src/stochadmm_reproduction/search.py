"""The search for the knobs of a method: successive halving, then walks until nothing is left.

A candidate is a tuple of whole numbers, one per knob: the exponents of powers of its base. Points
spread over a box are run for a part of the passes, the better ones for longer, the best for the
whole length and on several seeds. From the best of these a walk goes to a neighbour, one step in
one knob or in two, as long as one is better; there is no edge to the grid. It ends where all
neighbours have been run for the whole length and none is better by more than seeds vary. Then
walks begin from the next best points, and from new ones, until as many candidates have been run as
every method gets: a method with fewer knobs has more walks, not fewer runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations, islice, product

import numpy as np

Candidate = tuple[int, ...]
Measure = Callable[[Candidate, float, int], float]
"""From a candidate, the share of the full length and a seed to log10 of the gap: at the end, or on
average over the run."""

INNER, FLAT, BOUND, EDGE = "inner", "flat", "bound", "edge"


@dataclass(frozen=True)
class Knob:
    """A number that a method is tuned by: ``base ** k``, first tried from ``low`` to ``high``.

    ``least`` and ``most`` bound what means anything: a penalty cannot fall while it grows.
    """

    name: str
    base: float
    low: int
    high: int
    least: int | None = None
    most: int | None = None

    def inside(self, k: int) -> int:
        """Return an exponent, or the bound that it lies beyond."""
        low = k if self.least is None else max(k, self.least)
        return low if self.most is None else min(low, self.most)

    def value(self, k: int) -> float:
        """Return the number that belongs to an exponent."""
        return float(self.base**k)


@dataclass(frozen=True)
class SearchOptions:
    """What counts as better."""

    least_gain: float = 0.02
    """Powers of ten below which a smaller gap is no gain: five percent."""
    clearly_worse: float = 0.5
    """Powers of ten by which one seed tells that a neighbour is worse, without the others."""
    cut: float = 4.0
    """Times the candidates of a plan after which a walk is cut off, for one that never ends."""
    rounds: int = 20
    """Hypercubes that are drawn for points at most; small grids are used up before."""


@dataclass(frozen=True)
class Plan:
    """How much is tried: the same for every method."""

    points: int
    shares: tuple[float, ...]
    """Parts of the full length, one per rung; the last is 1."""
    kept: tuple[int, ...]
    """Candidates that go on to the following rungs."""
    seeds: tuple[int, ...]
    most: int
    """Candidates run for the whole length; a walk that has begun goes on to its end."""


@dataclass(frozen=True)
class Side:
    """What was found of a knob: the gaps of the neighbours, and what that makes of the choice."""

    name: str
    exponent: int
    status: str
    below: float | None
    above: float | None


@dataclass(frozen=True)
class Found:
    """The choice of a search: mean of log10 of the gap over the seeds, and what it cost."""

    candidate: Candidate
    score: float
    spread: float
    """Standard error of the score over the seeds."""
    sides: list[Side]
    n_halving: int
    n_walks: int


@dataclass
class Search:
    """One search; everything is a function of what ``measure`` returns, so it can be replayed."""

    knobs: tuple[Knob, ...]
    measure: Measure
    plan: Plan
    canonical: Callable[[Candidate], Candidate] = lambda candidate: candidate
    """The candidate that means the same where a natural bound cuts one off."""
    options: SearchOptions = field(default_factory=SearchOptions)
    pairs: bool = True
    """Whether walks also go one step in two knobs at once."""
    known: dict[tuple[Candidate, float, int], float] = field(default_factory=dict)

    def run(self) -> Found:
        """Search."""
        ranked = self._halve()
        halving = len(self.known)
        best, n_walks = self._walks(ranked)
        scores = self._scores(best)
        return Found(
            best,
            _mean(scores),
            _error(scores),
            self._sides(best),
            halving,
            n_walks,
        )

    def check(self, start: Candidate) -> Found:
        """Walk from a choice that was made on fewer rows, in one knob at a time."""
        self.pairs = False
        best = self._walk(self._proper(start))
        scores = self._scores(best)
        return Found(best, _mean(scores), _error(scores), self._sides(best), 0, 1)

    # ---------------------------------------------------------------- halving

    def points(self) -> list[Candidate]:
        """Return the first candidates: the defaults, then points spread over the boxes."""
        return list(islice(self._spread(), self.plan.points))

    def _spread(self) -> Iterator[Candidate]:
        """Yield the defaults, then the points of one Latin hypercube after the other."""
        rng, n = np.random.default_rng(0), self.plan.points
        found = {self._proper(tuple(0 for _ in self.knobs))}
        yield from found
        for _ in range(self.options.rounds if self.knobs else 0):
            places = np.stack([rng.permutation(n) for _ in self.knobs], axis=1) + rng.random()
            for place in places / n:
                exponents = tuple(
                    int(k.low + math.floor(u % 1.0 * (k.high - k.low + 1)))
                    for k, u in zip(self.knobs, place, strict=True)
                )
                candidate = self._proper(exponents)
                if candidate not in found:  # duplicates after rounding are replaced
                    found.add(candidate)
                    yield candidate

    def _halve(self) -> list[Candidate]:
        """Return the first candidates from the best to the worst."""
        ranked, seed = self.points(), self.plan.seeds[0]
        n_left = len(ranked)
        for share, kept in zip(self.plan.shares[:-1], self.plan.kept, strict=True):
            ranked[:n_left] = sorted(ranked[:n_left], key=lambda c: self._ask(c, share, seed))
            n_left = min(kept, n_left)
        ranked[:n_left] = sorted(ranked[:n_left], key=lambda c: _mean(self._scores(c)))
        return ranked

    # ---------------------------------------------------------------- walks

    @property
    def n_whole(self) -> int:
        """Candidates that have been run for the whole length."""
        return len({candidate for candidate, share, _ in self.known if share == 1.0})

    def _walks(self, ranked: list[Candidate]) -> tuple[Candidate, int]:
        """Return the best end of walks from one point after the other, and their number."""
        best, n_walks = self._walk(ranked[0]), 1
        later = islice(self._spread(), self.plan.points, None)
        for start in chain(ranked[1:], later):
            if self.n_whole >= self.plan.most:
                break
            end, n_walks = self._walk(start), n_walks + 1
            if self._better(end, best):
                best = end
        return best, n_walks

    def _walk(self, best: Candidate) -> Candidate:
        """Return where no neighbour is better, or where the walk is cut off."""
        self._scores(best)
        tried, moved = {best}, True
        step = tuple(0 for _ in self.knobs)
        while moved:
            moved = False
            onward = self._proper(tuple(a + b for a, b in zip(best, step, strict=True)))
            for neighbour in dict.fromkeys([onward, *self._neighbours(best)]):
                if neighbour in tried:
                    continue
                if self.n_whole > self.options.cut * self.plan.most:
                    return best
                tried.add(neighbour)
                if self._better(neighbour, best):
                    step = tuple(a - b for a, b in zip(neighbour, best, strict=True))
                    best, moved = neighbour, True
                    break
        return best

    def _neighbours(self, candidate: Candidate) -> list[Candidate]:
        """Return one step in one knob, then one in two of them: valleys may run across."""
        knobs, steps = range(len(self.knobs)), (-1, 1)
        found = [self._moved(candidate, k, step) for k in knobs for step in steps]
        for first, second in combinations(knobs if self.pairs else (), 2):
            for a, b in product(steps, steps):
                exponents = list(candidate)
                exponents[first] += a
                exponents[second] += b
                found.append(self._proper(tuple(exponents)))
        return [moved for moved in dict.fromkeys(found) if moved != candidate]

    def _moved(self, candidate: Candidate, k: int, step: int) -> Candidate:
        exponents = list(candidate)
        exponents[k] += step
        return self._proper(tuple(exponents))

    def _proper(self, candidate: Candidate) -> Candidate:
        within = tuple(k.inside(e) for k, e in zip(self.knobs, candidate, strict=True))
        return self.canonical(within)

    def _better(self, candidate: Candidate, best: Candidate) -> bool:
        first = self._ask(candidate, 1.0, self.plan.seeds[0])
        if first > self._scores(best)[0] + self.options.clearly_worse:
            return False
        return _mean(self._scores(candidate)) < _mean(self._scores(best)) - self._noise(
            candidate, best
        )

    def _noise(self, candidate: Candidate, best: Candidate) -> float:
        """Return the difference that is no gain: that of seeds, or too little to matter."""
        pairs = zip(self._scores(candidate), self._scores(best), strict=True)
        differences = [a - b for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
        return max(self.options.least_gain, _error(differences))

    # ---------------------------------------------------------------- what was found

    def _sides(self, best: Candidate) -> list[Side]:
        found = []
        for k, knob in enumerate(self.knobs):
            below, above = (self._side(best, k, step) for step in (-1, 1))
            statuses = {below[1], above[1]}
            order = (EDGE, BOUND, FLAT, INNER)
            status = next(s for s in order if s in statuses)
            found.append(Side(knob.name, best[k], status, below[0], above[0]))
        return found

    def _side(self, best: Candidate, k: int, step: int) -> tuple[float | None, str]:
        neighbour = self._moved(best, k, step)
        if neighbour == best:
            return None, BOUND
        key = (neighbour, 1.0, self.plan.seeds[0])
        if key not in self.known:
            return None, EDGE
        first = self.known[key]
        if first > self._scores(best)[0] + self.options.clearly_worse:
            return first, INNER
        mean, own = _mean(self._scores(neighbour)), _mean(self._scores(best))
        noise = self._noise(neighbour, best)
        if mean < own - noise:
            return mean, EDGE
        return mean, FLAT if mean <= own + noise else INNER

    def _scores(self, candidate: Candidate) -> list[float]:
        return [self._ask(candidate, 1.0, seed) for seed in self.plan.seeds]

    def _ask(self, candidate: Candidate, share: float, seed: int) -> float:
        key = (candidate, share, seed)
        if key not in self.known:
            self.known[key] = self.measure(candidate, share, seed)
        return self.known[key]


def _mean(scores: list[float]) -> float:
    return float(np.mean(scores)) if scores else math.inf


def _error(scores: list[float]) -> float:
    if len(scores) < 2 or not np.isfinite(scores).all():
        return 0.0
    return float(np.std(scores, ddof=1) / math.sqrt(len(scores)))
