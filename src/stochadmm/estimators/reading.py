"""What a fitted model gives to others: words, pictures, names, a plain scikit-learn model."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
)
from sklearn.svm import LinearSVC
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from ..base.capabilities import Has, has_members, offers
from ..base.protocols import Array
from ..losses import Gamma, Huber, Logistic, Multinomial, Poisson, Quantile, Squared, SquaredHinge
from ..run.result import Status


class Readable:
    """How estimators are read once they are fitted."""

    def summary(self) -> str:
        """Return the fit in plain words.

        One line each: the model, its loss and its strength; the score of the training rows, with
        the weights of the fit (R2, deviance explained, or accuracy; not for rows in files); how
        many coefficients are not zero, and the degrees of freedom; the structure found; how the
        solver ended, with the certified relative duality gap and the tolerance (``tol``),
        effective passes and seconds; AIC and BIC where the loss is a likelihood.

        Returns
        -------
        str

        Examples
        --------
        >>> import numpy as np
        >>> from stochadmm import FusedLassoRegressor
        >>> X = np.random.default_rng(0).standard_normal((200, 6))
        >>> model = FusedLassoRegressor(alpha=0.1).fit(X, X @ [0, 0, 1, 1, 1, 0])
        >>> print(model.summary())
        FusedLassoRegressor with squared loss, alpha = 0.1, l1_ratio = 0.5
        R2 0.99... on the training rows
        4 of 6 coefficients are not zero, 3 degrees of freedom
        3 sets of equal coefficients along the graph
        Converged: relative duality gap ..., tolerance 1.00e-04, after ... passes and ... s by auto
        AIC ..., BIC ...
        """
        check_is_fitted(self)
        return summary(self)

    def get_feature_names_out(self: Any, input_features: Any = None) -> Array:
        """Return the names of the columns that the model uses: those with a coefficient.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of all columns; those seen in ``fit``, or ``x0``, ``x1``, ... by default.

        Returns
        -------
        array of str
        """
        check_is_fitted(self)
        names = np.asarray(_check_feature_names_in(self, input_features), dtype=object)
        return names[np.atleast_2d(self.coef_).any(axis=0)]

    def to_sklearn(self) -> Any:
        """Return a plain scikit-learn model with the same predictions.

        It holds coefficients only, so that tools that read scikit-learn's linear models (ONNX,
        skops, MLflow, PMML) can use it.

        Returns
        -------
        LinearRegression, PoissonRegressor, GammaRegressor, LogisticRegression or LinearSVC
        """
        check_is_fitted(self)
        return to_sklearn(self)

    def plot_convergence(self: Any, ax: Any = None) -> Any:
        """Draw the distance from the optimum against passes; returns the axes (matplotlib)."""
        from ..plots import plot_convergence

        check_is_fitted(self)
        return plot_convergence(self.result_, self.tol, ax, self._at_start)

    def _repr_html_inner(self: Any) -> str:
        """Return scikit-learn's diagram and, once fitted, what was found."""
        return str(super()._repr_html_inner()) + html_summary(self)  # type: ignore[misc]

    def _repr_mimebundle_(self: Any, **options: Any) -> dict[str, str]:
        """Return the same for notebooks."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += html_summary(self)
        return bundle


def to_sklearn(model: Any) -> Any:
    """Return a plain model with the same predictions."""
    loss = type(model._loss)
    several = len(np.atleast_2d(model.coef_)) > 1
    if loss not in _PLAIN or (several and loss in (Logistic, Poisson, Gamma)):
        kind = f"{loss.__name__} with several outputs" if loss in _PLAIN else loss.__name__
        raise ValueError(
            f"scikit-learn has no linear model of the loss {kind}; use coef_ and intercept_"
        )
    kind, targets = _PLAIN[loss]
    targets = model.classes_ if targets is None else targets
    # fitting rows of zeros sets what a model needs besides its coefficients
    nothing = np.zeros((len(targets), model.n_features_in_), dtype=model.coef_.dtype)
    plain = kind().fit(nothing, targets)
    plain.coef_, plain.intercept_ = model.coef_.copy(), np.copy(model.intercept_)[()]
    if loss is Multinomial and len(plain.coef_) == 2:  # theirs has one score for two classes
        plain.coef_, plain.intercept_ = (
            part[1:] - part[:1] for part in (plain.coef_, plain.intercept_)
        )
    if model._names is not None:
        plain.feature_names_in_ = model.feature_names_in_
    return plain


_PLAIN: dict[type, tuple[Any, Any]] = {
    Squared: (LinearRegression, np.zeros(1)),
    Huber: (LinearRegression, np.zeros(1)),
    Quantile: (LinearRegression, np.zeros(1)),
    Poisson: (PoissonRegressor, np.ones(2)),
    Gamma: (GammaRegressor, np.ones(2)),
    Logistic: (LogisticRegression, None),
    Multinomial: (LogisticRegression, None),
    SquaredHinge: (LinearSVC, None),
}
"""The class of scikit-learn for each loss, and targets to fit it to; None for the classes."""


def html_summary(model: Any) -> str:
    """Return the summary of a fitted model as HTML, nothing before the fit."""
    if model._last_strength is None:
        return ""
    return f'<pre style="margin:.5em 0;white-space:pre-wrap">{escape(model.summary())}</pre>'


_ENDS = {
    Status.CONVERGED: "Converged",
    Status.STALLED: "NOT converged, rounding or the problem allows no better certificate",
    Status.STOPPED: "Stopped by a callback",
    Status.MAX_PASSES: "NOT converged, out of passes",
    Status.MAX_TIME: "NOT converged, out of time",
    Status.MAX_EPOCHS: "NOT converged, out of epochs",
    Status.DIVERGED: "DIVERGED",
    Status.INTERRUPTED: "INTERRUPTED",
}


def _outputs(model: Any) -> str:
    """Say how many classes or labels a classifier tells apart."""
    if not is_classifier(model):
        return ""
    several = getattr(model, "multilabel_", False)
    return f" of {len(model.classes_)} {'labels' if several else 'classes'}"


def _score_name(model: Any) -> str:
    """Return what ``score`` is called elsewhere."""
    if is_classifier(model):
        return "Accuracy" + " (all labels right)" * getattr(model, "multilabel_", False)
    return "R2" if offers(model._loss, Has.SQUARE) else "Deviance explained (D2)"


def summary(model: Any) -> str:
    """Return the fit in plain words."""
    result = model.result_
    ratio = f", l1_ratio = {model._ratio:g}" if has_members(model, "l1_ratio") else ""
    if model.l2_ratio:
        ratio += f", l2_ratio = {model.l2_ratio:g}"
    loss = (
        model.loss.replace("_", " ") if isinstance(model.loss, str) else type(model._loss).__name__
    )
    nonzero = int(np.count_nonzero(model.coef_))
    lines = [
        f"{type(model).__name__}{_outputs(model)} with {loss} loss, "
        f"alpha = {model._last_strength:g}{ratio}"
    ]
    if np.isfinite(model._fit_score):
        lines.append(f"{_score_name(model)} {model._fit_score:.4g} on the training rows")
    lines.append(
        f"{nonzero} of {model.coef_.size} coefficients are not zero, "
        f"{model.dof_} degree{'' if model.dof_ == 1 else 's'} of freedom"
    )
    lines += model._found()
    lines.append(
        f"{_ENDS[result.status]}: {result.message}, after {result.n_passes:.0f} passes and "
        f"{result.seconds:.2g} s by {result.info.get('solver', 'the solver')}"
    )
    if np.isfinite(model.aic_):
        lines.append(f"AIC {model.aic_:.6g}, BIC {model.bic_:.6g}")
    return "\n".join(lines)
