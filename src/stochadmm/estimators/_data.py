"""From what users pass to what a problem takes: one place for targets, weights and scales."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_array,
    column_or_1d,
    validate_data,
)

from ..base.capabilities import Has, has_members, offers
from ..base.names import did_you_mean
from ..base.protocols import Array, CompleteLoss
from ..base.validation import (
    check_sparse,
    is_number,
    is_sparse,
    refuse_masked,
    too_coarse,
)
from ..data import (
    Source,
    as_source,
    is_dask,
    is_frame,
    mean_and_deviation,
    moments,
    open_source,
)
from ..losses import FOR_LABELS, FOR_NUMBERS, Logistic, Multinomial
from ..risk.streamed import BUDGET

Kind = TypeVar("Kind")
"""A kind of loss."""


@dataclass(frozen=True)
class Data:
    """Rows, encoded targets, weights, and how columns were scaled."""

    streamed: ClassVar[bool] = False
    """Whether X is a source of rows that are read again for every pass."""
    X: Any = field(repr=False)
    y: Array = field(repr=False)
    loss: CompleteLoss
    weight: Array | None
    intercept: bool
    offset: Array | None = None
    vector: bool = True
    """Whether the user's targets were one column."""
    center: Array | None = None
    scale: Array | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the coefficients: that of the rows."""
        kind: np.dtype[Any] = np.dtype(self.X.dtype)
        return kind

    @property
    def outputs(self) -> int:
        """Coefficients of a column of X: one per target or class."""
        count = self.loss.n_outputs(self.y) if offers(self.loss, Has.N_OUTPUTS) else None
        return int(count or (1 if self.y.ndim == 1 else self.y.shape[1]))

    @property
    def n_rows(self) -> int:
        """Rows that count: those of positive weight."""
        if self.weight is None:
            return int(self.X.shape[0])
        rows = self.weight if self.weight.ndim == 1 else self.weight.max(axis=1)
        return int(np.count_nonzero(rows))

    def standardized(self) -> Data:
        """Return the data with columns of unit deviation; a copy, CSR indices are shared.

        Dense columns are centered when there is an intercept, which takes the centers up; without
        one the deviation is that from zero.
        """
        weight = None if self.weight is None else self.weight
        if weight is not None and weight.ndim == 2:
            weight = weight.max(axis=1)
        given: Any = self.X
        found = mean_and_deviation(given, weight)
        center, constant, scale = units(*found, self.intercept, given.dtype)
        if is_sparse(given):
            triple = (given.data / scale[given.indices], given.indices, given.indptr)
            X = sparse.csr_array(triple, shape=given.shape, copy=False)
            return replace(self, X=X, scale=scale)
        if not self.intercept:
            return replace(self, X=given / scale, scale=scale)
        scaled = (given - center) / scale
        scaled[:, constant] = 0.0  # not what rounding has left of them
        return replace(self, X=scaled, center=center, scale=scale)

    def predictions(self, coef: Array, intercept: Any) -> Array:
        """Return linear predictions of the coefficients for the columns as the user gave them."""
        scale, center = self.scale, self.center
        if scale is not None:
            intercept = intercept if center is None else intercept + center @ coef
            coef = coef * (scale if coef.ndim == 1 else scale[:, None])
        z: Array = self.X @ coef + intercept
        return z if self.offset is None else z + self.offset.reshape(z.shape)

    def notices(self) -> list[str]:
        """Return what is probably not meant: exposures instead of their logarithms."""
        assert self.offset is not None
        if not np.ptp(self.offset) > np.log(1e6):
            return []
        if not np.allclose(self.loss.mean(np.ones(1)), np.exp(1.0)):  # no logarithmic link
            return []
        return [
            f"offsets go from {self.offset.min():.4g} to {self.offset.max():.4g}, so that their "
            "exponentials span more than 1e6; an exposure enters as offset=np.log(exposure)"
        ]

    def repeated(self, copies: Array) -> Any:
        """Return the rows with columns repeated."""
        # np.take keeps rows contiguous
        return self.X[:, copies] if is_sparse(self.X) else np.take(self.X, copies, axis=1)

    def spread_of_columns(self) -> float:
        """Return the powers of ten between the largest and the smallest norm of a column."""
        squares = moments(self.X, None)[1]
        squares = squares[squares > 0]
        return 0.5 * float(np.log10(squares.max() / squares.min())) if squares.size else 0.0

    def log_likelihood(self, total: float) -> float:
        """Return the log-likelihood of a fit with this sum of losses."""
        entries = self.n_rows
        if self.y.ndim == 2:
            entries = self.n_rows * self.y.shape[1]
            if self.weight is not None and self.weight.ndim == 2:
                entries = int(np.count_nonzero(self.weight))
        loss: Any = self.loss
        return float(loss.log_likelihood(total, self.y, entries))

    def original(self, coef: Array, intercept: Any) -> tuple[Array, Any]:
        """Return coefficients and intercept for the columns as the user gave them."""
        assert self.scale is not None
        coef = coef / (self.scale if coef.ndim == 1 else self.scale[:, None])
        if self.center is not None:
            intercept = intercept - self.center @ coef
        return coef, intercept


def units(
    mean: Array, deviation: Array, intercept: bool, dtype: Any
) -> tuple[Array, Array, Array]:
    """Return centers of columns, which of them are constant, and their scales.

    Without an intercept centers are zero, and deviations those from zero.
    """
    if not intercept:
        mean, deviation = np.zeros_like(mean), np.hypot(mean, deviation)
    # values that differ in their last digit are those of a constant column
    constant = deviation <= 4.0 * float(np.finfo(dtype).eps) * np.abs(mean)
    return mean.astype(dtype), constant, np.where(constant, 1.0, deviation).astype(dtype)


def given_source(X: Any, y: Any, weight: Any, offset: Any) -> Source | None:
    """Return rows in files, maps or Dask collections as a source; None for rows in memory.

    For names of files and Dask frames ``y``, ``weight`` and ``offset`` may name columns.
    """
    weight = None if weight is None else several_weights(weight)
    if isinstance(X, (str, Path)):
        return open_source(X, y, weight=weight, offset=offset)
    if is_dask(X):
        X, y, weight, offset = columns_of(X, y, weight, offset)
    return as_source(X, y, weight, offset, BUDGET)


def columns_of(X: Any, *parts: Any) -> tuple[Any, ...]:
    """Return a Dask frame without the columns that are named, and these columns."""
    named = [part for part in parts if isinstance(part, str)]
    if not named:
        return X, *parts
    if not is_frame(X):
        raise ValueError(f"{named[0]!r} names a column, but X is an array; pass a Dask array")
    for name in named:
        if name not in X.columns:
            known = ", ".join(map(str, X.columns[:8]))
            raise ValueError(f"X has no column {name!r}; it has {known}")
    return X.drop(columns=named), *(X[p] if isinstance(p, str) else p for p in parts)


def checked_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return X as float32 or float64 rows or CSR; names of columns are remembered or compared."""
    if sparse.issparse(X):
        check_sparse(X, "X")
    refuse_masked(X, "X")
    return validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
    )


