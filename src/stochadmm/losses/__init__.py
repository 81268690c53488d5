"""Losses of a prediction ``z`` and a target ``y``: value, derivative, curvature, conjugate, prox.

All of them are averaged over the rows, with sample weights a weighted mean.
"""

from ._base import Elementwise, named
from ._gamma import Gamma
from ._logistic import Logistic
from ._multinomial import Multinomial
from ._negative_binomial import NegativeBinomial
from ._poisson import Poisson
from ._quadratic import Huber, Quantile, Squared, SquaredHinge
from ._tweedie import Tweedie

__all__ = [
    "Gamma",
    "Huber",
    "Logistic",
    "Multinomial",
    "NegativeBinomial",
    "Poisson",
    "Quantile",
    "Squared",
    "SquaredHinge",
    "Tweedie",
]

FOR_NUMBERS: dict[str, type[Elementwise]] = named(
    Squared, Huber, Quantile, Poisson, Gamma, Tweedie, NegativeBinomial
)
"""What regressors call the losses of numbers."""
FOR_LABELS: dict[str, type[Elementwise]] = named(Logistic, SquaredHinge)
"""What classifiers call the losses of labels."""
