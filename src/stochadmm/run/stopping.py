"""Stopping rules: small objects that look at one record and answer yes or no."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.capabilities import has_members
from ..base.validation import is_number
from .result import Record


class Rule:
    """A stopping rule; ``describe`` says what was asked and what was reached.

    Any object with ``__call__`` and ``describe`` serves as one; the other questions have answers
    that suit most rules.
    """

    def __call__(self, record: Record) -> bool:
        """Say whether the point of a record ends the run."""
        raise TypeError(f"{type(self).__name__} does not define `__call__`")

    def describe(self, record: Record) -> str:
        """Return both numbers in words."""
        raise TypeError(f"{type(self).__name__} does not define `describe`")

    def accepts(self, record: Record) -> bool:
        """Say whether the point of a record is what was asked for: the run has converged."""
        return self(record)

    def wanted_gap(self) -> Gap | None:
        """Return the gap that ends a run by this rule, None where it waits for none."""
        return None


def as_rule(stop: Any) -> Rule:
    """Return a rule from a rule, a relative gap, or nothing."""
    if stop is None:
        return Gap(1e-6)
    if isinstance(stop, Rule):
        return stop
    if is_number(stop):
        return Gap(float(stop))
    if not has_members(stop, "__call__", "describe"):
        raise TypeError(f"stop is {stop!r}, expected a rule such as sa.Gap(1e-6) or a number")
    return _Own(stop)


class _Own(Rule):
    """A rule of the user's own making."""

    def __init__(self, rule: Any) -> None:
        self.rule = rule

    def __call__(self, record: Record) -> bool:
        return bool(self.rule(record))

    def describe(self, record: Record) -> str:
        return str(self.rule.describe(record))


@dataclass(frozen=True)
class Gap(Rule):
    """Stop when the certified duality gap is small.

    Where a part has no conjugate, and there is no certificate, the KKT residual, a relative
    number, takes the place of the relative gap.

    Parameters
    ----------
    tol : float, default=1e-6
        With ``relative`` the gap is compared with ``tol * max(|F(x)|, 1e-3 |F(null)|)``. The null
        model has what is unpenalized (an intercept) fitted and all else at zero, so that F(null)
        is at most F(0), and F(0) where everything is penalized. For losses that can be negative
        (Poisson) ``|F(x)|`` becomes F(null) minus the lower bound.
    relative : bool, default=True
        Whether ``tol`` is relative; False compares the gap itself, in units of the objective.

    Examples
    --------
    >>> Gap(1e-4)
    Gap(tol=0.0001, relative=True)
    """

    tol: float = 1e-6
    relative: bool = True

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise ValueError(f"tol is {self.tol!r}, expected a number >= 0")

    def reached(self, record: Record) -> float | None:
        """Return the number that is compared with ``tol``."""
        if record.gap is None:
            return record.kkt_residual
        return record.relative_gap if self.relative else record.gap

    def __call__(self, record: Record) -> bool:
        value = self.reached(record)
        return value is not None and value <= self.tol

    def describe(self, record: Record) -> str:
        value = self.reached(record)
        what = "KKT residual" if record.gap is None else "duality gap"
        kind = "relative " if self.relative or record.gap is None else ""
        shown = "not available" if value is None else f"{value:.2e}"
        return f"{kind}{what} {shown}, tolerance {self.tol:.2e}"

    def wanted_gap(self) -> Gap:
        return self


@dataclass(frozen=True)
class Polished(Rule):
    """Go on beyond the tolerance, to a gap or for as long as that helps.

    An answer that does not depend on the tolerance is easier to compare and to trust, and on small
    problems it is cheap. The run ends at the relative gap ``aim``, or when the gap has met ``tol``
    and neither gap nor objective have improved for some measurements.

    Parameters
    ----------
    tol : float
        Relative gap of an answer.
    aim : float
        Relative gap that is enough in any case: rounding leaves no less.
    """

    tol: float
    aim: float

    def __call__(self, record: Record) -> bool:
        return Gap(self.aim)(record)

    def accepts(self, record: Record) -> bool:
        return Gap(self.tol)(record)

    def describe(self, record: Record) -> str:
        return Gap(self.tol).describe(record)

    def wanted_gap(self) -> Gap:
        return Gap(self.aim)


@dataclass(frozen=True)
class Residuals(Rule):
    """Stop when feasibility and KKT residual are both at most ``tol``.

    Both are relative numbers. Unlike a gap they do not bound the distance of the objective from
    its optimum.

    Parameters
    ----------
    tol : float, default=1e-6
        Bound on both.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), np.eye(2), np.array([3.0, 0.0]), on_coefficients=sa.L1(0.5)
    ... )
    >>> sa.minimize(problem, stop=sa.Residuals(1e-8)).converged
    True
    """

    tol: float = 1e-6

    def __call__(self, record: Record) -> bool:
        kkt = record.kkt_residual
        return record.feasibility <= self.tol and kkt is not None and kkt <= self.tol

    def describe(self, record: Record) -> str:
        return (
            f"feasibility {record.feasibility:.2e} and KKT residual {record.kkt_residual}, "
            f"tolerance {self.tol:.2e}"
        )


