"""Losses of a prediction ``z`` against a target ``y``: value, slope, curvature, conjugate, prox.

All of them are averaged over the rows, with sample weights a weighted mean.
"""

from ._base import Elementwise, named
from ._gamma import Gamma
from ._logistic import Logistic
from ._multinomial import Multinomial
from ._poisson import Poisson
from ._quadratic import Huber, Quantile, Squared, SquaredHinge

__all__ = [
    "Gamma",
    "Huber",
    "Logistic",
    "Multinomial",
    "Poisson",
    "Quantile",
    "Squared",
    "SquaredHinge",
]

FOR_NUMBERS: dict[str, type[Elementwise]] = named(Squared, Huber, Quantile, Poisson, Gamma)
"""What regressors call the losses of numbers."""
FOR_LABELS: dict[str, type[Elementwise]] = named(Logistic, SquaredHinge)
"""What classifiers call the losses of labels."""
