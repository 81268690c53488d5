"""How every kernel is compiled, and how its machine code is kept on disk."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numba

# Reassociation and contraction let dot products vectorize; NaN and infinity keep their meaning.
# NumPy's error model divides without a test for zero, which would keep loops from vectorizing.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract"},
    "error_model": "numpy",
}

# Kernels call kernels of other files, but the cache looks only at a kernel's own file: a change
# anywhere in this folder must make all of them stale.
_STAMP = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size)
    for path in sorted(Path(__file__).parent.glob("*.py"))
)


def kernel(function: Any) -> Any:
    """Compile on first call and keep the machine code on disk where a folder can be written."""
    try:
        compiled: Any = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder for the cache: compile in every process
        return numba.njit(**OPTIONS)(function)
    with suppress(AttributeError):
        compiled._cache._cache_file._source_stamp = _STAMP
    return compiled
