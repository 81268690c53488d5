"""``stochadmm fit``: a structured model from a table, kept in a folder with a report."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ._messages import json_text, noted, shows_progress
from ._model import SavedModel, check_place
from ._setting import Asked, Setting, names_of, together
from ._text import Dialect

Target = Annotated[
    list[str] | None, typer.Option(help="Target column, y if absent; several with commas.")
]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out, with commas.")]
Loss = Annotated[str, typer.Option(help="E.g. logistic, squared, huber, poisson.")]
Edges = Annotated[str | None, typer.Option(help="File of edges: name,name[,weight] per line.")]
Groups = Annotated[str | None, typer.Option(help="File of groups: group,column[,...] per line.")]
Grid = Annotated[str | None, typer.Option(help="Pixels: 28x28, or a .npy mask.")]
Graph = Annotated[str | None, typer.Option(help="chain, or glasso to find edges in the data.")]
L1Ratio = Annotated[float | None, typer.Option(min=0, max=1, help="Share of the l1 norm.")]
Weight = Annotated[str | None, typer.Option(help="Column of row weights.")]
Offset = Annotated[str | None, typer.Option(help="Column added to the linear predictor.")]
Monotone = Annotated[
    list[str] | None, typer.Option(help="Predictions rise along these: a,b=decreasing.")
]
Sep = Annotated[str, typer.Option(help="What divides fields: ';', tab, space.")]
Decimal = Annotated[str, typer.Option(help="Decimal mark: . or ,", show_default=False)]
ENCODING = "Of text files, such as latin-1."
Encoding = Annotated[str, typer.Option(help=ENCODING, show_default=False)]
Format = Annotated[str, typer.Option("--format", help="csv, tsv, parquet, libsvm, npz, ...")]
EPS = "Smallest over largest alpha tried."
Eps = Annotated[float, typer.Option(help=EPS, show_default=False)]
Exposure = Annotated[str | None, typer.Option(help="Column of exposures, such as years.")]
Ordered = Annotated[list[str] | None, typer.Option(help="Factors whose neighbors may merge.")]
Nominal = Annotated[list[str] | None, typer.Option(help="Factors of which any levels may merge.")]
MAP = typer.Option("--map", help="Factor=file of pairs: neighbors may merge.")
Free = Annotated[list[str] | None, typer.Option(help="Columns without a penalty, with commas.")]
Terms = Annotated[str | None, typer.Option(help="File of terms, JSON or YAML: {age: ordered}.")]
Missing = Annotated[str | None, typer.Option(help="Gaps: error, drop, level or mean.")]
Unseen = Annotated[str | None, typer.Option(help="New levels: error, base or mean.")]
Standardize = Annotated[bool, typer.Option("--standardize", help="Scale the columns first.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def fit(
    data: Annotated[str, typer.Argument(hidden=True)],  # told by the first line of the help
    target: Target = None,
    loss: Loss = "",
    alpha: Annotated[
        float | None, typer.Option(min=0, help="Strength; else chosen by --cv.")
    ] = None,
    cv: Annotated[
        int | None, typer.Option(min=2, help="Folds that choose alpha; 5 if absent.")
    ] = None,
    choose: Annotated[
        str | None,
        typer.Option(help="Alpha of --cv: best, or simplest within one s.e."),
    ] = None,
    edges: Edges = None,
    groups: Groups = None,
    grid: Grid = None,
    graph: Graph = None,
    l1_ratio: L1Ratio = None,
    weight: Weight = None,
    offset: Offset = None,
    exposure: Exposure = None,
    ordered: Ordered = None,
    nominal: Nominal = None,
    map_: Annotated[list[str] | None, MAP] = None,
    free: Free = None,
    monotone: Monotone = None,
    terms: Terms = None,
    missing: Missing = None,
    unseen: Unseen = None,
    drop: Drop = None,
    sep: Sep = "",
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    format_: Format = "",
    eps: Eps = 1e-3,
    standardize: Standardize = False,
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach.")] = 1e-4,
    max_seconds: Annotated[float | None, typer.Option(help="Limit in seconds.")] = None,
    memory: Annotated[str, typer.Option(help="Stream files larger than this.")] = "half",
    checkpoint: Annotated[
        Path | None, typer.Option(help="File to resume from after a crash; with --alpha.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the model.")] = Path("model"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace that folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a structured linear model to a table.

    DATA: CSV, Parquet, Arrow, libsvm, npz, npy, folder, pattern; - for stdin.

    Example: stochadmm fit claims.csv --target claims --loss poisson --exposure years
    --ordered age --nominal brand --map zone=edges.csv --cv 5 --out tariff
    """
    from ._stream import HALF, setting_of

    check_place(out, overwrite)
    if checkpoint is not None and alpha is None:
        raise ValueError("--checkpoint is for one fit, not for a search; pass --alpha")
    if choose not in (None, "best", "simplest"):
        raise ValueError(f"--choose is {choose!r}, expected best or simplest")
    if alpha is not None and (cv is not None or choose is not None):
        unused = "--choose" if cv is None else "--cv"
        raise ValueError(
            f"--alpha and {unused} exclude each other; leave --alpha out to choose it"
        )
    asked = Asked(
        together(target, "y"),
        loss,
        edges,
        groups,
        grid,
        graph,
        weight,
        offset,
        together(drop),
        exposure,
        together(ordered),
        together(nominal),
        together(free),
        together(map_),
        together(monotone),
        terms,
        missing,
        unseen,
    )
    if asked.has_terms and (l1_ratio is not None or standardize):
        unused = "--standardize" if l1_ratio is None else "--l1-ratio"
        raise ValueError(f"{unused} is for models without terms; leave it out")
    setting = setting_of(data, asked, memory, Dialect(sep, decimal, encoding, format_))
    options: dict[str, Any] = {"standardize": standardize, "tol": tol, "max_seconds": max_seconds}
    if l1_ratio is not None:
        options["l1_ratio"] = l1_ratio
    if alpha is None:
        simplest = {"one_standard_error": choose == "simplest"}
        options |= {"cv": 5 if cv is None else cv, "eps": eps} | simplest
    else:
        options["alpha"] = alpha
    more = {"checkpoint": checkpoint, "memory": None if memory == HALF else memory}
    model, notes = fitted(
        setting, "CV" if alpha is None else "", options, more, not as_json and shows_progress()
    )
    saved = _saved(setting, model, notes)
    # strengths are compared once more, on all rows, where that is no read of files each
    path = None if alpha is not None or setting.streamed else walked(setting, model, options)
    return _finish(out, saved, model, setting.graph, overwrite, as_json, path)


