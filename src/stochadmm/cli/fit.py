"""``stochadmm fit``: a structured model from a table, kept in a folder with a report."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from stochadmm.losses import FOR_LABELS, FOR_NUMBERS
from stochadmm.structures.given import Kind, given_graph

from ._columns import Table, as_texts
from ._design import Design
from ._model import SavedModel, check_place
from ._tables import files_of, heading, read_table
from ._text import read_edges, read_groups

CLASSIFIER_LOSSES = tuple(FOR_LABELS)
REGRESSOR_LOSSES = tuple(FOR_NUMBERS)

Data = Annotated[str, typer.Argument(help="CSV, Parquet, Arrow, libsvm or npz; - for stdin.")]
Target = Annotated[str, typer.Option(help="Target column; several with commas.")]
Drop = Annotated[str, typer.Option(help="Columns to leave out, with commas.")]
LOSSES = (*CLASSIFIER_LOSSES, *REGRESSOR_LOSSES)
Loss = Annotated[str, typer.Option(help="E.g. logistic, squared, huber, poisson.")]
Edges = Annotated[str | None, typer.Option(help="File of edges: name,name[,weight] a line.")]
Groups = Annotated[str | None, typer.Option(help="File of groups: group,column[,...] a line.")]
Grid = Annotated[str | None, typer.Option(help="Pixels: 28x28, or a .npy mask.")]
Graph = Annotated[str | None, typer.Option(help="chain, or glasso to find edges in the data.")]
L1Ratio = Annotated[float | None, typer.Option(min=0, max=1, help="Share of the l1 norm.")]
Weight = Annotated[str | None, typer.Option(help="Column of row weights.")]
Offset = Annotated[str | None, typer.Option(help="Column added to the linear predictor.")]
Standardize = Annotated[bool, typer.Option("--standardize", help="Scale the columns first.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def fit(
    data: Annotated[str, typer.Argument(hidden=True)],  # told by the first line of the help
    target: Target = "y",
    loss: Loss = "",
    alpha: Annotated[float | None, typer.Option(min=0, help="Strength; else by --cv.")] = None,
    cv: Annotated[int, typer.Option(min=2, help="Folds that choose it.")] = 5,
    simplest: Annotated[
        bool, typer.Option("--one-standard-error", help="Simplest model near the best.")
    ] = False,
    edges: Edges = None,
    groups: Groups = None,
    grid: Grid = None,
    graph: Graph = None,
    l1_ratio: L1Ratio = None,
    weight: Weight = None,
    offset: Offset = None,
    drop: Drop = "",
    standardize: Standardize = False,
    tol: Annotated[float, typer.Option(help="Relative duality gap.")] = 1e-4,
    max_seconds: Annotated[float | None, typer.Option(help="Budget in seconds.")] = None,
    memory: Annotated[str, typer.Option(help="Beyond it rows are streamed.")] = "half",
    checkpoint: Annotated[
        Path | None, typer.Option(help="File to go on from after a crash; with --alpha.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the model.")] = Path("model"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a structured linear model to a table.

    DATA: CSV, Parquet, Arrow, libsvm, npz, npy, folder, pattern; - for stdin.
    """
    from stochadmm.streaming import as_bytes

    from . import _stream

    check_place(out, overwrite)
    if checkpoint is not None and alpha is None:
        raise ValueError("--checkpoint is for one fit, not for a search; pass --alpha")
    limit = _stream.half_of_memory() if memory == "half" else as_bytes(memory)
    beyond = _stream.why_streamed(data, limit)
    if beyond is not None:
        structure = (edges, groups, grid, graph)
        request = Streaming(data, target, loss, alpha, structure, l1_ratio, weight, offset, drop)
        if standardize:
            raise ValueError(f"{beyond}; --standardize needs them in memory, raise --memory")
        done, saved, shape = streamed(request, beyond, tol, max_seconds, limit, checkpoint)
        return _finish(out, saved, done, shape, overwrite, as_json)
    table = read_table(data)
    setting = prepare(table, target, loss, edges, groups, grid, graph, weight, offset, drop)
    options: dict[str, Any] = {"standardize": standardize, "tol": tol, "max_seconds": max_seconds}
    if l1_ratio is not None:
        options["l1_ratio"] = l1_ratio
    if alpha is None:
        options |= {"cv": cv, "one_standard_error": simplest}
    else:
        options["alpha"] = alpha
    model, notes = fitted(
        setting, options, with_cv=alpha is None, progress=not as_json, checkpoint=checkpoint
    )
    saved = _saved(setting, model, notes)
    path = None if alpha is not None else walked(setting, model, options)
    return _finish(out, saved, model, setting.graph, overwrite, as_json, path)


