"""Scores of the folds of a search: who gives them, which of them count, and the choice."""

from __future__ import annotations

import warnings
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring

from ..base.capabilities import has_members
from ..base.protocols import Array
from ..base.validation import listed
from ..plots import standard_error

TIED = 1e-8


def scorer_of(model: Any, scoring: Any) -> Any:
    """Return the function that scores a fitted model, None for the model's own loss."""
    if scoring is None:
        return None
    if listed(scoring) is not None:
        raise ValueError(
            f"scoring is {scoring!r}, expected the name of one score, or one function: alpha is "
            "chosen by a single number"
        )
    return check_scoring(model, scoring)


def takes_weights(scorer: Any) -> bool:
    """Say whether a scorer, or the metric that one of scikit-learn calls, takes weights of rows.

    Examples
    --------
    >>> from sklearn.metrics import get_scorer
    >>> from stochadmm.estimators._choice import takes_weights
    >>> takes_weights(get_scorer("r2")), takes_weights(lambda model, X, y: 0.0)
    (True, False)
    """
    called = scorer._score_func if has_members(scorer, "_score_func") else scorer
    return any(
        parameter.name == "sample_weight" or parameter.kind is Parameter.VAR_KEYWORD
        for parameter in signature(called).parameters.values()
    )


def one_number(score: Any) -> float:
    """Return what a scorer has returned as a number."""
    try:
        return float(score)
    except (TypeError, ValueError):
        raise ValueError(f"scoring returned {score!r}, expected one number") from None


def counted_folds(scores: Array) -> Array:
    """Return the scores (n_alphas, n_folds) of the folds in which some alpha could be scored."""
    return np.asarray(scores[:, np.isfinite(scores).any(axis=0)])


def best_index(scores: Array, one_standard_error: bool) -> int:
    """Return the place of the best mean score, or of the first within one standard error of it.

    Of scores that differ by less than the accuracy of the fits the first is best. Folds without a
    finite score do not count, and an alpha without one in a fold that counts is not chosen: means
    over different folds are not compared.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.estimators._choice import best_index
    >>> scores = np.array([[0.0, 0.4], [0.4, 0.6], [0.4, 0.7]])
    >>> best_index(scores, False), best_index(scores, True)
    (2, 1)
    >>> best_index(np.array([[0.0, np.nan], [0.4, np.nan]]), False)
    1
    """
    counted = counted_folds(scores)
    whole = np.isfinite(counted).all(axis=1)
    if not counted.size or not whole.any():
        where = "in some fold" if counted.size else f"in all {scores.shape[1]} folds"
        raise ValueError(
            f"every alpha has a score {where} that is no finite number; choose folds with enough "
            "rows of every class and of positive weight, or another scoring"
        )
    mean = np.where(whole, counted.mean(axis=1), -np.inf)
    best = int(np.argmax(mean))
    room = float(standard_error(counted[[best]])[0]) if one_standard_error else 0.0
    return int(np.argmax(mean >= mean[best] - max(room, TIED * abs(mean[best]))))


def warn_of_gaps(name: str, alphas: Array, scores: Array) -> None:
    """Warn of folds and of alphas that the choice leaves out."""
    finite = np.isfinite(scores)
    empty = np.flatnonzero(~finite.any(axis=0))
    if empty.size:
        warnings.warn(
            f"{name} leaves out fold {_listing(empty)} of {scores.shape[1]} (counted from 0), "
            "where no alpha has a finite score: one class only, too few rows, or rows of weight "
            "zero; choose other folds",
            UserWarning,
            stacklevel=3,
        )
    rest = np.flatnonzero(~np.isfinite(counted_folds(scores)).all(axis=1))
    if rest.size:
        shown = ", ".join(f"{alpha:.3g}" for alpha in alphas[rest][:3])
        warnings.warn(
            f"{name} cannot choose {rest.size} of {len(scores)} alphas ({shown}"
            f"{', ...' if rest.size > 3 else ''}), whose score is no finite number in some fold; "
            "look at score_path_",
            UserWarning,
            stacklevel=3,
        )


def _listing(numbers: Array) -> str:
    return ", ".join(map(str, numbers[:5])) + (", ..." if numbers.size > 5 else "")
