"""Names that are nearly right: what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher


def near(name: object, known: Iterable[object], most: int = 3) -> list[str]:
    """Return the names that are close to a wrong one, the closest first; none where none is.

    Names far behind the closest one are left out: they would only distract from it.
    """
    wrong = str(name).lower()
    scored = sorted((-_likeness(wrong, str(other).lower()), str(other)) for other in known)
    best = -scored[0][0] if scored else 0.0
    return [text for score, text in scored[:most] if -score >= max(0.6, best - 0.1)]


def did_you_mean(name: object, known: Iterable[object], otherwise: str = "") -> str:
    """Return ``did you mean a or b?``, or something else where no name is near."""
    found = near(name, known)
    return f"did you mean {' or '.join(found)}?" if found else otherwise


def _likeness(wrong: str, other: str) -> float:
    """Return 1 for equal texts, 0 for texts with nothing in common; beginnings count as close."""
    ratio = SequenceMatcher(None, wrong, other).ratio()
    parts = other.replace("_", "-").split("-")
    begins = len(wrong) > 1 and any(part.startswith(wrong) for part in [other, *parts])
    return max(ratio, 0.75 + ratio / 10) if begins else ratio