def _finish(
    out: Path, saved: SavedModel, model: Any, graph: Any, overwrite: bool, as_json: bool,
    path: Any = None,
) -> None:  # fmt: skip
    """Write the folder and say what was found."""
    from ._report import page

    saved.save(out, page(saved, model, graph, path), overwrite)
    if as_json:
        typer.echo(json.dumps(saved.facts | {"model": str(out)}, indent=2))
        return
    typer.echo(model.summary())
    for note in saved.facts["notes"]:
        typer.echo(f"Note: {note}")
    typer.echo(f"Wrote {out}: model.json, model.npz, coefficients.csv, report.html")


@dataclass(frozen=True)
class Streaming:
    """The options of a fit that reads its rows block by block."""

    data: str
    target: str
    loss: str
    alpha: float | None
    structure: tuple[str | None, str | None, str | None, str | None]
    l1_ratio: float | None
    weight: str | None
    offset: str | None
    drop: str


def streamed(
    request: Streaming, beyond: str, tol: float, max_seconds: float | None, memory: int,
    checkpoint: Path | None = None,
) -> tuple[Any, SavedModel, Any]:  # fmt: skip
    """Return the fitted model, how it is saved, and the graph."""
    from stochadmm.data import Changed, Labels, n_outputs

    from . import _stream

    data = request.data
    if request.alpha is None:
        raise ValueError(f"{beyond}; pass --alpha (try --cv on a part of the rows), or --memory")
    if request.loss not in _stream.LOSSES:
        raise ValueError(f"{beyond}; pass --loss, one of {', '.join(_stream.LOSSES)}")
    drop = _listed(request.drop)
    if len(_listed(request.target)) > 1:
        raise ValueError(f"{beyond}; --target is {request.target}, but streamed rows take one")
    source = _stream.opened(data, request.target, request.weight, request.offset, drop)
    if n_outputs(source) is not None:
        raise ValueError(f"{beyond}; its target is a matrix, but streamed rows take one number")
    left = heading(files_of(data)[0]).notes(
        [request.target, request.weight, request.offset, *drop]
    )
    design = _stream.design_of(source)
    setting = Setting(Table(data, {}), [request.target], request.loss, design, None)
    setting.offset = request.offset
    _choose(setting, *request.structure)
    classes = None
    if setting.classifies:
        labels = _stream.two_labels(source, data, request.target)
        classes = as_texts(labels).tolist()
        source = Changed.of(source, Labels(tuple(labels.tolist())))
    operator, *penalties = _stream.parts_of(
        setting.estimator, setting.placed(), design.n_columns, request.alpha, request.l1_ratio
    )
    result = _stream.fit_streamed(
        source, request.loss, operator, (penalties[0], penalties[1]), tol, max_seconds, memory,
        checkpoint,
    )  # fmt: skip
    model = _stream.StreamedModel(result, setting.estimator, request.alpha, tol)
    facts = {
        "estimator": setting.estimator, "data": data, "rows": source.n_rows,
        "columns": design.n_columns, "alpha": request.alpha, "l1_ratio": request.l1_ratio,
        **_outcome(result, result.relative_gap), "notes": ["rows were read block by block", *left],
    }  # fmt: skip
    intercept = np.array([float(result.intercept)])
    saved = SavedModel(
        design, result.coef[None, :].astype(np.float64), intercept, [request.target], request.loss,
        classes, request.offset, facts,
    )  # fmt: skip
    return model, saved, setting.graph


def _outcome(result: Any, gap: float | None) -> dict[str, Any]:
    return {
        "status": result.status.name,
        "relative_gap": None if gap is None else float(gap),
        "nonzero": int(np.count_nonzero(result.coef)),
        "passes": float(result.n_passes),
        "seconds": round(float(result.seconds), 3),
        "route": result.info.get("route"),
    }


