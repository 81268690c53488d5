"""Tables, a figure and benchopt's page from the results of one run.

    python benchmarks/peers/summary.py out/bench/short.parquet [--docs docs/benchmarks.md]

Everything is written beside the results. With --docs the tables also replace what stands between
the markers ``<!-- short -->`` and ``<!-- end of short -->`` (the name of the results) of a page.
"""

from __future__ import annotations

import argparse
import re
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

GAPS = (1e-4, 1e-6)
AUTO = "stochadmm auto"
PACKAGES = (
    "stochadmm",
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "celer",
    "skglm",
    "skein-glm",
    "glum",
    "cyanure",
    "copt",
    "pyproximal",
    "cvxpy",
    "clarabel",
    "scs",
    "benchopt",
)
SHORTEST = 1e-4  # seconds that a figure shows
OFFLINE = "plotly.min.js"
VIEW = {
    "gap over time": {
        "plot_kind": "objective_curve",
        "scale": "loglog",
        "objective_curve_objective_column": "objective_gap",
    }
}


def read(file: Path) -> pd.DataFrame:
    """Return one row per measured point, with short names."""
    frame = pd.read_parquet(file)
    real = frame.get("p_dataset_data_set", pd.Series(index=frame.index, dtype=object))
    where = real.where(real.notna(), frame.get("p_dataset_size", "") + " generated")
    frame["problem"] = frame["p_dataset_problem"] + ", " + where.astype(str)
    frame["solver"] = frame["solver_name"].str.replace(r"\[\w+=(.*)\]", r" \1", regex=True)
    return frame.rename(columns={"objective_gap": "gap", "objective_floor": "floor"})


def times(runs: pd.DataFrame, gap: float) -> np.ndarray:
    """Return for every repetition the least time with a gap that small, infinity without one."""
    reached = runs["time"].where(runs["gap"] <= gap, np.inf)
    return reached.groupby(runs["idx_rep"]).min().to_numpy()


def seconds(values: np.ndarray) -> str:
    """Return the median, and the range where there are several."""
    middle = float(np.median(values))
    if not np.isfinite(middle):
        return "-"
    low, high = np.min(values), np.max(values)
    return f"{middle:.2g}" + (f" ({low:.2g} to {high:.2g})" if len(values) > 1 else "")


def table(frame: pd.DataFrame) -> list[dict[str, str]]:
    """Return one row per problem and solver, the fastest to the smallest gap first."""
    rows = []
    for problem, of_problem in frame.groupby("problem", sort=False):
        found = []
        for solver, runs in of_problem.groupby("solver"):
            to_gap = [times(runs, gap) for gap in GAPS]
            best = float(runs.groupby("idx_rep")["gap"].min().median())
            rank = [float(np.median(t)) for t in reversed(to_gap)] + [best]
            shown = [seconds(t) for t in to_gap]
            found.append((rank, [problem, solver, *shown, f"{best:.0e}"]))
        rows += [row for _, row in sorted(found)]
    head = ["problem", "solver", *(f"seconds to {gap:.0e}" for gap in GAPS), "smallest gap"]
    return [dict(zip(head, row, strict=True)) for row in rows]


def verdicts(frame: pd.DataFrame) -> list[str]:
    """Return a table of the automatic solver against the fastest other package."""
    lines = [
        f"| to a gap of {GAPS[-1]:.0e} | {AUTO}, seconds | fastest peer | seconds | peer / ours |",
        "|---|--:|---|--:|--:|",
    ]
    for problem, of_problem in frame.groupby("problem", sort=False):
        to_gap = {
            solver: float(np.median(times(runs, GAPS[-1])))
            for solver, runs in of_problem.groupby("solver")
        }
        mine = to_gap[AUTO]
        peers = [name for name in to_gap if not name.startswith("stochadmm")]
        peer = min(peers, key=to_gap.__getitem__)
        ratio = float(f"{to_gap[peer] / mine:.2g}")  # two digits, without an exponent
        numbers = f"{mine:.2g} | {peer} | {to_gap[peer]:.2g} | {ratio:g}"
        lines.append(f"| {problem} | {numbers} |")
    return [*lines, ""]


