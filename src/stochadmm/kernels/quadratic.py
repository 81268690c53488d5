"""The small quadratic problem ``min_w 1/2 w'Hw - a'w + h(S w - b)``; blocks are (rows, outputs).

``splitting`` needs the extension (``quadratic.Run`` has the NumPy form); the other two run on
NumPy without it.
"""

from __future__ import annotations

from typing import NamedTuple

from ..base.protocols import Array
from . import _numpy
from .extension import available, core
from .views import OperatorView, PenaltyView


class Splitting(NamedTuple):
    """What the splitting loop works on: w, z and the multiplier are changed in place.

    ``inverse = (H + penalty S'S)^-1``; residuals are looked at every so many iterations.
    """

    S: OperatorView
    h: PenaltyView
    inverse: Array
    a: Array
    b: Array
    w: Array
    z: Array
    dual: Array
    penalty: float
    relax: float
    max_iter: int
    every: int
    tol: float
    length: float
    force: float


def splitting(problem: Splitting) -> tuple[int, float, float]:
    """Alternate between w and z.

    Returns the iterations made and the residuals of ``S w - b = z`` and of stationarity, relative
    to the numbers themselves and at least to ``length`` and ``force``.
    ``dual`` is in the subdifferential of h at z, so inside the dual set, after every iteration.
    """
    iterations, primal, stationary = core().splitting(problem)
    return iterations, primal, stationary


class Augmented(NamedTuple):
    """The prox side of the augmented Lagrangian; the last four arrays are written."""

    S: OperatorView
    h: PenaltyView
    b: Array
    dual: Array
    penalty: float
    w: Array
    shifted: Array
    z: Array
    new_dual: Array
    weight: Array


def augmented(at: Augmented) -> None:
    """Evaluate the prox side of the augmented Lagrangian at w.

    Writes ``shifted = S w - b + dual / penalty``, its prox z, the multiplier ``new_dual`` and the
    derivative of new_dual in S w: ``weight``, and for groups minus a rank-one part.
    """
    if available():
        core().augmented(at)
    else:
        _numpy.augmented(at)


def newton_matrix(
    H: Array, S: OperatorView, h: PenaltyView, shifted: Array, weight: Array, out: Array
) -> None:
    """Write ``H + S' D S`` into the lower triangle of out, D from ``augmented``; one output."""
    if available():
        core().newton_matrix(H, S.native, h.native, shifted, weight, out)
    else:
        _numpy.newton_matrix(H, S, h, shifted, weight, out)
