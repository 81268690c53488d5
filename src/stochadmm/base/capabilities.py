"""What a part can do beyond the least that its protocol asks.

The parts of the library declare it in ``capabilities``. A user's own part need not: what it offers
is read off its members, here and nowhere else. Everything that depends on it asks `offers`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np


class Has(Enum):
    """Capabilities of losses, penalties, operators and data terms, by the member for it."""

    # members are single, so that their identity will do: sets are asked often
    __hash__ = object.__hash__

    # of losses
    CURVATURE = "curvature"
    CURVATURE_APPLY = "curvature_apply"
    CURVATURE_OPERATOR = "curvature_operator"
    CURVATURE_PARTS = "curvature_parts"
    LARGEST_CONJUGATE = "largest_conjugate"
    DUAL_STEP_LIMIT = "dual_step_limit"
    DUAL_MARGIN = "dual_margin"
    PROX_CONJUGATE = "prox_conjugate"
    MEAN = "mean"
    PROBABILITY = "probability"
    """Predictions are scores of labels, and say how probable these are."""
    CHECK_TARGETS = "check_targets"
    N_OUTPUTS = "n_outputs"
    SCORED = "scored"
    LOG_LIKELIHOOD = "log_likelihood"
    KERNEL = "kernel"
    """Compiled loops know the loss."""
    SQUARE = "square"
    """It is ``square / 2 (z - y)^2``."""
    BEYOND = "beyond"
    """It is the loss of its model for predictions in a range only, and tells how far others lie
    beyond it; ``wider(by)`` is the loss with a wider range."""
    BY_CLASS = "by_class"
    """Targets name one of several classes, each of which has a prediction of its own."""

    # of losses and penalties
    CONJUGATE = "conjugate"
    PROX = "prox"

    # of penalties
    DUAL_SCALE = "dual_scale"
    PROJECT_DUAL = "project_dual"
    PROJECT = "project"
    ZEROS = "zeros"
    """The prox sets entries to exact zeros, and the penalty tells which."""
    SCALED = "scaled"
    RESCALED = "rescaled"
    CHECK = "check"
    TERMS = "terms"
    """Compiled loops know the penalty."""
    UNFOLDED = "unfolded"
    """It is a simpler penalty of a linear map."""
    RESTRICTED = "restricted"
    """Rows that are zero can be left out."""
    FACTORS = "factors"
    """A nuclear norm: its prox comes as a product of few rows and columns."""
    GROWTH = "growth"
    """A norm of entries or rows, at least so many times the Frobenius norm."""
    VIOLATION = "violation"
    REACH = "reach"
    DUAL_OFF = "dual_off"
    """The conjugate told is that of a point near the argument."""

    # of operators
    SPARSE = "tosparse"

    # of data terms
    ANCHOR = "anchor"
    """A pass from which differences of gradients start."""
    MEMORY = "with_memory"
    """Runs can be told how much memory there is beyond the data."""
    ROW_CURVATURES = "row_curvatures"
    RUN_LIPSCHITZ = "run_lipschitz"


Capabilities = frozenset[Has]


def declared(part: object) -> Capabilities:
    """Return what a part offers: what it declares, or the members it has.

    A member that is None is not offered, so that a subclass can take one back.
    """
    return frozenset(has for has in getattr(part, "capabilities", Has) if offers(part, has))


def has_members(part: object, *names: str) -> bool:
    """Say whether a user's object has all these members.

    Those of its class are not evaluated: the norm of an operator may take many products.
    """
    kind = type(part)
    for name in names:  # asked dozens of times in a small fit: a plain loop
        if not (hasattr(kind, name) or hasattr(part, name)):
            return False
    return True


def first_of_kind(table: Iterable[tuple[Any, Any]], value: object) -> Any:
    """Return what a table has for the first kind that a value is of, None where it has none."""
    return next((found for kinds, found in table if isinstance(value, kinds)), None)


def require(part: object, name: str, *members: str, remedy: str = "") -> None:
    """Raise where a user's object lacks a member; ``name`` is what the message calls it.

    ``remedy`` says what to do, where that is not to add the member.
    """
    for member in members:
        if not has_members(part, member):
            offered = "it must offer " + ", ".join(f"`{one}`" for one in members)
            raise TypeError(
                f"{name} ({type(part).__name__}) has no `{member}`; {remedy or offered}"
            )


def lacks(part: object, member: str) -> bool:
    """Say whether neither a part nor, for a data term, its loss has a member."""
    owners = (part, fact(part, "loss"))
    return part is not None and not any(has_members(owner, member) for owner in owners)


USUAL: dict[str, Any] = {
    "dtype": np.dtype(np.float64),
    "intercept": False,
    "n_threads": 1,
    "read_bytes": 0,
    "notes": (),
    "loss": None,
    "nonnegative": True,
    "keeps_rows": True,
    "n_outputs": None,
    "n_bytes": None,
    "on_dask": False,
    "on_disk": False,
    "decodes": False,
    "scratch": None,
    "origins": None,
    "has_kernel": False,
}
"""Facts about data terms, losses, sources and methods that hold where they say nothing else."""


def fact(part: object, name: str) -> Any:
    """Return what a data term, a loss, a source or a method says of itself, or what is usual."""
    return getattr(part, name, USUAL[name])


def nonnegative(f2: object) -> bool:
    """Say whether no value of a data term's loss is below zero: a value is then a scale."""
    return bool(fact(fact(f2, "loss"), "nonnegative"))


def offers(part: object, *wanted: Has) -> bool:
    """Say whether a part offers all that is wanted; None offers nothing."""
    named = getattr(part, "capabilities", Has)  # of a part that declares nothing, its members
    for has in wanted:  # asked thousands of times in a small fit: a plain loop
        if has not in named or getattr(part, has.value, None) is None:
            return False
    return True
