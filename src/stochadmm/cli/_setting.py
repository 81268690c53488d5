"""What a command works on: rows and targets of a table, and the estimator of its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stochadmm.losses import FOR_LABELS, FOR_NUMBERS
from stochadmm.structures.given import Kind, given_graph
from stochadmm.terms import read_columns

from ._columns import Table, as_texts
from ._design import Design
from ._text import read_edges, read_groups

CLASSIFIER_LOSSES = tuple(FOR_LABELS)
LOSSES = (*CLASSIFIER_LOSSES, *FOR_NUMBERS)
MISSING = ("error", "drop", "level", "mean")
FEW = 20
"""Different whole numbers up to which a target may be labels, counts or amounts."""


@dataclass(frozen=True)
class Asked:
    """The options that say what is fitted to which columns."""

    target: str = "y"
    loss: str = ""
    edges: str | None = None
    groups: str | None = None
    grid: str | None = None
    graph: str | None = None
    weight: str | None = None
    offset: str | None = None
    drop: str = ""
    exposure: str | None = None
    ordered: str = ""
    nominal: str = ""
    free: str = ""
    maps: str = ""
    monotone: str = ""
    terms: str | None = None
    missing: str | None = None
    unseen: str | None = None

    def __post_init__(self) -> None:
        """Refuse a column in two places: an offset that is the target explains all of it."""
        if self.missing not in (None, *MISSING):
            raise ValueError(
                f"--missing is {self.missing!r}, expected one of {', '.join(MISSING)}"
            )
        roles = [(name, "--target") for name in self.targets]
        roles += [(self.weight or "", "--weight"), (self.offset or "", "--offset")]
        roles += [(self.exposure or "", "--exposure")]
        found: dict[str, str] = {}
        for name, role in roles:
            if name and found.setdefault(name, role) != role:
                raise ValueError(
                    f"column {name!r} is named by {found[name]} and by {role}, expected different "
                    "columns; name another"
                )

    @property
    def targets(self) -> list[str]:
        """Names of the targets."""
        found = listed(self.target)
        if not found or len(set(found)) < len(found):
            raise ValueError(
                f"--target is {self.target!r}, expected one name, or several that differ"
            )
        return found

    @property
    def dropped(self) -> list[str]:
        """Columns that are left out."""
        return listed(self.drop)

    @property
    def taken(self) -> list[str | None]:
        """Columns that are no features."""
        return [*self.targets, self.weight, self.offset, self.exposure]

    @property
    def has_terms(self) -> bool:
        """Whether columns have a structure each."""
        return bool(self.terms or self.ordered or self.nominal or self.free or self.maps)

    def checked_loss(self, default: str) -> str:
        """Return the loss asked for, or the default one."""
        loss = self.loss or default
        if loss not in LOSSES:
            raise ValueError(f"--loss is {loss!r}, expected one of {', '.join(LOSSES)}")
        if loss in CLASSIFIER_LOSSES and len(self.targets) > 1:
            raise ValueError(
                f"--loss {loss} takes one target, not {len(self.targets)}; use --loss squared"
            )
        return loss


class Setting:
    """Rows, targets, and the estimator that the options ask for."""

    streamed = False
    """Whether every look at the rows is a read of files."""

    def __init__(self, path: str, asked: Asked, loss: str, design: Design, X: Any) -> None:
        self.path, self.asked, self.loss, self.design, self.X = path, asked, loss, design, X
        self.targets = asked.targets
        self.graph: Any = None
        self.estimator = ""
        self.options: dict[str, Any] = {}
        self.notes: list[str] = []
        """What was done to the table that nobody has asked for."""
        self._choose()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def y(self) -> Any:
        """Targets as the estimators take them; None where they come with the rows."""
        return None

    def beside(self) -> dict[str, Any]:
        """Return weights and offsets of the rows where they do not come with them."""
        return {}

    def model(self, suffix: str = "", **options: Any) -> Any:
        """Return the estimator that the options ask for."""
        import stochadmm as sa

        return getattr(sa, self.estimator + suffix)(loss=self.loss, **self._placed(), **options)

    @property
    def labels(self) -> Any:
        """The different labels of a classifier."""
        return np.unique(self.y)

    @property
    def outputs(self) -> list[str]:
        """The classes or targets."""
        return names_of(self.labels) if self.classifies else self.targets

    @property
    def classifies(self) -> bool:
        """Whether the target is a label."""
        return self.loss in CLASSIFIER_LOSSES

    def learned(self, model: Any) -> Any:
        """Return how columns become those of a fitted model."""
        return self.design

    def _placed(self) -> dict[str, Any]:
        """Return the structure with columns by number."""
        place = {name: j for j, name in enumerate(self.design.names)}
        own = dict(self.options)
        if "groups" in own:
            own["groups"] = {k: [place[name] for name in g] for k, g in own["groups"].items()}
        elif self._has_edges:
            own["graph"] = [(place[a], place[b], weight) for a, b, weight in own["graph"]]
        if "monotone" in own:
            own["monotone"] = {place[name]: sign for name, sign in own["monotone"].items()}
        return own

    @property
    def _has_edges(self) -> bool:
        graph = self.options.get("graph")
        return graph is not None and given_graph(graph).kind is Kind.EDGES

    def _choose(self) -> None:
        """Set the estimator, and the structure that its options name."""
        asked = self.asked
        given = {
            "--edges": asked.edges,
            "--groups": asked.groups,
            "--grid": asked.grid,
            "--graph": asked.graph,
        }
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise ValueError(f"{' and '.join(named)} exclude each other; pass one structure")
        role = "Classifier" if self.classifies else "Regressor"
        names = self.design.names
        if asked.groups is not None:
            found = read_groups(asked.groups, set(names))
            _check_names([name for group in found.values() for name in group], names, asked.groups)
            self.estimator, self.options = f"OverlappingGroup{role}", {"groups": found}
        elif asked.edges is not None:
            pairs = read_edges(asked.edges, set(names))
            _check_names([name for edge in pairs for name in edge[:2]], names, asked.edges)
            self.graph = pairs
        elif asked.grid is not None:
            self.graph = _grid(asked.grid, self.design.n_columns)
        elif asked.graph is not None:
            if asked.graph not in ("chain", "glasso"):
                raise ValueError(f"--graph is {asked.graph!r}, expected chain or glasso")
            self.graph = asked.graph
        elif len(self.targets) > 1:
            self.estimator = "SparseLowRankRegressor"
        else:
            self.estimator = "SparseLogisticClassifier" if self.classifies else "LassoRegressor"
        if self.graph is not None:
            self.estimator, self.options = f"GraphFused{role}", {"graph": self.graph}
        signs = directions(asked.monotone)
        if signs:
            _check_names(list(signs), names, "--monotone")
            self.options = self.options | {"monotone": signs}


class TableSetting(Setting):
    """A setting whose rows are in memory."""

    def __init__(self, table: Table, asked: Asked, loss: str, design: Design) -> None:
        super().__init__(table.path, asked, loss, design, design.rows(table))
        self.table = table
        self.notes = table.notes([*asked.taken, *asked.dropped])

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

    def beside(self) -> dict[str, Any]:
        """Return weights and offsets of the rows where there are some."""
        found, asked = {}, self.asked
        if asked.weight is not None:
            found["sample_weight"] = self.table.weights(asked.weight)
        if asked.offset is not None:
            check_offset(self)
            found["offset"] = self.table.numbers(asked.offset, "offset")
        if asked.exposure is not None:
            if self.classifies:
                raise ValueError(
                    f"--exposure is for counts and amounts, not for --loss {self.loss}; use "
                    "--weight"
                )
            found["exposure"] = self.table.numbers(asked.exposure, "exposure")
        return found


class TermSetting(TableSetting):
    """A setting with a structure per column."""

    def __init__(self, table: Table, asked: Asked, loss: str) -> None:
        from ._terms import frame_of, terms_of

        if table.matrix is not None:
            raise ValueError(f"{table.path} has one matrix without names, which terms need")
        if len(asked.targets) > 1:
            raise ValueError(
                f"terms take one target, not {len(asked.targets)}; fit one model for each"
            )
        named = {name: listed(getattr(asked, name)) for name in ("ordered", "nominal", "free")}
        self.table = table
        self.terms = terms_of(
            table, asked.terms, named, listed(asked.maps), directions(asked.monotone)
        )
        frame = frame_of(table, table.features(asked.taken, asked.dropped), self.terms)
        Setting.__init__(self, table.path, asked, loss, Design({}, 0), frame)
        self.notes = table.notes([*asked.taken, *asked.dropped], set(self.terms))
        for name in named["ordered"]:
            if table.columns[name].dtype == object:
                (column,) = read_columns(table.columns[name][:, None]).values()
                levels = [str(level) for level in column.coded[0] if level != ""]
                shown = ", ".join(levels[:6]) + (", ..." if len(levels) > 6 else "")
                self.notes.append(f"levels of {name!r} are in the order of texts: {shown}")

    def learned(self, model: Any) -> Any:
        """Return how columns become those of a fitted model."""
        from ._terms import TermDesign

        return TermDesign.of(model, self.table)

    def _choose(self) -> None:
        """Set the estimator and its terms."""
        asked = self.asked
        for name in ("edges", "groups", "grid", "graph"):
            if getattr(asked, name) is not None:
                raise ValueError(
                    f"--{name} and terms of columns exclude each other; pass one structure"
                )
        self.estimator = "StructuredClassifier" if self.classifies else "StructuredRegressor"
        missing = None if asked.missing == "drop" else asked.missing
        rules = {"missing": missing, "unseen": asked.unseen}
        self.options = {"terms": self.terms}
        self.options |= {name: rule for name, rule in rules.items() if rule is not None}


def check_offset(setting: Setting) -> None:
    """Raise where an offset would have to serve several classes or targets."""
    count = 1 if setting.asked.offset is None else len(setting.outputs)
    if count > (2 if setting.classifies else 1):
        what = "classes" if setting.classifies else "targets"
        raise ValueError(
            f"--offset is one number per row, which {count} {what} cannot share; it is for one "
            "target or two classes"
        )


def names_of(classes: Any) -> list[str]:
    """Return labels as the texts that predictions show."""
    values = np.asarray(classes)
    is_text = values.dtype.kind in "OUT"
    names: list[str] = as_texts(values.astype(object) if is_text else values).tolist()
    return names


def prepare(table: Table, asked: Asked) -> TableSetting:
    """Check the options against a table in memory and choose the estimator."""
    dropped = 0
    if asked.missing == "drop":
        table, dropped = table.complete(asked.dropped)
    values = [table.column(name, "target") for name in asked.targets]
    loss = asked.checked_loss("" if asked.loss else _default_loss(asked.targets, values[0]))
    setting: TableSetting
    if asked.has_terms:
        setting = TermSetting(table, asked, loss)
    else:
        for name, instead in (("missing", "--missing drop does without"), ("unseen", "omit it")):
            given = getattr(asked, name)
            if given not in (None, "error", "drop"):
                raise ValueError(
                    f"--{name} {given} is for models with terms, such as --nominal; {instead}"
                )
        design = Design.of(table, table.features(asked.taken, asked.dropped))
        setting = TableSetting(table, asked, loss, design)
    if dropped:
        rows = table.n_rows + dropped
        setting.notes.append(f"{dropped:,} of {rows:,} rows with missing values are left out")
    return setting


def _default_loss(targets: list[str], values: Any) -> str:
    if values.dtype == object:
        return "logistic"
    return loss_for(targets, np.unique(values[np.isfinite(values)]))


def loss_for(targets: list[str], different: Any) -> str:
    """Return the loss for targets with these different numbers; None is more than a few."""
    if len(targets) > 1 or different is None or different.size > FEW:
        return "squared"
    if (different != np.rint(different)).any():
        return "squared"
    if different.size == 2:
        return "logistic"
    raise ValueError(
        f"the target {targets[0]!r} has {different.size} different whole numbers: labels, counts "
        "or amounts? say --loss logistic, poisson or squared"
    )


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


def directions(text: str) -> dict[str, int]:
    """Return 1 for the columns of ``age,power=decreasing`` that rise, -1 for those that fall."""
    known = {"": 1, "increasing": 1, "decreasing": -1}
    found = {}
    for part in listed(text):
        name, _, word = map(str.strip, part.partition("="))
        if word not in known:
            raise ValueError(f"--monotone is {part!r}, expected a column, or column=decreasing")
        found[name] = known[word]
    return found


def together(given: list[str] | None, default: str = "") -> str:
    """Return an option that may be given several times as one list with commas."""
    return ",".join(given) if given else default


def listed(text: str) -> list[str]:
    """Return the names in a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
