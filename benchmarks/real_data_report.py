"""What ``real_data.py`` found: paired comparisons, a page and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def standard_error(values: Any, rows: float, test_rows: float, repeated_folds: bool) -> float:
    """Return the standard error of a mean over splits whose training rows overlap.

    Nadeau and Bengio's correction; where training rows are drawn anew from many, the plain one.
    """
    if len(values) < 2:
        return float("nan")
    share = test_rows / rows if repeated_folds else 0.0
    return float(np.std(values, ddof=1) * np.sqrt(1 / len(values) + share))


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """Return a line per case and model, with the paired difference from the best plain model."""
    lines = []
    for (dataset, case), part in table.groupby(["dataset", "case"], sort=False):
        scores = part.pivot(index="split", columns="model", values="score")
        means = part[part.plain].groupby("model", sort=False)["score"].mean()
        best = means.idxmax()
        repeated = dataset in FOLDS
        for model, own in part.groupby("model", sort=False):
            sizes = float(own.rows.mean()), float(own.test_rows.mean()), repeated
            difference = (scores[model] - scores[best]).to_numpy()
            lines.append(
                {
                    "dataset": dataset, "case": case, "model": model, "notes": own.notes.iloc[0],
                    "plain": bool(own.plain.iloc[0]), "best plain": model == best,
                    "score": own.score.mean(), "score_se": standard_error(own.score, *sizes),
                    "loss": own.loss.mean(), "loss_se": standard_error(own.loss, *sizes),
                    "difference": difference.mean(),
                    "difference_se": standard_error(difference, *sizes),
                    "wins": int(np.sum(difference > 0)), "losses": int(np.sum(difference < 0)),
                    "splits": len(own), "seconds": own.seconds.mean(),
                    **{
                        name: own[name].median() if name in own else np.nan
                        for name in ("nonzeros", "levels", "groups", "rank")
                    },
                    "warnings": int(own.warnings.sum()),
                }
            )  # fmt: skip
    return pd.DataFrame(lines)


FOLDS = ("p53-pathways", "breast-cancer-graph")
"""Data sets split into repeated folds; of the others training rows are drawn anew."""

TITLES = {
    "p53-pathways": "p53-pathways: overlapping groups of genes",
    "breast-cancer-graph": "breast-cancer-graph: a network of genes",
    "mnist": "mnist: the grid of pixels",
    "usps": "usps: the grid of pixels",
    "dna-methylation": "dna-methylation: chains of positions, letters of a position",
    "school": "school: tasks that share directions",
    "clinc150": "clinc150: classes that share directions",
}

HEAD = """# Real data

Structured models against scikit-learn's plain models, and how large the models are.

    STOCHADMM_DATA=... python benchmarks/real_data.py --page docs/real-data.md

* **Splits.** Genes: five stratified folds, repeated. Others: training rows drawn anew for every
  repetition, the same number of each class; the test rows stay the same (school: all pupils that
  were not drawn).
* **Strengths.** Every model chooses among {strengths} on the same inner folds of the training
  rows, by held-out log loss or squared error. Grids begin at the smallest strength whose model is
  null and end at {eps:g} of it; for squares they span {decades:.0f} powers of ten.
* **Plain.** Logistic regression with an l1 or a squared l2 penalty; for school lasso and ridge for
  every school, and one ridge for all.
* **Score.** Share of correct labels; for school the explained variance. Standard errors are over
  the splits: with Nadeau and Bengio's correction for the folds of genes; where training rows are
  drawn anew they say what the draw does, and nothing about other test rows.
* **Difference.** Paired, split by split, from the plain model with the best mean score, which is
  chosen with hindsight in favour of the plain side. Wins and losses count splits; bold is more
  than two standard errors.
* **Size.** Medians: coefficients that are not zero, distinct levels of them, groups, rank.
* **Seconds.** CPU time of one search with its last fit, one thread.
"""


def page(lines: pd.DataFrame, path: Path, strengths: int, eps: float, ridge: float) -> None:
    """Write the Markdown page."""
    head = HEAD.format(strengths=strengths, eps=eps, decades=-np.log10(ridge))
    text = [head, *summary(lines)]
    for dataset, part in lines.groupby("dataset", sort=False):
        notes = " / ".join(dict.fromkeys(part.notes))
        text += [f"\n## {TITLES[str(dataset)]}\n", notes[:1].upper() + notes[1:] + ".\n"]
        text += [
            "| case | model | score | log loss or error | difference | wins : losses | size | s |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for case, own in part.groupby("case", sort=False):
            text += [_line(str(case), row) for _, row in own.iterrows()]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def _line(case: str, row: pd.Series) -> str:
    difference = "best plain"
    if not row["best plain"]:
        difference = f"{row.difference:+.4f} ± {row.difference_se:.4f}"
        if abs(row.difference) > 2 * row.difference_se:
            difference = f"**{difference}**"
    size = [f"{row.nonzeros:,.0f}"]
    size += [f"{row[k]:.0f} {k}" for k in ("levels", "groups") if not np.isnan(row[k])]
    size += [f"rank {row['rank']:.0f}"] if not np.isnan(row["rank"]) else []
    return (
        f"| {case} | {row.model} | {row.score:.4f} ± {row.score_se:.4f} "
        f"| {row.loss:.3f} ± {row.loss_se:.3f} | {difference} | {row.wins} : {row.losses} "
        f"| {', '.join(size)} | {row.seconds:.1f} |"
    )


def summary(lines: pd.DataFrame) -> list[str]:
    """Return one paragraph: in how many cases a structured model is better or worse."""
    better, worse, even = [], [], []
    for (dataset, case), part in lines.groupby(["dataset", "case"], sort=False):
        own = part[~part.plain]
        top = own.loc[own.score.idxmax()]
        where = even
        if abs(top.difference) > 2 * top.difference_se:
            where = better if top.difference > 0 else worse
        where.append(f"{dataset} ({case})")
    return [
        f"Of {len(better) + len(worse) + len(even)} cases, the better structured model has the "
        f"higher score by more than two standard errors in {len(better)}, the lower one in "
        f"{len(worse)}, and neither in {len(even)}.\n",
        *(f"* higher: {', '.join(better)}" for _ in better[:1]),
        *(f"* lower: {', '.join(worse)}" for _ in worse[:1]),
    ]


def draw(lines: pd.DataFrame, path: Path) -> None:
    """Draw scores against the number of coefficients, a panel per case."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    groups = list(lines.groupby(["dataset", "case"], sort=False))
    columns = 4
    rows = -(-len(groups) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.1 * columns, 2.5 * rows), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(groups) :]:
        ax.axis("off")
    for ax, ((dataset, case), part) in zip(axes.flat, groups, strict=False):
        for k, (_, row) in enumerate(part.iterrows()):
            style = {"marker": "os^D"[k % 4], "mfc": "none" if row.plain else None}
            ax.errorbar(
                max(row.nonzeros, 0.7), row.score, row.score_se, capsize=2, ms=6,
                color="0.4" if row.plain else f"C{k}", label=row.model, ls="none", **style,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.margins(0.15)
        ax.set_title(f"{dataset}\n{case}", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=6)
    figure.supxlabel("coefficients that are not zero", fontsize=9)
    figure.supylabel("score on the test rows", fontsize=9)
    figure.savefig(path, dpi=130)