class Setting:
    """What a fit works on: rows, targets, and the estimator that the options ask for."""

    def __init__(
        self, table: Table, targets: list[str], loss: str, design: Design, X: Any
    ) -> None:
        self.table, self.targets, self.loss, self.design = table, targets, loss, design
        self.X = X
        self.graph: Any = None
        self.weight: Any = None
        self.offset: str | None = None
        self.estimator = ""
        self.options: dict[str, Any] = {}
        self.notes: list[str] = []
        """What was done to the table that nobody has asked for."""

    def tell(self) -> None:
        """Print the notes where they are kept nowhere."""
        for note in self.notes:
            typer.echo(f"Note: {note}", err=True)

    def model(self, suffix: str = "", **options: Any) -> Any:
        """Return the estimator that the options ask for."""
        import stochadmm as sa

        return getattr(sa, self.estimator + suffix)(loss=self.loss, **self.placed(), **options)

    def placed(self) -> dict[str, Any]:
        """Return the structure with columns by number."""
        place = {name: j for j, name in enumerate(self.design.names)}
        own = dict(self.options)
        if "groups" in own:
            own["groups"] = {k: [place[name] for name in g] for k, g in own["groups"].items()}
        elif self.has_edges:
            own["graph"] = [(place[a], place[b], weight) for a, b, weight in own["graph"]]
        return own

    def beside(self) -> dict[str, Any]:
        """Return weights and offsets of the rows where there are some."""
        found = {} if self.weight is None else {"sample_weight": self.weight}
        if self.offset is not None:
            if len(self.outputs) > (2 if self.classifies else 1):
                what = "classes" if self.classifies else "targets"
                raise ValueError(
                    f"--offset is one number per row, which {len(self.outputs)} {what} cannot "
                    "share; it is for one target or two classes"
                )
            found["offset"] = self.table.numbers(self.offset, "offset")
        return found

    @property
    def has_edges(self) -> bool:
        """Whether the structure is a list of edges."""
        graph = self.options.get("graph")
        return graph is not None and given_graph(graph).kind is Kind.EDGES

    @property
    def classifies(self) -> bool:
        """Whether the target is a label."""
        return self.loss in CLASSIFIER_LOSSES

    @property
    def outputs(self) -> list[str]:
        """The classes or targets."""
        return np.unique(self.y).tolist() if self.classifies else self.targets

    @property
    def y(self) -> Any:
        """Targets as the estimators take them."""
        if self.classifies:
            return self.table.labels(self.targets[0])
        if len(self.targets) == 1:
            return self.table.numbers(self.targets[0], "target")
        columns = [self.table.column(name, "target") for name in self.targets]
        for name, column in zip(self.targets, columns, strict=True):
            if column.dtype == object or np.isnan(column).all():
                self.table.numbers(name, "target")
        return np.column_stack(columns)  # NaN is a missing target


def prepare(
    table: Table, target: str, loss: str, edges: str | None, groups: str | None, grid: str | None,
    graph: str | None, weight: str | None, offset: str | None, drop: str,
) -> Setting:  # fmt: skip
    """Check the options against the table and choose the estimator."""
    targets = _listed(target)
    if not targets or len(set(targets)) < len(targets):
        raise ValueError(f"--target is {target!r}, expected one name, or several that differ")
    values = [table.column(name, "target") for name in targets]
    loss = loss or _default_loss(targets[0], values[0], len(targets))
    if loss not in LOSSES:
        raise ValueError(f"--loss is {loss!r}, expected one of {', '.join(LOSSES)}")
    if loss in CLASSIFIER_LOSSES and len(targets) > 1:
        raise ValueError(f"--loss {loss} takes one target, not {len(targets)}; use --loss squared")
    taken, dropped = [*targets, weight, offset], _listed(drop)
    design = Design.of(table, table.features(taken, dropped))
    setting = Setting(table, targets, loss, design, design.rows(table))
    setting.offset, setting.notes = offset, table.notes([*taken, *dropped])
    if weight is not None:
        setting.weight = table.numbers(weight, "weight")
    _choose(setting, edges, groups, grid, graph)
    return setting


