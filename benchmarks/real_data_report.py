"""What ``real_data.py`` found: paired comparisons, a page and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.metrics import adjusted_rand_score


def standard_error(values: Any, rows: float, test_rows: float, repeated_folds: bool) -> float:
    """Return the standard error of a mean over splits whose training rows overlap.

    Nadeau and Bengio's correction; where training rows are drawn anew from many, the plain one.
    """
    if len(values) < 2:
        return float("nan")
    share = test_rows / rows if repeated_folds else 0.0
    return float(np.std(values, ddof=1) * np.sqrt(1 / len(values) + share))


def compared(table: pd.DataFrame, strengths: int) -> pd.DataFrame:
    """Return a line per case and model, with paired comparisons against the plain ones.

    Scores are compared with the best plain model and sizes with the plain l1 model, the one that
    chooses columns, refitted models with plain ones among which the refitted l1 is too; stability
    with plain l1 models that use as many coefficients.
    """
    lines = []
    for (dataset, case), part in table.groupby(["dataset", "case"], sort=False):
        scores = part.pivot(index="split", columns="model", values="score")
        numbers = np.log1p(part.pivot(index="split", columns="model", values="numbers"))
        plain = part[part.plain]
        for model, own in part.groupby("model", sort=False):
            refitted = bool(own.refitted.iloc[0])
            allowed = plain if refitted else plain[~plain.refitted]
            best = allowed.groupby("model", sort=False)["score"].mean().idxmax()
            sparse = "plain l1, refitted" if refitted else "plain l1"
            sizes = float(own.rows.mean()), float(own.test_rows.mean()), dataset in FOLDS
            difference = (scores[model] - scores[best]).to_numpy()
            growth = (numbers[model] - numbers[sparse]).to_numpy()
            steadier, steadier_se = stability_difference(own)
            lines.append(
                {
                    "dataset": dataset,
                    "case": case,
                    "model": model,
                    "notes": own.notes.iloc[0],
                    "plain": bool(own.plain.iloc[0]),
                    "refitted": refitted,
                    "rival": best,
                    "score": own.score.mean(),
                    "score_se": standard_error(own.score, *sizes),
                    "loss": own.loss.mean(),
                    "difference": difference.mean(),
                    "difference_se": standard_error(difference, *sizes),
                    "growth": growth.mean(),
                    "growth_se": standard_error(growth, *sizes),
                    "stability": stability(supports(own)),
                    "ties": agreement(own),
                    "steadier": steadier,
                    "steadier_se": steadier_se,
                    "splits": len(own),
                    "seconds": own.seconds.mean(),
                    **{
                        name: own[name].median() if name in own else np.nan
                        for name in ("numbers", "nonzeros", "levels", "groups", "rank")
                    },
                    "at_end": int(np.sum(own.place == strengths - 1)),
                    "warnings": int(own.warnings.sum()),
                }
            )
    return pd.DataFrame(lines)


# ---------------------------------------------------------------- stability


def supports(own: pd.DataFrame, column: str = "support") -> Any:
    """Return which coefficients are not zero, a row per split."""
    entries = int(own.entries.iloc[0])
    bits = [
        np.unpackbits(np.frombuffer(bytes.fromhex(s), np.uint8))[:entries] for s in own[column]
    ]
    return np.array(bits, dtype=float)


def stability(chosen: Any) -> float:
    """Return the mean Dice coefficient of the supports of two splits.

    It has no value where all coefficients are always used, or never one.
    """
    splits, entries = chosen.shape
    sizes = chosen.sum(axis=1)
    if splits < 2 or sizes.max() == 0 or sizes.min() == entries:
        return float("nan")
    both, total = chosen @ chosen.T, sizes[:, None] + sizes
    dice = np.divide(2 * both, total, out=np.ones_like(both), where=total > 0)
    return float(dice[np.triu_indices(splits, 1)].mean())


def stability_difference(own: pd.DataFrame) -> tuple[float, float]:
    """Return by how much a model is steadier than l1 models of equal size.

    The standard error is that of the jackknife over the splits.
    """
    first, second = supports(own), supports(own, "equal_support")
    if len(first) < 3:
        return float("nan"), float("nan")
    whole = stability(first) - stability(second)
    count = len(first)
    others = [np.arange(count) != k for k in range(count)]
    less = np.array([stability(first[keep]) - stability(second[keep]) for keep in others])
    pseudo = count * whole - (count - 1) * less
    return float(whole), float(np.std(pseudo, ddof=1) / np.sqrt(count))


def agreement(own: pd.DataFrame) -> float:
    """Return the mean adjusted Rand index of the ties of two splits, zeros being one tie."""
    labels = [np.frombuffer(bytes.fromhex(text), np.int16) for text in own.partition]
    pairs = [(a, b) for k, a in enumerate(labels) for b in labels[:k]]
    return float(np.mean([adjusted_rand_score(a, b) for a, b in pairs])) if pairs else np.nan


FOLDS = ("p53-pathways", "breast-cancer-graph")
"""Data sets split into repeated folds; of the others training rows are drawn anew."""

TITLES = {
    "p53-pathways": "p53-pathways: overlapping groups of genes",
    "breast-cancer-graph": "breast-cancer-graph: a network of genes",
    "mnist": "mnist: the grid of pixels",
    "usps": "usps: the grid of pixels",
    "dna-methylation": "dna-methylation: chains of positions, letters of a position",
    "school": "school: tasks that share directions",
}

HEAD = """# Real data

