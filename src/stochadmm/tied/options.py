"""Numbers of the steps on tied columns, each with its reason; `benchmarks/tied.py` chose them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TiedOptions:
    """Numbers of the factor, the levels, the reflections and the splitting's length."""

    most_entries: int = 60
    """Entries of L per column up to which its factor is expected to be sparse."""
    corrections: int = 30
    """Most steps of conjugate gradients that take back what the shift of L has left."""
    stalled: int = 4
    """Corrections in a row that may leave a larger residual: rounding is then what is left."""
    model_tol: float = 1e-10
    """Accuracy of the small models in the levels: they cost next to nothing."""
    most_steps: int = 12
    """Newton steps in the levels: they converge in a handful."""
    least_length: float = 1e-4
    """Shortest share of a step that is tried."""
    accurate: float = 1e-6
    """Residual of a small model below which the zeros of its prox are taken as true."""
    look: int = 3
    """Reflections from one bound to the next: a bound costs about as much as one."""
    mixed: int = 8
    """Reflections before the last that Anderson's mixing uses: fewer find less, and products with
    more would cost as much as the reflection itself."""
    hopeless: float = 30.0
    """Gap after two such looks, relative to the one wanted, from which on a certificate is given
    up: where the levels are not yet the solution's, further reflections gain less than that."""
    enough: float = 0.9
    """Share of the wanted gap at which reflections end: the rest is for rounding."""
    still: float = 0.1
    """Share of the wanted gap: where a step gains less, no certificate is given up."""
    rounding: float = 1e-15
    """Relative difference of objectives that says nothing."""
    firm: float = 1e4
    """Multipliers per structure, relative to their sizes, from which on S w decides what is
    tied."""
    little: float = 0.3
    """Share of the gap that an epoch has to leave at most; else splittings are stretched,"""
    most_stretch: int = 8
    """at most by this factor."""
    model_change: float = 0.1
    """Relative change of the curvatures from which on a costly model is made again."""


OPTIONS = TiedOptions()
"""The defaults."""