def several_weights(weight: Any) -> Any:
    """Return weights as they were given, None for one positive number: a mean is as without it."""
    if not is_number(weight):
        return weight
    if not 0 < weight < np.inf:
        raise ValueError(
            f"sample_weight is {weight!r}, expected a finite number > 0 for all rows, or one "
            "number >= 0 per row"
        )
    return None


def checked_weight(weight: Any, X: Any) -> Array | None:
    """Return weights >= 0, one per row, or None where all rows have the same."""
    weight = several_weights(weight)
    if weight is None:
        return None
    refuse_masked(weight, "sample_weight")
    return np.asarray(_check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True))


def checked_offset(offset: Any, shape: tuple[int, ...], dtype: Any) -> Array | None:
    """Return offsets in the shape of the predictions, or None."""
    if offset is None:
        return None
    refuse_masked(offset, "offset")
    each = "row" if len(shape) == 1 else "row and output"
    if np.ndim(offset) == 0:
        raise ValueError(
            f"offset is {offset!r}, expected an array of shape {shape}: one number per {each}"
        )
    given = check_array(
        offset, ensure_2d=False, dtype=dtype, ensure_all_finite=False, input_name="offset"
    )
    if given.shape != shape:
        raise ValueError(
            f"offset has shape {given.shape}, expected {shape}: one number per {each}"
        )
    if not np.isfinite(given).all():
        raise ValueError(
            "offset contains NaN or infinity; drop or impute those rows (an exposure of zero has "
            "no logarithm)"
        )
    return np.asarray(given)


