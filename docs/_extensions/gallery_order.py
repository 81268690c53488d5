"""The order of the gallery: models first, then data and runs, then parts of one's own."""

from __future__ import annotations

from pathlib import Path

ORDER = (
    "chain",
    "digits",
    "gene_network",
    "pathways",
    "tariff",
    "rent",
    "bikes",
    "tasks",
    "dna",
    "volume",
    "path",
    "weights",
    "out_of_core",
    "dask",
    "methods",
    "callback",
    "checkpoints",
    "own_penalty",
)


class Order:
    """A sorting key; examples that are not listed come last, by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, path: str) -> tuple[int, str]:
        """Return the place of an example."""
        name = Path(path).stem.removeprefix("plot_")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