Is structure worth it? This page compares structured models with plain ones on real data: how well
they predict, how large they are, and how stable their choices are when the training rows change.
All three are measured before and after refitting on the structure that was found.
"""

METHOD = """
## How it was measured

    STOCHADMM_DATA=... python benchmarks/real_data.py --page docs/real-data.md

* **Splits.** Gene data have five stratified folds, repeated. For the others training rows are
  drawn anew for every repetition, the same number of each class. The test rows stay the same
  (school: all pupils that were not drawn).
* **Strengths.** Every model chooses among {strengths} strengths on the same inner folds of the
  training rows, by held-out log loss or squared error. Grids begin at the smallest strength of
  the null model and end at {eps:g} of it; for squared l2 penalties they span {decades:.0f} powers
  of ten.
* **Plain models.** scikit-learn's logistic regression with an l1 or a squared l2 penalty; for
  school lasso and ridge for every school, and one ridge for all. "plain l1, refitted" is ours,
  with `refit=True`.
* **Structured models.** Default settings; the mix of the two penalties is fixed, not searched.
  With refitting, the inner folds score the refitted models, which may lead to another strength.
* **Score.** Share of correct labels; for school the explained variance. It is compared, split by
  split, with the plain model of the best mean score. This model is known only afterwards, which
  favours the plain side. After refitting, the refitted l1 model is among the plain ones.
* **Size.** How many numbers describe a model, as a median: levels if coefficients are tied, r (d
  + C - r) for rank r, else non-zero coefficients. It is compared with the plain l1 model by the
  logarithm of one plus the size, so that negative differences are better.
* **Stability.** Mean Dice coefficient of the supports of two splits; 1 means the same support
  every time. It grows with the size of the support. So every model is compared with plain l1
  models of equal size: for every split the one of {finer} strengths with the nearest number of
  non-zero coefficients. Standard errors are by the jackknife over the splits. There is no value
  (-) where all or no coefficients are non-zero. Columns without a penalty (two genes of
  p53-pathways are in no group) are in every support.
* **Ties.** Mean adjusted Rand index of the partitions into equal coefficients; all zeros form one
  part.
* **Verdicts.** Better or worse (bold) means outside the 95 % interval of Student's t over the
  splits, with Nadeau and Bengio's correction for the folds of gene data. Everything else is
  undecided. Among so many comparisons one or two are outside by chance.
* **Seconds.** Processor time of one search with its last fit, one thread.
* **Not covered.** There are only one or two numbers of training rows and two mixes of the
  penalties, and no clinc150. A [longer run](real-data-scores.md) of scores alone has more cases.
