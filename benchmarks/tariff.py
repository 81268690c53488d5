"""A motor tariff on 163,212 policies: processor seconds beside goals, smurf's optimum, and glum.

    STOCHADMM_DATA=FOLDER python benchmarks/tariff.py [--repeats 3]

The folder has ``beMTPL97`` (R package CASdatasets) with reference fits of smurf 1.1.7. Without it
there is nothing to measure, and the script says so. Times go from a frame to the fitted model on
one thread, coding of levels and certificate included. glum (``pip install glum``) is measured in
the same run where there is no penalty, the only model it shares; it has no certificate, so that
its distance to our certified bound is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402 - after the number of threads
import pandas as pd  # noqa: E402

import stochadmm as sa  # noqa: E402

T = sa.terms
CHAINS = {
    "ageph": T.Ordered(lower=18, upper=85),
    "bm": T.Ordered(),
    "power": T.Ordered(upper=150),
    "agec": T.Ordered(upper=25),
}
TWO_LEVELS = ("sex", "fuel", "use", "fleet")
FREE = dict.fromkeys(TWO_LEVELS, T.Free(levels=True))


def claims(folder: Path) -> tuple[pd.DataFrame, Any]:
    """Return the policies, and the map of the postcodes."""
    frame = pd.read_csv(folder / "beMTPL97/beMTPL97.csv.gz")
    frame["power"] = frame["power"] // 10 * 10
    frame["zone"] = frame["postcode"] // 100
    places = pd.read_csv(folder / "beMTPL97/postcodes.csv.gz")
    return frame, T.Map.from_points(places["postcode"].tolist(), places[["long", "lat"]])


def plain_terms(n: int) -> dict[str, Any]:
    """Return the nine terms of the reference fits; smurf standardizes with n - 1."""
    sparse = T.Sparse(levels=True, weight=float(np.sqrt(n / (n - 1))))
    return {"coverage": T.Nominal(), **CHAINS, **dict.fromkeys(TWO_LEVELS, sparse)}


def at_smurfs_scale(model: Any, frame: pd.DataFrame, y: Any, lam: float) -> float:
    """Return the alpha of a strength of smurf, which scales all weights together to mean one."""
    model._prepare(frame, y, None, None)
    n = len(frame)
    weights = []
    for part in model._design.parts:
        one = np.sqrt(n / (n - 1)) if isinstance(part.term, T.Sparse) else 1.0
        weights += [rows.weight / one for rows in part.block.rows]
        weights += [np.ones(1)] if isinstance(part.term, T.Free) else []
    free = sum(isinstance(part.term, T.Free) for part in model._design.parts)
    count = sum(map(len, weights))
    return float(lam * count / (sum(w.sum() for w in weights) - free))


def perfect_loss(y: Any) -> float:
    """Return the mean loss of perfect predictions; half the deviance is the loss less this."""
    return float(np.mean(y - np.where(y > 0, y * np.log(np.where(y > 0, y, 1)), 0.0)))


def least(run: Any, repeats: int) -> tuple[float, Any]:
    """Return the least processor seconds, and the last answer."""
    best, found = np.inf, None
    for _ in range(repeats):
        start = time.process_time()
        found = run()
        best = min(best, time.process_time() - start)
    return best, found


def said(name: str, seconds: float, goal: float, results: list[Any], more: str = "") -> None:
    """Print one line of the table."""
    gap = max(r.relative_gap for r in results)
    states = ", ".join(sorted({r.status.name for r in results}))
    print(f"{name:42} {seconds:8.2f} {goal:6.1f}   {gap:8.1e}  {states}  {more}", flush=True)


def motor(folder: Path, repeats: int) -> None:
    """Print the processor seconds of seven models of claim counts beside their goals."""
    frame, places = claims(folder)
    y, offset = frame["nclaims"].to_numpy(), np.log(frame["expo"].to_numpy())
    perfect = perfect_loss(y)
    runs = json.loads((folder / "beMTPL97/smurf-reference.json").read_text())["runs"]
    settings: dict[str, Any] = {"remainder": "drop", "loss": "poisson"}
    print(f"{'motor claims, 163,212 rows':42}  seconds   goal   worst gap, status")

    plain = plain_terms(len(frame))
    zones, postcodes = {"zone": T.Nominal()}, {"postcode": places}
    reference = {r["model"]: r["optimum"] for r in runs if r["lam"] == 5e-4}
    models = [
        ("one strength", plain, 0.4, reference["plain"]),
        ("with 80 zones, all pairs", plain | zones, 0.4, reference[runs[2]["model"]]),
        ("with 583 postcodes on a map", plain | postcodes, 0.9, None),
    ]
    strength = {}
    for name, terms, goal, optimum in models:
        model = sa.StructuredRegressor(terms=terms, tol=1e-8, **settings)
        model.alpha = at_smurfs_scale(model, frame, y, 5e-4)
        seconds, found = least(lambda m=model: m.fit(frame, y, offset=offset), repeats)
        more = ""
        if optimum is not None:
            value = found.result_.objective - perfect
            more = f"objective / smurf's optimum - 1: {value / optimum - 1:.1e}"
        said(name, seconds, goal, [found.result_], more)
        strength[name] = model.alpha

    free = plain | zones | FREE
    for name, terms, goal in (("20 strengths", plain, 4.0), ("20, with zones, 4 free", free, 6.0)):
        for tol in (1e-6, 1e-8):
            model = sa.StructuredRegressor(terms=terms, tol=tol, **settings)
            seconds, path = least(lambda m=model: m.path(frame, y, offset=offset, alphas=20), 1)
            said(f"{name}, tolerance {tol:g}", seconds, goal, path.results)

    unpenalized = {
        name: T.Free(levels=True, lower=term.lower, upper=term.upper)
        for name, term in CHAINS.items()
    }
    model = sa.StructuredRegressor(
        0.0, terms=unpenalized | FREE | {"coverage": T.Free()}, tol=1e-8, **settings
    )
    seconds, found = least(lambda: model.fit(frame, y, exposure=frame["expo"]), repeats)
    said("no penalty", seconds, 0.5, [found.result_])
    beside_glum(frame, y, found, perfect, repeats)


def beside_glum(frame: pd.DataFrame, y: Any, ours: Any, perfect: float, repeats: int) -> None:
    """Print glum's time for the model without penalty, and how far it is from the optimum."""
    try:
        from glum import GeneralizedLinearRegressor
    except ImportError:
        print("glum is not installed (pip install glum): nothing beside the last line")
        return
    own = frame["expo"].to_numpy()
    columns = ["coverage", *CHAINS, *TWO_LEVELS]

    def theirs(tolerance: float) -> Any:
        X = frame[columns].copy()
        for name, term in CHAINS.items():
            X[name] = X[name].clip(term.lower, term.upper)
        X = X.astype("category")
        model = GeneralizedLinearRegressor(
            family="poisson", alpha=0, drop_first=True, gradient_tol=tolerance, max_iter=200
        )
        rates = model.fit(X, y / own, sample_weight=own).predict(X)
        return model, float(np.mean(rates * own - y * np.log(rates * own)))

    best = ours.result_.objective - ours.result_.gap
    for tolerance in (1e-4, 1e-8):
        seconds, (model, value) = least(lambda t=tolerance: theirs(t), repeats)
        distance = (value - best) / (value - perfect)
        print(
            f"{f'glum, gradient_tol {tolerance:g}':42} {seconds:8.2f}          {distance:8.1e}  "
            f"above our bound after {model.n_iter_} steps"
        )


def main() -> int:
    """Run what there are data for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    folder = Path(os.environ.get("STOCHADMM_DATA", ""))
    if not (folder / "beMTPL97/smurf-reference.json").is_file():
        print("skipped: STOCHADMM_DATA names no folder with beMTPL97 and its reference fits")
        return 0
    warnings.simplefilter("ignore")
    motor(folder, options.repeats)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