def checked_exposure(exposure: Any, n: int) -> Array:
    """Return exposures >= 0, one per row."""
    refuse_masked(exposure, "exposure")
    found = np.asarray(exposure)
    if found.dtype.kind not in "biuf" or found.shape != (n,):
        raise ValueError(
            f"exposure has shape {found.shape} and type {found.dtype}, expected one number for "
            f"each of {n} rows"
        )
    found = found.astype(np.float64)
    if not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError("exposure has values that are negative, NaN or infinite; drop those rows")
    return found


def with_exposure(
    loss: Any, y: Any, weight: Any, offset: Any, exposure: Any
) -> tuple[Any, Any, Any]:
    """Return targets, weights and offset for which a loss knows no exposure.

    Of counts (Poisson, negative binomial) its log is an offset. Of sums (gamma, Tweedie) it is a
    weight of the mean ``y / exposure``: with an offset it would be another model. Rows without
    exposure must have a target of zero, and are given a weight of zero.
    """
    if exposure is None:
        return y, weight, offset
    kind: Any = FOR_NUMBERS.get(loss) if isinstance(loss, str) else type(loss)
    use = getattr(kind, "exposure", None)
    if use is None:
        raise ValueError(
            f"loss {loss if isinstance(loss, str) else kind.__name__!r} takes no exposure; use "
            "'poisson', 'negative_binomial', 'tweedie' or 'gamma', or sample_weight"
        )
    if y is None:
        raise ValueError("exposure needs rows in memory; give its log as offset in the source")
    y = np.asarray(y)
    if y.dtype.kind not in "biuf" or y.ndim not in (1, 2):
        return y, weight, offset  # refused where targets are checked
    e = checked_exposure(exposure, len(y))
    none = e == 0
    if none.any():
        used = none if weight is None or np.ndim(weight) == 0 else none & (np.asarray(weight) > 0)
        if (y[used] != 0).any():
            row = int(np.flatnonzero(used & (y != 0).reshape(len(y), -1).any(axis=1))[0])
            raise ValueError(
                f"row {row} has an exposure of zero and the target {y[row]}; correct the "
                "exposure, or drop the row"
            )
        given = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
        weight = np.where(none, 0.0, given)
        e = np.where(none, 1.0, e)
    wide = e if y.ndim == 1 else np.broadcast_to(e[:, None], y.shape)
    if use == "offset":
        return y, weight, np.log(wide) + (0.0 if offset is None else np.asarray(offset))
    total = e if weight is None else e * np.asarray(weight, dtype=np.float64)
    # a gamma target of a row without exposure is not looked at, but must be positive
    mean = np.where(none, 1.0, y / e) if y.ndim == 1 and kind is FOR_NUMBERS["gamma"] else y / wide
    return mean, total, offset


