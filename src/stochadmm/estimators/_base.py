"""The one fit of all estimators: validate, state the problem, minimize, set attributes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.validation import is_truth, is_whole, listed
from ..base.workspace import Workspace
from ..data import Source
from ..linear_algebra.rank import rank_of_columns
from ..problem import Pair, Problem, at_strength, objective_at_zero
from ..run.path import Path, alpha_grid, carried, solve_path
from ..run.result import Result, Status
from ..structures import NamedColumns
from . import refit
from ._callbacks import CallbackSupportMixin, Epochs
from ._data import Data, checked_offset, checked_rows, checked_weight, given_source
from ._parameters import check_number, checked_bounds, checked_factors, descending
from ._solve import Budget, interrupted, judge, largest_strength, solve, warn_out_of_time
from ._sources import StreamedData, is_lazy, lazily, streamed
from ._structure import Columns, Limits, Structure
from .reading import Readable


@dataclass(frozen=True)
class Fitting:
    """What a fit works on."""

    data: Data
    columns: Columns
    structure: Structure
    unit: Problem
    """The problem at alpha = 1."""


@dataclass(eq=False, repr=False)
class StructuredModel(Readable, CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
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
    unpenalized: Any = ()
    positive: bool = False
    bounds: Any = None
    monotone: Any = None
    penalty_weights: Any = None
    l2_ratio: float = 0.0
    refit: Any = False
    solver: Any = "auto"
    tol: float = 1e-4
    max_passes: float | None = None
    max_seconds: float | None = None
    warm_start: bool = False
    random_state: Any = 0
    verbose: bool | int = False

    penalty = "l1"  # so that SelectFromModel keeps what is not zero, not what is above the mean
    _top = 1.0  # first alpha of a grid over the largest useful one
    _last_digits = True  # whether small fits go on to rounding error
    _last_strength = None  # alpha of the last fit, None before it
    _fit_score = float("nan")  # score of the rows of the last fit

    # ---------------------------------------------------------------- for subclasses

    def _structure(self, columns: Columns) -> Structure:
        """Return the penalty at alpha = 1."""
        raise NotImplementedError

    def _targets(self, X: Any, y: Any, weight: Array | None, offset: Any) -> Data:
        """Return the data with encoded targets."""
        raise NotImplementedError

    def _streamed_targets(self, source: Source) -> StreamedData:
        """Return rows that are not in memory with encoded targets."""
        raise NotImplementedError

    def _inspect(self, fitting: Fitting, problem: Problem, result: Result) -> None:
        """Set the attributes that belong to the structure."""

    def _found(self) -> list[str]:
        """Return what the summary says of the structure found."""
        return []

    def _scored(self, data: Data, z: Array) -> float:
        """Return the score of linear predictions of the rows of the fit."""
        raise NotImplementedError

    def _degrees(self, fitting: Fitting, result: Result) -> int:
        """Return the degrees of freedom: over the outputs, the sum of the ranks of their columns.

        Columns of one coefficient are merged, the intercept is one more, and rows that count
        nothing are left out. Columns that are read from files are counted, dependent or not.
        """
        data, space = fitting.data, self._space(fitting, result)
        if data.streamed:
            return int(space.used.sum() + data.intercept * space.used.shape[1])
        total = 0
        known: dict[Any, int] = {}
        for k, used in enumerate(space.used.T):
            weight = data.weight
            if weight is not None and weight.ndim == 2:
                weight = weight[:, k]
            counted = None if weight is None or (weight > 0).all() else weight > 0
            key = used.tobytes(), b"" if counted is None else counted.tobytes()
            if key not in known:
                basis = space.basis[:, np.flatnonzero(used)]
                X = data.X if counted is None else data.X[counted]
                known[key] = rank_of_columns(X, basis, data.intercept)
            total += known[key]
        return total

    def _shaped(self, coef: Array, intercept: Any) -> tuple[Array, Any]:
        """Return coefficients (d,) or (d, C) and intercepts in the shapes of the role."""
        raise NotImplementedError

    @property
    def _strength(self) -> float:
        return self.alpha

    @property
    def _ratio(self) -> float:
        """Share of the l1 norm, 0 where there is none."""
        return getattr(self, "l1_ratio", 0.0)

    # ---------------------------------------------------------------- fit

    def _check_parameters(self) -> None:
        check_number("alpha", self.alpha, "a number >= 0", lambda value: value >= 0)
        check_number("tol", self.tol, f"a number > 0, {_SMALLEST}", lambda value: value > 0)
        for parameter in fields(self):  # the text "False" is true, and None is no answer
            value = getattr(self, parameter.name)
            if parameter.type == "bool" and not is_truth(value):
                raise ValueError(f"{parameter.name} is {value!r}, expected True or False")
        if not is_truth(self.verbose) and (not is_whole(self.verbose) or self.verbose < 0):
            raise ValueError(
                f"verbose is {self.verbose!r}, expected True, False or a whole number >= 0"
            )
        refit.share(self.refit)
        ratios = {"l1_ratio": self._ratio, "l2_ratio": self.l2_ratio}
        for name, ratio in ratios.items():
            check_number(name, ratio, "a number between 0 and 1", lambda value: 0 <= value <= 1)
        if self.penalty_weights is not None and not (self._ratio or self.l2_ratio):
            raise ValueError(
                "penalty_weights apply to the l1 and squared l2 penalties of columns, and this "
                "model has neither; set l1_ratio or l2_ratio above 0"
            )
        limits = {"max_passes": self.max_passes, "max_seconds": self.max_seconds}
        for name, limit in limits.items():
            if limit is not None:
                check_number(name, limit, "None or a number > 0", lambda value: value > 0)

    def _parts(self, X: Any, *parts: Any) -> tuple[Any, ...]:
        """Return the rows and what belongs to them; some classes let parts be names of columns."""
        return X, *parts

    def _exposed(self, y: Any, weight: Any, offset: Any, exposure: Any) -> tuple[Any, Any, Any]:
        """Return targets, weights and offset in which the exposure is contained."""
        raise ValueError(f"{type(self).__name__} takes no exposure; use sample_weight")

    def _rows(self, X: Any) -> Any:
        """Return other rows, checked, with one column per coefficient."""
        return checked_rows(self, X, reset=False)

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        offset: Any,
        exposure: Any = None,
        memory: Any = None,
    ) -> Fitting:
        """Validate the data and state the problem at alpha = 1."""
        if exposure is not None:
            y, sample_weight, offset = self._exposed(y, sample_weight, offset, exposure)
        data: Data
        source = given_source(X, y, sample_weight, offset)
        if source is None:
            X = checked_rows(self, X, reset=True)
            weight = None if sample_weight is None else checked_weight(sample_weight, X)
            data = self._targets(X, y, weight, offset)
        else:
            data = streamed(self, source, memory)
        if self.standardize:
            data = data.standardized()
        names, n = self._names, self.n_features_in_
        rows = None if data.streamed else data.X
        free, scale = self._free(n, names), getattr(data, "scale", None)
        factor = 1.0 * ~free
        if self.penalty_weights is not None:
            factor *= checked_factors(self.penalty_weights, n, names)
        lower, upper = checked_bounds(self, n, names, free)
        if scale is not None:
            lower, upper = lower * scale, upper * scale
        columns = Columns(n, names, free, rows, data.outputs > 1, factor, lower, upper)
        structure = self._structure(columns).beside_square(self.l2_ratio)
        return Fitting(data, columns, structure, structure.problem(data, columns))

    @property
    def _names(self) -> list[Any] | None:
        """The names of the columns, where X has some."""
        known = getattr(self, "feature_names_in_", None)  # set only where X has some
        return None if known is None else list(known)

    def _free(self, n: int, names: Any) -> Array:
        """Return the mask of the unpenalized columns."""
        given = listed(() if self.unpenalized is None else self.unpenalized, "unpenalized")
        if given is None:
            raise ValueError(
                f"unpenalized is {self.unpenalized!r}; pass a list of columns, or a mask of them"
            )
        if given and all(map(is_truth, given)):
            if len(given) != n:
                raise ValueError(
                    f"unpenalized is a mask of {len(given)} columns, expected {n}: one per "
                    "column of X"
                )
            return np.array(given, dtype=bool)
        mask = np.zeros(n, dtype=bool)
        if given:
            index = NamedColumns(names, n)
            mask[[index(column) for column in given]] = True
        return mask

    def _notices(self, fitting: Fitting, exposure: Any) -> list[str]:
        """Return what is probably not meant, before a fit or a path."""
        notices = [] if fitting.data.offset is None else fitting.data.notices()
        if exposure is not None and not np.asarray(exposure).all():
            notices.append(
                "rows with an exposure of zero are left out; their targets are zero too"
            )
        return notices

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        offset: Any,
        exposure: Any = None,
        budget: Budget | None = None,
        checkpoint: Any = None,
        workspace: Workspace | None = None,
        memory: Any = None,
    ) -> Any:
        self._check_parameters()
        budget, workspace = budget or Budget.after(self.max_seconds), workspace or Workspace()
        fitting = self._prepare(X, y, sample_weight, offset, exposure, memory)
        for notice in self._notices(fitting, exposure):
            warnings.warn(f"{type(self).__name__}: {notice}", UserWarning, stacklevel=3)
        problem = at_strength(fitting.unit, self._strength)
        watched = None
        if getattr(self, "_skl_callbacks", None):
            watched = Epochs(self, X, y, lambda state: self._attributes(fitting, state.output.x2))
        start = self._warm(problem) if self.warm_start else None
        more = {"callback": watched, "checkpoint": checkpoint}
        result = self._solve(problem, start, workspace, budget, **more)
        self._set(fitting, problem, result, self._strength, workspace)
        del workspace  # a refit has use for the memory
        self._refit(fitting, result, budget)
        data, self._fit_score = fitting.data, float("nan")
        if not data.streamed and data.n_rows > 1 and np.isfinite(self.coef_).all():
            z = self._flat(data.predictions(self.coef_.T, self.intercept_))
            with np.errstate(over="ignore", invalid="ignore"):  # far from the optimum
                self._fit_score = float(self._scored(data, z))
        if watched is not None:
            watched.close()
        self._judge(fitting, result)
        return self

    def _judge(self, fitting: Fitting, result: Result) -> None:
        """Pass interrupts on, and warn of what did not converge."""
        name = type(self).__name__
        judge(name, result, fitting.data, self.tol, self.standardize)
        if self.refit:
            judge(f"refit of {name}", self.refit_result_, fitting.data, self.tol, True)

    def _solve(
        self,
        problem: Problem,
        start: Any,
        workspace: Workspace,
        budget: Budget,
        **options: Any,
    ) -> Result:
        options["last_digits"] = self._last_digits and options.get("last_digits", True)
        return solve(
            problem,
            solver=self.solver,
            tol=self.tol,
            max_passes=self.max_passes,
            budget=budget,
            start=start,
            workspace=workspace,
            random_state=self.random_state,
            verbose=bool(self.verbose),
            **{"callback": None, **options},
        )

    def _warm(self, problem: Problem) -> Any:
        """Return the last solution as a start, when it is wanted and fits."""
        last = self._last_strength
        if last is None:
            return None
        before: Result = self.result_
        if (before.x1.shape, before.x2.shape) != (problem.shape1, problem.shape2):
            return None
        return carried(before, self._strength / last if last else 1.0)

    def _attributes(self, fitting: Fitting, x2: Array) -> dict[str, Any]:
        """Return coefficients and intercept of a point of the method."""
        d = fitting.unit.shape2[0] - fitting.data.intercept
        intercept: Any = x2[-1] if fitting.data.intercept else 0.0 * x2[0]
        return self._presented(
            fitting, fitting.structure.fold(x2[:d], fitting.columns.n), intercept
        )

    def _presented(self, fitting: Fitting, coef: Array, intercept: Any) -> dict[str, Any]:
        """Return coefficients of the columns and intercept as users see them."""
        if fitting.data.scale is not None:
            coef, intercept = fitting.data.original(coef, intercept)
        dtype = fitting.data.dtype
        shaped = self._shaped(coef.astype(dtype, copy=False), np.asarray(intercept, dtype=dtype))
        return {"coef_": shaped[0], "intercept_": shaped[1]}

    def _set(
        self,
        fitting: Fitting,
        problem: Problem,
        result: Result,
        alpha: float,
        workspace: Workspace,
        described: bool = True,
    ) -> None:
        """Set the learned attributes; ``described`` also what is said of the structure found."""
        x2 = result.coef
        if fitting.data.intercept:
            x2 = np.concatenate([x2, np.reshape(result.intercept, (1, *x2.shape[1:]))])
        for name, value in self._attributes(fitting, x2).items():
            setattr(self, name, value)
        self.result_ = result
        self.dual_gap_, self.status_ = result.relative_gap, result.status
        self.n_passes_ = result.n_passes
        self.n_iter_ = result.n_epochs
        self.history_ = result.history
        self._last_strength = alpha
        if not described:
            return
        unknown = self.warm_start or fitting.data.streamed  # F at zero would be another read
        self._at_start = None if unknown else objective_at_zero(problem, workspace.same_rows())
        self._inspect(fitting, problem, result)
        self.dof_ = self._degrees(fitting, result)
        self.aic_ = self.bic_ = np.nan
        if is_answer(result):
            penalty = problem.penalty(problem.feasible(Pair(problem.zeros().x1, x2)))
            value = result.objective - penalty
            self.aic_, self.bic_ = criteria(fitting.data, value, self.dof_)

    def _space(self, fitting: Fitting, result: Result) -> refit.Space:
        """Return the coefficients with the structure that was found."""
        coef = fitting.structure.fold(result.coef, fitting.columns.n)
        return refit.of_support(coef, fitting.columns.free)

    def _limits(self, fitting: Fitting) -> Limits | None:
        """Return what bounds the coefficients, also of a refit; None for nothing."""
        return fitting.columns.limits

    def _refit(self, fitting: Fitting, result: Result, budget: Budget) -> None:
        """Mix the coefficients with those of a fit on the structure found, if it is wanted."""
        self._forget("penalized_coef_", "penalized_intercept_", "refit_result_")
        if not self.refit:
            return
        self.penalized_coef_, self.penalized_intercept_ = self.coef_, self.intercept_
        found = refit.mixed(self, fitting, result, float(self.refit), budget)
        self.refit_result_ = found.result
        for name, value in self._presented(fitting, found.coef, found.intercept).items():
            setattr(self, name, value)
        self.aic_, self.bic_ = np.nan, np.nan
        if is_answer(result) and is_answer(found.result):
            value = refit.mean_loss(fitting.data, found)
            self.aic_, self.bic_ = criteria(fitting.data, value, self.dof_)

    def _forget(self, *names: str) -> None:
        """Remove attributes that an earlier fit has set and this one may not."""
        for name in names:
            self.__dict__.pop(name, None)

    # ---------------------------------------------------------------- paths

    def alpha_max(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> float:
        """Return the smallest alpha at which the fit is the null model: only unpenalized parts.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As for ``fit``.

        Returns
        -------
        float
        """
        model = self._plain()
        model._check_parameters()
        parts = model._parts(X, y, sample_weight, offset, exposure)
        return float(model._largest(model._prepare(*parts), Workspace()))

    def _largest(self, fitting: Fitting, workspace: Workspace) -> float:
        structure, data = fitting.structure, fitting.data
        if not structure.l1 and not any(A.shape[0] for A, _ in structure.terms):
            if not structure.l2:
                return 0.0  # nothing is penalized: every fit is the null model
            raise ValueError(
                "a squared l2 penalty has no largest useful alpha; choose l1_ratio > 0, or pass "
                "alphas"
            )
        plain = structure.problem(data, fitting.columns, ridge=False)
        return largest_strength(plain, workspace)

    def path(
        self,
        X: Any,
        y: Any = None,
        *,
        alphas: Any = 50,
        eps: float = 1e-3,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> Path:
        """Solve for many alphas, from the largest down, each started from the previous solution.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As for ``fit``.
        alphas : int or array-like, default=50
            How many strengths, from ``alpha_max`` down, or the strengths themselves.
        eps : float, default=1e-3
            Ratio of the smallest to the largest alpha of the grid.

        Returns
        -------
        Path
            The estimator itself is not changed. ``max_seconds`` limits all alphas together; those
            that were not reached are left out, with a warning.
        """
        model = self._plain()
        model._check_parameters()
        model.alpha = 1.0  # the strengths to come are not that of the estimator, which may be zero
        budget = Budget.after(model.max_seconds)
        X, y, sample_weight, offset, exposure = model._parts(X, y, sample_weight, offset, exposure)
        fitting = model._prepare(X, y, sample_weight, offset, exposure)
        for notice in model._notices(fitting, exposure):
            warnings.warn(f"{type(model).__name__}: {notice}", UserWarning, stacklevel=2)
        workspace, found = Workspace(), []
        alphas = model._grid(fitting, alphas, eps, workspace.run())
        for _ in model._walk(fitting, alphas, budget, workspace=workspace):
            model._judge(fitting, model.result_)
            found.append(
                (model.coef_, model.intercept_, model.dof_, model.aic_, model.bic_, model.result_)
            )
        if len(found) < len(alphas):
            warn_out_of_time(type(model).__name__, "solved", len(found), len(alphas))
        coefs, intercepts, dof, aic, bic, results = zip(*found, strict=True)
        gaps = [np.nan if r.relative_gap is None else r.relative_gap for r in results]
        return Path(
            np.asarray(alphas[: len(found)]),
            np.stack(coefs),
            np.stack(intercepts),
            np.array(gaps),
            np.array(dof),
            np.array(aic),
            np.array(bic),
            np.array([r.n_passes for r in results]),
            list(results),
            fitting.columns.names,
        )

    def _plain(self) -> Any:
        """Return an unfitted estimator of one alpha with the same parameters."""
        return type(self)(**self.get_params(deep=False))

    def _grid(
        self,
        fitting: Fitting,
        alphas: Any,
        eps: float,
        workspace: Workspace,
        otherwise: float = 0.0,
    ) -> list[float]:
        """Return the strengths asked for, from the largest down.

        ``otherwise`` is the first one where all alphas give the same model; 0 raises.
        """
        if is_whole(alphas):
            check_number("alphas", alphas, "at least one alpha", lambda value: value >= 1)
            check_number("eps", eps, "a number between 0 and 1", lambda value: 0 < value < 1)
            largest = self._largest(fitting, workspace) or otherwise
            alphas = alpha_grid(self._top * largest, int(alphas), eps)
        return descending(alphas)

    def _walk(
        self,
        fitting: Fitting,
        alphas: list[float],
        budget: Budget,
        last_digits: bool = True,
        workspace: Workspace | None = None,
        described: bool = True,
    ) -> Iterator[float]:
        """Fit this estimator to one alpha after the other, from the largest down.

        Without ``described`` only what predictions and refits need is learned. The first is always
        tried; the walk ends early when the time is over, and an interrupt ends it with whatever is
        around it.
        """
        solve = partial(self._solve, budget=budget, last_digits=last_digits)
        workspace, described = workspace or Workspace(), described or bool(self.refit)
        for alpha, problem, result in solve_path(fitting.unit, alphas, solve, workspace):
            self._set(fitting, problem, result, alpha, workspace, described)
            self._refit(fitting, result, budget)
            if result.status is Status.INTERRUPTED:
                raise interrupted(type(self).__name__, result)
            yield alpha
            if budget.left <= 0:
                return

    # ---------------------------------------------------------------- reading the answer

    def _responses(self, X: Any, offset: Any, finish: Callable[[Array], Array]) -> Array:
        """Return what ``finish`` makes of linear predictions; lazily for rows not in memory."""
        check_is_fitted(self)
        if is_lazy(X):
            lazy: Array = lazily(self, X, offset, finish)
            return lazy
        return finish(self._predictions(self._rows(X), offset))

    def _predictions(self, X: Any, offset: Any) -> Array:
        """Return the linear predictions of checked rows, in the shape of the targets."""
        z = X @ self.coef_.T + self.intercept_
        z = self._flat(z)
        added = checked_offset(offset, z.shape, z.dtype)
        return z if added is None else z + added

    def _flat(self, z: Array) -> Array:
        """Return predictions in the shape of the targets."""
        return z

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


_SMALLEST = "as small as 1e-14 with float64 or 1e-7 with float32"


def criteria(data: Data, mean_loss: float, dof: int) -> tuple[float, float]:
    """Return AIC and BIC of a fit, NaN for losses that are no likelihood.

    Rows count one each, whatever their weights; the variance of the squared loss is estimated.
    """
    if not offers(data.loss, Has.LOG_LIKELIHOOD):
        return np.nan, np.nan
    n = data.n_rows
    deviance = -2.0 * data.log_likelihood(n * mean_loss)
    return float(deviance + 2 * dof), float(deviance + np.log(n) * dof)


def is_answer(result: Result) -> bool:
    """Say whether a point is converged, or as good as rounding allows with a certified gap."""
    stalled = result.status is Status.STALLED and "beyond_range" not in result.info
    certified = result.gap is not None and bool(np.isfinite(result.gap))
    return result.status is Status.CONVERGED or (stalled and certified)
