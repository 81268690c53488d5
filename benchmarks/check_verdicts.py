"""Derive three verdicts of a reproduction again, from its raw table with pandas alone.

    python benchmarks/check_verdicts.py FOLDER

FOLDER holds ``table.parquet`` or ``table.csv`` and ``claims.json``. Nothing of stochadmm is used:
the rule is written down a second time. Derived are "at the end, ACC-SADMM has the smallest gap"
for the lasso, the fused lasso and multitask learning: per data set and rival the ratio of the gaps
after the last pass that both have made, one per seed; it holds where the geometric mean is above
1.26 and its 95 percent interval above 1. Data sets with one seed count for nothing. Exit code 1
when a verdict differs.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import pandas as pd

RIVALS = ["stoc-admm", "opt-sadmm", "svrg-admm", "sag-admm"]
CLAIMS = {
    "lasso-end": ("fig1", "theory"),
    "fused-end": ("fig2", "tuned"),
    "multitask-end": ("fig3", "tuned"),
}
MARGIN, WORST = 0.1, 10.0  # powers of ten; times the first gap that a diverged run counts for
STUDENT = {
    1: 12.7062,
    2: 4.3027,
    3: 3.1824,
    4: 2.7764,
    5: 2.5706,
    6: 2.4469,
    7: 2.3646,
    8: 2.3060,
    9: 2.2622,
}  # 97.5 percent, by degrees of freedom


def read(folder: Path) -> pd.DataFrame:
    """Return the raw table."""
    path = folder / "table.parquet"
    return pd.read_parquet(path) if path.exists() else pd.read_csv(folder / "table.csv")


def log_gap(run: pd.DataFrame, at: float) -> float:
    """Return log10 of the gap of one run after so many passes, interpolated between records."""
    run = run.sort_values("passes")
    gap = run["gap"].fillna(math.inf).clip(lower=run["floor"])
    logs = gap.clip(upper=WORST * gap.iloc[0]).map(math.log10)
    passes = run["passes"].to_list()
    later = next((k for k, p in enumerate(passes) if p >= at), len(passes) - 1)
    if later == 0 or passes[later] <= at:
        return float(logs.iloc[later])
    share = (at - passes[later - 1]) / (passes[later] - passes[later - 1])
    return float(logs.iloc[later - 1] + share * (logs.iloc[later] - logs.iloc[later - 1]))


def common_end(a: pd.DataFrame, b: pd.DataFrame) -> float:
    """Return the last pass that both made; a run that ended early by itself does not count."""
    ended = [
        r["passes"].max() for r in (a, b) if r["status"].iloc[0] not in ("diverged", "solved")
    ]
    return min(ended) if ended else max(a["passes"].max(), b["passes"].max())


def compare(ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    """Return the verdict of one comparison."""
    logs, seeds = [], sorted(set(ours["seed"]) & set(theirs["seed"]))
    if len(seeds) == 1:
        return "one seed"
    for seed in seeds:
        a, b = ours[ours["seed"] == seed], theirs[theirs["seed"] == seed]
        if not a["floor"].map(math.isfinite).all():
            return "not decidable"
        at = common_end(a, b)
        logs.append(log_gap(b, at) - log_gap(a, at))
    if not logs:
        return "not decidable"
    numbers = pd.Series(logs)
    mean, half = numbers.mean(), STUDENT[len(logs) - 1] * numbers.std() / math.sqrt(len(logs))
    if mean > MARGIN and mean - half > 0:
        return "holds"
    return "does not hold" if mean < -MARGIN and mean + half < 0 else "not decidable"


def derive(table: pd.DataFrame, figure: str, variant: str) -> str:
    """Return the verdict of a claim about all data sets."""
    chosen = table[
        (table["experiment"] == figure)
        & (table["variant"] == variant)
        & (table["point"] == "last")
    ]
    found = []
    for _, rows in chosen.groupby("dataset"):
        ours = rows[rows["method"] == "acc-sadmm"]
        rivals = [rows[rows["method"] == name] for name in RIVALS]
        found += [compare(ours, theirs) for theirs in rivals if len(theirs)]
    found = [verdict for verdict in found if verdict != "one seed"]
    if "does not hold" in found:
        return "does not hold"
    return "not decidable" if not found or "not decidable" in found else "holds"


def main() -> int:
    """Compare what was derived with what was published."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    table = read(folder)
    published = {c["name"]: c["verdict"] for c in json.loads((folder / "claims.json").read_text())}
    agree = True
    for name, place in CLAIMS.items():
        if name not in published:
            print(f"{name}: not published")
            continue
        verdict = derive(table, *place)
        same = verdict == published[name]
        agree &= same
        print(f"{name}: {verdict}, published {published[name]}: {'agrees' if same else 'DIFFERS'}")
    return 0 if agree else 1


if __name__ == "__main__":
    raise SystemExit(main())
