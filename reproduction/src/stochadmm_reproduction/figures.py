"""Figures in the paper's layout: a column per data set, gap above, test loss below."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ._files import replacing
from ._plain import field_values
from .config import Experiment, Variant
from .curves import Curve, Curves, Key
from .methods import METHODS
from .recipes import recipe_of
from .verdicts import ALONE as ONE_SEED
from .verdicts import FAILS, HOLDS, OPEN, Evidence


@dataclass(frozen=True)
class Look:
    """How a method is drawn: a colour that the colour-blind tell apart, and marks for grey."""

    color: str
    dash: Any = "-"
    marker: str = ""


_DASHED, _DOTTED, _MIXED = (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1))
_LONG = (0, (9, 2))
LOOKS = {
    "stoc-admm": Look("#999999", "-", "s"),
    "opt-sadmm": Look("#cc79a7", "-", "D"),
    "svrg-admm": Look("#0072b2", "-", "^"),
    "sag-admm": Look("#009e73", "-", "v"),
    "acc-sadmm": Look("#d55e00", "-", "o"),
    "acc-sadmm-reset": Look("#d55e00", _DASHED, "o"),
    "acc-sadmm-momentum": Look("#d55e00", _MIXED, "p"),
    "acc-sadmm-theory": Look("#d55e00", _DASHED, "s"),
    "acc-sadmm-proven": Look("#d55e00", _MIXED, "D"),
    "acc-sadmm-untuned": Look("#d55e00", _LONG, "x"),
    "acc-sadmm-adaptive": Look("#d55e00", _DOTTED, "*"),
    "svrg-admm-theory": Look("#0072b2", _DASHED, "s"),
    "svrg-admm-proven": Look("#0072b2", _MIXED, "D"),
    "svrg-admm-untuned": Look("#0072b2", _LONG, "x"),
    "svrg-admm-adaptive": Look("#0072b2", _DOTTED, "*"),
    "sdca-admm": Look("#e69f00", _DASHED, "x"),
    "opg-admm": Look("#999999", _DASHED, "s"),
    "rda-admm": Look("#999999", _MIXED, "D"),
    "asvrg-admm": Look("#0072b2", _DASHED, "^"),
    "vr-pddy": Look("#56b4e9", _MIXED, "+"),
    "spdhg": Look("#56b4e9", _DASHED, "X"),
    "ladm-ne": Look("#7a5195", _DASHED, "P"),
    "linearized-admm": Look("#7a5195", _MIXED, "h"),
    "katyusha": Look("#0072b2", "-", "^"),
    "auto": Look("#111111", "-", "*"),
}
COLUMNS = 4
"""Data sets beside each other, as in the paper; more of them begin a new pair of rows."""
BESIDE = ("svrg-admm", "acc-sadmm")
"""Methods of the paper that stand in the other figures too."""
PARTS = {
    "": "",
    "-others": ", methods outside the paper",
    "-forms": ", tuned, with steps of theory, and with nothing tuned",
}
AXES = {
    "gradients": "gradients: component gradients / n",
    "reads": "reads: rows read / n",
    "epochs": "epochs of 2n/b iterations",
    "seconds": "processor seconds",
}
INK, GRID = "#222222", "#e4e4e4"
ALONE = "#f1efe9"
"""Ground of a panel whose runs have one seed."""


def draw(curves: Curves, experiment: Experiment, variant: Variant, folder: Path) -> list[Picture]:
    """Write the figures of a variant: the paper's methods, the others, forms of two of them.

    Each is over gradients (or epochs), over reads and over seconds, as PNG and PDF.
    """
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for part, keys in _parts(curves, experiment, variant).items():
        for axis in axes_of(experiment):
            with rc_context({"font.size": 9}):
                shown = [k for k in keys if axis != "epochs" or METHODS[k[3]].per_epoch]
                figure = _figure(curves, experiment, variant, axis, shown)
                stem = f"{experiment.name}-{variant.name}{part}-{axis}"  # may have a dot in it
                figure.draw_without_rendering()
                figure.set_layout_engine("none")  # half of the time of every file otherwise
                with replacing(folder / f"{stem}.pdf") as temporary:
                    # no date: the same runs give the same file
                    figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
                _save_png(figure, folder / f"{stem}.png")
            words = PARTS[part]
            name = f"{experiment.name}: {title(experiment, variant)}{words}, over {AXES[axis]}"
            written.append(Picture(name, folder / f"{stem}.png"))
    return written


@dataclass(frozen=True)
class Picture:
    """A figure that was written, and what it shows."""

    title: str
    path: Path


def _parts(curves: Curves, experiment: Experiment, variant: Variant) -> dict[str, list[Key]]:
    """Return the lines of the figures: the paper's methods, others where they are many, forms."""
    every = list(curves.keys(experiment.name, variant.name))
    kinds: dict[str, list[Key]] = {"paper": [], "others": [], "forms": []}
    for key in every:
        method = METHODS[key[3]]
        kind = "paper" if method.in_paper else "others" if method.form_of is None else "forms"
        kinds[kind].append(key)
    paper, others, forms = kinds["paper"], kinds["others"], kinds["forms"]

    def beside(shown: list[Key]) -> list[Key]:
        places = {key[2] for key in shown}
        found = [k for k in paper if k[3] in BESIDE and k[4] == "last" and k[2] in places]
        return [*found, *shown]

    if len({key[3] for key in others}) <= 2 or not paper:
        parts = {"": paper + others}
    else:
        parts = {"": paper, "-others": beside(others)}
    return {name: keys for name, keys in (parts | {"-forms": beside(forms)}).items() if keys}


