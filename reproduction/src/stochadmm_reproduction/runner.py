"""From names to a report: what is asked for, what is done already, and the rest.

Everything finished is found in the folder again, so that only what is missing is run.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from . import datasets as data_sets
from .archive import Archive
from .bench import Bench
from .config import Experiment, load, names, unknown
from .curves import Curves
from .datasets import on_disk
from .methods import METHODS
from .pieces import KINDS, Piece, Silent, Watch, pieces
from .recipes import recipe_of
from .store import Store

TABLES = ("table1", "table2", "memory")


def reproduce(
    targets: list[str],
    out: str | Path,
    *,
    quick: bool = False,
    datasets: list[str] | None = None,
    methods: list[str] | None = None,
    stages: list[str] | None = None,
    archive: str | Path | None = None,
    remove_data: bool = False,
    watch: Watch | None = None,
) -> Path:
    """Run what is missing, then write table, figures and report; return the report's path.

    Where ``stages`` are named without "report", the folder is returned.

    Parameters
    ----------
    targets : list of str
        Names of experiments, of tables (``table1``, ``table2``, ``memory``), YAML files, or
        ``["all"]``.
    out : path
        Folder for everything that is written.
    quick : bool
        The short form.
    datasets : list of str, optional
        Keep these data sets only.
    methods : list of str, optional
        Tune and run these methods only.
    stages : list of str, optional
        Do only these kinds of work: ``pieces.KINDS``, or "report", which is made of whatever is
        finished. All of them by default.
    archive : path, optional
        Folder of finished pieces in a few small files: what is in it is not done again, and what
        is finished in ``out`` is added at the end.
    remove_data : bool
        Delete generated data sets at the end; they are made again from their seeds.
    watch : Watch, optional
        Who is told about the progress.
    """
    from . import report

    watch = watch or Silent()
    for name in methods or ():
        if name not in METHODS:
            raise ValueError(unknown("method", name, list(METHODS)))
    chosen, tables, with_runs = _chosen(targets, quick, datasets)
    wanted = _stages(stages)
    kept = None if archive is None else Archive(Path(archive))
    if kept is not None and not kept.folder.is_dir():
        if wanted == ["report"]:
            raise ValueError(
                f"there is no archive {archive}; name a folder of finished pieces, such as "
                "docs/reproduction/pieces"
            )
        watch.say(f"{archive} is not there yet: everything is done, and kept in it")
    store = Store(Path(out), kept)
    if not quick and wanted != ["report"]:
        _fetch(chosen)
    bench = Bench(store, watch)
    every = [
        piece
        for experiment in chosen
        for piece in pieces(experiment)
        if with_runs or piece.kind == "sizes"
    ]
    work = [piece for piece in every if _wanted(piece, wanted, methods)]
    watch.begin(sum(piece.cost for piece in work))
    for piece in work:
        bench.do(piece)
    if remove_data:
        on_disk.remove_all(data_sets.cache_folder() / "generated")
    if kept is not None:
        watch.say(f"{kept.add(store.folder)} new pieces in {archive}")
    if "report" not in wanted:
        return store.folder
    watch.say("writing the table, the figures and the report")
    written = report.write(store, bench, chosen, tables, _curves(bench, every), quick)
    if kept is not None:  # rates and memory, which belong to no figure
        kept.add(store.folder)
    return written


def _stages(asked: list[str] | None) -> list[str]:
    """Return the kinds of work to do; raise for a name that is none."""
    known = [*KINDS, "report"]
    for name in asked or ():
        if name not in known:
            raise ValueError(unknown("stage", name, known))
    return known if asked is None else asked


def _wanted(piece: Piece, stages: list[str], methods: list[str] | None) -> bool:
    sources = {METHODS[name].tuned_as for name in methods or ()} | set(methods or ())
    ours = methods is None or not piece.method or piece.method in sources
    return piece.kind in stages and ours


def _curves(bench: Bench, every: list[Piece]) -> Curves:
    """Return the finished runs as curves, and what is missing."""
    curves = Curves()
    together: dict[tuple[str, ...], list[Piece]] = {}
    for piece in every:
        if piece.kind == "sizes" and (size := bench.kept(piece)) is not None:
            curves.sizes[piece.experiment.name, piece.spec.name] = (size["n"], size["d"])
        if piece.kind == "runs":
            place = (piece.experiment.name, piece.variant.name, piece.spec.name)
            together.setdefault((*place, _rivals(piece)), []).append(piece)
    for asked in together.values():
        for piece, content in _tuned_alike(bench, asked):
            if content is None:
                curves.miss(piece)
                continue
            curves.add(piece, content, bench.optimum(piece))
            if piece.aim:
                curves.tuned(piece, bench.tuning_of(piece), bench.tuned(piece))
    return curves


def _rivals(piece: Piece) -> str:
    """Return which methods a run is compared with: those of the paper, forms of them, others."""
    method = METHODS[piece.method]
    if method.form_of is not None:
        return "forms"
    return "paper" if METHODS[method.tuned_as or piece.method].in_paper else "others"


def _tuned_alike(bench: Bench, asked: list[Piece]) -> list[tuple[Piece, dict[str, Any] | None]]:
    """Return runs with their contents; those of the first report until all are renewed.

    Methods that are compared are never tuned for different ends.
    """
    found = [(piece, bench.finished(piece)) for piece in asked]
    if all(content is not None for piece, content in found if piece.aim):
        return found
    former = [dataclasses.replace(piece, former=True) for piece in asked]
    before = [(piece, bench.finished(piece)) for piece in former]
    n_found, n_before = (sum(c is not None for _, c in each) for each in (found, before))
    return before if n_before >= n_found else found


def _chosen(
    targets: list[str], quick: bool, datasets: list[str] | None
) -> tuple[list[Experiment], list[str], bool]:
    """Return the experiments and tables asked for, and whether there are runs to make."""
    known = [*names(), *TABLES, "all"]
    figures: list[str] = []
    for target in targets:
        if target not in known and not target.endswith((".yaml", ".yml")):
            raise ValueError(unknown("experiment", target, known))
        figures += names() if target == "all" else [] if target in TABLES else [target]
    tables = [name for name in TABLES if name in targets or "all" in targets]
    listed = dict.fromkeys(figures or (names() if "table2" in tables else []))
    every = [load(name, quick=quick) for name in listed]
    offered = list(dict.fromkeys(spec.name for e in every for spec in e.datasets))
    for name in datasets or ():
        if name not in offered:
            raise ValueError(unknown("data set", name, offered))
    chosen = [load(name, quick=quick, datasets=datasets) for name in listed]
    return [e for e in chosen if e.datasets], tables, bool(figures)


def _fetch(chosen: list[Experiment]) -> None:
    """Find every file before the work begins, so that a missing one is told at once."""
    for spec, problem in {s.name: (s, e.problem) for e in chosen for s in e.datasets}.values():
        recipe = recipe_of(spec, problem)
        if recipe.files_of is not None and not recipe.here:
            for path in data_sets.describe(recipe.files_of).files:
                data_sets.fetch(path)
