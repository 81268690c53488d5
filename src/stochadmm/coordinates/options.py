"""Numbers of the coordinate steps, each with its reason; `benchmarks/low_rank.py` chose them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class CoordinateOptions:
    """Numbers of Newton steps whose models are minimized coordinate by coordinate."""

    near: float = 0.8
    """Share of its l1 strength from which on an entry at zero is part of the model: it may leave
    zero on the way."""
    forcing: float = 0.1
    """What sweeps leave of the violation that a model begins with, at most: more digits would
    describe the model only,"""
    least_forcing: float = 1e-3
    """at least, where the violation is that small a share of the strength: steps are then
    quadratic."""
    sweeps: int = 60
    """Most sweeps of a model: it is worked out again where they are not enough,"""
    exact_sweeps: int = 1000
    """and where the loss is squared, so that a model is the problem itself: another read would
    bring nothing new."""
    inner: int = 10
    """Sweeps over entries other than zero between two sweeps over all: room for two
    extrapolations, each of which takes five."""
    flat: float = 1e-6
    """Second derivatives count at least this share of their mean: rare words have none."""
    first_reach: float = 2.0
    """Change of a prediction that one entry may make in a first step: within it, curvatures of
    exponential losses keep their order,"""
    wider: float = 4.0
    """factor of this reach after a step that was held by it and kept"""
    good: float = 0.5
    """this share of its promise,"""
    poor: float = 0.1
    """and half of it after one that kept less than this."""
    sufficient: float = 1e-4
    """Share of the promised decrease that a step must bring (Armijo's rule)."""
    least_length: float = 1e-4
    """Shortest share of a step that is tried."""
    free_steps: int = 30
    """Newton steps for the free rows: they converge in a handful."""


@dataclass(frozen=True)
class SearchOptions:
    """Numbers of the search for a bound entry by entry."""

    steps: int = 6
    """Most Newton steps of a search: each costs about three of those that minimize."""
    rounds: int = 60
    """Projections that divide what is left between the norms after a step: as costly as it."""
    coordinates: CoordinateOptions = field(default_factory=CoordinateOptions)
