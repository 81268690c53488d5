"""Slopes of the losses, one prediction at a time."""

from __future__ import annotations

import numpy as np

from . import codes
from ._jit import kernel


@kernel
def slope(code, p0, p1, z, y):
    """Return d loss / d z of an elementwise loss."""
    if code == codes.LOGISTIC:
        return -y / (1 + np.exp(y * z))  # an overflow to infinity gives the right zero
    if code == codes.SQUARED:
        return p0 * (z - y)
    if code == codes.HUBER:
        return min(max(z - y, -p0), p0)
    if code == codes.SQUARED_HINGE:
        return -p0 * y * max(1 - y * z, 0.0)
    if code == codes.QUANTILE:
        return min(max((z - y) / p1, -p0), 1 - p0)
    # Poisson, continued with its curvature at p0 beyond it
    if z <= p0:
        return np.exp(z) - y
    return np.exp(p0) * (1 + z - p0) - y


@kernel
def softmax_slope(z, label, out):
    """Write softmax(z) minus the unit vector of the label into out."""
    top = z[0]
    for c in range(1, z.size):
        top = max(top, z[c])
    total = 0.0
    for c in range(z.size):
        out[c] = np.exp(z[c] - top)
        total += out[c]
    for c in range(z.size):
        out[c] /= total
    out[int(label)] -= 1


@kernel
def value_slope(code, p0, p1, z, y):
    """Return loss and slope of an elementwise loss, in float64."""
    if code == codes.LOGISTIC:
        m = y * z
        e = np.exp(-abs(m))  # in (0, 1]: neither side overflows or cancels
        larger = e if m > 0 else 1.0
        return np.log1p(e) + (0.0 if m > 0 else -m), -y * larger / (1 + e)
    if code == codes.SQUARED:
        return 0.5 * p0 * (z - y) * (z - y), p0 * (z - y)
    u = slope(code, p0, p1, z, y)
    if code == codes.HUBER:
        return u * (z - y) - 0.5 * u * u, u
    if code == codes.SQUARED_HINGE:
        return 0.5 * u * u / p0, u
    if code == codes.QUANTILE:
        return u * (z - y) - 0.5 * p1 * u * u, u
    if z <= p0:
        return np.exp(z) - y * z, u
    return np.exp(p0) * (1 + (z - p0) + 0.5 * (z - p0) * (z - p0)) - y * z, u
