"""Rows that several files of tests fit."""

import numpy as np


def sample(n=60, d=6, seed=0):
    """Return Gaussian rows, and targets of three levels of coefficients with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ np.array([1.0, 1.0, 0.0, 0.0, -1.0, -1.0])[:d] + 0.5 * rng.standard_normal(n)
