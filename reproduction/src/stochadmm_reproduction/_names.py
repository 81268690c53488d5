"""Names that are nearly right: what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return the names that are close to a wrong one, the closest first; those it begins count.

    Examples
    --------
    >>> near("protien", ["protein", "mnist"]), near("dna-me", ["dna-methylation"]), near("zzz", [])
    (['protein'], ['dna-methylation'], [])
    """
    names = list(known)
    begun = [other for other in names if len(name) > 1 and other.startswith(name)]
    return begun or get_close_matches(name, names, 2)


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return ``did you mean a or b?``, or something else where no name is near.

    Examples
    --------
    >>> did_you_mean("protien", ["protein", "mnist"])
    'did you mean protein?'
    """
    found = near(name, known)
    return f"did you mean {' or '.join(found)}?" if found else otherwise
