"""The search for alpha: folds, their warm-started paths, scores, and the choice."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from inspect import Parameter, signature
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..base.capabilities import Has, has_members, offers
from ..base.protocols import Array
from ..base.validation import is_whole, listed
from ..base.workspace import Workspace
from ..data import Fold, SomeRows, Source
from ..plots import standard_error
from ..run.progress import counted
from ..run.result import Status
from ._callbacks import with_callbacks
from ._data import checked_weight, given_source
from ._parameters import check_number
from ._solve import Budget, warn_out_of_time

TIED = 1e-8  # relative difference of scores below which the fits are as good


@dataclass(eq=False, repr=False, kw_only=True)
class PathCV:
    """What turns an estimator into one that chooses its own alpha."""

    alpha: float = field(init=False, default=0.01)
    alphas: Any = 50
    eps: float = 1e-3
    cv: Any = None
    scoring: Any = None
    one_standard_error: bool = False
    n_jobs: int | None = None

    # asked for by splitters, not by the model
    __metadata_request__fit: ClassVar[dict[str, str]] = {"groups": UNUSED}

    @property
    def _strength(self) -> float:
        return self.alpha_

    @property
    def _ratios(self) -> list[Any]:
        """The shares of the l1 norm that are compared."""
        given = getattr(self, "l1_ratio", 0.0)
        several = listed(given)
        return [given] if several is None else several

    @property
    def _ratio(self) -> float:
        chosen: float = getattr(self, "l1_ratio_", self._ratios[0])
        return chosen

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self: Any,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        exposure: Any = None,
        groups: Any = None,
        memory: Any = None,
    ) -> Any:
        """Choose alpha by cross-validation and fit the model with it to all rows.

        Ctrl-C ends the whole search.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows; float32 and float64 are used as they are. Rows that are not in memory are
            assigned to ``cv`` folds at random by row number, and read again for every fit.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets or labels.
        sample_weight : float or array of shape (n_samples,), optional
            Weights >= 0, in the fits and in the scores.
        offset : array, optional
            Added to the predictions, in the fits and in the scores.
        exposure : array of shape (n_samples,), optional
            Exposure of the rows, of regressors with a log link; see the ``fit`` of one alpha.
        groups : array of shape (n_samples,), optional
            Groups of rows for ``cv`` splitters such as ``GroupKFold``.
        memory : int or str, optional
            Memory budget for streamed rows, in bytes or as in ``"2GB"``; 256 MB by default.

        Returns
        -------
        self : estimator
        """
        self._forget("l1_ratio_")
        self._check_parameters()
        budget = Budget.after(self.max_seconds)
        X, y, sample_weight, offset, exposure = self._parts(X, y, sample_weight, offset, exposure)
        source = given_source(X, y, sample_weight, offset) if exposure is None else None
        if source is not None:
            return self._fit_source(source, groups, budget, memory)
        model = self._plain()
        # what is wrong is told as by a fit
        fitting = model._prepare(X, y, sample_weight, offset, exposure)
        if _num_samples(X) < 2:
            raise ValueError("cross-validation needs several rows, got n_samples = 1")
        weight = checked_weight(sample_weight, X)
        X, y, sample_weight, offset, exposure, groups = indexable(
            X, y, weight, offset, exposure, groups
        )
        routed = self._routed(sample_weight, groups)
        cv = check_cv(self.cv, y, classifier=is_classifier(self))
        folds = list(cv.split(X, y, **routed["split"]))
        if not folds:
            raise ValueError(
                f"cv is {self.cv!r} and gives no folds, expected at least one pair of train and "
                "test rows; an iterator is used up by the first fit, pass a list"
            )
        rows = X, y, sample_weight, offset, exposure

        def search(model: Any, fitting: Any, budget: Budget) -> _Compared:
            shared = Workspace()  # what depends on the structure alone
            alphas = np.array(model._grid(fitting, self.alphas, self.eps, shared.run(), 1.0))
            scores = self._search(rows, alphas, folds, routed["score"], budget, shared)
            return _Compared(fitting, alphas, scores, shared)

        return self._best(search, model, fitting, rows, budget)

    def _check_parameters(self: Any) -> None:
        super()._check_parameters()  # type: ignore[misc]
        if not self._ratios:
            raise ValueError("l1_ratio is an empty list, expected one number at least")
        for ratio in self._ratios:
            check_number("l1_ratio", ratio, "numbers between 0 and 1", lambda r: 0 <= r <= 1)
        if self.n_jobs is not None and (not is_whole(self.n_jobs) or self.n_jobs == 0):
            raise ValueError(
                f"n_jobs is {self.n_jobs!r}, expected None or a whole number: how many processes, "
                "-1 for all"
            )
        scorer_of(self, self.scoring)

    def _fit_source(self: Any, source: Source, groups: Any, budget: Budget, memory: Any) -> Any:
        """Choose alpha where rows are not in memory."""
        count = 5 if self.cv is None else self.cv
        if not is_whole(count) or count < 2:
            raise ValueError(
                f"cv is {self.cv!r}, expected a number of folds, 2 or more: rows that are not in "
                "memory are assigned to folds by their numbers"
            )
        if self.scoring is not None or groups is not None:
            name = "scoring" if groups is None else "groups"
            raise ValueError(f"{name} needs rows in memory; leave it out")
        model = self._plain()
        fitting = model._prepare(source, None, None, None, memory=memory)

        def search(model: Any, fitting: Any, budget: Budget) -> _Compared:
            shared = Workspace()
            alphas = np.array(model._grid(fitting, self.alphas, self.eps, shared.run(), 1.0))
            scores = self._search_source(source, alphas, int(count), budget, shared, memory)
            return _Compared(fitting, alphas, scores, shared)

        rows = source, None, None, None, None
        return self._best(search, model, fitting, rows, budget, memory)

    def _best(
        self: Any,
        search: Callable[[Any, Any, Budget], _Compared],
        model: Any,
        fitting: Any,
        rows: Any,
        budget: Budget,
        memory: Any = None,
    ) -> Any:
        """Search alpha for every share of the l1 norm, and keep the best of them."""
        ratios, found = self._ratios, []
        # as much time for every share as for the fit to all rows
        ends = budget.parts(len(ratios) + 1) if len(ratios) > 1 else [budget]
        for ratio, end in zip(ratios, ends, strict=False):
            if ratio != self._ratio:
                self.l1_ratio_ = ratio
                model = self._plain()
                fitting = model._prepare(*rows, memory=memory)
            one = search(model, fitting, end)
            place = best_index(one.scores, False)
            found.append((float(counted_folds(one.scores)[place].mean()), ratio, one))
        _, ratio, best = max(found, key=lambda entry: entry[0])
        if has_members(self, "l1_ratio"):
            self.l1_ratio_ = ratio
        return self._chosen(
            rows, best.fitting, best.alphas, best.scores, budget, best.shared, memory
        )

    def _search_source(
        self: Any,
        source: Source,
        alphas: Array,
        count: int,
        budget: Budget,
        shared: Workspace,
        memory: Any,
    ) -> Array:
        """Return the scores of the alphas that all folds had time for."""
        ends, scores = budget.parts(count + 1), []
        with counted(
            f"{type(self).__name__}, fits", count * len(alphas), bool(self.verbose)
        ) as advance:
            for k in range(count):
                parts = [SomeRows(source, Fold(k, count, inside)) for inside in (False, True)]
                if not all(part.n_rows for part in parts):
                    raise ValueError(f"{source.n_rows} rows are too few for {count} folds")
                model = self._plain()
                fitting = model._prepare(parts[0], None, None, None, memory=memory)
                held = parts[1], None, None, None, None
                scores.append(
                    _walked(model, fitting, held, alphas, None, {}, ends[k], shared.run(), advance)
                )
        return _compared(scores, count, self.max_seconds)

    def _chosen(
        self: Any,
        rows: Any,
        fitting: Any,
        alphas: Array,
        scores: Array,
        budget: Budget,
        shared: Workspace,
        memory: Any = None,
    ) -> Any:
        """Choose alpha by the scores and fit the model with it to all rows."""
        best = best_index(scores, self.one_standard_error)
        warn_of_gaps(type(self).__name__, alphas, scores)
        self.alphas_, self.score_path_ = alphas[: len(scores)], scores
        if len(scores) < len(alphas):
            warn_out_of_time(type(self).__name__, "compared", len(scores), len(alphas))
        self._forget("mse_path_")
        if offers(fitting.data.loss, Has.SQUARE) and self.scoring is None:
            self.mse_path_ = -scores
        self.best_index_ = best
        self.alpha_ = float(alphas[self.best_index_])
        self._warn_at_the_end(len(alphas))
        return self._fit(*rows, budget=budget, workspace=shared.run(), memory=memory)

    def _search(
        self: Any,
        rows: Any,
        alphas: Array,
        folds: Any,
        routed: dict[str, Any],
        budget: Budget,
        shared: Workspace,
    ) -> Array:
        """Return the scores of the alphas that all folds had time for."""
        total = len(folds) * len(alphas)
        workers = effective_n_jobs(self.n_jobs)
        serial = workers == 1  # neither bar nor workspace travels to other processes
        # as much time for every round of folds as for the fit to all rows
        ends = budget.parts(-(-len(folds) // workers) + 1)
        plain = self._plain()
        with counted(f"{type(self).__name__}, fits", total, bool(self.verbose)) as advance:
            work = (
                delayed(_fold)(
                    copy.copy(plain),
                    rows,
                    alphas,
                    *fold,
                    self.scoring,
                    routed,
                    ends[k // workers],
                    shared.run(),
                    advance if serial else None,
                )
                for k, fold in enumerate(folds)
            )
            scores = []
            for score in Parallel(n_jobs=self.n_jobs, return_as="generator")(work):
                scores.append(score)
                advance(0 if serial else len(alphas))
        return _compared(scores, len(folds), self.max_seconds)

    def _routed(self: Any, sample_weight: Any, groups: Any) -> dict[str, Any]:
        """Return what splitter and scorer are given besides X and y."""
        given = {"sample_weight": sample_weight, "groups": groups}
        given = {name: value for name, value in given.items() if value is not None}
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **given)
            score = {} if self.scoring is None else routed.scorer.score
            return {"split": routed.splitter.split, "score": score}
        score = {name: value for name, value in given.items() if name == "sample_weight"}
        if score and self.scoring is not None and not takes_weights(scorer_of(self, self.scoring)):
            warnings.warn(
                f"{type(self).__name__} does not weight its scores: scoring takes no "
                "sample_weight; give it such an argument, or leave scoring out",
                UserWarning,
                stacklevel=3,
            )
            score = {}
        split = {name: value for name, value in given.items() if name == "groups"}
        return {"split": split, "score": score}

    def get_metadata_routing(self: Any) -> Any:
        """Return which metadata the model, the splitter and the scorer request.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        splits = MethodMapping().add(caller="fit", callee="split")
        # folds as pairs of rows ask for nothing, and an iterator must not be used up here
        asks = self.cv is None or is_whole(self.cv) or has_members(self.cv, "split")
        router.add(splitter=check_cv(self.cv if asks else None), method_mapping=splits)
        if self.scoring is not None:
            scores = MethodMapping().add(caller="fit", callee="score")
            router.add(scorer=scorer_of(self, self.scoring), method_mapping=scores)
        return router

    def _warn_at_the_end(self: Any, asked: int) -> None:
        """Warn where a strength outside the grid may be better."""
        count = len(self.alphas_)
        last = count > 1 and self.best_index_ == count - 1 and self.alpha_ > 0
        # above the largest alpha of an automatic grid every fit is the null model
        first = count > 1 and self.best_index_ == 0 and not is_whole(self.alphas)
        if (not last or count < asked) and not first:
            return
        lower = "lower eps" if is_whole(self.alphas) else "pass smaller alphas"
        warnings.warn(
            f"{type(self).__name__} chose alpha = {self.alpha_:.3g}, the "
            f"{'smallest' if last else 'largest'} of {count}; a "
            f"{'smaller' if last else 'larger'} one may score better, "
            f"{lower if last else 'pass larger alphas'}",
            UserWarning,
            stacklevel=3,
        )

    def _plain(self: Any) -> Any:
        """Return the estimator without cross-validation, with the same parameters."""
        base: Any = next(c for c in type(self).__mro__ if not issubclass(c, PathCV))
        names = base._get_param_names()
        own = {name: v for name, v in self.get_params(deep=False).items() if name in names}
        if "l1_ratio" in own:
            own["l1_ratio"] = self._ratio
        return base(**own | {"verbose": False})

    def plot_path(self: Any, ax: Any = None) -> Any:
        """Draw the scores against alpha, with the chosen one; returns the axes."""
        from ..plots import plot_scores

        check_is_fitted(self)
        what = "score" if self.scoring is not None else "minus the mean loss"
        scores = counted_folds(self.score_path_)
        return plot_scores(self.alphas_, scores, self.alpha_, ax, what)

    def _found(self: Any) -> list[str]:
        scores = counted_folds(self.score_path_)
        best, error = scores[self.best_index_].mean(), standard_error(scores)[self.best_index_]
        what, sign = ("score", 1.0) if self.scoring is not None else ("mean loss", -1.0)
        null = sign * scores[0].mean()
        rule = ", the largest within one standard error" if self.one_standard_error else ""
        chosen = (
            f"alpha chosen among {len(scores)} by {scores.shape[1]} folds{rule}: held-out {what} "
            f"{sign * best:.4g} +- {error:.2g}, at the largest alpha {null:.4g}"
        )
        return [chosen, *super()._found()]  # type: ignore[misc]