def regression_targets(y: Any, X: Any, weight: Array | None) -> tuple[Array, Array | None]:
    """Return numeric targets and weights; a missing entry of several outputs has weight zero."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    refuse_masked(y, "y")
    y = check_array(
        y, ensure_2d=False, dtype="numeric", ensure_all_finite="allow-nan", input_name="y"
    )
    if y.ndim == 1:  # with one output, a row without target says nothing
        assert_all_finite(y, input_name="y")
    if y.shape[0] != X.shape[0]:
        raise ValueError(
            f"X has {X.shape[0]} rows and y has {y.shape[0]}; found input variables with "
            "inconsistent numbers of samples, pass one target per row"
        )
    if not np.issubdtype(y.dtype, np.floating):
        y = y.astype(np.float64)
    missing = np.isnan(y)
    if not missing.any():
        return y, weight
    if missing.all():
        raise ValueError("y contains NaN only; give at least one target")
    rows = np.ones(len(y)) if weight is None else weight
    return np.where(missing, 1, y), np.where(missing, 0.0, rows[:, None])


def in_one_type(
    X: Any, y: Array, weight: Array | None, offset: Array | None
) -> tuple[Any, Array, Array | None]:
    """Return rows, targets and offset in the type of the rows.

    It is float64 where targets or offsets of this size are too coarse in float32, and so would be
    predictions: of a deviation that is a thousandth of the mean four digits are left.
    """
    parts = [y] if offset is None else [y, -offset]
    counts: Any = True if weight is None else weight.reshape(len(y), -1) > 0
    if too_coarse(X.dtype, parts, counts if y.ndim == 2 else np.ravel(counts)):
        X = X.astype(np.float64)
    return (
        X,
        y.astype(X.dtype, copy=False),
        None if offset is None else offset.astype(X.dtype, copy=False),
    )


def regression_loss(
    loss: Any, y: Array, weight: Array | None = None, offset: Array | None = None
) -> CompleteLoss:
    """Return the loss of a name, made for the targets, or the object itself.

    An object whose range follows the targets keeps its other parameters.
    """
    own: Any = _own(loss)
    if own is None:
        return _named(loss, FOR_NUMBERS).for_targets(y, weight, offset)
    return cast(CompleteLoss, own.suited(y, weight, offset)) if has_members(own, "suited") else own


def class_codes(y: Any, X: Any) -> tuple[Array, Array]:
    """Return the classes, sorted, and the class number of every row."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    refuse_masked(y, "y")
    y = column_or_1d(y, warn=True)
    if len(y) != X.shape[0]:
        raise ValueError(
            f"X has {X.shape[0]} rows and y has {len(y)}; found input variables with "
            "inconsistent numbers of samples, pass one label per row"
        )
    try:
        check_array(y, ensure_2d=False, dtype=None, input_name="y")
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:  # labels without an order
        kinds = [type(label) for label in y]
        other = next((row for row, kind in enumerate(kinds) if kind is not kinds[0]), None)
        if other is None:
            raise
        raise ValueError(
            f"y has the labels {y[0]!r} in row 0 and {y[other]!r} in row {other}, expected labels "
            "of one kind; make all of them texts or numbers, and drop rows without one"
        ) from error
    check_several(classes)
    return classes, codes


def check_several(classes: Array) -> None:
    """Raise when all rows have the same label."""
    if len(classes) < 2:
        raise ValueError(
            f"y has one class, {classes.tolist()[0]!r}; a classifier needs two classes at least"
        )


def label_loss(loss: Any) -> CompleteLoss:
    """Return the loss of labels that exclude each other in nothing: one margin each."""
    chosen = _own(loss) or cast(CompleteLoss, _named(loss, FOR_LABELS)())
    if offers(chosen, Has.BY_CLASS):
        raise ValueError(
            f"loss {type(chosen).__name__} takes one label per row; use loss='logistic'"
        )
    return chosen


def class_targets(
    loss: Any, codes: Array, n_classes: int, dtype: Any
) -> tuple[CompleteLoss, Array]:
    """Return the loss and its targets: signs, class numbers, or a matrix of signs."""
    chosen = _own(loss)
    if chosen is None:
        kind = _named(loss, FOR_LABELS)
        several = n_classes > 2 and kind is Logistic
        chosen = cast(CompleteLoss, Multinomial(n_classes) if several else kind())
    if offers(chosen, Has.BY_CLASS) and chosen.n_outputs(codes) != n_classes:
        raise ValueError(
            f"loss is for {chosen.n_outputs(codes)} classes, but {n_classes} have rows of a "
            "weight above zero; use loss='logistic', which counts them"
        )
    return chosen, encoded(chosen, codes, n_classes, dtype)


