"""Pictures; matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base.protocols import Array


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; pip install 'stochadmm[plots]'") from error
    return plt.subplots()[1]


def plot_path(path: Any, ax: Any = None, chosen: float | None = None) -> Any:
    """Draw coefficients against alpha on a logarithmic axis, with the chosen one marked.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from stochadmm import LassoRegressor
    >>> path = LassoRegressor().path(np.eye(4), np.arange(4.0), alphas=5)
    >>> path.plot().get_xlabel()
    'alpha'
    """
    ax = _axes(ax)
    coefs = path.coefs.reshape(len(path.alphas), -1)
    lines = ax.plot(path.alphas, coefs)
    few = path.feature_names is not None and len(path.feature_names) == len(lines) <= 12
    if few:
        ax.legend(lines, path.feature_names, fontsize="small")
    if chosen is not None:
        ax.axvline(chosen, color="0.5", linestyle=":")
    ax.set(xscale="log", xlabel="alpha", ylabel="coefficient")
    ax.invert_xaxis()
    return ax


def plot_scores(alphas: Array, scores: Array, chosen: float, ax: Any = None) -> Any:
    """Draw mean scores of the folds with one standard error, and the chosen alpha."""
    ax = _axes(ax)
    mean, error = scores.mean(axis=1), standard_error(scores)
    ax.plot(alphas, mean)
    ax.fill_between(alphas, mean - error, mean + error, alpha=0.2)
    ax.axvline(chosen, color="0.5", linestyle=":")
    ax.set(xscale="log", xlabel="alpha", ylabel="score of rows left out")
    ax.invert_xaxis()
    return ax


def standard_error(scores: Array) -> Array:
    """Return the standard error of the mean over the folds."""
    folds = scores.shape[1]
    if folds < 2:
        return np.zeros(len(scores))
    return np.asarray(scores.std(axis=1, ddof=1) / np.sqrt(folds))


def plot_convergence(result: Any, tol: float, ax: Any = None) -> Any:
    """Draw the certified gap (or the KKT residual) against passes."""
    ax = _axes(ax)
    certified = result.gap is not None
    values = [r.relative_gap if certified else r.kkt_residual for r in result.history]
    passes = [r.passes for r in result.history]
    shown = np.array([np.nan if v is None else max(v, 1e-17) for v in values], dtype=float)
    ax.plot(passes, np.where(np.isfinite(shown), shown, np.nan), marker=".")
    ax.axhline(tol, color="0.5", linestyle=":")
    what = "relative duality gap" if certified else "KKT residual"
    ax.set(yscale="log", xlabel="passes over the data", ylabel=what)
    return ax


def plot_coef_graph(coef: Array, edges: Array, ax: Any = None, positions: Any = None) -> Any:
    """Draw the graph of the columns with nodes colored by coefficient, first output."""
    from matplotlib.collections import LineCollection

    ax = _axes(ax)
    values = np.atleast_2d(coef)[0]
    places = np.asarray(_layout(values.size, edges) if positions is None else positions, float)
    if places.shape != (values.size, 2):
        raise ValueError(
            f"positions have shape {places.shape}, expected ({values.size}, 2), one place per "
            "column"
        )
    ax.add_collection(LineCollection(list(places[edges]), colors="0.8", zorder=1))
    top = float(np.abs(values).max()) or 1.0
    dots = ax.scatter(*places.T, c=values, cmap="RdBu_r", vmin=-top, vmax=top, s=20, zorder=2)
    ax.figure.colorbar(dots, ax=ax, label="coefficient")
    ax.set(xticks=[], yticks=[])
    return ax


def _layout(n: int, edges: Array) -> Any:
    try:
        import networkx as nx
    except ImportError:
        return np.column_stack([np.arange(n), np.zeros(n)])
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges.tolist())
    found = nx.spring_layout(graph, seed=0)
    return np.array([found[node] for node in range(n)])
