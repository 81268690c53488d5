"""How every kernel is compiled."""

from __future__ import annotations

from typing import Any, TypeVar

import numba

F = TypeVar("F")

# Reassociation and contraction let dot products vectorize; NaN and infinity keep their meaning.
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract"}}


def kernel(function: F) -> F:
    """Compile on first call and keep the machine code on disk."""
    return numba.njit(cache=True, **OPTIONS)(function)  # type: ignore[no-any-return]
