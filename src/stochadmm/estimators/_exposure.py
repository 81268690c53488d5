"""Exposure: how long, how much or how often a row was observed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..base.protocols import Array
from ..base.validation import refuse_masked
from ..losses import FOR_NUMBERS


def checked_exposure(exposure: Any, n: int) -> Array:
    """Return exposures >= 0, one per row."""
    refuse_masked(exposure, "exposure")
    found = np.asarray(exposure)
    if found.dtype.kind not in "biuf" or found.shape != (n,):
        raise ValueError(
            f"exposure has shape {found.shape} and type {found.dtype}, expected one number for "
            f"each of {n} rows"
        )
    found = found.astype(np.float64)
    if not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError("exposure has values that are negative, NaN or infinite; drop those rows")
    return found


def with_exposure(
    loss: Any, y: Any, weight: Any, offset: Any, exposure: Any
) -> tuple[Any, Any, Any]:
    """Return targets, weights and offset for which a loss knows no exposure.

    Of counts (Poisson, negative binomial) its log is an offset. Of sums (gamma, Tweedie) it is a
    weight of the mean ``y / exposure``: with an offset it would be another model. Rows without
    exposure must have a target of zero, and are given a weight of zero.

    Examples
    --------
    >>> from stochadmm.estimators._exposure import with_exposure
    >>> with_exposure("tweedie", [0.0, 3.0], None, None, [0.5, 2.0])
    (array([0. , 1.5]), array([0.5, 2. ]), None)
    """
    if exposure is None:
        return y, weight, offset
    kind: Any = FOR_NUMBERS.get(loss) if isinstance(loss, str) else type(loss)
    use = getattr(kind, "exposure", None)
    if use is None:
        raise ValueError(
            f"loss {loss if isinstance(loss, str) else kind.__name__!r} takes no exposure; use "
            "'poisson', 'negative_binomial', 'tweedie' or 'gamma', or sample_weight"
        )
    if y is None:
        raise ValueError("exposure needs rows in memory; give its log as offset in the source")
    y = np.asarray(y)
    if y.dtype.kind not in "biuf" or y.ndim not in (1, 2):
        return y, weight, offset  # refused where targets are checked
    e = checked_exposure(exposure, len(y))
    none = e == 0
    if none.any():
        used = none if weight is None or np.ndim(weight) == 0 else none & (np.asarray(weight) > 0)
        if (y[used] != 0).any():
            row = int(np.flatnonzero(used & (y != 0).reshape(len(y), -1).any(axis=1))[0])
            raise ValueError(
                f"row {row} has an exposure of zero and the target {y[row]}; correct the "
                "exposure, or drop the row"
            )
        warnings.warn(
            "rows with an exposure of zero are left out; their targets are zero too",
            UserWarning,
            stacklevel=4,
        )
        given = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
        weight = np.where(none, 0.0, given)
        e = np.where(none, 1.0, e)
    wide = e if y.ndim == 1 else np.broadcast_to(e[:, None], y.shape)
    if use == "offset":
        return y, weight, np.log(wide) + (0.0 if offset is None else np.asarray(offset))
    total = e if weight is None else e * np.asarray(weight, dtype=np.float64)
    # a gamma target of a row without exposure is not looked at, but must be positive
    mean = np.where(none, 1.0, y / e) if y.ndim == 1 and kind is FOR_NUMBERS["gamma"] else y / wide
    return mean, total, offset
