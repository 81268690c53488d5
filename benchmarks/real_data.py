"""Structured models against plain l1 and l2 models on real data: score, size and stability.

    python benchmarks/real_data.py [--datasets usps,school] [--minutes 20] [--page PAGE]

Repeated splits into training and test rows; within the training rows every model chooses its
strength on the same inner folds, from a grid of the same length, by the same held-out loss. One
row per split and model, before and after refitting on the structure found, goes to
``out/real_data/table.csv``. Cases take turns, split by split; a finished split is kept in a file
of its own and not run again, so that a run can end at any time (``--minutes``) and go on later.
Columns are scaled by their deviation in the training rows where a case says so. Needs the data
folder (STOCHADMM_DATA).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from real_data_report import compared, draw, page  # noqa: E402
from scipy import sparse  # noqa: E402
from sklearn.base import BaseEstimator, RegressorMixin, clone  # noqa: E402
from sklearn.linear_model import Lasso, LogisticRegression, Ridge  # noqa: E402
from sklearn.metrics import log_loss  # noqa: E402
from sklearn.model_selection import (  # noqa: E402
    GridSearchCV,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
)

import stochadmm as sa  # noqa: E402
from stochadmm_reproduction import datasets  # noqa: E402

OUT = Path("out/real_data")
STRENGTHS = 13  # strengths of every grid
EPS = 2e-4  # smallest over largest strength where there is a largest one
LEAST_SPLITS = 3  # of a case that is reported
REFITTED = ", refitted"  # what the names of models have after refitting
RIDGE_EPS = 1e-9  # the same for squares, whose range is wider
FINER = 60  # strengths of the path of l1 models that are compared at equal size

Split = tuple[Any, Any, Any, Any]
"""Training rows and targets, test rows and targets."""


# ---------------------------------------------------------------- plain models


class Tasks(RegressorMixin, BaseEstimator):
    """A model for every column of Y on the rows that have it, or one for all of them."""

    def __init__(self, base: Any = None, pooled: bool = False) -> None:
        self.base, self.pooled = base, pooled

    def fit(self, X: Any, Y: Any) -> Tasks:
        """Fit; targets that are missing are NaN."""
        rows, tasks = np.nonzero(~np.isnan(Y))
        one = clone(self.base).fit(X[rows], Y[rows, tasks]) if self.pooled else None
        self.models_ = [
            one or clone(self.base).fit(X[rows[tasks == t]], Y[rows[tasks == t], t])
            for t in range(Y.shape[1])
        ]
        self.coef_ = np.stack([model.coef_ for model in self.models_[: 1 if one else None]])
        return self

    def predict(self, X: Any) -> Any:
        """Return predictions for every task."""
        return np.stack([model.predict(X) for model in self.models_], axis=1)


def squared_error(model: Any, X: Any, Y: Any) -> float:
    """Return minus the mean squared error of the targets that are there."""
    return -float(np.nanmean((model.predict(X) - Y) ** 2))


def logistic(l1: bool, X: Any, y: Any) -> tuple[Any, str, Any]:
    """Return scikit-learn's logistic regression, the name of its strength, and a grid."""
    several = np.unique(y).size > 2
    if l1:
        solver = "saga" if several else "liblinear"
        model = LogisticRegression(solver=solver, l1_ratio=1.0, tol=1e-3, max_iter=500)
        model.set_params(intercept_scaling=100.0)  # liblinear penalizes the intercept
        each = (y[:, None] == np.unique(y)).astype(float)
        derivatives = np.abs(X.T @ (each - each.mean(axis=0))).max() / len(y)
        alphas = np.geomspace(derivatives, EPS * derivatives, STRENGTHS)
    else:
        model = LogisticRegression(max_iter=2000)
        alphas = energy(X) * np.geomspace(1.0, RIDGE_EPS, STRENGTHS)
    model.set_params(fit_intercept=not sparse.issparse(X))
    return model, "C", 1 / (len(y) * alphas)


