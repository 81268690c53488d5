"""What several modules say of arrays and dataclasses."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


def field_values(instance: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are: nothing is copied."""
    return {field.name: getattr(instance, field.name) for field in fields(instance)}
