"""Whether plain values, of a file that anybody may have written, are what annotations say."""

from __future__ import annotations

import types
import typing
from typing import Any

PLAIN: dict[Any, tuple[type, ...]] = {float: (float, int), int: (int,)}
"""What counts as a number: whole ones as any, truth values as none."""


def fits(value: Any, hint: Any) -> bool:
    """Say whether a value is of an annotated type; what containers hold is not looked at.

    Examples
    --------
    >>> from stochadmm.base.schema import fits
    >>> fits(1, float), fits(True, float), fits(None, int | None), fits([1], list[int])
    (True, False, True, True)
    """
    if typing.get_origin(hint) is types.UnionType:
        return any(fits(value, one) for one in typing.get_args(hint))
    if hint in PLAIN and type(value) is bool:
        return False
    return isinstance(value, PLAIN.get(hint, typing.get_origin(hint) or hint))
