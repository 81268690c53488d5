"""Targets, weights and offsets of a mean loss, checked once."""

from __future__ import annotations

import warnings
from typing import Any, Protocol, cast

import numpy as np

from ..base.capabilities import Has, offers, require
from ..base.protocols import Array, CompleteLoss, Shape
from ..base.validation import real_array, refuse_masked, too_coarse


def check_loss(loss: Any) -> CompleteLoss:
    """Return a loss that offers what every pass needs."""
    require(loss, "loss", "value", "derivative", "curvature_bound")
    return cast(CompleteLoss, loss)


def check_targets(loss: Any, y: Any, n_rows: int, dtype: np.dtype[Any]) -> Array:
    """Return targets in the domain of the loss, floats in the type of the data."""
    refuse_masked(y, "y")
    y = np.asarray(y)
    if y.ndim not in (1, 2) or y.shape[0] != n_rows:
        raise ValueError(
            f"y has shape {y.shape}, expected ({n_rows},) or ({n_rows}, C) to "
            "match the rows of X; pass one target per row"
        )
    if offers(loss, Has.CHECK_TARGETS):
        y = loss.check_targets(y)
    elif not np.isfinite(y).all():
        raise ValueError("y contains NaN or infinite values; remove these rows")
    elif np.issubdtype(y.dtype, np.integer):
        y = y.astype(dtype)
    y = np.require(y, requirements="A")
    if not np.issubdtype(y.dtype, np.floating):
        return np.asarray(y)
    if too_coarse(dtype, [y]):
        warnings.warn(
            f"y is far from zero relative to its deviation, and too coarse in {dtype}, the type "
            "of X; pass X as float64, or subtract a constant from y",
            UserWarning,
            stacklevel=2,
        )
    return np.asarray(y.astype(dtype, copy=False))


def n_outputs(loss: Any, y: Array) -> int | None:
    """Return how many predictions a row has, None where it is one number."""
    if offers(loss, Has.N_OUTPUTS):
        found: int | None = loss.n_outputs(y)
        return found
    return y.shape[1] if y.ndim == 2 else None


def check_weight(
    weight: Any, n_rows: int, per_entry: int | None, dtype: np.dtype[Any]
) -> Array | None:
    """Return weights of mean one over the rows.

    ``per_entry`` is the number of outputs where entries may have weights of their own.
    """
    if weight is None:
        return None
    weight = real_array(weight, "sample_weight")
    allowed: set[Shape] = {(n_rows,)}
    if per_entry is not None:
        allowed.add((n_rows, per_entry))
    if weight.shape not in allowed:
        raise ValueError(
            f"sample_weight has shape {weight.shape}, expected ({n_rows},); pass one "
            "weight per row of X"
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(
            "sample_weight contains negative, NaN or infinite values; use weights >= 0 (0 "
            "drops a row)"
        )
    rows = weight if weight.ndim == 1 else weight.max(axis=1)
    largest = float(rows.max())
    if largest <= 0:
        raise ValueError("sample_weight is zero everywhere; give at least one row a weight > 0")
    power = -int(np.frexp(largest)[1])  # exact, and neither sum nor ratio leaves the numbers
    weight, rows = np.ldexp(weight, power), np.ldexp(rows, power)
    return np.ascontiguousarray(weight * (n_rows / rows.sum()), dtype=dtype)


def check_offset(offset: Any, shape: Shape, dtype: np.dtype[Any]) -> Array | None:
    """Return finite offsets, one per prediction."""
    if offset is None:
        return None
    offset = real_array(offset, "offset", dtype)
    if offset.shape != shape or not np.isfinite(offset).all():
        raise ValueError(
            f"offset has shape {offset.shape}, expected {shape} with finite values; pass one "
            "number per prediction"
        )
    return np.asarray(offset)


class Weighted(Protocol):
    """A mean loss, as far as its weights go."""

    weight: Array | None
    n_terms: int


def sample_weights(f2: Weighted) -> Array | None:
    """Return the weights of the terms, of mean one over the rows, in float64."""
    if f2.weight is None:
        return None
    q = f2.weight.astype(np.float64)
    return q * (f2.n_terms / q.sum()) if q.ndim == 1 else q


def weights_in(f2: Weighted, dtype: np.dtype[Any]) -> Array | None:
    """Return the weights for sums in a type: those at hand, or `sample_weights`."""
    if f2.weight is None or f2.weight.dtype == dtype:
        return f2.weight
    return sample_weights(f2)


def weighted(q: Array | None, u: Array) -> Array:
    """Return ``u`` times the weights of its rows or entries."""
    if q is None:
        return u
    return np.asarray(u * (q[:, None] if u.ndim > q.ndim else q))