UNITS = {"gradients": "verdict", "reads": "by_reads", "seconds": "by_time"}
"""Where the verdict by a unit of work stands in a comparison."""
OUTCOMES: dict[str, tuple[str, dict[str, Any]]] = {
    HOLDS: ("won", {"color": "#0072b2", "marker": "o"}),
    FAILS: ("lost", {"color": "#d55e00", "marker": "X"}),
    OPEN: ("open", {"color": INK, "marker": "o", "fillstyle": "none"}),
}


def headline(evidence: list[Evidence], folder: Path) -> Picture:
    """Draw how many times as much work each rival needs to equal gaps, a mark per problem."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter

    shown = [e for e in evidence if e.verdict != ONE_SEED and e.numbers]
    rivals = list(dict.fromkeys(e.against for e in shown))
    with rc_context({"font.size": 9}):
        figure = Figure(figsize=(10.4, 0.6 * len(rivals) + 1.3), layout="constrained")
        panels = figure.subplots(1, len(UNITS), sharex=True, sharey=True, squeeze=False)[0]
        for panel, (unit, field) in zip(panels, UNITS.items(), strict=True):
            for row, rival in enumerate(rivals):
                found = [e for e in shown if e.against == rival]
                points = sorted((_speed(e, unit), str(field_values(e)[field])) for e in found)
                for k, (speed, verdict) in enumerate(points):
                    height = row + 0.7 * ((k + 0.5) / len(points) - 0.5)
                    panel.plot(speed, height, markersize=4.5, **OUTCOMES[verdict][1])
            panel.axvline(1.0, color=INK, linewidth=0.8)
            panel.set_title(f"by {AXES[unit].split(': ')[0]}", color=INK)
            panel.set_xlabel("work of the rival / work of ACC-SADMM")
            panel.grid(axis="x", color=GRID, linewidth=0.6)
            panel.set_axisbelow(True)
            panel.spines[["top", "right", "left"]].set_visible(False)
            panel.tick_params(colors=INK, left=False)
        panels[0].set_xscale("log")
        panels[0].xaxis.set_major_locator(FixedLocator([0.1, 0.3, 1, 3, 10, 30]))
        panels[0].xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panels[0].xaxis.set_minor_formatter(NullFormatter())
        panels[0].set_yticks(range(len(rivals)), rivals)
        panels[0].set_ylim(len(rivals) - 0.5, -0.5)
        marks = [Line2D([], [], linestyle="", **look) for _, look in OUTCOMES.values()]
        words = [word for word, _ in OUTCOMES.values()]
        figure.legend(marks, words, loc="outside right center", frameon=False)
        folder.mkdir(parents=True, exist_ok=True)
        _save_png(figure, folder / "comparisons.png")
    return Picture(
        "Work that a rival needs to reach equal gaps, over that of ACC-SADMM: a mark per problem, "
        "the geometric mean over its gaps and seeds. Right of one ACC-SADMM needs less.",
        folder / "comparisons.png",
    )


def _speed(e: Evidence, unit: str) -> float:
    """Return the geometric mean over the seeds of the work to equal gaps."""
    ratios = [np.nan if x is None else x for x in e.numbers[f"speed by {unit}"]]
    return float(np.exp(np.mean(np.log(ratios))))


def axes_of(experiment: Experiment) -> list[str]:
    """Return the horizontal axes: gradients, or epochs of long runs, reads and seconds."""
    epochs = any(spec.epochs is not None for spec in experiment.datasets)
    return ["epochs" if epochs else "gradients", "reads", "seconds"]


def _save_png(figure: Any, path: Path) -> None:
    """Write a PNG file with a palette: a third of the size, and the same to the eye."""
    from PIL import Image

    buffer = BytesIO()
    figure.savefig(buffer, dpi=140, format="png")
    with Image.open(buffer) as image:
        few = image.convert("RGB").quantize(192, dither=Image.Dither.NONE)
        with replacing(path) as temporary:
            few.save(temporary, format="png", optimize=True)


def title(experiment: Experiment, variant: Variant) -> str:
    """Return the title of a figure, in which nothing is said twice."""
    words = variant.title or variant.name
    return experiment.title if words in experiment.title else f"{experiment.title}: {words}"


def _figure(
    curves: Curves, experiment: Experiment, variant: Variant, axis: str, keys: list[Key]
) -> Any:
    from matplotlib.figure import Figure

    datasets = list(dict.fromkeys(key[2] for key in keys))
    blocks = max(1, -(-(len(datasets) - 1) // COLUMNS))  # one more than four stays in the row
    width = -(-len(datasets) // blocks)
    size = (max(2.6 * width, 6.0), 4.6 * blocks + 1.0)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(2 * blocks, width, squeeze=False)
    lines: dict[str, Any] = {}
    before = ""
    for k, dataset in enumerate(datasets):
        block, column = divmod(k, width)
        top, bottom = grid[2 * block, column], grid[2 * block + 1, column]
        top.sharex(bottom)
        mine = {key: list(curves.runs[key].values()) for key in keys if key[2] == dataset}
        lines |= _panels(top, bottom, mine, experiment, axis)
        _dress(top, bottom, _heading(curves, experiment, dataset, mine), axis)
        if all(len(runs) == 1 for runs in mine.values()):  # decides nothing, and looks like it
            for panel in (top, bottom):
                panel.set_facecolor(ALONE)
        # averages that fall slowly would leave no room for the rest
        last = [key for key in mine if METHODS[key[3]].in_paper and key[4] == "last"]
        shown = [run for key in last for run in mine[key]]
        if shown:
            _limits(top, bottom, shown, experiment, axis)
        for key, runs in mine.items():
            _below(top, runs, axis, key)
        second = _second(experiment, next(iter(mine.values()))).replace("_", " ")
        if column == 0:
            top.set_ylabel("objective gap")
        if column == 0 or second != before:  # of regressions there is a loss, but no error
            bottom.set_ylabel(second)
        before = second
    for empty in grid.ravel():
        if not empty.has_data():
            empty.set_visible(False)
    figure.suptitle(title(experiment, variant), color=INK)
    wide = 0.6 + 0.075 * max(map(len, lines))  # inches of a column: sample and name
    figure.legend(
        lines.values(),
        lines.keys(),
        loc="outside lower center",
        ncols=max(1, min(int(figure.get_figwidth() / wide), len(lines))),
        frameon=False,
    )
    return figure


def _panels(
    top: Any, bottom: Any, mine: dict[Key, list[Curve]], experiment: Experiment, axis: str
) -> dict[str, Any]:
    """Draw the lines of a data set; return those of the legend by their names."""
    lines = {}
    for key, runs in mine.items():
        label = METHODS[key[3]].label + ("-ERG" if key[4] == "ergodic" else "")
        lines[label] = _line(top, runs, axis, "gap", key)
        _line(bottom, runs, axis, _second(experiment, runs), key)
    return lines


def _second(experiment: Experiment, runs: list[Curve]) -> str:
    """Return what the lower row shows: errors for many classes, losses otherwise."""
    errors = experiment.problem == "multitask" and np.isfinite(runs[0].test_error).any()
    return "test_error" if errors else "test_loss"


def _line(axes: Any, runs: list[Curve], axis: str, what: str, key: Key) -> Any:
    """Draw the mean over the seeds with their range; return the line."""
    length = min(len(run.gradients) for run in runs)
    x = np.mean([run.along(axis)[:length] for run in runs], axis=0)
    y = np.array([run.height(what)[:length] for run in runs])
    y = np.where(np.isfinite(y), y, np.nan)
    with np.errstate(all="ignore"):
        middle = np.exp(np.mean(np.log(y), axis=0)) if what == "gap" else np.mean(y, axis=0)
    # a horizontal axis over several powers of ten cannot show where it begins
    shown = slice(1, None) if axis == "seconds" else slice(None)
    ergodic, look = key[4] == "ergodic", LOOKS[key[3]]
    (line,) = axes.plot(
        x[shown],
        middle[shown],
        color=look.color,
        linewidth=1.0 if ergodic else 1.5,
        linestyle=_DOTTED if ergodic else look.dash,
        marker=look.marker or None,
        markevery=_every(x[shown]),
        markersize=3.5,
        fillstyle="none" if ergodic or not METHODS[key[3]].in_paper else "full",
        zorder=3 if key[3] in ("acc-sadmm", "auto") else 2,
    )
    if len(runs) > 1:
        axes.fill_between(
            x[shown],
            y.min(axis=0)[shown],
            y.max(axis=0)[shown],
            color=look.color,
            alpha=0.15,
            linewidth=0,
        )
    return line


def _every(x: Any) -> int:
    """Return how many records lie between two marks: about six of them on a line."""
    return max(1, len(x) // 6)


def _below(axes: Any, runs: list[Curve], axis: str, key: Key) -> None:
    """Mark where a method leaves the picture at its lower edge."""
    bottom = axes.get_ylim()[0]
    leaving = [_crossing(run, axis, bottom) for run in runs]
    if np.isfinite(leaving).all():
        axes.plot(
            np.mean(leaving),
            bottom,
            marker="v",
            color=LOOKS[key[3]].color,
            markersize=6,
            clip_on=False,
            zorder=4,
        )


def _crossing(run: Curve, axis: str, level: float) -> float:
    """Return where the line of a run, as drawn, falls below a level; inf when it does not."""
    gap = run.height("gap")
    x, below = run.along(axis), np.flatnonzero(gap <= level)
    if not below.size:
        return np.inf
    k = int(below[0])
    if k <= (1 if axis == "seconds" else 0):
        return float(x[k])
    y = np.log(gap[k - 1 : k + 1])
    return float(x[k] + (x[k - 1] - x[k]) * (np.log(level) - y[1]) / (y[0] - y[1]))


def _heading(
    curves: Curves, experiment: Experiment, dataset: str, mine: dict[Key, list[Curve]]
) -> str:
    """Return the title of a panel: data set, rows, columns, rows of a batch, seeds, tuning."""
    spec = next(s for s in experiment.datasets if s.name == dataset)
    seeds = max(len(runs) for runs in mine.values())
    lines = [f"b = {spec.batch:,}, {'one seed' if seeds == 1 else f'{seeds} seeds'}"]
    if (size := curves.sizes.get((experiment.name, dataset))) is not None:
        lines = [f"n = {size[0]:,}, d = {size[1]:,}", *lines]
    aims = dict.fromkeys(aim for key in mine if (aim := curves.aims.get(key)) is not None)
    lines += [f"tuned for {aim}" for aim in aims]
    return "\n".join([recipe_of(spec, experiment.problem).words or dataset, *lines])


def _dress(top: Any, bottom: Any, dataset: str, axis: str) -> None:
    top.set_title(dataset, color=INK, fontsize=8)
    top.tick_params(labelbottom=False)
    top.set_yscale("log")
    bottom.set_xlabel(AXES[axis].split(": ")[-1])
    if axis == "seconds":
        bottom.set_xscale("log")
        _few_ticks(bottom)
    for axes in (top, bottom):
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK)


def _few_ticks(axes: Any) -> None:
    """Write some numbers on a logarithmic axis that may be shorter than a power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axes.get_xlim()
    axes.xaxis.set_minor_formatter(NullFormatter())  # they overlap
    if high > 100 * low:
        axes.xaxis.set_major_locator(LogLocator(numticks=5))
        return
    within = (1.0, 3.0) if high > 10 * low else (1.0, 2.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=within, numticks=8))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _limits(top: Any, bottom: Any, runs: list[Curve], experiment: Experiment, axis: str) -> None:
    """Show the range of the paper's methods: the gap below its start, no diverged test losses."""
    first = 1 if axis == "seconds" else 0
    gaps = np.concatenate([run.height("gap")[first:] for run in runs])
    gaps = gaps[np.isfinite(gaps)]
    if gaps.size:
        start = 3 * runs[0].height("gap")[0]
        top.set_ylim(max(gaps.min() / 5, 1e-14), min(2 * gaps.max(), start))
    if runs[0].within:
        known = np.isfinite(runs[0].within)
        words = f"optimum at most {runs[0].within:.2g} lower" if known else "optimum not bounded"
        top.text(0.03, 0.04, words, transform=top.transAxes, fontsize=7, color=INK)
    what = _second(experiment, runs)
    ends = np.array([v for run in runs for v in run.height(what)[1:] if np.isfinite(v)])
    if ends.size:
        low, start = ends.min(), runs[0].height(what)[0]
        high = min(np.quantile(ends, 0.95), start) if np.isfinite(start) else ends.max()
        room = 0.08 * max(high - low, 1e-3 * abs(low), 1e-12)
        bottom.set_ylim(low - room, max(high, low) + 2 * room)
