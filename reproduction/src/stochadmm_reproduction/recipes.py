"""Where the data sets of the experiments come from.

A data set whose files are not here is replaced in the quick form by what scikit-learn ships or by
a generated one of the same kind, and its note says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stochadmm import datasets as generated
from stochadmm.datasets import Dataset

from . import datasets, own
from ._plain import field_values
from .config import DataSpec
from .datasets import on_disk


@dataclass(frozen=True)
class SplitOptions:
    """How rows are divided where a data set has no test part."""

    test_share: float = 0.2
    """Of the rows: the share that most of the paper's data sets have."""


SPLIT = SplitOptions()


@dataclass(frozen=True)
class Recipe:
    """Where a data set comes from, and what takes its place when the files are missing."""

    load: Callable[[DataSpec], Dataset]
    files_of: str | None = None
    stand_in: Callable[[DataSpec], Dataset] | None = None
    stand_in_name: str = ""
    paper: str = ""
    """Train / test rows, columns and name in the paper."""
    scaled: bool = False
    """Whether the rows come scaled: those that are generated on the disk do."""
    shape: str = ""
    """What else generated rows depend on; work on others is not taken for finished."""
    words: str = ""
    """What the data set is called in figures, where that is not its name."""

    @property
    def here(self) -> bool:
        """Whether every file is in the data folder or the cache."""
        if self.files_of is None:
            return True
        return all(datasets.find(path) for path in datasets.describe(self.files_of).files)


def _file(name: str, spec: DataSpec, **options: Any) -> Dataset:
    return datasets.load(name, **options)


def _dna(spec: DataSpec) -> Dataset:
    # The paper's size; a quarter more rows are the test part.
    return generated.make_onehot_dna(round((spec.rows or 2_400_000) / (1 - SPLIT.test_share)))