def tasks(
    l1: bool, X: Any, Y: Any, pooled: bool = False, refit: bool = False
) -> tuple[Any, str, Any]:
    """Return one lasso or ridge per task, the name of its strength, and a grid."""
    if not l1:  # scikit-learn's ridge sums over the rows
        rows = np.sum(~np.isnan(Y)) / (1 if pooled else Y.shape[1])
        grid = rows * energy(X) * np.geomspace(1.0, RIDGE_EPS, STRENGTHS)
        return Tasks(Ridge(fit_intercept=False), pooled), "base__alpha", grid
    known = np.where(np.isnan(Y), 0.0, Y)
    derivatives = np.abs(X.T @ known) / np.sum(~np.isnan(Y), axis=0)
    grid = np.geomspace(derivatives.max(), EPS * derivatives.max(), STRENGTHS)
    base = Lasso(fit_intercept=False, max_iter=10_000)
    if refit:
        base = sa.LassoRegressor(fit_intercept=False, refit=True)
    return Tasks(base), "base__alpha", grid


def energy(X: Any) -> float:
    """Return the mean squared norm of the rows."""
    return float((X.multiply(X) if sparse.issparse(X) else X * X).sum() / X.shape[0])


def plain(make: Callable[..., Any], l1: bool, **options: Any) -> Callable[..., Any]:
    """Return a maker of searches over the strength of a plain model."""

    def search(X: Any, y: Any, folds: Any) -> Any:
        model, name, grid = make(l1, X, y, **options)
        scoring = squared_error if np.ndim(y) == 2 else "neg_log_loss"
        return GridSearchCV(model, {name: grid}, cv=folds, scoring=scoring)

    return search