"""

ASPECTS = (
    ("score", "difference", 1),
    ("size", "growth", -1),
    ("stability", "steadier", 1),
)
"""Name, column, and the sign that is better."""


def page(
    lines: pd.DataFrame,
    path: Path,
    missing: list[str],
    *,
    strengths: int,
    eps: float,
    ridge: float,
    finer: int,
) -> None:
    """Write the Markdown page; ``missing`` names data sets with too few finished splits."""
    method = METHOD.format(strengths=strengths, eps=eps, decades=-np.log10(ridge), finer=finer)
    draw(lines, path.with_suffix(".png"))
    if missing:
        method += f"* **Not finished.** Too few splits to be compared: {', '.join(missing)}.\n"
    text = [HEAD, *summary(lines), f"\n![scores against sizes]({path.stem}.png)\n"]
    text += ["Hollow marks are plain models, and a model without coefficients is drawn at 0.7."]
    text += [method.rstrip()]
    for dataset, part in lines.groupby("dataset", sort=False):
        notes = " / ".join(dict.fromkeys(part.notes))
        text += [f"\n## {TITLES[str(dataset)]}\n", notes[:1].upper() + notes[1:] + ".\n"]
        text += [
            "| case | model | score | against best plain | loss | size | against l1 "
            "| stability | against equal l1 | ties | s |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for case, own in part.groupby("case", sort=False):
            text += [_line(str(case), row) for _, row in own.iterrows()]
        ends = [
            f"{row.case}, {row.model}: {row.at_end} of {row.splits}"
            for _, row in part[part.at_end > 0].iterrows()
        ]
        if ends:
            text.append("\nThe weakest strength of the grid was chosen in some splits:\n")
            text += [f"* {end}" for end in ends]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def verdict(row: pd.Series, name: str) -> int:
    """Return the sign of a difference, 0 within the 95 % interval of Student's t."""
    if not np.isfinite(row[name]) or not np.isfinite(row[f"{name}_se"]):
        return 0
    reach = stats.t.ppf(0.975, row.splits - 1) * row[f"{name}_se"]
    return int(np.sign(row[name])) if abs(row[name]) > reach else 0


def _line(case: str, row: pd.Series) -> str:
    def shown(name: str, digits: int) -> str:
        known = np.isfinite(row[name]) and np.isfinite(row[name + "_se"])
        if row.plain or not known:
            return "" if known else "-"
        text = f"{row[name]:+.{digits}f} ± {row[name + '_se']:.{digits}f}"
        return f"**{text}**" if verdict(row, name) else text

    size = [f"{row.numbers:,.0f}"]
    size += [f"{row.groups:.0f} groups"] if not np.isnan(row.groups) else []
    size += [f"rank {row['rank']:.0f}"] if not np.isnan(row["rank"]) else []
    steady, ties = (f"{v:.2f}" if np.isfinite(v) else "-" for v in (row.stability, row.ties))
    return (
        f"| {case} | {row.model} | {row.score:.4f} ± {row.score_se:.4f} "
        f"| {shown('difference', 4)} "
        f"| {row.loss:.{4 if row.loss < 10 else 1}f} | {', '.join(size)} | {shown('growth', 2)} "
        f"| {steady} | {shown('steadier', 2)} | {ties} | {row.seconds:.1f} |"
    )


def summary(lines: pd.DataFrame) -> list[str]:
    """Return in how many comparisons structured models are better, worse or undecided."""
    own = lines[~lines.plain]
    cases = len(own.groupby(["dataset", "case"]))
    text = [
        f"## What was found\n\n{cases} cases, {int((~own.refitted).sum())} structured models, "
        "each against a plain model:\n"
    ]
    text += ["| | aspect | better | worse | undecided |", "|---|---|---|---|---|"]
    named = []
    for refitted, when in ((False, "before refitting"), (True, "after refitting")):
        part = own[own.refitted == refitted]
        for aspect, column, sign in ASPECTS:
            found = [sign * verdict(row, column) for _, row in part.iterrows()]
            counts = " | ".join(str(found.count(v)) for v in (1, -1, 0))
            text.append(f"| {when} | {aspect} | {counts} |")
            for side, word in ((1, "better"), (-1, "worse")):
                which = [
                    f"{row.dataset} ({row.case}: {row.model})"
                    for (_, row), v in zip(part.iterrows(), found, strict=True)
                    if v == side
                ]
                if which and aspect == "score":
                    named.append(f"\nThe score {when} is {word} in\n")
                    named += [f"* {each}" for each in which]
    return [*text, *named]


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
                max(row.numbers, 0.7),
                row.score,
                row.score_se,
                capsize=2,
                ms=6,
                color="0.4" if row.plain else f"C{k}",
                ls="none",
                label=None if row.refitted else row.model,
                alpha=0.45 if row.refitted else 1.0,
                **style,
            )
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.margins(0.15)
        ax.set_title(f"{dataset}\n{case}", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=6)
    figure.supxlabel("different numbers in the model; paler: refitted", fontsize=9)
    figure.supylabel("score on the test rows", fontsize=9)
    figure.savefig(path, dpi=100)
