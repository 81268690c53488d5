"""What is checked of users' arrays at the border, once, so that compiled loops may trust them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

MISSING_CELLS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""Cells without a value in a text file's column of numbers or truths."""
LOST = 1e-5  # of a deviation that rounding may take: a tenth of the tolerance of estimators


class Unsuitable(ValueError):
    """A method does not take a problem: raised by ``check``, before a run."""


def refuse_masked(array: Any, name: str) -> None:
    """Raise when entries of an array are masked: the numbers behind the mask mean nothing."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        count = int(np.ma.getmaskarray(array).sum())
        raise ValueError(
            f"{name} has {count} masked entries, expected numbers; fill them, e.g. "
            f"{name}.filled(0.0), or leave their rows out (missing targets of several outputs "
            "are NaN)"
        )


def real_array(given: Any, name: str, dtype: Any = np.float64) -> NDArray[Any]:
    """Return a new array of real numbers; masked, complex and other entries are refused."""
    refuse_masked(given, name)
    array = np.asarray(given)
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} has dtype {array.dtype}, expected real numbers")
    try:
        return np.array(array, dtype=dtype)
    except (TypeError, ValueError):
        raise ValueError(f"{name} holds {array.dtype}s, expected real numbers") from None


def too_coarse(dtype: Any, parts: Sequence[NDArray[Any]], where: Any = True) -> bool:
    """Say whether numbers of a type are too far apart to tell the entries of a column apart.

    Parts are columns that are added up: the distance of numbers of their size is compared with the
    standard deviation of the sum. A constant column has nothing to tell apart.
    """
    kind, best = np.finfo(dtype), np.finfo(np.float64)
    if kind.eps <= best.eps or not parts[0].size:
        return False
    where = np.broadcast_to(where, parts[0].shape)
    where = where | ~where.any(axis=0)  # a column without entries that count: all of them
    size = sum(np.max(np.abs(part), axis=0, where=where, initial=0.0) for part in parts)
    spread = np.std(sum(parts), axis=0, dtype=np.float64, where=where)
    varies = spread > 4.0 * float(best.eps) * size
    far = (float(kind.eps) * size > 2.0 * LOST * spread) | (size > float(kind.max))
    return bool(np.any(varies & far))


def is_whole(value: object) -> TypeGuard[int]:
    """Say whether an argument is a whole number, Python's or NumPy's; True and False are not."""
    return value is not True and value is not False and isinstance(value, Integral)


def is_number(value: object) -> TypeGuard[float]:
    """Say whether an argument is a real number, infinite ones included; True and False are not."""
    return value is not True and value is not False and isinstance(value, Real)


def is_truth(value: object) -> TypeGuard[bool]:
    """Say whether an argument is True or False, Python's or NumPy's."""
    return isinstance(value, (bool, np.bool_))


def generator(random_state: Any) -> np.random.Generator:
    """Return the numbers that a seed starts; a generator is taken as it is."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state is {random_state!r}, expected a whole number >= 0, a Generator or None"
        ) from None


def is_between(
    value: object, low: float, high: float, *, below: bool = False, above: bool = False
) -> bool:
    """Say whether an argument is one real number from ``low`` to ``high``, arrays of one included.

    ``below`` and ``above`` let it be the lower or the upper end.
    """
    number: Any = value
    if type(value) is not float:  # as most are
        if np.ndim(value) > 0:  # type: ignore[arg-type]
            return False
        number = np.asarray(value)[()]
        if not is_number(number):
            return False
    return bool(low < number < high or (below and number == low) or (above and number == high))


def listed(given: Any, lasting: str | None = None) -> list[Any] | None:
    """Return the items of a list, an array or anything else that lists; None for the rest.

    A text is one thing, not its letters. ``lasting`` is the name of an argument that is read more
    than once: an iterator, which would be empty the second time, is then refused.
    """
    if isinstance(given, str):
        return None
    try:
        items = iter(given)
    except TypeError:
        return None
    if lasting is not None and items is given:
        raise ValueError(
            f"{lasting} is an iterator ({type(given).__name__}), which is used up by one reading; "
            "pass a list"
        )
    return list(items)


def is_sparse(X: object) -> bool:
    """Say whether rows or a matrix come as a sparse matrix of SciPy, of any format."""
    return bool(sparse.issparse(X))


def check_sparse(matrix: Any, name: str) -> None:
    """Raise when a sparse matrix points outside of its shape or its arrays do not fit together.

    SciPy and compiled loops follow such pointers into foreign memory. One read of the indices;
    nothing is changed.
    """
    if matrix.format in ("csr", "csc", "bsr"):
        _check_compressed(matrix, name)
    elif matrix.format == "coo":
        for coordinates, size in zip(matrix.coords, matrix.shape, strict=True):
            _check_range(coordinates, size, name)
            if coordinates.shape != matrix.data.shape:
                raise ValueError(f"{name} has {_counts(coordinates, matrix.data)}; {_REMEDY}")
    else:  # lists of rows and the like
        _check_compressed(matrix.tocsr(), name)


def as_csr(matrix: Any, name: str) -> Any:
    """Return a checked sparse matrix in CSR form, its rows in order and without duplicates.

    Nothing is copied where it has that form already. What it remembers about itself is not
    trusted: its arrays may have been changed since.
    """
    check_sparse(matrix, name)
    given = matrix.tocsr()
    made = sparse.csr_array(given.shape, dtype=given.dtype)  # whose flags are not yet known
    used = given.indptr[-1]
    arrays = given.data[:used], given.indices[:used], given.indptr
    made.data, made.indices, made.indptr = (np.require(a, requirements="A") for a in arrays)
    if not made.has_canonical_format:
        made = made.copy()
        made.sum_duplicates()
    return made


_REMEDY = "build it anew from its entries, e.g. with scipy.sparse.coo_array"


def _check_compressed(matrix: Any, name: str) -> None:
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    major, minor = matrix.shape if matrix.format != "csc" else matrix.shape[::-1]
    if matrix.format == "bsr":
        major, minor = major // data.shape[1], minor // data.shape[2]
    for array in (indptr, indices):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"{name} has pointers that are no whole numbers; {_REMEDY}")
    if len(indptr) != major + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError(f"{name} has row pointers that do not rise from 0; {_REMEDY}")
    if not indptr[-1] <= min(len(indices), len(data)):
        raise ValueError(f"{name} has {_counts(indices, data)} for {indptr[-1]}; {_REMEDY}")
    _check_range(indices[: indptr[-1]], minor, name)


def _check_range(indices: NDArray[Any], size: int, name: str) -> None:
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        first, last = int(indices.min()), int(indices.max())
        raise ValueError(
            f"{name} has entries at the places {first} to {last}, expected 0 to {size - 1}; "
            f"{_REMEDY}"
        )


def _counts(indices: NDArray[Any], data: NDArray[Any]) -> str:
    return f"{len(indices)} places and {len(data)} entries"