def _finish(
    out: Path,
    saved: SavedModel,
    model: Any,
    graph: Any,
    overwrite: bool,
    as_json: bool,
    path: Any = None,
) -> None:
    """Write the folder and say what was found."""
    from stochadmm.base.capabilities import has_members

    from ._report import page

    # a rating table is of one output
    export = model.export if has_members(model, "export") and len(saved.coef) == 1 else None
    saved.save(out, page(saved, model, graph, path), overwrite, export)
    if as_json:
        typer.echo(json_text(saved.facts | {"model": str(out)}, indent=2))
        return
    typer.echo(model.summary())
    for note in saved.facts["notes"]:
        typer.echo(f"Note: {note}")
    table = "" if export is None else ", table.csv"
    typer.echo(f"Wrote {out}: model.json, model.npz, coefficients.csv{table}, report.html")


def fitted(
    setting: Setting, suffix: str, options: dict[str, Any], more: dict[str, Any], progress: bool
) -> tuple[Any, list[str]]:
    """Return the fitted estimator, and what it warned of; ``more`` is for its ``fit``."""
    model = setting.model(suffix, verbose=progress, **options)
    given = {name: value for name, value in more.items() if value is not None}
    with noted() as notes:
        model.fit(setting.X, setting.y, **setting.beside(), **given)
    return model, list(dict.fromkeys([*setting.notes, *notes]))


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
    design = setting.learned(model)
    facts = {
        "estimator": type(model).__name__,
        "data": setting.path,
        "rows": setting.n_rows,
        "columns": design.n_columns,
        "exposure": setting.asked.exposure,
        "alpha": float(model.alpha_ if "alphas" in asked else model.alpha),
        "l1_ratio": asked.get("l1_ratio"),
        "status": result.status.name,
        "relative_gap": None if model.dual_gap_ is None else float(model.dual_gap_),
        "nonzero": int(np.count_nonzero(coef)),
        "passes": float(result.n_passes),
        "seconds": round(float(result.seconds), 3),
        "route": result.info.get("route"),
        "notes": notes,
    }
    classes = names_of(model.classes_) if setting.classifies else None
    return SavedModel(
        design,
        coef,
        np.array(intercept),
        setting.targets,
        setting.loss,
        classes,
        setting.asked.offset,
        facts,
    )
