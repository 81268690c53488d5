"""The inner loops of the methods: step by step the reference loops of ``solvers/*.py``.

A loop takes the view of a problem, the rows that it draws, a snapshot where it uses one, and a
named tuple with its numbers and its state. Arrays of the state are changed in place; they are
contiguous and have the shapes that they have in the problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array
from .extension import core
from .views import ProblemView


class Sample(NamedTuple):
    """The rows of each step: runs of rows, as ``Runs`` draws them.

    Methods that step dual variables draw one block per step, and -1 for the structure.
    """

    batches: NDArray[np.int64]
    n_runs: int
    row_weight: float = 1.0


class Anchor(NamedTuple):
    """A snapshot: the derivatives of all rows' losses, the full gradient, the point.

    Without the derivatives they are computed again at the point, for the rows of each batch.
    """

    derivatives: Array | None
    gradient: Array
    point: Array | None = None


class AccSADMM(NamedTuple):
    """Numbers and state of ACC-SADMM.

    ``inverse`` is the inverse matrix of the x2 step, or ``None`` for a linearized step with
    ``step2`` and the prox of h2. ``dual`` holds lambda-tilde before and lambda of the last step
    after an epoch, ``ahead`` then lambda-tilde; ``total`` grows by all iterates but the last.
    """

    beta: float
    momentum: float
    anchor: float
    step1: float
    step2: float
    inverse: Array | None
    at_snapshot: Array
    x1: Array
    x2: Array
    y1: Array
    y2: Array
    before1: Array
    before2: Array
    total1: Array
    total2: Array
    dual: Array
    ahead: Array


class Blocks(NamedTuple):
    """Numbers and state of SVRG-, ASVRG- and SAG-ADMM; ``total`` grows by the iterates."""

    beta: float
    step1: float
    step2: float
    x1: Array
    x2: Array
    dual: Array
    total1: Array
    total2: Array


class Table(NamedTuple):
    """Derivatives of all rows, their mean gradient; with ``points``, where each was seen last."""

    share: float
    curvature: float
    derivatives: Array
    gradient: Array
    points: Array | None
    mean_point: Array | None


class Plain(NamedTuple):
    """Numbers and state of STOC-, OPG-, RDA-ADMM and OPT-SADMM.

    With ``accelerated`` the gradient is taken between x2 and its mean, with ``averaged`` the means
    of all past gradients and augmented multipliers move x2 from ``origin``. A ``rotation`` makes
    the x2 step exact in the constraint: its columns are the eigenvectors of A2'A2, ``turned`` is
    its transpose, ``spectrum`` the eigenvalues. Steps, weights and shares are given per step.
    """

    beta: float
    step1: float
    accelerated: bool
    averaged: bool
    steps: Array
    weights: Array
    shares: Array
    rotation: Array | None
    turned: Array | None
    spectrum: Array | None
    x1: Array
    x2: Array
    dual: Array
    mean1: Array
    mean2: Array
    origin: Array | None
    mean_gradient: Array | None
    mean_augmented: Array | None


class SDCA(NamedTuple):
    """Numbers and state of SDCA-ADMM; ``lengths`` is sigma of every block of rows."""

    scale: float
    sigma: float
    tight: float
    has_h2: bool
    lengths: Array
    x1: Array
    x2: Array
    dual: Array
    dual2: Array
    residual: Array
    derivatives: Array


class SPDHG(NamedTuple):
    """Numbers and state of SPDHG; ``total`` grows by the iterates."""

    share: float
    tau: float
    sigma: float
    tight: float
    sigmas: Array
    x1: Array
    x2: Array
    dual: Array
    pull: Array
    ahead: Array
    derivatives: Array
    total1: Array
    total2: Array


class PDDY(NamedTuple):
    """Numbers and state of VR-PDDY; ``total`` grows by the iterates."""

    step: float
    sigma: float
    tight: float
    x1: Array
    x2: Array
    lead: Array
    dual: Array
    total1: Array
    total2: Array


class Katyusha(NamedTuple):
    """Numbers and state of Katyusha; ``mean`` grows by the weighted y."""

    momentum: float
    anchor: float
    length: float
    weights: Array
    y: Array
    z: Array
    mean: Array


def acc_sadmm(p: ProblemView, sample: Sample, anchor: Anchor, state: AccSADMM) -> None:
    """Run one epoch of ACC-SADMM."""
    core().acc_sadmm(p.native, sample, anchor, state)


def svrg_admm(p: ProblemView, sample: Sample, anchor: Anchor, mix: float, state: Blocks) -> None:
    """Run one epoch of SVRG-ADMM (mix = 1) or ASVRG-ADMM."""
    core().svrg_admm(p.native, sample, anchor, mix, state)


def sag_admm(p: ProblemView, sample: Sample, table: Table, state: Blocks) -> None:
    """Run one epoch of SAG-ADMM; the table is changed too."""
    core().sag_admm(p.native, sample, table, state)


def stoc_admm(p: ProblemView, sample: Sample, state: Plain) -> None:
    """Run one epoch of a method without variance reduction."""
    core().stoc_admm(p.native, sample, state)


def sdca_admm(p: ProblemView, sample: Sample, state: SDCA) -> None:
    """Run one epoch of SDCA-ADMM."""
    core().sdca_admm(p.native, sample, state)


def spdhg(p: ProblemView, sample: Sample, state: SPDHG) -> None:
    """Run one epoch of SPDHG."""
    core().spdhg(p.native, sample, state)


def vr_pddy(p: ProblemView, sample: Sample, anchor: Anchor, state: PDDY) -> None:
    """Run the steps of one span of VR-PDDY."""
    core().vr_pddy(p.native, sample, anchor, state)


def katyusha(p: ProblemView, sample: Sample, anchor: Anchor, state: Katyusha) -> None:
    """Run one epoch of Katyusha."""
    core().katyusha(p.native, sample, anchor, state)
