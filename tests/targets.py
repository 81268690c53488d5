"""Losses with targets that suit them, made from one score per row."""

import numpy as np

import stochadmm as sa


def with_targets(name: str, X, score, signs, counts):
    """Return the loss of that name, the rows, and the targets that it takes."""
    return {
        "squared": (sa.Squared(), X, score),
        "logistic": (sa.Logistic(), X, signs),
        "huber": (sa.Huber(0.5), X, score),
        "squared_hinge": (sa.SquaredHinge(), X, signs),
        "poisson": (sa.Poisson.for_targets(np.asarray(counts)), X, counts),
        "quantile": (sa.Quantile(0.3, 0.2), X, score),
    }[name]
