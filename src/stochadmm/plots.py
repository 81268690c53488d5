"""Pictures; matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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


def plain(name: Any, most: int = 40) -> str:
    """Return a name as it is drawn: dollar signs begin no mathematics, a long one is cut."""
    text = str(name)
    short = text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return short.replace("$", r"\$")


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
        ax.legend(lines, [*map(plain, path.feature_names)], fontsize="small")
    if chosen is not None:
        ax.axvline(chosen, color="0.5", linestyle=":")
    ax.set(xscale="log", xlabel="alpha", ylabel="coefficient")
    ax.invert_xaxis()
    return ax


def plot_scores(
    alphas: Array, scores: Array, chosen: float, ax: Any = None, what: str = "score"
) -> Any:
    """Draw mean scores of the folds with one standard error, and the chosen alpha."""
    ax = _axes(ax)
    mean, error = scores.mean(axis=1), standard_error(scores)
    ax.plot(alphas, mean)
    ax.fill_between(alphas, mean - error, mean + error, alpha=0.2)
    ax.axvline(chosen, color="0.5", linestyle=":")
    ax.set(xscale="log", xlabel="alpha", ylabel=f"{what} of held-out rows")
    ax.invert_xaxis()
    return ax


def standard_error(scores: Array) -> Array:
    """Return the standard error of the mean over the folds."""
    folds = scores.shape[1]
    if folds < 2:
        return np.zeros(len(scores))
    return np.asarray(scores.std(axis=1, ddof=1) / np.sqrt(folds))


def plot_convergence(
    result: Any, tol: float, ax: Any = None, at_start: float | None = None
) -> Any:
    """Draw how far the objective is above the best proved lower bound, against passes.

    The certificate of the answer holds for every earlier point too, so the curve begins with the
    run, before the first certificate: ``at_start`` is the objective where it began. Without a
    certificate the KKT residuals are drawn.
    """
    ax = _axes(ax)
    records = result.history
    passes = [record.passes for record in records]
    if result.gap is None:
        values = [record.kkt_residual for record in records]
        what = "KKT residual"
    else:
        scale = result.gap / result.relative_gap if result.relative_gap else abs(result.objective)
        scale = scale or 1.0  # an objective of zero: a target that is constant
        bound = result.objective - result.gap
        values = [(record.objective - bound) / scale for record in records]
        what = "relative gap to the final lower bound"
        if at_start is not None and np.isfinite(at_start):
            passes, values = [0.0, *passes], [(at_start - bound) / scale, *values]
    shown = np.array([np.nan if v is None else max(v, 1e-17) for v in values], dtype=float)
    ax.plot(passes, np.where(np.isfinite(shown), shown, np.nan), marker="o", markersize=4)
    ax.axhline(tol, color="0.5", linestyle=":")
    ax.annotate(
        "tolerance",
        (0.99, tol),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        color="0.4",
        fontsize="small",
    )
    ax.set(yscale="log", xlabel="passes over the data", ylabel=what)
    return ax


def plot_coef_graph(
    coef: Array,
    edges: Array,
    ax: Any = None,
    positions: Any = None,
    names: Any = None,
    grid: Any = None,
    opposite: Any = None,
) -> Any:
    """Draw the graph of the columns with nodes colored by coefficient, first output.

    Edges that are ``opposite``, a mask, are broken lines.

    ``names`` are written beside the nodes as far as they fit, those of the largest coefficients
    where there are many; a ``Grid``, masked or not, is drawn as an image, a volume
    as its slices side by side. A chain of all columns in their order is drawn as steps.
    """
    from matplotlib.collections import LineCollection

    ax = _axes(ax)
    values = np.atleast_2d(coef)[0]
    top = float(np.abs(values).max(initial=0.0)) or 1.0
    colors = {"cmap": "RdBu_r", "vmin": -top, "vmax": top}
    if grid is not None and positions is None:
        picture = ax.imshow(_tiles(np.asarray(grid.image(values))), **colors)
        ax.set_facecolor("0.92")  # cells outside the mask
        ax.figure.colorbar(picture, ax=ax, label="coefficient")
        ax.set(xticks=[], yticks=[])
        return ax
    chain = np.column_stack([np.arange(values.size - 1), np.arange(1, values.size)])
    in_order = np.array_equal(np.unique(np.sort(edges, axis=1), axis=0), chain)
    if positions is None and values.size > 1 and in_order and not np.any(opposite):
        ax.step(np.arange(values.size), values, where="mid")
        ax.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
        ax.set(xlabel="column", ylabel="coefficient")
        if names is not None and values.size <= 20:
            labels = [plain(name) for name in names]
            ax.set_xticks(np.arange(values.size), labels, rotation=45, ha="right")
        return ax
    places = np.asarray(_layout(values.size, edges) if positions is None else positions, float)
    if places.shape != (values.size, 2):
        raise ValueError(
            f"positions have shape {places.shape}, expected ({values.size}, 2), one place per "
            "column"
        )
    broken = np.zeros(len(edges), dtype=bool) if opposite is None else opposite
    styles = np.where(broken, "dashed", "solid").tolist() or "solid"
    ax.add_collection(
        LineCollection(list(places[edges]), colors="0.8", linestyles=styles, zorder=1)
    )
    dots = ax.scatter(
        *places.T, c=values, s=30, zorder=2, edgecolors="0.6", linewidths=0.4, **colors
    )
    ax.figure.colorbar(dots, ax=ax, label="coefficient")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.margins(0.12)
    if names is not None:
        _write_names(ax, places, values, names)
    return ax


def _write_names(ax: Any, places: Array, values: Array, names: Any, most: int = 20) -> None:
    """Write names beside nodes, the largest coefficients first; none over another."""
    order = np.argsort(-np.abs(values), kind="stable")[:most]
    taken: list[Any] = []
    for j in order[values[order] != 0] if values.size > most else order:
        label = ax.annotate(
            plain(names[j]),
            places[j],
            xytext=(4, 3),
            textcoords="offset points",
            fontsize="x-small",
        )
        extent = label.get_window_extent()
        if any(extent.overlaps(other) for other in taken):
            label.remove()
        else:
            taken.append(extent)


def _tiles(image: Array) -> Array:
    """Return an image as it is, a line as one row, and a volume as its slices side by side."""
    if image.ndim <= 2:
        return np.atleast_2d(image)
    slices = image.reshape(-1, *image.shape[-2:])
    across = int(np.ceil(np.sqrt(len(slices))))
    gap = np.full((image.shape[-2], 1), np.nan)
    blank = np.full_like(slices[0], np.nan)
    padded = [*slices, *([blank] * (-len(slices) % across))]
    rows = []
    for k in range(0, len(padded), across):
        cells = [part for tile in padded[k : k + across] for part in (tile, gap)]
        row = np.hstack(cells[:-1])
        rows += [row, np.full((1, row.shape[1]), np.nan)]
    return np.vstack(rows[:-1])


def plot_groups(coef: Array, groups: Any, ax: Any = None, most: int = 30) -> Any:
    """Draw the length of the coefficients of each group, the longest first.

    Parameters
    ----------
    coef : array
        Coefficients of the columns.
    groups : mapping
        Group name to column numbers.
    ax : matplotlib axes, optional
        Where to draw; returned.
    most : int, default=30
        Groups drawn.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from stochadmm.plots import plot_groups
    >>> ax = plot_groups(np.array([3.0, 4.0, 0.0]), {"a": [0, 1], "b": [2]})
    >>> [round(float(bar.get_width()), 6) for bar in ax.patches]
    [5.0]
    """
    ax = _axes(ax)
    values = np.atleast_2d(coef)
    lengths = {name: float(np.linalg.norm(values[:, list(g)])) for name, g in groups.items()}
    order = sorted((name for name in lengths if lengths[name]), key=lambda name: -lengths[name])
    shown = order[:most][::-1]
    ax.barh(range(len(shown)), [lengths[name] for name in shown])
    ax.set_yticks(range(len(shown)), [plain(name) for name in shown], fontsize="small")
    left = len(order) - len(shown)
    more = f"; {left} shorter ones are left out" if left else ""
    ax.set(xlabel=f"length of the coefficients of a group{more}")
    return ax


def _layout(n: int, edges: Array) -> Any:
    try:
        import networkx as nx
    except ImportError:
        return np.column_stack([np.arange(n), np.zeros(n)])
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges.tolist())
    if n > 500:  # the other layout takes minutes
        found = nx.spring_layout(graph, seed=0, iterations=30)
    else:
        found = nx.kamada_kawai_layout(graph) if nx.is_connected(graph) else _apart(graph)
    return np.array([found[node] for node in range(n)])


def _apart(graph: Any) -> Any:
    """Return places of a graph of several components: the large one after the other, rest in rows.

    A layout of all of them at once would pull them apart and leave each a dot.
    """
    import networkx as nx

    found: dict[int, Array] = {}
    parts = sorted(nx.connected_components(graph), key=len, reverse=True)
    across, x, y, height = float(np.sqrt(graph.number_of_nodes())), 0.0, 0.0, 0.0
    for nodes in parts:
        size = float(np.sqrt(len(nodes)))
        if x + size > 1.3 * across and x:
            x, y, height = 0.0, y - height - 0.4, 0.0
        inner = nx.kamada_kawai_layout(graph.subgraph(sorted(nodes)))
        for node, place in inner.items():
            found[node] = np.array([x + size / 2, y - size / 2]) + 0.45 * size * np.asarray(place)
        x, height = x + size + 0.4, max(height, size)
    return found


def plot_comparison(found: Any, axes: Any) -> Any:
    """Draw the gaps of methods over reads, gradients or seconds, a panel each; return the figure.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import stochadmm as sa
    >>> data = sa.datasets.make_chain(100, 8, n_levels=2)
    >>> problem = sa.Problem.linear(sa.Squared(), data.X, data.y, on_structure=sa.L1(0.1))
    >>> found = sa.compare(problem, ["acc-sadmm", "svrg-admm"], max_reads=9, seeds=2)
    >>> [panel.get_xlabel() for panel in found.plot(axes=["reads", "seconds"]).axes]
    ['reads: rows read / n', 'processor seconds']
    """
    try:
        from matplotlib import pyplot as plt
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
    except ImportError as error:
        raise ImportError("plots need matplotlib; pip install 'stochadmm[plots]'") from error
    words = {
        "reads": "reads: rows read / n",
        "gradients": "gradients: component gradients / n",
        "seconds": "processor seconds",
    }
    size = (1 + 3.6 * len(axes), 3.8)
    figure, panels = plt.subplots(
        1, len(axes), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for panel, axis in zip(panels[0], axes, strict=True):
        for number, (label, curves) in enumerate(found.curves.items()):
            end = max(float(c.along(axis)[-1]) for c in curves)
            # seconds of methods differ by orders of magnitude: from the first epoch, logarithmic
            begin = min(float(c.seconds[1]) for c in curves) if axis == "seconds" else 0.0
            grid = np.geomspace(begin, end, 400) if begin else np.linspace(0.0, end, 400)
            drawn = [np.where(np.isfinite(c.gap), c.gap, 1e300) for c in curves]
            logs = np.array(
                [
                    np.interp(grid, c.along(axis), np.log(gap))
                    for c, gap in zip(curves, drawn, strict=True)
                ]
            )
            scale = abs(found.value) or 1.0
            alone = len(curves) == 1
            name = f"{plain(label)} (one seed)" if alone else plain(label)
            style = "--" if alone else "-"
            middle = np.exp(logs.mean(axis=0)) / scale
            color = f"C{number}"
            panel.plot(grid, middle, style, color=color, label=name, linewidth=1.6)
            low, high = np.exp(logs.min(axis=0)) / scale, np.exp(logs.max(axis=0)) / scale
            panel.fill_between(grid, low, high, color=color, alpha=0.15, linewidth=0)
        first = max(float(c.gap[0]) for curves in found.curves.values() for c in curves)
        across = "log" if axis == "seconds" else "linear"
        panel.set(xlabel=words[axis], xscale=across, yscale="log")
        if across == "log":  # numbers between the powers of ten would overlap
            panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=8))
            panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_ylim(top=10 * first / (abs(found.value) or 1.0))
        panel.grid(alpha=0.25, linewidth=0.5)
    panels[0, 0].set_ylabel("gap to the certified optimum / optimum")
    batches = {label: c["batch_size"] for label, c in found.choices.items() if "batch_size" in c}
    sizes = sorted({f"{b:.0f}" for b in batches.values()}, key=float)
    seeds = max(len(curves) for curves in found.curves.values())
    figure.suptitle(
        f"n = {found.n_rows:,}, d = {found.n_features:,}"
        + (f", b = {', '.join(sizes)}" if sizes else "")
        + f", {seeds} seed{'s' if seeds > 1 else ''}",
        fontsize="medium",
    )
    lines = panels[0, 0].get_lines()
    figure.legend(
        handles=lines, loc="outside lower center", ncols=min(len(lines), 5), fontsize="small"
    )
    return figure


class Panel(NamedTuple):
    """What is drawn of one term."""

    name: str
    levels: Sequence[str]
    coef: Any
    """Against the base; of an interaction a matrix."""
    joined: bool = False
    """Whether the levels have an order."""
    steps: bool = True
    """Whether coefficients of ordered levels are steps, not a broken line."""
    before: Any = None
    """Coefficients before a refit."""
    mass: Any = None
    """Exposure of every level."""
    others: Sequence[str] = ()
    """Levels of the second factor of an interaction."""
    places: Any = None
    """(k, 2) coordinates on a map, NaN where there are none."""
    edges: Any = None
    """Pairs of levels that are neighbors on the map."""


def plot_terms(panels: Sequence[Panel], ratio: bool, axes: Any = None) -> Any:
    """Draw coefficients or relativities of the levels of terms, with the exposure behind them."""
    import matplotlib.pyplot as plt

    if axes is None:
        wide = min(len(panels), 3) or 1
        rows = -(-len(panels) // wide) or 1
        _, grid = plt.subplots(
            rows, wide, figsize=(4.6 * wide, 3.2 * rows), squeeze=False, layout="constrained"
        )
        axes = grid.ravel()[: len(panels)]
        for unused in grid.ravel()[len(panels) :]:
            unused.set_axis_off()
    axes = np.ravel(axes)
    if len(axes) != len(panels):
        raise ValueError(f"axes has {len(axes)} panels, expected {len(panels)}: one per factor")
    for ax, panel in zip(axes, panels, strict=True):
        if panel.others:
            _draw_cells(ax, panel, ratio)
        elif panel.places is not None:
            _draw_map(ax, panel, ratio)
        else:
            _draw_levels(ax, panel, ratio)
        ax.set_title(panel.name)
    first = next((ax for ax in axes if ax.get_legend_handles_labels()[0]), None)
    if first is not None:
        first.legend(frameon=False, fontsize="small")
    return list(axes)


def _draw_levels(ax: Any, panel: Panel, ratio: bool) -> None:
    """Draw steps of ordered levels, points of others, with the exposure as bars."""
    place = np.arange(len(panel.levels))
    values, before = (
        None if v is None else np.exp(v) if ratio else v for v in (panel.coef, panel.before)
    )
    if panel.mass is not None:
        behind = ax.twinx()
        behind.bar(place, panel.mass, width=0.9, color="0.9", zorder=0)
        behind.set(yticks=[], ylim=(0.0, 3.0 * float(np.max(panel.mass, initial=1e-300))))
        ax.set_zorder(behind.get_zorder() + 1)
        ax.patch.set_visible(False)
    if panel.joined:
        style = "steps-mid" if panel.steps else "default"
        ax.plot(place, values, drawstyle=style, color="C0", linewidth=2)
    else:
        ax.plot(place, values, "o", color="C0", markersize=5)
    if before is not None:
        ax.plot(place, before, ".", color="C1", markersize=4, label="with the penalty")
    ax.axhline(1.0 if ratio else 0.0, color="0.5", linewidth=0.8)
    _name_levels(ax.xaxis, panel.levels)
    ax.set_ylabel("relativity" if ratio else "coefficient")


def _name_levels(axis: Any, levels: Sequence[str]) -> None:
    """Name at most twelve levels along an axis."""
    shown = range(0, len(levels), -(-len(levels) // 12) or 1)
    axis.set_ticks(list(shown), [levels[i] for i in shown])
    if axis.axis_name == "x" and max((len(levels[i]) for i in shown), default=0) > 3:
        axis.set_tick_params(labelrotation=45)


def _colored(values: Any, ratio: bool) -> dict[str, Any]:
    """Return colors with white at the base."""
    from matplotlib import colors

    if ratio:
        far = float(np.exp(np.abs(np.log(values)).max(initial=1e-3)))
        return {"cmap": "RdBu_r", "norm": colors.LogNorm(1 / far, far)}
    far = float(np.abs(values).max(initial=1e-3))
    return {"cmap": "RdBu_r", "norm": colors.Normalize(-far, far)}


def _draw_cells(ax: Any, panel: Panel, ratio: bool) -> None:
    """Draw the cells of an interaction as an image."""
    values = np.exp(panel.coef) if ratio else panel.coef
    image = ax.imshow(values, aspect="auto", origin="lower", **_colored(values, ratio))
    _name_levels(ax.xaxis, panel.others)
    _name_levels(ax.yaxis, panel.levels)
    _draw_scale(ax, image, ratio)


def _draw_map(ax: Any, panel: Panel, ratio: bool) -> None:
    """Draw levels where they lie, colored, with the edges between neighbors."""
    values = np.exp(panel.coef) if ratio else panel.coef
    ends = panel.places[panel.edges]
    gaps = np.full((len(ends), 1, 2), np.nan)  # one line, broken between edges
    line = np.concatenate([ends, gaps], axis=1).reshape(-1, 2)
    ax.plot(*line.T, color="0.8", linewidth=0.6, zorder=0)
    size = float(np.clip(4000 / max(len(values), 1), 8, 120))
    points = ax.scatter(
        *panel.places.T,
        c=values,
        s=size,
        edgecolors="0.4",
        linewidths=0.3,
        **_colored(values, ratio),
    )
    ax.set(xticks=[], yticks=[], aspect="equal")
    _draw_scale(ax, points, ratio)


def _draw_scale(ax: Any, colored: Any, ratio: bool) -> None:
    bar = ax.figure.colorbar(colored, ax=ax, label="relativity" if ratio else "coefficient")
    if ratio:  # few powers of ten are within reach
        marks = np.geomspace(colored.norm.vmin, colored.norm.vmax, 5)
        bar.set_ticks(marks.tolist(), labels=[f"{mark:.2g}" for mark in marks])
        bar.minorticks_off()