def _dna_full(spec: DataSpec) -> Dataset:
    """Return the paper's size from the disk, where it is made the first time."""
    shape = on_disk.DnaShape()
    if spec.rows is not None:
        shape = replace(shape, n_rows=spec.rows, n_test=spec.rows // 4)
    return on_disk.dna_on_disk(datasets.cache_folder() / "generated" / str(shape.n_rows), shape)


OVERLAP = 5.5
"""Distance of class means: a third of the rows of 1,000 classes are nearer to another mean."""


def _features(part: float, spec: DataSpec) -> Dataset:
    """Return features like ImageNet's from the disk, where they are made the first time."""
    full = on_disk.FeaturesShape(distance=OVERLAP)
    n, d, C = (spec.rows or round(part * full.n_rows)), spec.columns, spec.outputs
    shape = replace(
        full,
        n_rows=n,
        n_test=min(full.n_test, n // 5),
        n_features=d or full.n_features,
        n_classes=C or full.n_classes,
        rank=min(full.rank, (C or full.n_classes) // 4),
    )
    place = f"features-{shape.n_rows}-{shape.n_features}-{shape.n_classes}"
    return on_disk.features_on_disk(datasets.cache_folder() / "generated" / place, shape)


def _fused(n_rows: int, n_features: int, spec: DataSpec) -> Dataset:
    return generated.make_graph_fused(min(spec.rows or n_rows, n_rows) * 5 // 4, n_features)


def _classes(spec: DataSpec) -> Dataset:
    rows = round((spec.rows or 20_000) / (1 - SPLIT.test_share))
    return generated.make_low_rank_tasks(
        rows, spec.columns or 256, spec.outputs or 50, rank=5, response="classes", signal=8.0
    )


def _one_against_rest(spec: DataSpec) -> Dataset:
    """Return MNIST with ten columns of targets, +1 for the class and -1 for all others."""
    data = datasets.load("mnist")

    def columns(y: Any) -> Any:
        return np.where(y[:, None] == np.arange(10), 1.0, -1.0)

    return replace(data, y=columns(data.y), y_test=columns(data.y_test))


def _random_features(spec: DataSpec) -> Dataset:
    """Return MNIST through a random layer: max(0, W x), as many columns as asked for."""
    data = datasets.load("mnist", dtype=np.float32)
    rng = np.random.default_rng(0)
    d = data.X.shape[1]
    layer = rng.standard_normal((d, spec.columns or 4096), dtype=np.float32) / np.float32(d**0.5)

    def through(X: Any) -> Any:
        return np.maximum(X @ layer, 0.0)

    return replace(data, X=through(data.X), X_test=through(data.X_test), grid=None)


def _groups(spec: DataSpec) -> Dataset:
    rows = round((spec.rows or 20_000) / (1 - SPLIT.test_share))
    return generated.make_overlapping_groups(rows, response="binary")


def _words(spec: DataSpec) -> Dataset:
    return datasets.load("clinc150", max_features=spec.columns)


def smaller(data: Dataset, spec: DataSpec) -> Dataset:
    """Return an image set with fewer pixels, and any set with fewer classes or tasks."""
    if spec.columns is not None and data.grid is not None and data.name != "mnist":
        data = _averaged(data, round(spec.columns**0.5))
    labels, test = (
        (data.tasks, data.tasks_test) if data.tasks is not None else (data.y, data.y_test)
    )
    if spec.outputs is None or labels.dtype.kind not in "iu":
        return data
    data = _kept(data, labels < spec.outputs, "")
    if test is not None:
        data = _kept(data, test < spec.outputs, "_test")
    names = data.task_names
    return replace(data, task_names=None if names is None else names[: spec.outputs])


def _kept(data: Dataset, chosen: Any, part: str) -> Dataset:
    """Return a data set with the chosen rows of its training or test part."""
    held = field_values(data)
    fields = {name: held[name] for name in (f"X{part}", f"y{part}", f"tasks{part}")}
    return replace(data, **{k: v[chosen] for k, v in fields.items() if v is not None})


def _averaged(data: Dataset, side: int) -> Dataset:
    """Return images of side x side pixels, means over squares of the original ones."""
    old: Any = data.grid
    step = old[0] // side
    if (step * side, step * side) != tuple(old):
        raise ValueError(f"images of {old[0]} x {old[1]} pixels cannot be averaged to {side}")

    def small(X: Any) -> Any:
        if X is None:
            return None
        return np.reshape(X, (-1, side, step, side, step)).mean(axis=(2, 4)).reshape(len(X), -1)

    return replace(data, X=small(data.X), X_test=small(data.X_test), grid=(side, side))


def _shipped(name: str, spec: DataSpec, task: str = "binary") -> Dataset:
    from sklearn import datasets as shipped

    if name == "digits":
        X, y = shipped.load_digits(return_X_y=True)
        y = np.where(y % 2 == 0, 1.0, -1.0) if task == "binary" else y.astype(np.int64)
        return Dataset(name, X, y, grid=(8, 8))
    X, y = shipped.load_breast_cancer(return_X_y=True)
    return Dataset(name, X, np.where(y == 1, 1.0, -1.0))


_digits = partial(_shipped, "digits", task="classes")


def _digits_ten(spec: DataSpec) -> Dataset:
    data = _digits(spec)
    return replace(data, y=np.where(data.y[:, None] == np.arange(10), 1.0, -1.0))


def recipe_of(spec: DataSpec, problem: str) -> Recipe:
    """Return where a data set comes from: a file of one's own, or one of ``RECIPES``."""
    if spec.path is None:
        return RECIPES[spec.name]
    return Recipe(lambda spec: own.load(spec, problem), shape=" ".join(own.content(spec)))


RECIPES = {
    "protein": Recipe(
        partial(_file, "protein"),
        "protein",
        partial(_shipped, "breast cancer"),
        "scikit-learn's breast cancer data",
        "72,876 + 72,875 x 74, called a9a",
        words="protein (the paper's a9a)",
    ),
    "a9a": Recipe(
        partial(_file, "a9a"),
        "a9a",
        partial(_fused, 6000, 123),
        "a generated set",
        "",
        words="a9a of LIBSVM",
    ),
    "covertype": Recipe(
        partial(_file, "covtype", split=True),
        "covtype",
        partial(_fused, 20_000, 54),
        "a generated set",
        "290,506 + 290,506 x 54",
    ),
    "mnist": Recipe(
        partial(_file, "mnist", task="even-odd"),
        "mnist",
        partial(_shipped, "digits"),
        "scikit-learn's digits",
        "60,000 + 10,000 x 784",
        words="mnist, even or odd",
    ),
    "dna": Recipe(_dna, paper="2,400,000 + 600,000 x 800"),
    "dna-full": Recipe(
        _dna_full, paper="2,400,000 + 600,000 x 800", scaled=True, words="dna, all rows"
    ),
    "dna-methylation": Recipe(
        partial(_file, "dna-methylation"),
        "dna-methylation",
        _dna,
        "generated sequences",
        words="methylation (real DNA)",
    ),
    "dna-statlog": Recipe(
        partial(_file, "dna-statlog"),
        "dna-statlog",
        _digits,
        "scikit-learn's digits",
        words="splice sites (real DNA)",
    ),
    "usps": Recipe(partial(_file, "usps"), "usps", _digits, "scikit-learn's digits"),
    "coil20": Recipe(partial(_file, "coil20"), "coil20", _digits, "scikit-learn's digits"),
    "clinc150": Recipe(
        _words,
        "clinc150",
        _classes,
        "a generated set",
    ),
    "school": Recipe(partial(_file, "school"), "school", _classes, "a generated set"),
    "mnist-ten": Recipe(
        _one_against_rest,
        "mnist",
        _digits_ten,
        "scikit-learn's digits",
        "60,000 + 10,000 x 784",
        words="mnist, one against rest",
    ),
    "mnist-features": Recipe(
        _random_features,
        "mnist",
        _digits,
        "scikit-learn's digits",
        words="mnist, random features",
    ),
    "dna-promoters": Recipe(
        partial(_file, "dna-gue"),
        "dna-gue",
        _dna,
        "generated sequences",
        words="promoters (real DNA)",
    ),
    "20news": Recipe(
        partial(_file, "20news", words=1000),
        "20news",
        _classes,
        "a generated set",
        words="20 newsgroups",
    ),
    "breast-cancer": Recipe(
        partial(_file, "breast-cancer-graph", standardize=True),
        "breast-cancer-graph",
        _groups,
        "a generated set",
        words="breast cancer",
    ),
    "p53": Recipe(
        partial(_file, "p53-pathways", standardize=True),
        "p53-pathways",
        _groups,
        "a generated set",
    ),
    "overlapping-groups": Recipe(_groups, words="generated groups"),
    "digits": Recipe(_digits),
    "features": Recipe(
        partial(_features, 1.0),
        paper="1,281,167 + 50,000 x 4,096, 1,000 classes: ImageNet",
        scaled=True,
        shape=f"distance {OVERLAP}",
        words="all rows",
    ),
    "features-twentieth": Recipe(
        partial(_features, 0.05),
        scaled=True,
        shape=f"distance {OVERLAP}",
        words="a twentieth of the rows",
    ),
    "features-small": Recipe(
        partial(_features, 0.01),
        scaled=True,
        shape=f"distance {OVERLAP}",
        words="a sixteenth of the shape",
    ),
    "many-classes": Recipe(_classes),
    "generated": Recipe(partial(_fused, 2000, 20)),
}
