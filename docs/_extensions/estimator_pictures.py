"""Pictures of the structures, drawn when the documentation is built, and their table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

ROWS = [
    ("plain", "few of them", "`LassoRegressor`, `SparseLogisticClassifier`", "‖w‖₁ (and ‖w‖²)"),
    (
        "chain",
        "constant along stretches of ordered columns (time, position, age)",
        "`FusedLassoRegressor`, `FusedLassoClassifier`",
        "Σ |wⱼ₊₁ - wⱼ| + ‖w‖₁",
    ),
    (
        "graph",
        "equal where columns are joined (genes of a network, sensors, regions)",
        "`GraphFusedRegressor`, `GraphFusedClassifier`",
        "Σ over edges |wᵢ - wⱼ| + ‖w‖₁",
    ),
    (
        "grid",
        "constant on patches of an image or a volume",
        "`GraphFused...` with `graph=(28, 28)`",
        "total variation + ‖w‖₁",
    ),
    ("trend", "piecewise linear along the columns", "`TrendFilterRegressor`", "‖D² w‖₁"),
    (
        "groups",
        "zero in whole groups that may overlap (pathways, levels of a factor)",
        "`OverlappingGroupRegressor`, `OverlappingGroupClassifier`",
        "Σ over groups ‖w_g‖₂ + ‖w‖₁",
    ),
    (
        "sparsegroups",
        "zero in whole groups, and few inside those that stay",
        "`SparseGroupLassoRegressor`, `SparseGroupLassoClassifier`",
        "Σ over groups ‖w_g‖₂ + ‖w‖₁",
    ),
    (
        "lowrank",
        "a few common factors across many tasks or classes, and few entries",
        "`SparseLowRankRegressor`, `SparseLowRankClassifier`",
        "‖W‖\\* + ‖W‖₁",
    ),
    (
        "own",
        "anything else that is sparse after a linear map",
        "`GeneralizedLassoRegressor`, `GeneralizedLassoClassifier`",
        "‖D w‖₁",
    ),
]


def _draw(name: str, ax: Any) -> None:
    rng = np.random.default_rng(3)
    levels = np.repeat([0.0, 0.9, 0.9, -0.6, 0.0], 5)
    if name in {"plain", "chain", "trend", "own"}:
        values = {
            "plain": np.where(rng.random(25) < 0.2, rng.normal(size=25), 0.0),
            "chain": levels,
            "trend": np.interp(np.arange(25), [0, 8, 17, 24], [-0.5, 0.9, 0.2, 0.6]),
            "own": np.sin(np.arange(25) / 2.5) * (np.arange(25) > 9),
        }[name]
        lines = ax.stem(values, basefmt="k-")
        lines.markerline.set(markersize=4, color="tab:blue")
        lines.stemlines.set(color="tab:blue", linewidth=1)
    elif name == "graph":
        angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
        places = np.c_[np.cos(angle), np.sin(angle)] * rng.uniform(0.5, 1.0, (12, 1))
        for i in range(12):
            ax.plot(*places[[i, (i + 1) % 12]].T, color="0.8", zorder=0)
        colors = np.repeat([-1.0, 0.0, 1.0], 4)
        ax.scatter(*places.T, c=colors, cmap="RdBu_r", vmin=-1.3, vmax=1.3, s=60, edgecolor="k")
    elif name == "grid":
        image = np.zeros((14, 14))
        image[2:7, 3:8], image[8:12, 6:12] = 1.0, -0.7
        ax.imshow(image, cmap="RdBu_r", vmin=-1.2, vmax=1.2)
    elif name == "groups":
        image = np.zeros((3, 12))
        image[0, :5], image[1, 4:9], image[2, 8:] = 1.0, 0.0, 0.6
        edges = np.zeros((3, 12), dtype=bool)
        edges[0, :5] = edges[1, 4:9] = edges[2, 8:] = True
        ax.imshow(np.where(edges, image, np.nan), cmap="Blues", vmin=-0.2, vmax=1.5, aspect="auto")
    elif name == "sparsegroups":
        rows, columns = np.divmod(np.arange(20), 5)
        values = np.where(np.isin(rows, [0, 2]) & (rng.random(20) < 0.5), 1.0, 0.0)
        ax.scatter(columns, -rows, c=values, cmap="Blues", vmin=-0.2, vmax=1.5, s=110, marker="s")
        ax.set(xlim=(-0.8, 4.8), ylim=(-3.8, 0.8))
    elif name == "lowrank":
        W = np.outer(rng.normal(size=14), rng.normal(size=9)) * (rng.random((14, 1)) < 0.7)
        ax.imshow(W, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto")
    ax.set(xticks=[], yticks=[])


def _table(app: Any, docname: str, source: list[str]) -> None:
    if docname != "start/which-estimator":
        return
    lines = [
        "::::{div} structure-table",
        "| | coefficients that are | estimator | penalty |",
        "|---|---|---|---|",
    ]
    for name, words, estimators, penalty in ROWS:
        penalty = penalty.replace("|", "\\|")
        lines.append(
            f"| ![{name}](../_structures/{name}.svg) | {words} | {estimators} | {penalty} |"
        )
    lines.append("::::")
    source[0] = source[0].replace("{{ structure_table }}", "\n".join(lines))


def _make(app: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder = Path(app.srcdir) / "_structures"
    folder.mkdir(exist_ok=True)
    for name, *_ in ROWS:
        figure, ax = plt.subplots(figsize=(2.4, 1.6), layout="constrained")
        _draw(name, ax)
        figure.savefig(folder / f"{name}.svg", transparent=True)
        plt.close(figure)


def setup(app: Any) -> dict[str, Any]:
    """Draw before the sources are read."""
    app.connect("builder-inited", _make)
    app.connect("source-read", _table)
    return {"version": "1", "parallel_read_safe": True}