def markdown(frame: pd.DataFrame) -> str:
    """Return the tables, one per problem, with the facts that they depend on."""
    rows, lines = table(frame), verdicts(frame)
    for problem, of_problem in frame.groupby("problem", sort=False):
        mine = [row for row in rows if row["problem"] == problem]
        head = list(mine[0])[1:]
        floor = of_problem["floor"].iloc[0]
        lines += [f"**{problem}** (optimum known to {floor:.0e})", ""]
        lines += ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
        for row in mine:
            name = (
                f"**{row['solver']}**" if row["solver"].startswith("stochadmm") else row["solver"]
            )
            lines.append("| " + " | ".join([name, *list(row.values())[2:]]) + " |")
        lines.append("")
    return "\n".join([*lines, facts(frame)]) + "\n"


def facts(frame: pd.DataFrame) -> str:
    """Return cores, threads and versions."""
    one = frame.iloc[0]
    known = []
    for name in PACKAGES:
        try:
            known.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    repetitions = int(frame["idx_rep"].max()) + 1
    return (
        f"{one['system-cpus']} cores, {one['env-OMP_NUM_THREADS']} thread, repetitions: "
        f"{repetitions}; {', '.join(known)}."
    )


def figure(frame: pd.DataFrame, file: Path) -> None:
    """Draw the gap over time, one panel per problem."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    problems, solvers = frame["problem"].unique(), sorted(frame["solver"].unique())
    ours = sorted((s for s in solvers if s.startswith("stochadmm")), key=lambda s: s != AUTO)
    peers = [name for name in solvers if name not in ours]
    looks = {name: {"color": "black", "linewidth": 1.8} for name in ours}
    for name, line, marker in zip(ours, ("-", "--", ":", "-."), "*ovs", strict=False):
        looks[name] |= {"linestyle": line, "marker": marker, "markersize": 8 - 4 * (line != "-")}
    for name, color in zip(peers, plt.get_cmap("tab10").colors, strict=False):
        looks[name] = {"color": color, "linewidth": 1.2, "marker": "."}
    columns = min(3, len(problems))
    lines = -(-len(problems) // columns)
    canvas, axes = plt.subplots(
        lines, columns, figsize=(4.6 * columns, 3.6 * lines), squeeze=False, layout="constrained"
    )
    for ax, problem in zip(axes.flat, problems, strict=False):
        of_problem = frame[(frame["problem"] == problem) & (frame["time"] > SHORTEST)]
        for solver, look in looks.items():
            curve = of_problem[of_problem["solver"] == solver].sort_values("time")
            if len(curve):
                ax.loglog(curve["time"], curve["gap"].cummin(), label=solver, **look)
        ax.set(title=problem, xlabel="seconds", ylabel="relative gap, proved")
        ax.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
        ax.grid(alpha=0.3)
    for ax in axes.flat[len(problems) :]:
        ax.axis("off")
    handles = {}
    for ax in axes.flat:
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    handles = {name: handles[name] for name in looks if name in handles}
    canvas.legend(handles.values(), handles, loc="outside lower center", ncols=6, fontsize="small")
    for kind in ("png", "svg"):
        canvas.savefig(file.with_suffix(f".{kind}"), dpi=120)
    plt.close(canvas)


def page(file: Path) -> Path:
    """Write benchopt's page, with a copy of plotly so that it opens without a network."""
    from benchopt.benchmark import Benchmark
    from benchopt.plotting.generate_html import plot_benchmark_html
    from plotly.offline import get_plotlyjs

    (file.parent / "outputs").mkdir(exist_ok=True)
    benchmark = Benchmark(Path(__file__).parent)
    with redirect_stdout(StringIO()):
        plot_benchmark_html(
            file, benchmark, {"plot_configs": VIEW}, False, html_home=file.parent / "index.html"
        )
    written = file.parent / f"{benchmark.name}_{benchmark.name}_{file.stem}.html"
    (file.parent / OFFLINE).write_text(get_plotlyjs(), encoding="utf-8")
    text = written.read_text(encoding="utf-8")
    text = re.sub(r"https://cdn\.plot\.ly/plotly-[\d.]+\.min\.js", OFFLINE, text)
    written.write_text(text, encoding="utf-8")
    return written


def insert(docs: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of a page."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = docs.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    docs.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--docs", type=Path)
    chosen = parser.parse_args()
    frame, file = read(chosen.results), chosen.results
    text = markdown(frame)
    file.with_suffix(".md").write_text(text, encoding="utf-8")
    figure(frame, file)
    written = page(file)
    if chosen.docs is not None:
        insert(chosen.docs, file.stem, text)
    print(pd.DataFrame(table(frame)).to_string(index=False))
    for kind, where in {"page": written, "figure": ".png", "tables": ".md"}.items():
        print(f"{kind}: {where if isinstance(where, Path) else file.with_suffix(where)}")


if __name__ == "__main__":
    main()
