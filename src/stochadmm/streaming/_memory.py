"""Amounts of memory as people write them."""

from __future__ import annotations

import re
from typing import Any

UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
LEAST = 1 << 22


def as_bytes(memory: Any) -> int:
    """Return a number of bytes from a number or a text such as ``"2GB"``.

    Examples
    --------
    >>> from stochadmm.streaming import as_bytes
    >>> as_bytes("2GB"), as_bytes("512 MiB")
    (2000000000, 536870912)
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:[eE][0-9]+)?)\s*([a-zA-Z]*)\s*", str(memory))
    unit = None if found is None else UNITS.get(found[2].upper())
    if found is None or unit is None:
        raise ValueError(f"memory is {memory!r}, expected bytes or a text such as '2GB'")
    amount = int(float(found[1]) * unit)
    if amount < LEAST:
        raise ValueError(f"memory is {memory!r}, expected at least {LEAST >> 20} MiB")
    return amount
