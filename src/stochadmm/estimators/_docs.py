"""Documentation that all estimators share, written once."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields
from typing import TypeVar, dataclass_transform

from ..losses import FOR_NUMBERS

_ALPHA = """
alpha : float, default=0.01
    Strength of the penalty, >= 0, relative to the *mean* of the losses, so that it need not change
    with the number of rows. Zero means no penalty; from ``alpha_max(X, y)`` on, the fit is the
    null model. In between it depends on the units of X and, for the squared loss, of y: try
    fractions of ``alpha_max``, or let the ``...CV`` class choose.
""".strip("\n")

_SHARED = """
fit_intercept : bool, default=True
    Add an intercept, which is never penalized.
standardize : bool, default=False
    Divide the columns by their standard deviations before they are penalized; this makes a scaled
    copy of X. ``coef_`` refers to the columns as given.
unpenalized : sequence of column names or indices, or a mask, default=()
    Columns without penalties and sign constraints. Chains, grids and operators run over
    the other columns; edges that touch an unpenalized column are dropped.
positive : bool, default=False
    Constrain the coefficients to be >= 0.
bounds : pair or mapping, optional
    Limits ``(lower, upper)`` of the coefficients: numbers for all penalized columns, arrays with
    one number per column, or ``{{column: (lower, upper)}}``; None is no limit. For
    penalized columns zero must lie between them. They hold in a refit too.
monotone : mapping or array, optional
    Columns whose predictions may only rise (1) or only fall (-1): the sign of their coefficients.
penalty_weights : mapping or array, optional
    Factors >= 0 of the l1 and squared l2 penalties of single columns; one by default.
{square}refit : bool or float, default=False
    Fit again, without the penalty, on the structure found (zeros, ties, groups, rank), to undo the
    shrinkage; a number between 0 and 1 is its share in the coefficients. Cross-validation then
    scores the refitted models. ``dual_gap_`` and ``result_`` are those of the penalized fit.
solver : str or solver object, default="auto"
    "auto" chooses the method from the problem. Others: a name from ``stochadmm.solvers.names()``,
    or an object such as ``AccSADMM(batch_size=10)``.
tol : float, default=1e-4
    Relative duality gap to reach: the objective is then certified to be within this fraction of
    the optimal one. Small problems (columns times targets times the larger of rows and columns, at
    most 200,000) are solved to rounding error, in the folds of a cross-validation to 1e-9, because
    that costs little; with ``tol`` above 1e-4 they stop at ``tol`` too.
max_passes : float, optional
    Limit in effective passes over the data; 500 by default, 1000 for small problems.
max_seconds : float, optional
    Limit in seconds, of a fit or of a whole path or cross-validation; none by default.
warm_start : bool, default=False
    Start from the coefficients and dual variables of the last fit of this object.
random_state : int, Generator, RandomState or None, default=0
    Seed of the random choices of methods: mini-batches, samples of rows.
verbose : bool or int, default=False
    Show a progress bar.
""".strip("\n")

_SQUARE = """
l2_ratio : float, default=0
    Share of a squared l2 penalty: ``(1 - l2_ratio) penalty + l2_ratio/2 sum_j c_j w_j^2``,
    with c the ``penalty_weights``.
""".lstrip("\n")

_LOSS = {
    "regressor": f"""
loss : {{{", ".join(f'"{name}"' for name in FOR_NUMBERS)}}} or loss object, default="squared"
    Averaged over the rows; the squared loss is ``1/2 (z - y)^2``. "poisson", "gamma", "tweedie"
    (of power 1.5) and "negative_binomial" (of dispersion 1) have a log link; for others pass
    ``Tweedie(power)`` or ``NegativeBinomial(dispersion)``. The parameters of "huber" and
    "quantile" (the median) follow the targets, so that their unit does not matter: ``delta`` is
    1.35 times and ``smoothing`` 0.1 times the standard deviation of y (less the offset),
    estimated from its quartiles; with several targets the smallest one. Objects such as
    ``Huber(delta)`` and ``Quantile(level, smoothing)``, in units of y, are taken as they are:
    residuals far smaller than y call for a smaller ``delta``.
""".strip("\n"),
    "classifier": """
loss : {"logistic", "squared_hinge"} or loss object, default="logistic"
    Averaged over the rows. Several classes: the multinomial loss for "logistic", one against the
    rest for others.
class_weight : dict, "balanced" or None, default=None
    Weights of the classes, by label; "balanced" gives all classes the same total weight, None
    every row the same weight.
""".strip("\n"),
}

_ATTRIBUTES = """
coef_ : ndarray
    Coefficients with exact zeros and exact ties, in scikit-learn's shapes: ``(n_features,)`` for
    one target, ``(n_targets, n_features)`` for several, ``(1, n_features)`` for two classes,
    ``(n_classes, n_features)`` for more.
intercept_ : float or ndarray
    Intercepts, zero without one.
dual_gap_ : float or None
    Certified relative duality gap: an upper bound on how much lower, relative to it, the objective
    could be. None where there is no certificate; then see ``result_.kkt_residual``.