def path_supports(X: Any, y: Any) -> Any:
    """Return which coefficients plain l1 models of many strengths use, from few to many."""
    model, name, grid = (tasks if np.ndim(y) == 2 else logistic)(True, X, y)
    finer = np.geomspace(grid[0], grid[-1], FINER)
    if isinstance(model, LogisticRegression):
        model.set_params(tol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of strengths that need more iterations
        fitted = [clone(model).set_params(**{name: value}).fit(X, y) for value in finer]
    return np.stack([np.atleast_2d(one.coef_) != 0 for one in fitted])


def of_equal_size(path: Any, wanted: int) -> Any:
    """Return the support along a path whose number of coefficients is nearest."""
    counts = path.reshape(len(path), -1).sum(axis=1)
    return path[np.argmin(np.abs(counts - wanted))]


def structured(kind: str, **params: Any) -> Callable[..., Any]:
    """Return a maker of our searches over the strength."""

    def search(X: Any, y: Any, folds: Any) -> Any:
        cls = getattr(sa, kind + "CV")
        seconds = 30.0 * STRENGTHS  # of the whole search
        return cls(alphas=STRENGTHS, eps=EPS, cv=folds, max_seconds=seconds, **params)

    return search


def both(name: str, kind: str, **params: Any) -> dict[str, Callable[..., Any]]:
    """Return a structured model and the same one refitted on the structure it found."""
    return {
        name: structured(kind, **params),
        name + REFITTED: structured(kind, refit=True, **params),
    }


PLAIN = {
    "plain l1": plain(logistic, True),
    "plain l1" + REFITTED: structured("SparseLogisticClassifier", refit=True),
    "plain l2": plain(logistic, False),
}


# ---------------------------------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """A data set in one size, with the models that are compared on it."""

    dataset: str
    case: str
    splits: Callable[[int], Iterator[Split]]
    """Splits for a number of repetitions."""
    models: dict[str, Callable[..., Any]]
    repetitions: int = 10
    per_repetition: int = 1
    inner: int = 3
    scale: bool = False
    notes: str = ""
    references: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """Plain models."""


def folds(X: Any, y: Any, k: int = 5) -> Callable[[int], Iterator[Split]]:
    """Return repeated stratified folds."""

    def splits(repetitions: int) -> Iterator[Split]:
        outer = RepeatedStratifiedKFold(n_splits=k, n_repeats=repetitions, random_state=0)
        for train, test in outer.split(X, y):
            yield X[train], y[train], X[test], y[test]

    return splits


def draws(X: Any, y: Any, X_test: Any, y_test: Any, rows: int) -> Callable[[int], Iterator[Split]]:
    """Return random balanced training rows of a number; the test rows are always the same."""

    def splits(repetitions: int) -> Iterator[Split]:
        classes = np.unique(y)
        for seed in range(repetitions):
            rng = np.random.default_rng(seed)
            chosen = np.concatenate(
                [
                    rng.choice(np.flatnonzero(y == c), rows // len(classes), replace=False)
                    for c in classes
                ]
            )
            yield X[chosen], y[chosen], X_test, y_test

    return splits


def p53() -> Iterator[Case]:
    """Yield the mutation of p53 from genes in overlapping pathways."""
    data = datasets.load("p53-pathways")
    keep = np.sort(np.argsort(-data.X.var(axis=0), kind="stable")[:500])
    groups = restricted(data.groups, keep, at_least=2)
    weights = {name: np.sqrt(len(group)) for name, group in groups.items()}
    shared = {"groups": groups, "group_weights": weights}
    yield Case(
        "p53-pathways",
        "mutated or not",
        folds(data.X[:, keep], data.y),
        both("pathways", "OverlappingGroupClassifier", **shared),
        repetitions=4,
        per_repetition=5,
        scale=True,
        references=PLAIN,
        notes=f"50 rows, the 500 genes of largest variance, {len(groups)} pathways",
    )


def breast() -> Iterator[Case]:
    """Yield two outcomes of breast tumours from genes with a protein network."""
    for target, words in (("er", "receptor status"), ("metastasis", "metastasis")):
        data = datasets.load("breast-cancer-graph", target=target, merge_probes=True)
        keep, edges = np.unique(data.graph, return_inverse=True)
        graph = edges.reshape(-1, 2)
        yield Case(
            "breast-cancer-graph",
            words,
            folds(data.X[:, keep], data.y),
            both("network", "GraphFusedClassifier", graph=graph, l1_ratio=0.5)
            | both("network, more fusion", "GraphFusedClassifier", graph=graph, l1_ratio=0.2),
            repetitions=4,
            per_repetition=5,
            scale=True,
            references=PLAIN,
            notes=f"{len(data.y)} rows, the {len(keep)} genes with a neighbour in the network, "
            f"{len(graph)} edges",
        )


def digits(dataset: str, pair: tuple[int, int], sizes: tuple[int, ...]) -> Iterator[Case]:
    """Yield two digits told apart on the grid of pixels, from few and from more rows."""
    data = datasets.load(dataset)
    side = data.grid[0]
    edge = (side - 20) // 2 if side > 20 else 0  # the frame of MNIST is nearly empty
    inner = np.arange(side * side).reshape(side, side)[edge : side - edge, edge : side - edge]
    grid, columns = inner.shape, inner.ravel()

    def two(X: Any, y: Any) -> tuple[Any, Any]:
        rows = np.isin(y, pair)
        return np.ascontiguousarray(X[rows][:, columns]), y[rows]

    parts = *two(data.X, data.y), *two(data.X_test, data.y_test)
    for rows in sizes:
        yield Case(
            dataset,
            f"{pair[0]} or {pair[1]}, {rows} rows",
            draws(*parts, rows),
            both("pixel grid", "GraphFusedClassifier", graph=grid, l1_ratio=0.1)
            | both("pixel grid + l1", "GraphFusedClassifier", graph=grid, l1_ratio=0.5),
            repetitions=10,
            references=PLAIN,
            notes=f"{grid[0]} x {grid[1]} pixels, {len(parts[3]):,} test rows",
        )


def dna() -> Iterator[Case]:
    """Yield methylation from letters, neighbouring positions or the letters of a position tied."""
    data = datasets.load("dna-methylation", sparse=False)
    rng = np.random.default_rng(0)
    test = rng.permutation(len(data.y_test))[:10_000]
    groups = {name: group.tolist() for name, group in data.groups.items()}
    for rows in (200, 1000):
        yield Case(
            "dna-methylation",
            f"6mA, {rows} rows",
            draws(data.X, data.y, data.X_test[test], data.y_test[test], rows),
            both("position chain", "GraphFusedClassifier", graph=data.graph, l1_ratio=0.5)
            | both("letter groups", "OverlappingGroupClassifier", groups=groups),
            repetitions=10,
            references=PLAIN,
            notes=f"{data.X.shape[1]} columns: 41 positions, 4 letters; 10,000 test rows",
        )


def school() -> Iterator[Case]:
    """Yield the exam scores of schools, one task each."""
    data = datasets.load("school")
    largest = np.argsort(-np.bincount(data.tasks), kind="stable")[:30]
    rows = np.isin(data.tasks, largest)
    varied = data.X[rows].std(axis=0) > 0
    X, y = data.X[rows][:, varied], data.y[rows]
    task = np.searchsorted(np.sort(largest), data.tasks[rows])

    def splits(share: float) -> Callable[[int], Iterator[Split]]:
        def each(repetitions: int) -> Iterator[Split]:
            for seed in range(repetitions):
                chosen = np.random.default_rng(seed).random(len(y)) < share
                Y = np.full((len(y), 30), np.nan)
                Y[np.arange(len(y)), task] = y
                Y -= np.nanmean(Y[chosen], axis=0)
                yield X[chosen], Y[chosen], X[~chosen], Y[~chosen]

        return each

    plain_models = {
        "plain l1": plain(tasks, True),
        "plain l1" + REFITTED: plain(tasks, True, refit=True),
        "plain l2": plain(tasks, False),
        "plain l2, one for all": plain(tasks, False, pooled=True),
    }
    shared: dict[str, Any] = {"fit_intercept": False}
    for share in (0.1,):
        yield Case(
            "school",
            f"{share:.0%} of the pupils",
            splits(share),
            both("low rank", "SparseLowRankRegressor", l1_ratio=0.0, **shared)
            | both(
                "low rank + rows",
                "SparseLowRankRegressor",
                l1_ratio=0.3,
                sparsity="rows",
                **shared,
            ),
            repetitions=10,
            inner=3,
            scale=True,
            references=plain_models,
            notes=f"the 30 largest schools, {len(y):,} pupils, {int(varied.sum())} columns, "
            "scores centered per school; explained variance within schools",
        )


def restricted(groups: Any, keep: Any, at_least: int) -> dict[str, list[int]]:
    """Return the groups on some of the columns, without those that nearly vanish."""
    place = {column: j for j, column in enumerate(keep.tolist())}
    inside = {name: [place[j] for j in g.tolist() if j in place] for name, g in groups.items()}
    return {name: group for name, group in inside.items() if len(group) >= at_least}


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "p53-pathways": p53,
    "breast-cancer-graph": breast,
    "mnist": lambda: digits("mnist", (4, 9), (200,)),
    "usps": lambda: digits("usps", (3, 5), (50,)),
    "dna-methylation": dna,
    "school": school,
}


# ---------------------------------------------------------------- running


def scaled(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Return both parts with columns of mean 0 and deviation 1 in the first."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1.0
    return (X - mean) / deviation, (X_test - mean) / deviation


def judged(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Return the score (accuracy, explained variance) and the loss on the test rows."""
    if np.ndim(y) == 2:
        error = -squared_error(model, X, y)
        return {"score": 1 - error / float(np.nanmean(y**2)), "loss": error}
    p = np.clip(model.predict_proba(X), 1e-12, 1.0)
    loss = log_loss(y, p / p.sum(axis=1, keepdims=True), labels=model.classes_)
    return {"score": float(np.mean(model.predict(X) == y)), "loss": loss}


def described(model: Any) -> dict[str, Any]:
    """Return the size of a fitted model, and where the chosen strength lies."""
    best = getattr(model, "best_estimator_", model)
    coef = np.atleast_2d(best.coef_)
    out: dict[str, Any] = {
        "nonzeros": int(np.count_nonzero(coef)),
        "place": int(model.best_index_),
        "rank": int(np.linalg.matrix_rank(coef)) if coef.shape[0] > 1 else np.nan,
    }
    out["numbers"] = out["nonzeros"]
    labels = np.zeros(coef.shape, dtype=np.int32)
    labels[coef != 0] = 1 + np.arange(out["nonzeros"])
    if hasattr(best, "levels_"):
        levels = np.atleast_2d(best.levels_)
        out["levels"] = sum(np.unique(v[w != 0]).size for v, w in zip(levels, coef, strict=True))
        out["numbers"] = out["levels"]
        labels = np.where(coef != 0, 1 + levels, 0)
    if hasattr(best, "active_groups_"):
        out["groups"] = len(best.active_groups_)
    if hasattr(best, "rank_"):
        out["rank"] = best.rank_
        out["numbers"] = min(out["nonzeros"], best.rank_ * (sum(coef.shape) - best.rank_))
    if hasattr(best, "dual_gap_"):
        out["gap"] = best.dual_gap_
    # which coefficients are not zero, and which are equal: compared over the splits
    out["support"] = packed(coef != 0)
    out["partition"] = labels.astype(np.int16).tobytes().hex()
    out["entries"] = coef.size
    return out


def packed(support: Any) -> str:
    """Return a support as text."""
    return np.packbits(support).tobytes().hex()


def run(case: Case, split: int) -> list[dict[str, Any]]:
    """Return a row per model for one split."""
    X, y, X_test, y_test = next(islice(case.splits(case.repetitions), split, None))
    if case.scale:
        X, X_test = scaled(X, X_test)
    kind = KFold if np.ndim(y) == 2 else StratifiedKFold
    inner = list(kind(case.inner, shuffle=True, random_state=split).split(X, y))
    path = path_supports(X, y)
    rows = []
    for name, make in (case.references | case.models).items():
        start = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = make(X, y, inner).fit(X, y)
        seconds, found = time.process_time() - start, described(model)
        rows.append(
            {
                "dataset": case.dataset,
                "case": case.case,
                "notes": case.notes,
                "model": name,
                "refitted": name.endswith(REFITTED),
                "plain": name in case.references,
                "split": split,
                "rows": X.shape[0],
                "test_rows": X_test.shape[0],
                "columns": X.shape[1],
                **judged(model, X_test, y_test),
                **found,
                "equal_support": packed(of_equal_size(path, found["nonzeros"])),
                "seconds": seconds,
                "warnings": sum("onverge" in str(w.category) for w in caught),
            }
        )
    return rows


def run_all(names: list[str], minutes: float) -> pd.DataFrame:
    """Run what is not finished, as long as there is time, and return the whole table."""
    folder = OUT / "splits"
    folder.mkdir(parents=True, exist_ok=True)
    cases = [case for name in names for case in CASES[name]()] if minutes > 0 else []
    units = [
        (split, case)
        for split in range(max((c.repetitions * c.per_repetition for c in cases), default=0))
        for case in cases
        if split < case.repetitions * case.per_repetition
    ]
    for split, case in units:
        words = f"{case.dataset} {case.case} {split}".replace(" ", "-").replace("%", "percent")
        path = folder / f"{words}.csv"
        if path.exists():
            continue
        if time.process_time() > 60 * minutes:
            print(f"{minutes:g} minutes are over; the same command goes on")
            break
        pd.DataFrame(run(case, split)).to_csv(path, index=False)
        print(f"{words}: done after {time.process_time():.0f} s of processor time", flush=True)
    texts = {name: str for name in ("support", "equal_support", "partition")}
    parts = [pd.read_csv(path, dtype=texts) for path in sorted(folder.glob("*.csv"))]
    table = pd.concat(parts, ignore_index=True)
    order = {name: k for k, name in enumerate(CASES)}
    table = table.sort_values(
        ["dataset", "case", "split"],
        kind="stable",
        key=lambda column: column.map(order) if column.name == "dataset" else column,
    )
    table.to_csv(OUT / "table.csv", index=False)
    return table


# ---------------------------------------------------------------- command line


def main() -> None:
    """Run, write the table, the figure and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default=",".join(CASES))
    parser.add_argument("--minutes", type=float, default=60, help="of processor time; 0: report")
    parser.add_argument("--page", type=Path, help="write a Markdown page")
    options = parser.parse_args()
    names = options.datasets.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"unknown data set {unknown[0]!r}, expected one of {', '.join(CASES)}")
    table = run_all(names, options.minutes)
    counts = table.groupby(["dataset", "case"])["split"].transform("nunique")
    if not (counts >= LEAST_SPLITS).any():
        print(f"no case has {LEAST_SPLITS} splits yet; the same command goes on")
        return
    lines = compared(table[counts >= LEAST_SPLITS], STRENGTHS)
    few = table[counts < LEAST_SPLITS]
    keys = dict.fromkeys(zip(few.dataset, few.case, strict=True))
    missing = [f"{name} ({case})" for name, case in keys]
    missing += [name for name in CASES if name not in set(table.dataset)]
    lines.to_csv(OUT / "compared.csv", index=False)
    draw(lines, OUT / "sizes.png")
    if options.page:
        page(
            lines,
            options.page,
            missing,
            strengths=STRENGTHS,
            eps=EPS,
            ridge=RIDGE_EPS,
            finer=FINER,
        )
    hidden = ["notes", "plain", "refitted", "rival", "splits"]
    print(lines.drop(columns=hidden).to_string(index=False, float_format=lambda v: f"{v:.4g}"))


if __name__ == "__main__":
    main()
