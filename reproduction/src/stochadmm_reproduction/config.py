"""Experiments as data: one YAML file each, read into dataclasses with errors that name the place.

A file has the fields of :class:`Experiment`; its section ``quick`` replaces some of them for the
short form.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from ._names import did_you_mean
from .search import Plan

CONFIGS = Path(__file__).parent / "configs"
PROBLEMS = ("lasso", "fused", "multitask", "overlap", "rows-and-rank", "smooth")
SCALINGS = ("columns", "raw", "none")
GRAPHS = ("glasso", "given", "chain")


@dataclass(frozen=True)
class DataSpec:
    """A data set of an experiment.

    Attributes
    ----------
    name : str
        A recipe of ``problems.RECIPES``, or with ``path`` any name.
    path, format, target : str or None
        A file of one's own: LIBSVM text, CSV, Parquet or ``.npz`` with X and y, told by its ending
        or by ``format``; ``target`` is the name of a column (of an array in ``.npz``). Paths are
        relative to the folder of the experiment's file.
    edges : str or None
        File of edges between columns, ``a,b`` a line: names, or numbers from 0.
    batch : int
        Rows in a mini-batch.
    rows : int or None
        Random sample of so many training rows; all of them by default.
    columns : int or None
        About so many columns: images are averaged over squares, of texts the most frequent words
        are kept, generated rows have so many. All of them by default.
    outputs : int or None
        The first so many classes or tasks; all of them by default.
    graph : {"glasso", "given", "chain"} or a shape such as "28x28"
        Edges between columns: estimated from the rows, or those that the data come with; of one's
        own data a chain in the order of the columns, or a grid.
    scaling : {"columns", "raw", "none"} or None
        Instead of the variant's; "none" leaves rows as they are.
    without, only : list of str
        Methods that are left out on this data set; with ``only``, all others are.
    seeds : list of int
        Instead of the experiment's; a set too large for five runs has one.
    passes : float or None
        Instead of the experiment's.
    tuning_rows : int or None
        Rows that are tuned on, instead of the experiment's: fewer where a step is costly.
    tuned_on : str or None
        Another data set of the experiment whose tuned settings are used; they are factors of what
        the data give.
    mu : float or None
        Strength of the penalty, instead of the experiment's.
    epochs : int or None
        Length of a run in epochs of each method, instead of passes.
    cut : int or None
        Runs end after so many of these epochs.
    measured : int or None
        The objective between epochs is that of the first so many rows; of all by default.
    reference : int or None
        Where an optimum cannot be certified: epochs of the best tuned method that gaps are to.
    certified_in : float or None
        Seconds that the automatic solver has for a certified optimum, where a tight one would cost
        more than the runs; curves end at the gap that it reaches.
    light : bool
        Nothing is kept per row, runs are saved on the way, and their memory is measured.
    """

    name: str
    batch: int
    rows: int | None = None
    columns: int | None = None
    outputs: int | None = None
    graph: str = "glasso"
    without: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    passes: float | None = None
    tuning_rows: int | None = None
    tuned_on: str | None = None
    mu: float | None = None
    epochs: int | None = None
    cut: int | None = None
    measured: int | None = None
    reference: int | None = None
    certified_in: float | None = None
    light: bool = False
    path: str | None = None
    format: str | None = None
    target: str | None = None
    edges: str | None = None
    scaling: str | None = None


@dataclass(frozen=True)
class Variant:
    """The same experiment with other steps, another penalty or another scaling of the data.

    ``factor`` multiplies the curvature of every tuned method, so that 0.5 doubles the steps.
    ``scaling`` is "columns", columns of unit norm and then rows of unit norm, "raw", rows only, or
    "none".
    ``without`` names methods that are left out, such as those that it does not change, and
    ``datasets`` the data sets that it is run on, all of them by default.
    """

    name: str
    title: str = ""
    factor: float = 1.0
    mu: float | None = None
    scaling: str = "columns"
    without: list[str] = field(default_factory=list)
    datasets: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Tuning:
    """How the knobs of every method are chosen (see ``search``), the same for all of them.

    Attributes
    ----------
    points : int
        First candidates of a method.
    shares, kept : list
        Lengths of the rungs as shares of the full one, which is the last; candidates that go on.
    seeds : list of int
        Of the runs at full length; other ones than those of the published runs.
    steps : {"theory", "tuned"}
        Whether steps are those of theory or a knob too.
    aim : {"curve", "end"}
        What decides: the mean of log10 of the gap over the gradients of a run, or the gap at its
        end, as in the first report.
    rows : int
        Larger sets are tuned on a sample of so many; for the curve the choice is then checked by a
        walk on all rows.
    whole : int
        For the curve, sets of up to so many rows are tuned on all of them, unless a set has rows
        of its own to be tuned on.
    most : int
        Candidates that are run for the whole length.
    others : int
        The same for methods outside the paper's figures, which no claim of the paper rests on.
    """

    points: int = 12
    kept: list[int] = field(default_factory=lambda: [4, 2])
    shares: list[float] = field(default_factory=lambda: [0.25, 0.5, 1.0])
    seeds: list[int] = field(default_factory=lambda: [101, 102, 103])
    steps: str = "tuned"
    aim: str = "curve"
    rows: int = 20_000
    whole: int = 0
    most: int = 60
    others: int = 20

    def plan(self, in_paper: bool) -> Plan:
        """Return the same for the search of a method of the paper's figures, or of another."""
        most = self.most if in_paper else min(self.most, self.others)
        return Plan(self.points, tuple(self.shares), tuple(self.kept), tuple(self.seeds), most)

    def work(self, in_paper: bool) -> float:
        """Return a guess of the runs of full length that one method takes."""
        counts = [self.points, *self.kept]
        rungs = sum(n * share for n, share in zip(counts, self.shares, strict=True))
        # one seed tells of many candidates
        return rungs + 0.6 * len(self.seeds) * self.plan(in_paper).most


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper.

    Attributes
    ----------
    name, title : str
        Of the figure; by default the name of the file.
    problem : {"lasso", "fused", "multitask", "overlap", "rows-and-rank", "smooth"}
        What is minimized.
    mu : float
        Strength of the penalty; of both norms for "multitask".
    passes : float
        Budget of a run in gradients: component gradients / n, as in the paper.
    seconds : float
        Budget of a run in seconds of solving.
    seeds : list of int
        One run each.
    methods : list of str
        Keys of ``methods.METHODS``.
    datasets, variants, tuning
        See :class:`DataSpec`, :class:`Variant`, :class:`Tuning`.
    """

    name: str
    problem: str
    mu: float
    passes: float
    methods: list[str]
    datasets: list[DataSpec]
    title: str = ""
    seconds: float = 600.0
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    variants: list[Variant] = field(default_factory=lambda: [Variant("tuned")])
    tuning: Tuning = field(default_factory=lambda: Tuning(most=20))
    is_quick: bool = False

    def strength(self, spec: DataSpec, variant: Variant) -> float:
        """Return the strength of the penalty on a data set in a variant."""
        return next(mu for mu in (variant.mu, spec.mu, self.mu) if mu is not None)

    def tuned_on(self, spec: DataSpec) -> DataSpec:
        """Return the data set whose tuned settings are used."""
        return next(s for s in self.datasets if s.name == (spec.tuned_on or spec.name))

    def length(self, spec: DataSpec) -> float:
        """Return the passes of a run on a data set."""
        return self.passes if spec.passes is None else spec.passes

    def tuning_rows(self, spec: DataSpec) -> int:
        """Return the rows that a data set is tuned on at most."""
        return spec.tuning_rows or self.tuning.rows

    def tuned_whole(self, spec: DataSpec) -> int:
        """Return the rows up to which a data set is tuned for the curve on all of them."""
        return 0 if spec.tuning_rows is not None else self.tuning.whole

    def repetitions(self, spec: DataSpec) -> list[int]:
        """Return the seeds of a data set."""
        return spec.seeds or self.seeds

    def chosen(self, spec: DataSpec, variant: Variant) -> list[str]:
        """Return the methods that run on a data set in a variant."""
        left_out = {*spec.without, *variant.without}
        kept = [name for name in self.methods if name not in left_out]
        return [name for name in kept if not spec.only or name in spec.only]


def names() -> list[str]:
    """Return the names of the experiments that come with the package."""
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def load(
    source: str | Path, *, quick: bool = False, datasets: list[str] | None = None
) -> Experiment:
    """Return an experiment.

    Parameters
    ----------
    source : str or Path
        A name of ``names()`` or a YAML file.
    quick : bool
        Apply the section ``quick``.
    datasets : list of str, optional
        Keep these data sets only.

    Examples
    --------
    >>> import stochadmm_reproduction as experiments
    >>> experiments.load("fig1", quick=True).problem
    'lasso'
    """
    path = Path(source)
    if path.suffix not in (".yaml", ".yml"):
        if str(source) not in names():
            raise ValueError(unknown("experiment", str(source), names()))
        path = CONFIGS / f"{source}.yaml"
    content = _read(path)
    short = content.pop("quick", None) or {}
    if quick:
        if not fits(short, dict):
            raise ValueError(f"{path.name}: quick is {shown(short)}, expected a section of fields")
        content |= short
        content["is_quick"] = True
    content.setdefault("name", path.stem)
    content.setdefault("title", content["name"])
    experiment: Experiment = _build(Experiment, content, path.name)
    specs = [_placed(spec, path) for spec in experiment.datasets]
    experiment = dataclasses.replace(experiment, datasets=specs)
    _check(experiment, path.name)
    if datasets is None:
        return experiment
    chosen = {*datasets, *(s.tuned_on for s in experiment.datasets if s.name in datasets)}
    return dataclasses.replace(
        experiment, datasets=[spec for spec in experiment.datasets if spec.name in chosen]
    )


def _placed(spec: DataSpec, file: Path) -> DataSpec:
    """Return a data set whose files are named from wherever the work is done; edges are given."""
    folder, usual = file.parent, ("glasso", "given")
    if spec.edges is not None and spec.graph not in usual:
        raise ValueError(f"{file.name}: {spec.name} has edges and a graph; leave one of them out")
    paths = {"path": spec.path, "edges": spec.edges}
    placed = {k: None if p is None else str((folder / p).resolve()) for k, p in paths.items()}
    graph = spec.graph if spec.edges is None else "given"
    return dataclasses.replace(spec, graph=graph, **placed)  # type: ignore[arg-type]


def unknown(kind: str, name: str, known: list[str]) -> str:
    """Return the line that says that a name is not known, and which is near."""
    hint = did_you_mean(name, known).replace("?", "? ")
    return f"there is no {kind} {name!r}; {hint}known: {', '.join(known)}"


def fits(value: Any, hint: Any) -> bool:
    """Say whether a plain value is of an annotated type; truth values are no numbers."""
    if hint in (float, int) and type(value) is bool:
        return False
    return isinstance(value, (float, int) if hint is float else hint)


def _read(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise OSError("PyYAML is missing; install it with: pip install pyyaml") from error
    try:
        content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OSError(f"cannot read {path} ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not a text in UTF-8; save it as one") from error
    except RecursionError:
        raise ValueError(
            f"{path.name} is nested too deeply, expected lists and sections a few levels deep"
        ) from None
    except (yaml.YAMLError, ValueError) as error:  # dates such as 2026-13-01 are a ValueError
        reason = " ".join(str(error).split())
        raise ValueError(f"{path.name} is not valid YAML: {reason}") from error
    if not fits(content, dict):
        raise ValueError(f"{path.name} holds {type(content).__name__}, expected named fields")
    return content


def _build(kind: type[Any], content: Any, where: str) -> Any:
    """Return a dataclass from a mapping; errors name the field."""
    if not fits(content, dict):
        raise ValueError(f"{where} is {shown(content)}, expected named fields")
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}
    for name in content:
        if name not in known:
            raise ValueError(f"{where}: {unknown('field', str(name), list(known))}")
    for name, f in known.items():
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if required and name not in content:
            raise ValueError(f"{where}: the field {name!r} is missing")
    values = {name: _value(hints[name], v, f"{where}: {name}") for name, v in content.items()}
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type[Any], hint), value, where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is list:
        if not fits(value, list) or (not value and arguments[0] is not str):
            raise ValueError(f"{where} is {shown(value)}, expected a list with at least one entry")
        return [_value(arguments[0], v, f"{where}[{k}]") for k, v in enumerate(value)]
    if origin is types.UnionType:
        return None if value is None else _value(arguments[0], value, where)
    if not fits(value, hint):
        note = "; YAML reads 1e-5 as text, write 1.0e-5" if hint is float else ""
        raise ValueError(f"{where} is {shown(value)}, expected {hint.__name__}{note}")
    return float(value) if hint is float else value


def _check(experiment: Experiment, where: str) -> None:
    from . import own
    from .methods import METHODS
    from .recipes import RECIPES

    if experiment.problem not in PROBLEMS:
        raise ValueError(f"{where}: {unknown('problem', experiment.problem, list(PROBLEMS))}")
    parts: list[DataSpec | Variant] = [*experiment.datasets, *experiment.variants]
    excluded = [name for part in parts for name in part.without]
    for name in [*experiment.methods, *excluded]:
        if name not in METHODS:
            raise ValueError(f"{where}: {unknown('method', name, list(METHODS))}")
    for spec in experiment.datasets:
        if spec.path is not None:
            own.check(spec, where)
            if experiment.problem == "overlap":
                raise ValueError(f"{where}: 'overlap' needs groups, which files do not name")
        elif spec.name not in RECIPES:
            hint = "; data of one's own have a path"
            raise ValueError(f"{where}: {unknown('data set', spec.name, list(RECIPES))}{hint}")
        elif spec.format or spec.target or spec.edges:
            raise ValueError(f"{where}: {spec.name} has no path, so no format, target or edges")
        if spec.scaling not in (None, *SCALINGS):
            raise ValueError(f"{where}: {unknown('scaling', str(spec.scaling), list(SCALINGS))}")
        known = [s.name for s in experiment.datasets]
        if spec.tuned_on is not None and spec.tuned_on not in known:
            raise ValueError(f"{where}: tuned_on: {unknown('data set', spec.tuned_on, known)}")
        if spec.graph not in GRAPHS and own.grid_shape(spec.graph) is None:
            raise ValueError(
                f"{where}: graph is {spec.graph!r}, expected 'glasso', 'given', 'chain' or a "
                "shape such as 28x28"
            )
    for variant in experiment.variants:
        known = [spec.name for spec in experiment.datasets]
        for name in variant.datasets:
            if name not in known and name not in RECIPES:
                every = list(dict.fromkeys([*known, *RECIPES]))
                raise ValueError(f"{where}: {unknown('data set', name, every)}")
    for variant in experiment.variants:
        if variant.scaling not in SCALINGS:
            raise ValueError(f"{where}: {unknown('scaling', variant.scaling, list(SCALINGS))}")
    _check_tuning(experiment.tuning, where)
    positive = {"passes": experiment.passes, "seconds": experiment.seconds, "mu": experiment.mu}
    for name, number in positive.items():
        if not number > 0:
            raise ValueError(f"{where}: {name} is {number!r}, expected a number > 0")


def _check_tuning(tuning: Tuning, where: str) -> None:
    if len(tuning.shares) != len(tuning.kept) + 1 or tuning.shares[-1] != 1.0:
        raise ValueError(
            f"{where}: tuning has the shares {tuning.shares} and keeps {tuning.kept}, expected "
            "one share more than numbers kept, the last of them 1"
        )
    if tuning.steps not in ("theory", "tuned"):
        raise ValueError(f"{where}: steps is {tuning.steps!r}, expected 'theory' or 'tuned'")
    if tuning.aim not in ("curve", "end"):
        raise ValueError(f"{where}: aim is {tuning.aim!r}, expected 'curve' or 'end'")
    if len(tuning.seeds) < 2:
        raise ValueError(f"{where}: tuning has one seed, expected two at least")
