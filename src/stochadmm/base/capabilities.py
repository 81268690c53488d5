"""What a part can do beyond the least that its protocol asks.

The parts of the library declare it in ``capabilities``. A user's own part need not: what it offers
is read off its members, here and nowhere else. Everything that depends on it asks `offers`.
"""

from __future__ import annotations

from enum import Enum


class Has(Enum):
    """Capabilities of losses, penalties, operators and data terms, by the member that gives them.

    Examples
    --------
    >>> from stochadmm.base.capabilities import Has, declared
    >>> from stochadmm.penalties import L1, Nuclear
    >>> Has.TERMS in declared(L1(1.0)), Has.TERMS in declared(Nuclear(1.0))
    (True, False)
    """

    # of losses
    CURVATURE = "curvature"
    CURVATURE_APPLY = "curvature_apply"
    CURVATURE_OPERATOR = "curvature_operator"
    CURVATURE_PARTS = "curvature_parts"
    LARGEST_CONJUGATE = "largest_conjugate"
    DUAL_ROOM = "dual_room"
    DUAL_MARGIN = "dual_margin"
    PROX_CONJUGATE = "prox_conjugate"
    MEAN = "mean"
    CHECK_TARGETS = "check_targets"
    N_OUTPUTS = "n_outputs"
    SCORED = "scored"
    LOG_LIKELIHOOD = "log_likelihood"
    KERNEL = "kernel"
    """Compiled loops know the loss."""

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
    TENSION = "tension"
    REACH = "reach"

    # of operators
    SPARSE = "tosparse"

    # of data terms
    LOSS = "loss"
    """A linear model: a loss of predictions."""
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
    named = getattr(part, "capabilities", Has)
    return frozenset(has for has in named if getattr(part, has.value, None) is not None)


def has_members(part: object, *names: str) -> bool:
    """Say whether a user's object has all these members.

    Those of its class are not evaluated: the norm of an operator may take many products.

    Examples
    --------
    >>> from stochadmm.base.capabilities import has_members
    >>> has_members([], "append"), has_members([], "append", "matvec")
    (True, False)
    """
    return all(hasattr(type(part), name) or hasattr(part, name) for name in names)


def lacks(part: object, member: str) -> bool:
    """Say whether neither a part nor, for a data term, its loss has a member.

    Examples
    --------
    >>> from stochadmm.base.capabilities import lacks
    >>> from stochadmm.penalties import L1
    >>> lacks(L1(1.0), "prox"), lacks(L1(1.0), "gradient"), lacks(None, "prox")
    (False, True, False)
    """
    owners = (part, getattr(part, "loss", None))
    return part is not None and not any(hasattr(owner, member) for owner in owners)


def nonnegative(loss: object) -> bool:
    """Say whether no value of a loss is below zero, so that a value is a scale of its own."""
    return bool(getattr(loss, "nonnegative", True))


def offers(part: object, *wanted: Has) -> bool:
    """Say whether a part offers all that is wanted; None offers nothing.

    Examples
    --------
    >>> from stochadmm.base.capabilities import Has, offers
    >>> from stochadmm.losses import Logistic
    >>> offers(Logistic(), Has.CONJUGATE, Has.CURVATURE)
    True
    >>> offers(None, Has.CONJUGATE)
    False
    """
    named = getattr(part, "capabilities", Has)
    return all(has in named and getattr(part, has.value, None) is not None for has in wanted)
