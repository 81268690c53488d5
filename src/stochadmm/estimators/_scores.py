"""How well predictions do: the share of the deviance that a model explains."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.exceptions import UndefinedMetricWarning

from ..base.capabilities import Has, offers
from ..base.protocols import Array

FAR = 2.0**60  # where the search for the best constant gives up


def scored_loss(loss: Any) -> Any:
    """Return the loss that scores are made of, without what only makes it easier to minimize."""
    return loss.scored() if offers(loss, Has.SCORED) else loss


def explained(
    loss: Any, z: Array, y: Array, weight: Array | None, offset: Array | None = None
) -> float:
    """Return D2, ``1 - deviance(z) / deviance(best constant + offset)``, averaged over outputs.

    The deviance is the mean loss less that of perfect predictions. With the squared loss D2 is R2.
    """
    if y.ndim == 1:
        return _explained(loss, z, y, weight, 0.0 if offset is None else offset)
    several = None if weight is None else np.broadcast_to(weight.T, y.T.shape).T
    seen = np.arange(y.shape[1])
    if several is not None and several.any():  # an output without targets has no score
        seen = seen[several.any(axis=0)]
    return float(
        np.mean(
            [
                _explained(
                    loss,
                    z[:, c],
                    y[:, c],
                    None if several is None else several[:, c],
                    0.0 if offset is None else offset[:, c],
                )
                for c in seen
            ]
        )
    )


def _explained(loss: Any, z: Array, y: Array, weight: Array | None, offset: Any) -> float:
    """Return D2 of one output, with scikit-learn's conventions where it is not defined."""
    z, y = np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64)
    offset = np.broadcast_to(np.asarray(offset, dtype=np.float64), y.shape)
    if weight is not None:  # a missing target has weight zero
        used = weight > 0
        z, y, offset, weight = z[used], y[used], offset[used], weight[used]
    if offers(loss, Has.SQUARE):
        mean = np.average(y - offset, weights=weight)
        model, null = (
            float(np.average(e * e, weights=weight)) for e in (y - z, y - offset - mean)
        )
        return share_explained(model, null, 0.0, len(y))
    loss = scored_loss(loss)
    perfect = 0.0
    if offers(loss, Has.CONJUGATE):  # the least value of a loss is minus its conjugate at zero
        perfect = float(np.average(-loss.conjugate(np.zeros_like(y), y), weights=weight))
    model = float(loss.value(z, y, weight)) - perfect
    constant = best_constant(loss, y, weight, offset)
    null = float(loss.value(constant + offset, y, weight)) - perfect
    return share_explained(model, null, perfect, len(y))


def share_explained(model: float, null: float, perfect: float, n_rows: int) -> float:
    """Return ``1 - model / null`` of two deviances, and scikit-learn's answers where null is zero.

    ``perfect`` is the loss that was subtracted from both: below its rounding they are zero.
    """
    if n_rows < 2:
        warnings.warn(
            "D^2 score is not well-defined with less than two samples.",
            UndefinedMetricWarning,
            stacklevel=4,
        )
        return float("nan")
    if null <= 1e-14 * abs(perfect):
        return 1.0 if model <= 1e-14 * abs(perfect) else 0.0
    return 1.0 - model / null


def best_constant(loss: Any, y: Array, weight: Array | None, offset: Array | None) -> float:
    """Return the constant whose sum with the offset has the least mean loss."""
    shift = 0.0 if offset is None else offset

    def derivative(c: float) -> float:
        return float(
            np.average(loss.derivative(np.broadcast_to(c + shift, y.shape), y), weights=weight)
        )

    low, high = -1.0, 1.0
    while derivative(low) > 0 and low > -FAR:
        low *= 2
    while derivative(high) < 0 and high < FAR:
        high *= 2
    if derivative(low) >= 0 or derivative(high) <= 0:
        return low if derivative(low) >= 0 else high
    rounding = 4 * np.finfo(np.float64).eps
    return float(brentq(derivative, low, high, xtol=1e-300, rtol=rounding, disp=False))
