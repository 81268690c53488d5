"""Rows that a user gave where X stands, as a source where they are not rows in memory."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np

from ..base.validation import refuse_masked
from ._arrays import ArraySource
from ._dask import DaskSource, is_dask
from ._protocol import Source


def is_source(X: object) -> TypeGuard[Source]:
    """Say whether rows are given as a source.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.data import ArraySource, is_source
    >>> is_source(ArraySource(np.eye(2), np.ones(2))), is_source(np.eye(2))
    (True, False)
    """
    return isinstance(X, Source)


def as_source(
    X: Any, y: Any = None, weight: Any = None, offset: Any = None, largest: float = math.inf
) -> Source | None:
    """Return a source, Dask collections or a large memory map as a source; None for other rows.

    Parameters
    ----------
    X, y, weight, offset : Any
        As the user gave them; a source has the last three itself.
    largest : float, default=inf
        Bytes up to which a memory map is worked on in memory.
    """
    if is_dask(X):
        if y is None:
            raise ValueError("y is missing; pass the targets as a Dask collection cut like X")
        return DaskSource.of(X, y, weight, offset)
    if isinstance(X, np.memmap) and X.nbytes > largest and np.ndim(y) == 1:
        for name, part in (("y", y), ("sample_weight", weight), ("offset", offset)):
            refuse_masked(part, name)
        # a list or a column of a frame is an array then; a memory map stays one
        parts = (None if part is None else np.asanyarray(part) for part in (y, weight, offset))
        return ArraySource(X, *parts)
    if not is_source(X):
        return None
    for name, value in (("y", y), ("sample_weight", weight), ("offset", offset)):
        if value is not None:
            raise ValueError(
                f"{name} is given beside a source, which has its own; name it in stochadmm.open"
            )
    return X
