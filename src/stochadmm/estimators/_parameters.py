"""What parameters of estimators may be; a wrong one is named with what was expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from ..base.validation import is_number, is_truth, is_whole


def check_number(name: str, value: Any, expected: str, holds: Callable[[Any], bool]) -> None:
    """Raise unless an argument is a finite number for which something holds."""
    if not is_number(value) or not np.isfinite(value) or not holds(value):
        raise ValueError(f"{name} is {value!r}, expected {expected}")


def check_truths(model: Any) -> None:
    """Raise unless the parameters that are declared as bool are True or False.

    The text "False" of a configuration file is true, and None is no answer.
    """
    for parameter in fields(model):
        value = getattr(model, parameter.name)
        if parameter.type == "bool" and not is_truth(value):
            raise ValueError(f"{parameter.name} is {value!r}, expected True or False")


def check_verbose(value: Any) -> None:
    """Raise unless something is True or False, or a whole number as scikit-learn has them."""
    if not is_truth(value) and (not is_whole(value) or value < 0):
        raise ValueError(f"verbose is {value!r}, expected True, False or a whole number >= 0")


def check_jobs(value: Any) -> None:
    """Raise unless something says how many processes joblib may use."""
    if value is not None and (not is_whole(value) or value == 0):
        raise ValueError(
            f"n_jobs is {value!r}, expected None or a whole number: how many processes, -1 for all"
        )


def descending(alphas: Any) -> list[float]:
    """Return checked strengths from the largest to the smallest.

    One number is no list of them: 1e2 may be meant as how many.
    """
    values = np.ravel(alphas)
    listed = np.ndim(alphas) > 0 and values.dtype.kind in "iuf" and values.size > 0
    if not listed or not np.isfinite(values).all() or values.min() < 0:
        raise ValueError(
            "alphas must be non-negative numbers, at least one, in a list, or an integer: how "
            f"many to try; got {alphas!r}"
        )
    values = np.sort(values.astype(np.float64))[::-1]
    return [float(value) for value in values]
