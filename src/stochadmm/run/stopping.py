"""Stopping rules: small objects that look at one record and answer yes or no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .result import Record


class Rule(Protocol):
    """A stopping rule; ``describe`` says what was asked and what was reached."""

    def __call__(self, record: Record) -> bool:
        """Say whether to stop."""

    def describe(self, record: Record) -> str:
        """Return both numbers in words."""


@dataclass(frozen=True)
class Gap:
    """Stop when the certified gap is small.

    Parameters
    ----------
    tol : float
        With ``relative`` the gap is compared with ``tol * max(|F(x)|, 1e-3 |F(0)|)``; for losses
        that can be negative (Poisson) ``|F(x)|`` becomes F(null model) minus the lower bound.
    relative : bool, default=True
        Whether ``tol`` is relative.

    Where no certificate exists the KKT residual, a relative number, takes the place of the
    relative gap.

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
        """Say whether the gap is at most the tolerance."""
        value = self.reached(record)
        return value is not None and value <= self.tol

    def describe(self, record: Record) -> str:
        """Return both numbers in words."""
        value = self.reached(record)
        what = "KKT residual" if record.gap is None else "duality gap"
        kind = "relative " if self.relative or record.gap is None else ""
        shown = "not available" if value is None else f"{value:.2e}"
        return f"{kind}{what} {shown}, asked for {self.tol:.2e}"


@dataclass(frozen=True)
class Residuals:
    """Stop when feasibility and KKT residual are both at most ``tol``.

    Parameters
    ----------
    tol : float, default=1e-6
        Bound on both.
    """

    tol: float = 1e-6

    def __call__(self, record: Record) -> bool:
        """Say whether both residuals are small."""
        kkt = record.kkt_residual
        return record.feasibility <= self.tol and kkt is not None and kkt <= self.tol

    def describe(self, record: Record) -> str:
        """Return the numbers in words."""
        return (
            f"feasibility {record.feasibility:.2e} and KKT residual {record.kkt_residual}, "
            f"asked for {self.tol:.2e}"
        )


@dataclass(frozen=True)
class Never:
    """Run until a limit is reached."""

    def __call__(self, record: Record) -> bool:
        """Say no."""
        return False

    def describe(self, record: Record) -> str:
        """Return the reason in words."""
        return "no stopping rule was asked for"


class AnyOf:
    """Stop when one of several rules says so."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def __call__(self, record: Record) -> bool:
        """Say whether any rule holds."""
        return any(rule(record) for rule in self.rules)

    def describe(self, record: Record) -> str:
        """Return all rules in words."""
        return " or ".join(rule.describe(record) for rule in self.rules)


class AllOf:
    """Stop when all of several rules say so."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def __call__(self, record: Record) -> bool:
        """Say whether all rules hold."""
        return all(rule(record) for rule in self.rules)

    def describe(self, record: Record) -> str:
        """Return all rules in words."""
        return " and ".join(rule.describe(record) for rule in self.rules)


def wanted_gap(rule: Rule) -> Gap | None:
    """Return the gap that ends a run by this rule: of alternatives, the one met first."""
    if isinstance(rule, Gap):
        return rule
    parts = [wanted_gap(part) for part in getattr(rule, "rules", ())]
    gaps = [gap for gap in parts if gap is not None]
    if not gaps:
        return None
    choose = min if isinstance(rule, AllOf) else max
    return choose(gaps, key=lambda gap: gap.tol)
