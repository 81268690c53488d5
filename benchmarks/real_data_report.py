"""What ``real_data.py`` found: paired comparisons, a page and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats


def standard_error(values: Any, rows: float, test_rows: float, repeated_folds: bool) -> float:
    """Return the standard error of a mean over splits whose training rows overlap.

    Nadeau and Bengio's correction; where training rows are drawn anew from many, the plain one.
    """
    if len(values) < 2:
        return float("nan")
    share = test_rows / rows if repeated_folds else 0.0
    return float(np.std(values, ddof=1) * np.sqrt(1 / len(values) + share))


def compared(table: pd.DataFrame, strengths: int) -> pd.DataFrame:
    """Return a line per case and model, with the paired difference from the best plain model."""
    lines = []
    for (dataset, case), part in table.groupby(["dataset", "case"], sort=False):
        scores = part.pivot(index="split", columns="model", values="score")
        means = part[part.plain].groupby("model", sort=False)["score"].mean()
        best = means.idxmax()
        losses = part.pivot(index="split", columns="model", values="loss")
        least = part[part.plain].groupby("model", sort=False)["loss"].mean().idxmin()
        repeated = dataset in FOLDS
        for model, own in part.groupby("model", sort=False):
            sizes = float(own.rows.mean()), float(own.test_rows.mean()), repeated
            difference = (scores[model] - scores[best]).to_numpy()
            excess = (losses[model] - losses[least]).to_numpy()
            lines.append(
                {
                    "dataset": dataset, "case": case, "model": model, "notes": own.notes.iloc[0],
                    "plain": bool(own.plain.iloc[0]), "best plain": model == best,
                    "score": own.score.mean(), "score_se": standard_error(own.score, *sizes),
                    "loss": own.loss.mean(), "loss_se": standard_error(own.loss, *sizes),
                    "difference": difference.mean(),
                    "difference_se": standard_error(difference, *sizes),
                    "least loss": model == least, "excess": excess.mean(),
                    "excess_se": standard_error(excess, *sizes),
                    "wins": int(np.sum(difference > 0)), "losses": int(np.sum(difference < 0)),
                    "splits": len(own), "seconds": own.seconds.mean(),
                    **{
                        name: own[name].median() if name in own else np.nan
                        for name in ("nonzeros", "levels", "groups", "rank")
                    },
                    "at_end": int(np.sum(own.place == strengths - 1)),
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
  every school, and one ridge for all. MultiTaskLasso has no place here: it takes no missing
  targets, and a pupil has the score of one school.
* **Ours.** Default settings; the mix of the two penalties is fixed, not searched. clinc150 is
  solved by "katyusha" to a gap of 1e-2, because the automatic choice took much longer.
* **Score.** Share of correct labels; for school the explained variance. Standard errors are over
  the splits: with Nadeau and Bengio's correction for the folds of genes; where training rows are
  drawn anew they say what the draw does, and nothing about other test rows.
* **Differences.** Paired, split by split, from the plain model with the best mean score, or the
  least mean loss, which is chosen with hindsight in favour of the plain side. Wins and losses
  count splits by score. Bold differences are beyond the 95 % interval of Student's t; among so
  many, one or two are bold by chance.
* **Size.** Medians: coefficients that are not zero, distinct levels of them, groups, rank.
* **Seconds.** CPU time of one search with its last fit, one thread.
"""


def page(lines: pd.DataFrame, path: Path, strengths: int, eps: float, ridge: float) -> None:
    """Write the Markdown page."""
    head = HEAD.format(strengths=strengths, eps=eps, decades=-np.log10(ridge))
    draw(lines, path.with_suffix(".png"))
    text = [head, *summary(lines), f"\n![scores against sizes]({path.stem}.png)\n"]
    text += ["Hollow marks are plain models; a model without coefficients is drawn at 0.7."]
    for dataset, part in lines.groupby("dataset", sort=False):
        notes = " / ".join(dict.fromkeys(part.notes))
        text += [f"\n## {TITLES[str(dataset)]}\n", notes[:1].upper() + notes[1:] + ".\n"]
        text += [
            "| case | model | score | difference | wins : losses | loss | difference | size | s |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for case, own in part.groupby("case", sort=False):
            text += [_line(str(case), row) for _, row in own.iterrows()]
        ends = [
            f"{row.case}, {row.model}: {row.at_end} of {row.splits}"
            for _, row in part[part.at_end > 0].iterrows()
        ]
        if ends:
            text.append(f"\nThe weakest strength of the grid was chosen: {'; '.join(ends)}.")
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def verdict(row: pd.Series, name: str) -> int:
    """Return the sign of a difference, 0 within the 95 % interval of Student's t."""
    reach = stats.t.ppf(0.975, row.splits - 1) * row[f"{name}_se"]
    return int(np.sign(row[name])) if abs(row[name]) > reach else 0


def _line(case: str, row: pd.Series) -> str:
    def shown(name: str, best: str, digits: int) -> str:
        if row[best]:
            return "best plain"
        text = f"{row[name]:+.{digits}f} ± {row[name + '_se']:.{digits}f}"
        return f"**{text}**" if verdict(row, name) else text

    digits = 4 if row.loss < 10 else 1
    size = [f"{row.nonzeros:,.0f}"]
    size += [f"{row[k]:.0f} {k}" for k in ("levels", "groups") if not np.isnan(row[k])]
    size += [f"rank {row['rank']:.0f}"] if not np.isnan(row["rank"]) else []
    return (
        f"| {case} | {row.model} | {row.score:.4f} ± {row.score_se:.4f} "
        f"| {shown('difference', 'best plain', 4)} | {row.wins} : {row.losses} "
        f"| {row.loss:.{digits}f} ± {row.loss_se:.{digits}f} "
        f"| {shown('excess', 'least loss', digits)} | {', '.join(size)} | {row.seconds:.1f} |"
    )


def summary(lines: pd.DataFrame) -> list[str]:
    """Return in how many of all comparisons structured models are better or worse."""
    own = lines[~lines.plain]
    cases = len(own.groupby(["dataset", "case"]))
    text = [f"{len(own)} comparisons in {cases} cases:\n"]
    for name, what, sign in (("difference", "score", 1), ("excess", "loss", -1)):
        found = [sign * verdict(row, name) for _, row in own.iterrows()]
        better, worse = (
            ", ".join(
                f"{row.dataset} ({row.case}: {row.model})"
                for (_, row), v in zip(own.iterrows(), found, strict=True)
                if v == side
            )
            for side in (1, -1)
        )
        text.append(
            f"* **{what}**: structured better in {found.count(1)}, worse in {found.count(-1)}, "
            f"undecided in {found.count(0)}. Better: {better or 'none'}. Worse: {worse or 'none'}."
        )
    return text


def draw(lines: pd.DataFrame, path: Path) -> None:
    """Draw scores against the number of coefficients, a panel per case."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

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
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.margins(0.15)
        ax.set_title(f"{dataset}\n{case}", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=6)
    figure.supxlabel("coefficients that are not zero", fontsize=9)
    figure.supylabel("score on the test rows", fontsize=9)
    figure.savefig(path, dpi=100)