class _Compared(NamedTuple):
    """The scores of the alphas of one problem."""

    fitting: Any
    alphas: Array
    scores: Array
    shared: Workspace


def _compared(scores: list[Array], count: int, max_seconds: float | None) -> Array:
    """Return the scores of the alphas that all folds had time for."""
    compared = min(map(len, scores))
    if not compared:
        raise TimeoutError(
            f"max_seconds = {max_seconds} passed before one alpha was fitted in all {count} "
            "folds; raise max_seconds"
        )
    return np.stack([score[:compared] for score in scores], axis=1)


def _fold(
    model: Any,
    rows: tuple[Any, ...],
    alphas: Array,
    train: Array,
    test: Array,
    scoring: Any,
    routed: dict[str, Any],
    budget: Budget,
    workspace: Workspace,
    advance: Any,
) -> Array:
    """Return the scores on the rows left out, of the alphas there was time for."""

    def part(array: Any, index: Array) -> Any:
        return None if array is None else _safe_indexing(array, index)

    held = tuple(part(array, test) for array in rows)
    weights = part(rows[2], train), held[2]
    if any(weight is not None and not np.any(weight) for weight in weights):
        if advance is not None:
            advance(len(alphas))
        return np.full(len(alphas), np.nan)  # rows of weight zero are as good as absent
    routed = {name: part(value, test) for name, value in routed.items()}
    model._fits_part = True
    fitting = model._prepare(*(part(array, train) for array in rows))
    return _walked(model, fitting, held, alphas, scoring, routed, budget, workspace, advance)


