"""The report page of a fit: one HTML file with pictures inside."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from html import escape
from io import StringIO
from itertools import islice
from typing import Any

import numpy as np

from stochadmm.base.capabilities import has_members
from stochadmm.estimators._tables import _relative
from stochadmm.plots import plain, plot_coef_graph, plot_path, plot_terms
from stochadmm.structures.given import Kind, given_graph

from ._model import SavedModel

MOST_ROWS = 60  # coefficients listed on the page; the CSV file beside it has all
MOST_BARS = 25  # coefficients drawn: more have no room for their names
MOST_NAMES = 15  # names beside the lines of a path: so many lines of text fit
LARGEST_DRAWING = 400  # columns up to which a graph is drawn
MOST_OUTPUTS = 6  # classes or targets drawn one by one: more would hide what comes below

Panels = list[tuple[str, Callable[..., Any]]]
"""Titles, and who draws below them on ``ax``."""

STYLE = """
:root { color-scheme: light dark; --soft: #6b7280; --line: #d1d5db; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 60rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
pre { white-space: pre-wrap; background: color-mix(in srgb, currentColor 6%, transparent);
      padding: .8rem; border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
td, th { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child { text-align: left; }
figure { margin: 1rem 0; background: white; border-radius: .4rem; }
svg { width: 100%; max-width: 46rem; height: auto; display: block; margin: 0 auto; }
.soft { color: var(--soft); }
"""


def page(saved: SavedModel, model: Any, graph: Any, path: Any = None) -> str:
    """Return the page of a fitted estimator, with its path of strengths if there is one."""
    facts = saved.facts
    title = f"{facts['estimator']} on {facts['data']}"
    parts = [f"<h1>{escape(title)}</h1>", f"<pre>{escape(model.summary())}</pre>"]
    parts += [f'<p class="soft">Note: {escape(note)}</p>' for note in facts["notes"]]
    left = len(saved.outputs) - MOST_OUTPUTS
    if left > 0:
        parts.append(
            f'<p class="soft">Coefficients of the first {MOST_OUTPUTS} outputs are drawn; '
            f"those of the other {left} are in coefficients.csv.</p>"
        )
    for heading, panels in _pictures(saved, model, graph, path):
        picture = _svg(panels)
        if picture:
            parts.append(f"<h2>{escape(heading)}</h2><figure>{picture}</figure>")
    parts.append(_coefficients(saved))
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _pictures(saved: SavedModel, model: Any, graph: Any, path: Any) -> list[tuple[str, Panels]]:
    """Return headings, and what is drawn below them."""
    found: list[tuple[str, Panels]] = []
    names = saved.design.names
    kind = None if graph is None else given_graph(graph).kind
    if kind is Kind.GRID:
        none = np.empty((0, 2), dtype=np.intp)
        on_grid = partial(plot_coef_graph, edges=none, grid=graph)
        found.append(("Coefficients on the grid", _for_outputs(saved, on_grid)))
    elif kind is Kind.EDGES and saved.design.n_columns <= LARGEST_DRAWING:
        place = {name: j for j, name in enumerate(names)}
        ends = np.array([(place[a], place[b]) for a, b, _ in graph], dtype=np.intp)
        on_graph = partial(plot_coef_graph, edges=ends, names=names)
        found.append(("Coefficients on the graph", _for_outputs(saved, on_graph)))
    if has_members(model, "plot_groups"):
        found.append(("Groups", [("", model.plot_groups)]))
    if has_members(model, "plot_terms") and len(saved.coef) == 1:
        found += _terms(model)
    bars = _for_outputs(saved, partial(_bars, names=names))
    found.append(("Largest coefficients", bars))
    if has_members(model, "score_path_"):
        found.append(("Cross-validation", [("", model.plot_path)]))
    if path is not None:
        found.append(("Coefficients by strength", [("", partial(_path, path=path, saved=saved))]))
    found.append(("Convergence", [("", model.plot_convergence)]))
    return found


def _terms(model: Any) -> list[tuple[str, Panels]]:
    """Return the drawing of the levels of every term, one below the other."""
    panels = model._panels()
    draw: Panels = [("", partial(_term, panel=panel, ratio=_relative(model))) for panel in panels]
    return [("Terms", draw)] if draw else []


def _term(ax: Any, panel: Any, ratio: bool) -> None:
    plot_terms([panel], ratio, [ax])


def _for_outputs(saved: SavedModel, draw: Callable[..., Any]) -> Panels:
    """Return a drawing for the coefficients of each output, named where there are several."""
    rows = zip(saved.outputs, saved.coef, strict=True)
    several = len(saved.outputs) > 1
    return [
        (output if several else "", partial(draw, row))
        for output, row in islice(rows, MOST_OUTPUTS)
    ]


def _path(ax: Any, path: Any, saved: SavedModel) -> None:
    """Draw coefficients against strengths, with the names of the largest at the end."""
    plot_path(path, ax, chosen=saved.facts["alpha"])
    if ax.get_legend() is not None:
        ax.get_legend().remove()
    ends = path.coefs.reshape(len(path.alphas), -1)[-1]
    if len(ends) != len(saved.design.names):  # one line per column and output
        return
    ax.margins(x=0)
    ax.spines[["top", "right"]].set_visible(False)
    room = (max(ends.max(), 0.0) - min(ends.min(), 0.0)) / MOST_NAMES
    written: list[float] = []
    for j in np.argsort(-np.abs(ends), kind="stable")[:MOST_NAMES]:
        if ends[j] and all(abs(ends[j] - other) > room for other in written):
            written.append(float(ends[j]))
            ax.annotate(
                plain(saved.design.names[j]),
                (path.alphas[-1], ends[j]),
                xytext=(4, 0),
                va="center",
                textcoords="offset points",
                fontsize="small",
                annotation_clip=False,
            )


def _svg(panels: Panels) -> str:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    figure = Figure(figsize=(6.0, 3.7 * len(panels)), layout="constrained")
    places = figure.subplots(len(panels), squeeze=False)[:, 0]
    file = StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is a box
        for ax, (title, draw) in zip(places, panels, strict=True):
            draw(ax=ax)
            if title:
                ax.set_title(plain(title), fontsize="medium")
        figure.savefig(file, format="svg")
    text = file.getvalue()
    return text[text.index("<svg") :]


def _bars(values: Any, ax: Any, names: list[str]) -> None:
    chosen = np.argsort(-np.abs(values), kind="stable")[:MOST_BARS]
    chosen = chosen[values[chosen] != 0][::-1]
    places = np.arange(len(chosen))
    ax.barh(places, values[chosen], color="tab:blue")
    ax.set(yticks=places, yticklabels=[plain(names[j]) for j in chosen], xlabel="coefficient")
    ax.axvline(0, color="0.5", linewidth=0.8)


def _coefficients(saved: SavedModel) -> str:
    size = np.abs(saved.coef).max(axis=0)
    order = np.argsort(-size, kind="stable")
    order = order[size[order] > 0]
    head = "".join(f"<th>{escape(name)}</th>" for name in ("column", *saved.outputs))
    rows = [_row("(intercept)", saved.intercept)]
    rows += [_row(saved.design.names[j], saved.coef[:, j]) for j in order[:MOST_ROWS]]
    more = order.size - MOST_ROWS
    rest = f" The {more} smaller ones are in coefficients.csv." if more > 0 else ""
    return (
        f"<h2>Coefficients</h2><p>{order.size} of {size.size} columns are used.{rest}</p>"
        f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
    )


def _row(name: str, values: Any) -> str:
    cells = "".join(f"<td>{value:.6g}</td>" for value in values)
    return f"<tr><td>{escape(name)}</td>{cells}</tr>"
