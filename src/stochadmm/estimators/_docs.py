"""Documentation that all estimators share, written once."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from ..losses import FOR_NUMBERS

_SHARED = """
fit_intercept : bool, default=True
    Add an unpenalized intercept.
standardize : bool, default=False
    Penalize the coefficients of columns of unit deviation; needs a scaled copy of X. ``coef_`` is
    for the columns as they are.
unpenalized : sequence of column names or indices, or a mask, default=()
    Columns that no penalty and no sign constraint touches. Chains, grids and operators run over
    the other columns; edges that touch an unpenalized column are dropped.
positive : bool, default=False
    Coefficients >= 0.
refit : bool or float, default=False
    Fit again, without the penalty, on the structure found (zeros, ties, groups, rank), to undo the
    shrinkage; a number between 0 and 1 is its share in the coefficients. Cross-validation then
    scores the refitted models. ``dual_gap_`` and ``result_`` are those of the penalized fit.
solver : str or solver object, default="auto"
    A name from ``stochadmm.solvers.names()`` or an object.
tol : float, default=1e-4
    Relative duality gap to reach. Small problems (columns times targets times rows or columns, at
    most 200,000) are solved to rounding error, in the folds of a cross-validation to 1e-9, because
    that costs little; with ``tol`` above 1e-4 they stop there too.
max_passes : float, optional
    Budget in reads of the data; 500 by default, 1000 for small data.
max_seconds : float, optional
    Budget in seconds: of a fit, or of a whole path or cross-validation.
warm_start : bool, default=False
    Start from the last fit: coefficients and multipliers.
random_state : int, Generator, RandomState or None, default=0
    Order of the rows in stochastic methods.
verbose : bool or int, default=False
    Show a progress bar.
""".strip("\n")

_LOSS = {
    "regressor": f"""
loss : {{{", ".join(f'"{name}"' for name in FOR_NUMBERS)}}} or loss object, default="squared"
    Averaged over the rows; the squared loss is half the square. A name is a loss made for the
    targets, so that their unit does not matter: "huber" has ``delta`` 1.35 times, "quantile" (the
    median) a ``smoothing`` of 0.1 times the deviation of y (less the offset) that its quartiles
    tell, with several targets the smallest. Objects such as ``Huber(delta)``, in units of y, and
    ``Quantile(level, smoothing)`` are taken as they are; residuals far smaller than y call for a
    smaller ``delta``. "poisson" and "gamma" are the log-likelihoods with a log link.
""".strip("\n"),
    "classifier": """
loss : {"logistic", "squared_hinge"} or loss object, default="logistic"
    Averaged over the rows. Several classes: the multinomial loss for "logistic", one against the
    rest for others.
class_weight : dict, "balanced" or None, default=None
    Weights of the classes.
""".strip("\n"),
}

_ATTRIBUTES = """
coef_ : ndarray
    Coefficients with exact zeros and ties, in scikit-learn's shapes.
intercept_ : float or ndarray
    Intercepts, zero without one.
dual_gap_ : float or None
    Certified relative duality gap; None where there is no certificate, then ``result_`` says more.
status_ : Status
    How the solver ended.
n_passes_, n_iter_ : float, int
    Reads of the data, and epochs.
history_ : list of Record
    One record per measurement.
dof_, aic_, bic_ : int, float, float
    Degrees of freedom (intercepts included) and information criteria, NaN where the loss is no
    likelihood or the fit has not converged.
result_ : Result
    What `minimize` returned, in the solver's variables: with ``standardize`` its coefficients are
    those of the scaled columns.
penalized_coef_, penalized_intercept_, refit_result_
    With ``refit``: the model before, and what the solver returned for the second fit.
n_features_in_, feature_names_in_
    Number and names of the columns.
""".strip("\n")

_CLASSES = """
classes_ : ndarray
    The labels.
""".strip("\n")

_CV = """
alphas : int or array-like, default=50
    How many strengths to try, from the largest useful one down, or the strengths themselves.
eps : float, default=1e-3
    Smallest over largest alpha of the grid. There is a warning where an end of the grid is chosen.
cv : int, splitter or iterable, optional
    As in scikit-learn; five folds by default, stratified for classifiers.
scoring : str or callable, optional
    As in scikit-learn. By default minus the mean loss of the rows left out; for the squared loss
    minus the mean squared error.
one_standard_error : bool, default=False
    Choose the largest alpha within one standard error of the best score.
n_jobs : int, optional
    Folds in parallel.
""".strip("\n")

_CV_ATTRIBUTES = """
alpha_ : float
    The chosen strength.
best_index_ : int
    Its place in ``alphas_``.
alphas_ : ndarray of shape (n_alphas,)
    Strengths tried, from the largest down.
score_path_ : ndarray of shape (n_alphas, n_folds)
    Scores of the rows left out, larger is better.
mse_path_ : ndarray of shape (n_alphas, n_folds)
    Mean squared errors; only for the squared loss and default scoring.
""".strip("\n")

T = TypeVar("T", bound=type)


def documented(cls: T) -> T:
    """Fill the places ``{shared}``, ``{attributes}``, ``{cv}`` of a class's docstring."""
    role = "classifier" if "class_weight" in _fields(cls) else "regressor"
    attributes = _ATTRIBUTES + ("\n" + _CLASSES if role == "classifier" else "")
    places = {
        "{shared}": _LOSS[role] + "\n" + _SHARED,
        "{attributes}": attributes,
        "{cv}": _CV,
        "{cv_attributes}": _CV_ATTRIBUTES,
    }
    text = inspect.cleandoc(cls.__doc__ or "")
    own = text.partition("----------\n")[2].partition("{shared}")[0]
    if "{cv}" in own:
        places["{own}\n"] = cls._own_parameters  # type: ignore[attr-defined]
    else:  # all but alpha, which is the first and has one line of words
        cls._own_parameters = "".join(own.splitlines(keepends=True)[2:])  # type: ignore[attr-defined]
    for place, words in places.items():
        text = text.replace(place, words)
    cls.__doc__ = text
    return cls


def _fields(cls: Any) -> set[str]:
    return {field.name for field in fields(cls)} if is_dataclass(cls) else set()
