"""How commands tell what they found: JSON for programs, notes for people."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer


def json_text(value: Any, indent: int | None = None) -> str:
    """Return JSON that every program reads: numbers that are not finite, which it lacks, are null.

    Examples
    --------
    >>> from stochadmm.cli._messages import json_text
    >>> json_text({"gap": float("inf"), "passes": [1.0, 2]})
    '{"gap": null, "passes": [1.0, 2]}'
    """
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
        return json.dumps(finite, indent=indent)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect what the block warns of, each once, without the lines of code that warnings show."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += dict.fromkeys(str(warning.message) for warning in caught)


def tell(notes: list[str]) -> None:
    """Print notes beside an answer on standard output."""
    for note in notes:
        typer.echo(f"Note: {note}", err=True)


def shows_progress() -> bool:
    """Say whether somebody looks at what is printed beside the answer: not in pipes and logs."""
    return sys.stderr is not None and sys.stderr.isatty()