def encoded(loss: CompleteLoss, codes: Array, n_classes: int, dtype: Any) -> Array:
    """Return the targets that a loss takes: class numbers, signs, or a matrix of signs."""
    if offers(loss, Has.BY_CLASS):
        return codes
    if n_classes == 2:
        return np.where(codes == 1, 1, -1).astype(dtype)
    signs = np.full((len(codes), n_classes), -1, dtype=dtype)
    signs[np.arange(len(codes)), codes] = 1
    return signs


def check_classes(classes: Array, mass: Array) -> None:
    """Raise when the rows that count have one class only: no intercept would be large enough."""
    seen = np.flatnonzero(mass > 0)
    if seen.size == 1:
        raise ValueError(
            f"all rows with a weight above zero have the class {classes.tolist()[seen[0]]!r}; at "
            "least two classes are needed"
        )


def check_every_class(classes: Array, mass: Array) -> None:
    """Raise when a class has no weight: rows that are not in memory are not left out."""
    check_classes(classes, mass)
    if not mass.all():
        raise ValueError(
            f"no row of the class {classes[mass == 0].tolist()[0]!r} has a weight above zero; "
            "leave its rows out of the source"
        )


def classes_with_weight(classes: Array, codes: Array, weight: Array) -> tuple[Array, Array]:
    """Return classes and class numbers of the rows without the classes that have no weight.

    A row of weight zero is no row, so that a class of such rows is no class; its rows, which keep
    their weight, are given any number.
    """
    mass = np.bincount(codes, weight, len(classes))
    check_classes(classes, mass)
    kept = mass > 0
    if kept.all() or not kept.any():  # no weight at all: said where weights are checked
        return classes, codes
    return classes[kept], np.maximum(np.cumsum(kept)[codes] - 1, 0)


def class_weights(
    class_weight: Any, classes: Array, codes: Array, weight: Array | None, part: bool = False
) -> Any:
    """Return row weights times those of the classes."""
    rows = np.ones(len(codes)) if weight is None else weight
    mass = np.bincount(codes, rows, len(classes))
    return rows * weights_of_classes(class_weight, classes, mass, part)[codes]


def weights_of_classes(
    class_weight: Any, classes: Array, mass: Array, part: bool = False
) -> Array:
    """Return the weight of each class; ``mass`` is the sum of the weights of its rows.

    ``part`` says that other classes may be those of rows that are left out.
    """
    if not has_members(class_weight, "items"):
        if class_weight != "balanced":
            raise ValueError(f"class_weight is {class_weight!r}, expected 'balanced' or a dict")
        seen = max(int(np.count_nonzero(mass)), 1)
        return np.asarray(mass.sum() / (seen * np.where(mass > 0, mass, 1.0)))
    known = {label: k for k, label in enumerate(classes.tolist())}
    unknown = [label for label in class_weight if label not in known]
    if unknown and not part:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is no class of y; classes are "
            f"{', '.join(map(repr, known))}"
        )
    each = np.ones(len(classes))
    for label, value in class_weight.items():
        if not is_number(value) or not 0 <= value < np.inf:
            raise ValueError(
                f"class_weight of {label!r} is {value!r}, expected a finite number >= 0"
            )
        if label in known:
            each[known[label]] = value
    return each


def _own(loss: Any) -> CompleteLoss | None:
    """Return a loss that is given as an object, None where it is named."""
    if inspect.isclass(loss):
        kind = loss.__name__
        raise ValueError(f"loss is the class {kind}, expected a name or an object: pass {kind}()")
    return cast(CompleteLoss, loss) if has_members(loss, "value", "derivative") else None


def _named(name: Any, known: Mapping[str, type[Kind]]) -> type[Kind]:
    """Return the kind of loss of a name."""
    if np.ndim(name) or name not in list(known):  # a list has no hash
        hint = did_you_mean(str(name), known)
        raise ValueError(
            f"loss is {name!r}, expected one of {', '.join(known)}, or a loss object"
            + (f"; {hint}" if hint else "")
        )
    return known[name]
