"""The one fit of all estimators: validate, state the problem, minimize, set attributes."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..path import Path, alpha_grid, alpha_max, at_strength, carried, solve_path
from ..problem import Pair, Problem
from ..protocols import Array
from ..result import Result
from ..structures import _Columns
from . import _reports
from ._callbacks import CallbackSupportMixin, Epochs
from ._data import Data, checked_rows, checked_weight
from ._solve import solve, warn_unless_converged
from ._structure import Columns, Structure


@dataclass(frozen=True)
class Fitting:
    """What a fit works on."""

    data: Data
    columns: Columns
    structure: Structure
    unit: Problem
    """The problem at alpha = 1."""


@dataclass(eq=False, repr=False)
class StructuredModel(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """A linear model with a structured penalty, ``mean loss + alpha penalty(coef)``.

    Subclasses say what the penalty is at alpha = 1 (``_structure``) and what more can be read off
    the solution (``_inspect``); roles (regressor, classifier) say what targets and predictions
    are.
    """

    alpha: float = 0.01
    _: KW_ONLY
    loss: Any = "squared"
    fit_intercept: bool = True
    standardize: bool = False
    unpenalized: Sequence[Any] = ()
    positive: bool = False
    solver: Any = "auto"
    tol: float = 1e-4
    max_passes: float | None = None
    max_seconds: float | None = None
    warm_start: bool = False
    random_state: Any = 0
    verbose: bool = False

    _top = 1.0  # first alpha of a grid over the largest useful one

    # ---------------------------------------------------------------- for subclasses

    def _structure(self, columns: Columns) -> Structure:
        """Return the penalty at alpha = 1."""
        raise NotImplementedError

    def _targets(self, X: Any, y: Any, weight: Array | None, offset: Any) -> Data:
        """Return the data with encoded targets."""
        raise NotImplementedError

    def _inspect(self, fitting: Fitting, problem: Problem, result: Result) -> None:
        """Set the attributes that belong to the structure."""

    def _degrees(self, fitting: Fitting, result: Result) -> int:
        """Return the degrees of freedom of the coefficients."""
        return int(np.count_nonzero(fitting.structure.fold(result.coef, fitting.columns.n)))

    def _shaped(self, coef: Array, intercept: Any) -> tuple[Array, Any]:
        """Return coefficients (d,) or (d, C) and intercepts in the shapes of the role."""
        raise NotImplementedError

    @property
    def _strength(self) -> float:
        return self.alpha

    # ---------------------------------------------------------------- fit

    def _check_parameters(self) -> None:
        for name, low in (("alpha", 0.0), ("tol", 0.0)):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.number)) or not low <= value < np.inf:
                raise ValueError(f"{name} is {value!r}, expected a number >= {low:g}")
        ratio = getattr(self, "l1_ratio", 0.0)
        if not isinstance(ratio, (int, float, np.number)) or not 0 <= ratio <= 1:
            raise ValueError(f"l1_ratio is {ratio!r}, expected a number between 0 and 1")

    def _prepare(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Fitting:
        """Validate everything and state the problem at alpha = 1."""
        self._check_parameters()
        X = checked_rows(self, X, reset=True)
        data = self._targets(X, y, checked_weight(sample_weight, X), offset)
        if self.standardize:
            data = data.standardized()
        named = getattr(self, "feature_names_in_", None)
        names = None if named is None else list(named)
        free = self._free(X.shape[1], names)
        columns = Columns(X.shape[1], names, free, data.X, data.outputs > 1)
        structure = self._structure(columns)
        return Fitting(
            data, columns, structure, structure.problem(data, columns.free, self.positive)
        )

    def _free(self, n: int, names: Any) -> Array:
        if isinstance(self.unpenalized, str):
            raise ValueError(
                f"unpenalized is the string {self.unpenalized!r}; pass a list of columns"
            )
        index = _Columns(names, n)
        mask = np.zeros(n, dtype=bool)
        mask[[index(column) for column in self.unpenalized]] = True
        return mask

    def _fit(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        fitting = self._prepare(X, y, sample_weight, offset)
        problem = at_strength(fitting.unit, self._strength)
        epochs = Epochs(self, X, y, lambda state: self._attributes(fitting, state.output.x2))
        result = self._solve(problem, self._warm(problem), epochs)
        self._set(fitting, problem, result)
        epochs.close()
        warn_unless_converged(type(self).__name__, result, fitting.data.X, self.standardize)
        return self

    def _solve(self, problem: Problem, start: Any, callback: Any = None, **options: Any) -> Result:
        return solve(
            problem, solver=self.solver, tol=self.tol, max_passes=self.max_passes,
            max_seconds=self.max_seconds, start=start, random_state=self.random_state,
            verbose=bool(self.verbose), callback=callback, **options,
        )  # fmt: skip

    def _warm(self, problem: Problem) -> Any:
        """Return the last solution as a start, when it is wanted and fits."""
        before: Result | None = getattr(self, "result_", None) if self.warm_start else None
        shapes = problem.shape1, problem.shape2
        if before is None or (before.x1.shape, before.x2.shape) != shapes:
            return None
        last = self._last_strength
        return carried(before, self._strength / last if last else 1.0)

    def _attributes(self, fitting: Fitting, x2: Array) -> dict[str, Any]:
        """Return coefficients and intercept of a point of the method."""
        d = fitting.unit.shape2[0] - fitting.data.intercept
        intercept: Any = x2[-1] if fitting.data.intercept else 0.0 * x2[0]
        coef = fitting.structure.fold(x2[:d], fitting.columns.n)
        coef, intercept = fitting.data.original(coef, intercept)
        dtype = fitting.data.X.dtype
        shaped = self._shaped(coef.astype(dtype, copy=False), np.asarray(intercept, dtype=dtype))
        return {"coef_": shaped[0], "intercept_": shaped[1]}

    def _set(self, fitting: Fitting, problem: Problem, result: Result) -> None:
        """Set the learned attributes."""
        x2 = result.coef
        if fitting.data.intercept:
            x2 = np.concatenate([x2, np.reshape(result.intercept, (1, *x2.shape[1:]))])
        for name, value in self._attributes(fitting, x2).items():
            setattr(self, name, value)
        self.result_ = result
        self.dual_gap_ = result.relative_gap
        self.status_ = result.status
        self.n_passes_ = result.n_passes
        self.n_iter_ = result.n_epochs
        self.history_ = result.history
        self._last_strength = self._strength
        self._inspect(fitting, problem, result)
        self.dof_ = self._degrees(fitting, result) + fitting.data.intercept * _outputs(result)
        value = result.objective - problem.penalty(problem.feasible(Pair(problem.zeros().x1, x2)))
        self.aic_, self.bic_ = _reports.criteria(fitting.data, value, self.dof_)

    # ---------------------------------------------------------------- paths

    def alpha_max(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the smallest alpha whose fit is the null model: only what is unpenalized.

        Parameters
        ----------
        X, y, sample_weight
            As for ``fit``.

        Returns
        -------
        float
        """
        return self._largest(self._prepare(X, y, sample_weight, None))

    def _largest(self, fitting: Fitting) -> float:
        structure, data = fitting.structure, fitting.data
        if not structure.l1 and not any(A.shape[0] for A, _ in structure.terms):
            if not structure.l2:
                return 0.0  # nothing is penalized: every fit is the null model
            raise ValueError(
                "there is no largest alpha: the penalty is a square; choose l1_ratio > 0, or pass "
                "alphas"
            )
        plain = structure.problem(data, fitting.columns.free, self.positive, ridge=False)
        return alpha_max(plain)

    def path(
        self, X: Any, y: Any, *, alphas: Any = None, n_alphas: int = 50, eps: float = 1e-2,
        sample_weight: Any = None, offset: Any = None,
    ) -> Path:  # fmt: skip
        """Solve for many alphas, from the largest down, each started from the one before.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for ``fit``.
        alphas : array-like or int, optional
            Strengths, or how many; by default ``n_alphas`` from ``alpha_max`` down.
        n_alphas : int, default=50
            Length of the grid.
        eps : float, default=1e-2
            Smallest over largest alpha of the grid.

        Returns
        -------
        Path
            The estimator itself stays as it is.
        """
        model = _twin(self)
        fitting = model._prepare(X, y, sample_weight, offset)
        alphas = model._grid(fitting, alphas, n_alphas, eps)
        found = [
            (model.coef_, model.intercept_, model.dof_, model.aic_, model.bic_, model.result_)
            for _ in model._walk(fitting, alphas)
        ]
        coefs, intercepts, dof, aic, bic, results = zip(*found, strict=True)
        gaps = [np.nan if r.relative_gap is None else r.relative_gap for r in results]
        return Path(
            np.asarray(alphas), np.stack(coefs), np.stack(intercepts), np.array(gaps),
            np.array(dof), np.array(aic), np.array(bic), np.array([r.n_passes for r in results]),
            list(results), fitting.columns.names,
        )  # fmt: skip

    def _grid(
        self, fitting: Fitting, alphas: Any, n_alphas: int, eps: float, otherwise: float = 0.0
    ) -> list[float]:
        """Return the strengths asked for, from the largest down.

        ``otherwise`` is the first one where all alphas give the same model; 0 raises.
        """
        if isinstance(alphas, numbers.Integral):
            alphas, n_alphas = None, int(alphas)
        if alphas is None:
            largest = self._largest(fitting) or otherwise
            alphas = alpha_grid(self._top * largest, n_alphas, eps)
        return descending(alphas)

    def _walk(
        self, fitting: Fitting, alphas: list[float], last_digits: bool = True
    ) -> Iterator[float]:
        """Fit this estimator to one alpha after the other, from the largest down."""
        solve = partial(self._solve, last_digits=last_digits)
        for alpha, problem, result in solve_path(fitting.unit, alphas, solve):
            self._set(fitting, problem, result)
            warn_unless_converged(type(self).__name__, result, fitting.data.X, self.standardize)
            yield alpha

    # ---------------------------------------------------------------- reading the answer

    def summary(self) -> str:
        """Return the fit in plain words."""
        check_is_fitted(self)
        return _reports.summary(self)

    def plot_convergence(self, ax: Any = None) -> Any:
        """Draw the certified gap against passes; returns the axes (needs matplotlib)."""
        from ._plots import plot_convergence

        check_is_fitted(self)
        return plot_convergence(self.result_, self.tol, ax)

    def _decision(self, X: Any, offset: Any = None) -> Array:
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        z = X @ self.coef_.T + self.intercept_
        return cast(Array, z if offset is None else z + np.asarray(offset))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _outputs(result: Result) -> int:
    return 1 if result.coef.ndim == 1 else int(result.coef.shape[1])


def _twin(estimator: Any) -> Any:
    """Return an unfitted estimator with the same parameters."""
    return type(estimator)(**estimator.get_params(deep=False))


def descending(alphas: Any) -> list[float]:
    """Return checked strengths from the largest to the smallest."""
    values = np.sort(np.asarray(alphas, dtype=np.float64).ravel())[::-1]
    if not values.size or not np.isfinite(values).all() or values[-1] < 0:
        raise ValueError("alphas must be non-negative numbers, at least one")
    return [float(value) for value in values]