@dataclass(frozen=True)
class Never(Rule):
    """Never stop by a rule: run until ``max_passes`` or ``max_seconds`` is reached.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), np.eye(4), np.arange(4.0), on_structure=sa.L1(0.1)
    ... )
    >>> sa.minimize(problem, "acc-sadmm", stop=sa.Never(), max_passes=9).status.name
    'MAX_PASSES'
    """

    def __call__(self, record: Record) -> bool:
        return False

    def describe(self, record: Record) -> str:
        return "no stopping rule was asked for"


class _Several(Rule):
    """Rules that are asked together."""

    def __init__(self, *rules: Any) -> None:
        self.rules = tuple(map(as_rule, rules))

    def _gaps(self) -> list[Gap]:
        wanted = (rule.wanted_gap() for rule in self.rules)
        return [gap for gap in wanted if gap is not None]


class AnyOf(_Several):
    """Stop when one of several rules says so.

    Parameters
    ----------
    *rules : stopping rules or floats
        A number is a relative gap, as in ``minimize``.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), np.eye(2), np.array([3.0, 0.0]), on_coefficients=sa.L1(0.5)
    ... )
    >>> either = sa.AnyOf(sa.Gap(1e-6), sa.Residuals(1e-4))
    >>> sa.minimize(problem, stop=either).converged
    True
    """

    def __call__(self, record: Record) -> bool:
        return any(rule(record) for rule in self.rules)

    def describe(self, record: Record) -> str:
        return " or ".join(rule.describe(record) for rule in self.rules)

    def accepts(self, record: Record) -> bool:
        return any(rule.accepts(record) for rule in self.rules)

    def wanted_gap(self) -> Gap | None:
        return max(self._gaps(), key=_tolerance, default=None)


class AllOf(_Several):
    """Stop when all of several rules say so.

    Parameters
    ----------
    *rules : stopping rules or floats
        A number is a relative gap, as in ``minimize``.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), np.eye(2), np.array([3.0, 0.0]), on_coefficients=sa.L1(0.5)
    ... )
    >>> both = sa.AllOf(sa.Gap(1e-6), sa.Gap(1e-8, relative=False))
    >>> sa.minimize(problem, stop=both).converged
    True
    """

    def __call__(self, record: Record) -> bool:
        return all(rule(record) for rule in self.rules)

    def describe(self, record: Record) -> str:
        return " and ".join(rule.describe(record) for rule in self.rules)

    def accepts(self, record: Record) -> bool:
        return all(rule.accepts(record) for rule in self.rules)

    def wanted_gap(self) -> Gap | None:
        return min(self._gaps(), key=_tolerance, default=None)


def _tolerance(gap: Gap) -> float:
    return gap.tol


PATIENCE = 3
"""Measurements without progress after which rounding is what is left."""


def without_progress(history: Sequence[Record]) -> bool:
    """Say whether the last measurements halved no gap and lowered no objective."""
    count = len(history) - PATIENCE
    if count < 1:
        return False
    gaps = [math.inf if (r := Gap().reached(h)) is None else r for h in history]
    best, value = min(gaps[:count]), min(h.objective for h in history[:count])
    for gap, record in zip(gaps[count:], history[count:], strict=True):
        slack = 1e-15 * abs(record.objective)
        if gap < 0.5 * best or record.objective < value - slack:
            return False
        best, value = min(best, gap), min(value, record.objective)
    return True


def at_rounding(history: Sequence[Record], scale: float, settled: bool) -> bool:
    """Say whether a run without progress stands where rounding leaves it.

    Objectives that rise and fall, as those of stochastic steps, or that have not left the start,
    say nothing. A second-order step knows whether its predicted decrease is rounding
    (``settled``); otherwise a gap, or the violation of the optimality conditions, must be small.
    """
    last = history[-1 - PATIENCE :]
    values = [record.objective for record in last]
    unit = 16.0 * float(np.finfo(np.float64).eps) * max(scale, max(map(abs, values)))
    if not max(values) - min(values) <= unit:
        return False
    if last[-1].gap is not None and last[-1].gap < 0.9 * (last[0].gap or 0.0):
        return False
    gap, kkt = last[-1].relative_gap, last[-1].kkt_residual
    small = gap is not None and gap <= 1e-8
    return settled or small or (kkt is not None and kkt <= 1e-8)
