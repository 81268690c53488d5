"""Names of a package whose modules are loaded when one of them is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from threading import RLock
from typing import Any

# One thread loads at a time: packages that import each other in circles, as parts of scikit-learn
# do, may be seen half made by two threads that enter the circle in different places.
_loading = RLock()


def load(package: str, places: Mapping[str, Iterable[str]], name: str) -> Any:
    """Return what a package calls ``name`` from the module that ``places`` lists it under.

    It is for the ``__getattr__`` of a package (PEP 562). ``new = old`` stands for the ``old`` of
    a module under the name ``new``.
    """
    for module, listed in places.items():
        for entry in listed:
            new, _, old = entry.partition(" = ")
            if new == name:
                with _loading:
                    return getattr(import_module(f".{module}", package), old or new)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
