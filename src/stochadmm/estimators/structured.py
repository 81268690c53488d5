"""Models of data frames: a structure per column, and a table of merged levels as the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import is_classifier
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
    validate_data,
)

from ..base.protocols import Array
from ..operators import as_operator
from ..problem import Problem
from ..run.result import Result
from ..terms import Column, Free, Setting, Sparse, read_columns
from ..terms._blocks import distinct
from ..terms._columns import as_frame
from . import refit
from ._base import Fitting, StructuredModel
from ._classifier import Classifier
from ._data import Data, checked_exposure, checked_weight
from ._design import Design, Part, built, chosen
from ._docs import estimator
from ._regressor import Regressor
from ._search import PathCV
from ._solve import Budget
from ._sources import is_lazy
from ._structure import Columns, Limits, tied
from ._tables import Tables, standard_errors
from .refit import Space

_WEIGHTS = ("standard", "equal", "adaptive")
_RULES = {"unseen": ("error", "base", "mean"), "missing": ("error", "level", "mean")}


@dataclass(eq=False, repr=False, kw_only=True)
class Structured(Tables, StructuredModel):
    """A structure per column of a data frame.

    Parameters
    ----------
    terms : dict, optional
        ``{column: term}``, or ``{(column, column): term}`` for an interaction; the terms are in
        `stochadmm.terms`. Other columns get the term of their type: `Ordered` for ordered
        categories, `Nominal` for other categories and texts, `Free` for flags, factors of two
        levels and numbers (`Sparse` where there are no terms and all columns are numbers).
    weights : {"standard", "equal", "adaptive"}, default="standard"
        Weights of the penalized differences: by the exposure of the two levels and the number of
        levels; one; or standard ones divided by the differences in a first fit.
    remainder : {"default", "drop"}, default="default"
        What to do with columns that ``terms`` does not name: the term of their type, or nothing.
    unseen : {"error", "base", "mean"}, default="error"
        Levels met in prediction only: refused, taken as the base level, or as the average level.
        Levels on a `Map` have the mean of their neighbors.
    missing : {"error", "level", "mean"}, default="error"
        Missing values: refused, a level of their own, or taken as the average level or number.

    Attributes
    ----------
    table_ : frame
        One row per merged class of levels: term, class, its levels, exposure, sum of the targets,
        coefficient and relativity against the base, and whether it is the base.
    level_map_ : dict
        For every factor the class of each of its levels.
    """

    terms: Any = None
    weights: str = "standard"
    remainder: str = "default"
    unseen: str = "error"
    missing: str = "error"

    # ---------------------------------------------------------------- parameters and rows

    def _check_parameters(self) -> None:
        super()._check_parameters()
        allowed = {"weights": _WEIGHTS, "remainder": ("default", "drop"), **_RULES}
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, expected one of {', '.join(values)}"
                )
        instead = {
            "standardize": "numbers and factors are standardized by their terms",
            "positive": "give terms bounds=(0, None), or Ordered(increasing=True)",
            "bounds": "give terms bounds=(lower, upper)",
            "monotone": "use Ordered(increasing=True), or bounds=(0, None) for a number",
            "penalty_weights": "give terms a weight",
            "unpenalized": "use the term Free()",
        }
        for name, words in instead.items():
            given = getattr(self, name)
            if given is not None and np.size(given) and given is not False:
                raise ValueError(f"{name} is for models of matrices; {words}")

    def _parts(self, X: Any, *parts: Any) -> tuple[Any, ...]:
        frame = as_frame(X)
        named = [part for part in parts if isinstance(part, str)]
        if not named:
            return X, *parts
        if frame is None:
            raise ValueError(f"{named[0]!r} names a column, but X is no frame; pass an array")
        for name in named:
            if name not in frame.columns:
                known = ", ".join(map(repr, frame.columns[:8]))
                raise ValueError(f"X has no column {name!r}; it has {known}")
        values = [frame[p].to_numpy() if isinstance(p, str) else p for p in parts]
        return frame.drop(list(dict.fromkeys(named))).to_native(), *values

    def _columns(self, X: Any, reset: bool) -> dict[Any, Column]:
        """Return the columns of rows, which are compared with those of the fit."""
        frame = as_frame(X)
        if frame is None:
            kind = getattr(np.asarray(X) if isinstance(X, (list, tuple)) else X, "dtype", None)
            texts = self.terms is not None and getattr(kind, "kind", "f") in "OUS"
            dtype = None if texts else np.float64
            finite = "allow-nan" if self.missing != "error" else True
            X = validate_data(
                self, X, reset=reset, dtype=dtype, ensure_all_finite=not texts and finite
            )
            columns = read_columns(X)
            names = None if reset else self._names
            if names is None:
                return columns
            named = zip(names, columns.values(), strict=True)
            return {name: replace(column, name=name) for name, column in named}
        if not reset and self._names is not None and set(self._names) < set(frame.columns):
            frame = frame.select(self._names)  # the target may be there too
        native = frame.to_native()
        if not frame.columns:
            raise ValueError("0 feature(s): X has no columns; at least one is required")
        _check_feature_names(self, native, reset=reset)
        _check_n_features(self, native, reset=reset)
        if not len(frame):
            raise ValueError("0 sample(s): X has no rows; at least one is required")
        self._check_names(frame.columns, reset)
        return read_columns(native)

    def _check_names(self, names: list[str], reset: bool) -> None:
        """Remember or compare names of frames that scikit-learn does not know."""
        if reset:
            if all(isinstance(name, str) for name in names):
                self.feature_names_in_ = np.asarray(names, dtype=object)
            self.n_features_in_ = len(names)
        elif self._names is not None and list(self._names) != list(names):
            missing = [name for name in self._names if name not in names]
            words = f"column {missing[0]!r} is missing" if missing else "their order differs"
            raise ValueError(
                f"The feature names should match those that were passed during fit: {words}"
            )

    def _rows(self, X: Any) -> Any:
        return self._design.matrix(self._columns(X, reset=False))

    # ---------------------------------------------------------------- the problem

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        offset: Any,
        exposure: Any = None,
        memory: Any = None,
    ) -> Fitting:
        if memory is not None or is_lazy(X):
            raise ValueError(
                f"{type(self).__name__} needs rows in memory: a frame of pandas, polars or Arrow, "
                "or an array"
            )
        columns = self._columns(X, reset=True)
        self._backend = None if as_frame(X) is None else str(as_frame(X).implementation)
        n = len(next(iter(columns.values())))
        mass = np.ones(n) if exposure is None else checked_exposure(exposure, n)
        weight = checked_weight(sample_weight, np.empty((n, 0)))
        mass = mass if weight is None else mass * weight
        if exposure is not None:
            y, sample_weight, offset = self._exposed(y, sample_weight, offset, exposure)
        if y is None:
            raise ValueError("this estimator requires y to be passed, but the target y is None")
        setting = Setting(
            "equal" if self.weights == "equal" else "standard",
            self.unseen,
            self.missing,
            getattr(self, "_declared", None) or {},
        )
        # where all columns are numbers and there are no terms, nothing else would be penalized
        plain = self.terms is None and all(c.kind == "number" for c in columns.values())
        numbers = Sparse() if plain else Free()
        terms = chosen(self.terms, columns, self.remainder, setting.declared, numbers)
        if not terms:
            raise ValueError("terms is empty; give a term for one column at least")
        # without a penalty there is no square either
        square = self.l2_ratio > 0 and getattr(self, "alpha", 1.0) > 0
        self._design = design = built(
            terms, columns, mass, setting, bool(self.fit_intercept), square
        )
        encoded = design.matrix(columns)
        data = self._targets(encoded, y, checked_weight(sample_weight, encoded), offset)
        self._observed = _observed(design, encoded, data, is_classifier(self))
        self._mass = "exposure" if exposure is not None else "rows" if weight is None else "weight"
        data = _scaled(design, data)
        sharpness = None
        if self.weights == "adaptive":
            sharpness = self._sharpness(design, data)
        assert data.scale is not None
        structure = design.structure(data.scale, sharpness).beside_square(self.l2_ratio)
        free = design.free
        within = Columns(
            design.width, design.names(), free, data.X, data.outputs > 1, (~free).astype(float)
        )
        return Fitting(data, within, structure, structure.problem(data, within))

    def _sharpness(self, design: Design, data: Data) -> Array:
        """Return one over the size of every penalized number in a fit with a small ridge."""
        plain = Space(
            sparse.eye_array(design.width, format="csc"),
            np.ones((design.width, data.outputs), dtype=bool),
        )
        outputs = (data.outputs,) if data.outputs > 1 else ()
        first = refit.refitted(data, plain, outputs, None, Budget(), self.random_state, 1e-4)
        coef, _ = data.original(first.coef, first.intercept)
        size = np.abs(design.differences(coef))
        size = size if size.ndim == 1 else np.sqrt((size**2).sum(axis=1))
        with np.errstate(divide="ignore"):
            sharp = 1.0 / size
        finite = sharp[np.isfinite(sharp)]
        return np.minimum(sharp, 1e4 * float(np.median(finite)) if finite.size else 1.0)

    # ---------------------------------------------------------------- the answer

    def _inspect(self, fitting: Fitting, problem: Problem, result: Result) -> None:
        coef = fitting.structure.fold(result.coef, fitting.columns.n)
        self._classes = [_merged(part, part.spread(coef)) for part in self._design.parts]

    def _space(self, fitting: Fitting, result: Result) -> Space:
        coef = fitting.structure.fold(result.coef, fitting.columns.n)
        outputs = coef.reshape(len(coef), -1)
        blocks, used = [], []
        for c, column in enumerate(outputs.T):
            for part in self._design.parts:
                own = _free_directions(part, part.spread(column))
                basis = sparse.csc_array((len(coef), own.shape[1]))
                basis = sparse.vstack(
                    [
                        sparse.csc_array((part.start, own.shape[1])),
                        own,
                        sparse.csc_array((len(coef) - part.places.stop, own.shape[1])),
                    ],
                    format="csc",
                )
                blocks.append(basis)
                mark = np.zeros((own.shape[1], outputs.shape[1]), dtype=bool)
                mark[:, c] = True
                used.append(mark)
        return Space(sparse.csc_array(sparse.hstack(blocks)), np.concatenate(used))

    def _limits(self, fitting: Fitting) -> Limits | None:
        assert fitting.data.scale is not None
        return self._design.limits(fitting.data.scale)

    def _refit(self, fitting: Fitting, result: Result, budget: Budget) -> None:
        super()._refit(fitting, result, budget)
        self._errors = None
        whole = float(self.refit) == 1 and np.size(self.intercept_) == 1
        if whole and not getattr(self, "_fits_part", False):  # folds have no table
            basis = self._space(fitting, result).basis
            self._errors = standard_errors(fitting, basis, self.refit_result_, self._design.parts)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the encoded columns, one per coefficient.

        Parameters
        ----------
        input_features : None
            Not used; names are those of columns and levels.

        Returns
        -------
        array of str
        """
        check_is_fitted(self)
        return np.asarray(self._design.names(), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.categorical = True
        tags.input_tags.string = self.terms is not None
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


def _observed(design: Design, encoded: Any, data: Data, labels: bool) -> list[Array]:
    """Return the weighted sum of the targets of every encoded column, per term.

    Of two labels, coded -1 and 1, it is the weight of the rows with the second.
    """
    y = np.asarray(data.y, dtype=np.float64)
    if y.ndim == 2 or data.outputs > 1:
        return []
    y = (y > 0).astype(np.float64) if labels else y
    y = y if data.weight is None else y * data.weight
    sums = encoded.T @ y
    found = []
    for part in design.parts:
        own = sums[part.places]
        if part.left_out is not None:
            own = np.insert(own, part.left_out, y.sum() - own.sum())
        found.append(own)
    return found


def _scaled(design: Design, data: Data) -> Data:
    """Return the data with numbers centered and of unit deviation; dense if most entries are."""
    center, scale = design.units(data.X, data.weight, data.intercept)
    numbers = [part.start for part in design.parts if part.block.base is None]
    X: Any = data.X
    if numbers:
        columns = X.tocsc()
        pieces = [
            sparse.csc_array((columns[:, [j]].toarray() - center[j]) / scale[j])
            if j in set(numbers)
            else columns[:, [j]]
            for j in range(design.width)
        ]
        X = sparse.hstack(pieces, format="csr")
    if X.nnz > 0.5 * np.prod(X.shape):
        X = X.toarray()
    else:
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return replace(data, X=X, center=center, scale=scale)


def _merged(part: Part, coef: Array) -> Array:
    """Return the number of the class of every level, in the order of the levels."""
    if coef.ndim == 2:
        return np.stack([_merged(part, column) for column in coef.T], axis=1)
    k = len(coef)
    rows = [r for r in part.block.rows if np.any(r.weight)]
    if any(r.kind == "norm" for r in rows) and not coef.any():
        return np.zeros(k, dtype=np.int64)
    if not rows or rows[0].kind != "l1":
        return np.arange(k)
    matrix = sparse.csr_array(rows[0].matrix)
    if (np.diff(matrix.indptr) == 1).all():  # single coefficients at zero
        labels = np.arange(k)
        zero = np.flatnonzero(coef == 0)
        labels[zero] = zero[:1].repeat(len(zero))
    else:
        labels, _ = tied(as_operator(matrix, "rows", n_columns=None), coef)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _free_directions(part: Part, coef: Array) -> Any:
    """Return a basis of the coefficients of a term that keep its structure, CSC."""
    k = len(coef)
    whole = sparse.eye_array(k, format="csc")
    rows = [r for r in part.block.rows if np.any(r.weight)]
    matrix = sparse.csr_array(rows[0].matrix) if rows else sparse.csr_array((0, k))
    sizes = np.diff(matrix.indptr)
    if not rows:
        basis = whole
    elif rows[0].kind == "norm":
        basis = whole if coef.any() else whole[:, :0]
    elif rows[0].kind == "square":  # a smooth curve keeps its shape
        basis = sparse.csc_array(coef[:, None]) if coef.any() else whole[:, :0]
    elif (sizes == 1).all():
        basis = whole[:, np.flatnonzero(coef)]
    elif (sizes > 2).any():  # broken lines
        image = np.abs(matrix @ coef)
        zero = image <= 1e-9 * max(float(np.abs(coef).max(initial=0.0)), 1e-300)
        basis = sparse.csc_array(linalg.null_space(matrix[np.flatnonzero(zero)].toarray()))
    else:
        labels = _merged(part, coef)
        basis = sparse.csc_array((np.ones(k), (np.arange(k), labels)), shape=(k, labels.max() + 1))
    if part.left_out is None:
        return basis
    if basis is whole:  # all of its columns would be one too many
        return sparse.eye_array(k - 1, format="csc")
    moved = basis - sparse.csc_array(np.ones((k, 1))) @ basis[[part.left_out]]
    moved = sparse.csc_array(moved)[part.kept]
    return moved[:, np.flatnonzero(np.asarray(abs(moved).sum(axis=0)))]


@estimator
class StructuredRegressor(Regressor, Structured):
    """Regression on a data frame with a structure per column: levels of factors merge.

    Minimizes ``mean loss + alpha sum_terms penalty(coefficients of the term)``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(
    ...     {"age": rng.integers(0, 6, 2000), "brand": rng.choice(list("abc"), 2000)}
    ... )
    >>> claims = rng.poisson(np.where(frame["age"] < 3, 0.4, 0.1))
    >>> terms = {"age": sa.terms.Ordered()}
    >>> model = sa.StructuredRegressor(0.05, terms=terms, loss="poisson").fit(frame, claims)
    >>> model.level_map_["age"]
    {'0': '0..2', '1': '0..2', '2': '0..2', '3': '3..5', '4': '3..5', '5': '3..5'}
    """


@estimator
class StructuredClassifier(Classifier, Structured):
    """Classification of the rows of a data frame with a structure per column.

    Minimizes ``mean loss + alpha sum_terms penalty(coefficients of the term)``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"hour": rng.integers(0, 24, 2000)})
    >>> late = rng.random(2000) < np.where(frame["hour"] > 17, 0.8, 0.3)
    >>> terms = {"hour": sa.terms.Periodic()}
    >>> model = sa.StructuredClassifier(0.1, terms=terms).fit(frame, late)
    >>> model.table_["class"].tolist()
    ['0, 1, 2, 3, 4 and 13 more', '18, 19, 20, 21, 22, 23']
    """


@dataclass(eq=False, repr=False, kw_only=True)
class StructuredSearch(PathCV):
    """A search whose folds know the levels of all rows."""

    def fit(
        self: Any,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        exposure: Any = None,
        groups: Any = None,
    ) -> Any:
        """Choose alpha by cross-validation and fit the model with it to all rows.

        Parameters
        ----------
        X : frame or array
            Rows.
        y, sample_weight, offset, exposure : array or name of a column, optional
            As in the ``fit`` of one alpha; scores are weighted as fits are.
        groups : array of shape (n_samples,) or name of a column, optional
            Groups of rows for ``cv`` splitters such as ``GroupKFold``.

        Returns
        -------
        self : estimator
        """
        rows = self._parts(X, y, sample_weight, offset, exposure, groups)
        X, y, sample_weight, offset, exposure, groups = rows
        columns = self._columns(X, reset=True).values()
        self._declared = {column.name: distinct(column) for column in columns}
        return super().fit(X, y, sample_weight, offset, exposure=exposure, groups=groups)

    def _plain(self: Any) -> Any:
        model = super()._plain()
        model._declared = self._declared  # levels of all rows: a fold may lack some
        return model


@estimator
class StructuredRegressorCV(StructuredSearch, StructuredRegressor):
    """`StructuredRegressor` with alpha chosen by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": rng.integers(0, 6, 900)})
    >>> claims = rng.poisson(np.where(frame["age"] < 3, 0.4, 0.1))
    >>> terms = {"age": sa.terms.Ordered()}
    >>> model = sa.StructuredRegressorCV(terms=terms, loss="poisson", alphas=5, cv=3)
    >>> model.fit(frame, claims).score_path_.shape
    (5, 3)
    """


@estimator
class StructuredClassifierCV(StructuredSearch, StructuredClassifier):
    """`StructuredClassifier` with alpha chosen by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"hour": rng.integers(0, 24, 900)})
    >>> late = rng.random(900) < np.where(frame["hour"] > 17, 0.8, 0.3)
    >>> model = sa.StructuredClassifierCV(terms={"hour": sa.terms.Periodic()}, alphas=5, cv=3)
    >>> model.fit(frame, late).score_path_.shape
    (5, 3)
    """
