"""Which compiled code runs: chosen once, at the first use.

The extension holds every kernel once per instruction set. ``STOCHADMM_KERNELS`` names one
("avx2", "base") or none ("numpy"); by default the best that the processor has is taken. Where the
package was built without a compiler, or the extension is older than its sources in a checkout,
NumPy does the work and a logged line says so.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

VARIABLE = "STOCHADMM_KERNELS"
CHOICES = ("auto", "avx2", "base", "numpy")
SOURCES = Path(__file__).parents[2] / "core"


class MissingKernels(RuntimeError):
    """Compiled code was demanded where there is none."""


@dataclass(frozen=True)
class Choice:
    """The extension, the name of its variant, and why there is none."""

    module: Any
    name: str
    reason: str | None = None


@cache
def chosen() -> Choice:
    """Return the extension in use; without one ``name`` is "numpy"."""
    wanted = os.environ.get(VARIABLE, "").strip().lower() or "auto"
    if wanted not in CHOICES:
        raise ValueError(f"{VARIABLE} is {wanted!r}, expected one of {', '.join(CHOICES)}")
    if wanted == "numpy":
        return Choice(None, "numpy", f"{VARIABLE} is 'numpy'")
    module, reason = _load()
    if module is None:
        if wanted != "auto":
            raise MissingKernels(f"{VARIABLE} is {wanted!r}, but {reason}")
        logging.getLogger("stochadmm").warning("NumPy does the work of the kernels: %s", reason)
        return Choice(None, "numpy", reason)
    name = module.variants()[-1] if wanted == "auto" else wanted
    if name not in module.variants():
        known = ", ".join(module.variants())
        raise MissingKernels(f"{VARIABLE} is {wanted!r}, but this processor has only {known}")
    module.use(name)
    return Choice(module, name)


def _load() -> tuple[Any, str | None]:
    try:
        module = import_module("stochadmm._core")
    except ImportError as error:
        why = "" if "_core" in str(error) and "No module" in str(error) else f" ({error})"
        how = "run `make ext`" if SOURCES.is_dir() else "install a wheel, or with a C++ compiler"
        return None, f"the compiled kernels are missing{why}; {how}"
    if SOURCES.is_dir() and module.sources != digest(SOURCES):
        return None, "the compiled kernels are older than their sources; run `make ext`"
    return module, None


def digest(folder: Path) -> str:
    """Return the digest of the sources that the build writes into the extension."""
    known = "".join(
        f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in sorted(folder.iterdir())
        if path.suffix in (".cpp", ".hpp")
    )
    return hashlib.sha256(known.encode()).hexdigest()


_allowed: ContextVar[bool] = ContextVar("stochadmm_compiled", default=True)


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Let no compiled code run inside the block if ``name`` is "reference".

    Steps, passes over the data and certificates are then readable Python and NumPy. The choice
    belongs to the run, so that nothing need be passed on; helper threads inherit it.
    """
    token = _allowed.set(_allowed.get() and name != "reference")
    try:
        yield
    finally:
        _allowed.reset(token)


def available() -> bool:
    """Say whether compiled kernels run, here and inside of `engine`."""
    return _allowed.get() and chosen().module is not None


def core() -> Any:
    """Return the extension; raise where there is none."""
    choice = chosen()
    if choice.module is None:
        raise MissingKernels(f"no compiled kernels: {choice.reason}")
    return choice.module