status_ : Status
    How the solver ended: ``CONVERGED``, or the limit that was reached.
n_passes_, n_iter_ : float, int
    Effective passes over the data, and epochs of the solver.
history_ : list of Record
    Objective, gap, passes and seconds of every measurement.
dof_, aic_, bic_ : int, float, float
    Degrees of freedom (intercepts included) and information criteria, NaN where the loss is not a
    likelihood or the fit has not converged.
result_ : Result
    What `minimize` returned, in the solver's variables: with ``standardize`` its coefficients are
    those of the scaled columns.
penalized_coef_, penalized_intercept_, refit_result_
    With ``refit``: the coefficients and intercepts before it, and what the solver returned for it.
n_features_in_, feature_names_in_
    Number and names of the columns.
""".strip("\n")

_CLASSES = """
classes_ : ndarray
    The labels, sorted.
""".strip("\n")

_CV = """
alphas : int or array-like, default=50
    How many strengths to try, from ``alpha_max`` down, or the strengths themselves.
eps : float, default=1e-3
    Ratio of the smallest to the largest alpha of the grid. A warning is given if an end of
    the grid is chosen.
cv : int, splitter or iterable, optional
    Folds, as in scikit-learn; five by default, stratified for classifiers.
scoring : str or callable, optional
    As in scikit-learn. By default minus the mean loss of the held-out rows; for the squared loss
    minus the mean squared error.
one_standard_error : bool, default=False
    Choose the largest alpha whose mean score is within one standard error of the best one.
n_jobs : int, optional
    Folds to fit in parallel, as in joblib; one by default.
""".strip("\n")

_CV_ATTRIBUTES = """
alpha_ : float
    The chosen strength.
best_index_ : int
    Its place in ``alphas_``.
l1_ratio_ : float
    The share of the l1 norm; the best one of a list. Alphas and scores belong to it.
alphas_ : ndarray of shape (n_alphas,)
    Strengths tried, from the largest down.
score_path_ : ndarray of shape (n_alphas, n_folds)
    Scores of the held-out rows, larger is better.
mse_path_ : ndarray of shape (n_alphas, n_folds)
    Mean squared errors; only for the squared loss and default scoring.
""".strip("\n")

_CV_EXAMPLE = """
>>> import numpy as np
>>> from stochadmm import {name}
>>> rng = np.random.default_rng(0)
>>> X = rng.standard_normal((60, 4))
>>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60){target}
>>> model = {name}(alphas=5, cv=3).fit(X, y)
>>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
((5, 3), True)
""".strip("\n")

T = TypeVar("T", bound=type)


@dataclass_transform(eq_default=False, kw_only_default=True)
def estimator(cls: T) -> T:
    """Make the parameters of an estimator fields of a dataclass, and complete its docstring.

    A docstring gives a summary and examples. Parameters and attributes of a structure stand in
    the class that declares them; those that all estimators share are added here.
    """
    dataclass(eq=False, repr=False, kw_only=True)(cls)
    names = {field.name for field in fields(cls)}
    classifies, searches = "class_weight" in names, "alphas" in names
    summary, _, examples = _without(inspect.cleandoc(cls.__doc__ or "")).partition(
        "\n\nExamples\n--------\n"
    )
    if searches and not examples:
        target = " > 0" if classifies else ""
        examples = _CV_EXAMPLE.format(name=cls.__name__, target=target)
    own: dict[str, str] = {}
    for heading in _HEADINGS:
        of_bases = (vars(base).get("_own_docs") or _own(base) for base in cls.__mro__)
        own[heading] = next((docs[heading] for docs in of_bases if docs[heading]), "")
    cls._own_docs = own  # type: ignore[attr-defined]
    loss = _LOSS["classifier" if classifies else "regressor"]
    square = _SQUARE if "l2_ratio" in inspect.signature(cls).parameters else ""
    shared = _SHARED.format(square=square)
    parameters = (_CV if searches else _ALPHA, own["Parameters"], loss, shared)
    attributes = (
        _CV_ATTRIBUTES if searches else "",
        own["Attributes"],
        _ATTRIBUTES,
        _CLASSES if classifies else "",
    )
    sections = {"Parameters": parameters, "Attributes": attributes, "Examples": (examples,)}
    cls.__doc__ = summary + "".join(
        f"\n\n{heading}\n{'-' * len(heading)}\n" + "\n".join(filter(None, parts))
        for heading, parts in sections.items()
    )
    return cls


_HEADINGS = ("Parameters", "Attributes")
_SECTION = r"\n\n{}\n-+\n(.*?)(?=\n\n[A-Z]\w+\n---|\Z)"


def _own(cls: type) -> dict[str, str]:
    """Return the sections of the docstring of a class as it stands in its file."""
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")
    found = {h: re.search(_SECTION.format(h), text, re.DOTALL) for h in _HEADINGS}
    return {heading: match[1] if match else "" for heading, match in found.items()}


def _without(text: str) -> str:
    """Return a docstring without the sections that are completed."""
    for heading in _HEADINGS:
        text = re.sub(_SECTION.format(heading), "", text, flags=re.DOTALL)
    return text