def _walked(
    model: Any,
    fitting: Any,
    held: tuple[Any, ...],
    alphas: Array,
    scoring: Any,
    routed: dict[str, Any],
    budget: Budget,
    workspace: Workspace,
    advance: Any,
) -> Array:
    """Return the scores of a path on rows that were left out."""
    scorer = scorer_of(model, scoring)
    scores, loss = list[Any](), None
    described = scorer is not None  # one of the user's own may read what is said of a fit
    for _ in model._walk(fitting, alphas.tolist(), budget, False, workspace, described):
        if model.status_ is Status.MAX_TIME:  # the score of a fit cut short says nothing
            break
        model._judge(fitting, model.result_)
        if scorer is None:
            loss = model._loss_on(*held) if loss is None else loss
            scores.append(-loss())
        else:
            score = scorer(_with_offset(model, *held[3:]), held[0], held[1], **routed)
            scores.append(one_number(score))
        if advance is not None:
            advance(1)
    return np.array(scores)


def _with_offset(model: Any, offset: Any, exposure: Any) -> Any:
    """Return a model that knows offset and exposure of the rows that are scored."""
    if offset is None and exposure is None:
        return model
    given = {"offset": offset} | ({} if exposure is None else {"exposure": exposure})
    shifted = copy.copy(model)
    for name in ("predict", "decision_function", "predict_proba", "predict_log_proba", "score"):
        method = getattr(model, name, None)
        own = given if name in ("predict", "score") else {"offset": offset}
        if method is not None:
            setattr(shifted, name, update_wrapper(partial(method, **own), method))
    return shifted


# ---------------------------------------------------------------- scores and the choice


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
    >>> from stochadmm.estimators._search import takes_weights
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
    >>> from stochadmm.estimators._search import best_index
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
    error = float(standard_error(counted[[best]])[0]) if one_standard_error else 0.0
    return int(np.argmax(mean >= mean[best] - max(error, TIED * abs(mean[best]))))


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