def _choose(
    setting: Setting, edges: str | None, groups: str | None, grid: str | None, graph: str | None
) -> None:
    given = {"--edges": edges, "--groups": groups, "--grid": grid, "--graph": graph}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} exclude each other; pass one structure")
    role = "Classifier" if setting.classifies else "Regressor"
    names = setting.design.names
    if len(setting.targets) > 1 and not named:
        setting.estimator = "SparseLowRankRegressor"
    elif groups is not None:
        found = read_groups(groups, set(names))
        _check_names([name for group in found.values() for name in group], names, groups)
        setting.estimator, setting.options = f"OverlappingGroup{role}", {"groups": found}
    elif edges is not None:
        pairs = read_edges(edges, set(names))
        _check_names([name for edge in pairs for name in edge[:2]], names, edges)
        setting.graph = pairs
    elif grid is not None:
        setting.graph = _grid(grid, setting.design.n_columns)
    elif graph is not None:
        if graph not in ("chain", "glasso"):
            raise ValueError(f"--graph is {graph!r}, expected chain or glasso")
        setting.graph = graph
    elif not setting.estimator:
        setting.estimator = "SparseLogisticClassifier" if setting.classifies else "LassoRegressor"
    if setting.graph is not None:
        setting.estimator, setting.options = f"GraphFused{role}", {"graph": setting.graph}


def _check_names(used: list[str], names: list[str], path: str) -> None:
    missing = sorted(set(used) - set(names))
    if missing:
        raise ValueError(
            f"{path} names {missing[0]!r}, which is no column of the model"
            + (f" ({len(missing)} such names)" if len(missing) > 1 else "")
            + f"; columns: {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"
        )


def _grid(text: str, n_columns: int) -> Any:
    """Return the grid of ``28x28``, or of a ``.npy`` mask that is True where columns are."""
    grid = _given_grid(text)
    if grid.n_nodes != n_columns:
        raise ValueError(
            f"--grid {text} has {grid.n_nodes} cells, but there are {n_columns} columns"
        )
    return grid


def _given_grid(text: str) -> Any:
    from stochadmm.structures import Grid

    if text.lower().endswith(".npy"):
        try:
            mask = np.load(text, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(f"--grid: {text} cannot be read as a .npy mask ({error})") from error
        if mask.dtype != bool or not mask.any():
            raise ValueError(f"--grid: {text} holds {mask.dtype}, expected booleans, some True")
        return Grid(mask.shape, mask=mask)
    try:
        shape = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise ValueError(
            f"--grid is {text!r}, expected sizes such as 28x28 or 10x12x10, or a .npy mask"
        )
    return Grid(shape)


def _default_loss(name: str, values: Any, count: int, few: int = 20) -> str:
    """Return the loss for a target; ``few`` different whole numbers may be labels or not."""
    if values.dtype == object:
        return "logistic"
    different = np.unique(values[np.isfinite(values)])
    if count > 1 or different.size > few or (different != np.rint(different)).any():
        return "squared"
    if different.size == 2:
        return "logistic"
    raise ValueError(
        f"the target {name!r} has {different.size} different whole numbers: labels, counts or "
        "amounts? say --loss logistic, poisson or squared"
    )


def fitted(
    setting: Setting, options: dict[str, Any], *, with_cv: bool, progress: bool,
    checkpoint: Path | None = None,
) -> tuple[Any, list[str]]:  # fmt: skip
    """Return the fitted estimator, and what it warned of."""
    model = setting.model("CV" if with_cv else "", verbose=progress, **options)
    more = {} if checkpoint is None else {"checkpoint": checkpoint}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(setting.X, setting.y, **setting.beside(), **more)
    return model, list(dict.fromkeys([*setting.notes, *(str(w.message) for w in caught)]))


def walked(setting: Setting, model: Any, options: dict[str, Any]) -> Any:
    """Return the path of all rows over the strengths that were compared, for the report."""
    own = {
        name: value
        for name, value in options.items()
        if name in ("l1_ratio", "standardize", "tol")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself has told
        return setting.model(**own).path(
            setting.X, setting.y, **setting.beside(), alphas=model.alphas_
        )


def _saved(setting: Setting, model: Any, notes: list[str]) -> SavedModel:
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    intercept = np.broadcast_to(np.ravel(np.asarray(model.intercept_, np.float64)), len(coef))
    result, asked = model.result_, model.get_params(deep=False)
    facts = {
        "estimator": type(model).__name__,
        "data": setting.table.path,
        "rows": setting.table.n_rows,
        "columns": setting.design.n_columns,
        "alpha": float(model.alpha_ if "alphas" in asked else model.alpha),
        "l1_ratio": asked.get("l1_ratio"),
        **_outcome(result, model.dual_gap_),
        "nonzero": int(np.count_nonzero(coef)),
        "notes": notes,
    }
    classes = [str(kind) for kind in model.classes_] if setting.classifies else None
    return SavedModel(
        setting.design, coef, np.array(intercept), setting.targets, setting.loss, classes,
        setting.offset, facts,
    )  # fmt: skip


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
