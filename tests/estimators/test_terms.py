"""Terms against CVXPY with Clarabel, and against reference fits of smurf."""

import json
import os
from dataclasses import replace
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from benchmarks import tariff

import stochadmm as sa

T = sa.terms
SLACK = 1e-6


def problem(seed):
    """Return a frame, a term or two, and their structure written down once more by hand."""
    rng = np.random.default_rng(seed)
    n, k, h = 200, int(rng.integers(4, 9)), int(rng.integers(3, 6))
    frame = pd.DataFrame({"a": np.arange(n) % k, "b": rng.integers(0, h, n)})
    z = rng.normal(size=k)[frame["a"]] + 0.3 * rng.normal(size=h)[frame["b"]]
    frame["y"] = rng.poisson(np.exp(0.5 * z))
    return frame, k, h


def best(frame, k, h, penalty, constraints, cells=False):
    """Return the least objective of a Poisson model of two factors, and its linear predictor."""
    a, b, c = cp.Variable(k), cp.Variable(h), cp.Variable()
    g = cp.Variable((k, h))
    z = a[frame["a"].to_numpy()] + b[frame["b"].to_numpy()] + c
    if cells:
        z = z + cp.vec(g, order="C")[(frame["a"] * h + frame["b"]).to_numpy()]
    mean_loss = cp.sum(cp.exp(z) - cp.multiply(frame["y"].to_numpy(), z)) / len(frame)
    found = cp.Problem(cp.Minimize(mean_loss + penalty(a, b, g)), constraints(a, b, g))
    return found.solve(solver="CLARABEL")


def chain(v):
    return cp.norm1(cp.diff(v))


def ring(v):
    return cp.norm1(cp.diff(v)) + cp.abs(v[0] - v[-1])


def pairs(v):
    size = v.shape[0]
    return sum(cp.abs(v[i] - v[j]) for i in range(size) for j in range(i))


def grid(g):
    return cp.sum(cp.abs(cp.diff(g, axis=0))) + cp.sum(cp.abs(cp.diff(g, axis=1)))


ALPHA = 0.01
KINDS = {
    "increasing": (
        {"a": T.Ordered(increasing=True), "b": T.Nominal()},
        lambda a, b, g: ALPHA * (chain(a) + pairs(b)),
        lambda a, b, g: [cp.diff(a) >= 0],
    ),
    "decreasing": (
        {"a": T.Ordered(decreasing=True), "b": T.Free(levels=True)},
        lambda a, b, g: ALPHA * chain(a),
        lambda a, b, g: [cp.diff(a) <= 0],
    ),
    "bounds": (
        {"a": T.Ordered(base=1, bounds=(-0.2, 0.3)), "b": T.Ordered()},
        lambda a, b, g: ALPHA * (chain(a) + chain(b)),
        lambda a, b, g: [a - a[1] >= -0.2, a - a[1] <= 0.3],
    ),
    "ring": (
        {"a": T.Periodic(), "b": T.Ordered(weight=2.0)},
        lambda a, b, g: ALPHA * (ring(a) + 2.0 * chain(b)),
        lambda a, b, g: [],
    ),
    "grid": (
        {"a": T.Ordered(), "b": T.Ordered(), ("a", "b"): T.Grid()},
        lambda a, b, g: ALPHA * (chain(a) + chain(b) + grid(g)),
        lambda a, b, g: [],
    ),
    "lines": (
        {"a": T.Ordered(order=2), "b": T.Map([(0, 1), (1, 2), (0, 2)])},
        lambda a, b, g: (
            ALPHA
            * (
                cp.norm1(cp.diff(a, 2))
                + sum(cp.abs(b[i] - b[j]) for i, j in ((0, 1), (1, 2), (0, 2)))
            )
        ),
        lambda a, b, g: [],
    ),
}


def check(kind, seed):
    frame, k, h = problem(seed)
    terms, penalty, constraints = KINDS[kind]
    value = best(frame, k, h, penalty, constraints, kind == "grid")
    model = sa.StructuredRegressor(
        ALPHA, terms=terms, weights="equal", loss="poisson", tol=1e-8
    ).fit(frame[["a", "b"]], frame["y"])
    assert model.result_.objective == pytest.approx(value, abs=SLACK)
    assert model.result_.objective - model.result_.gap <= value + SLACK
    coef = {key: part.spread(model.coef_) for key, part in _parts(model)}
    if kind == "increasing":
        assert (np.diff(coef["a"]) >= -1e-12).all()
    if kind == "bounds":
        inside = coef["a"] - coef["a"][1]
        assert inside.min() >= -0.2 - 1e-9 and inside.max() <= 0.3 + 1e-9


def _parts(model):
    return [(part.key, part) for part in model._design.parts]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_terms_are_the_problems_they_say(kind, seed):
    check(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 19))
@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_random_problems_agree_with_clarabel(kind, seed):
    check(kind, seed)


@pytest.mark.parametrize("term", [T.Sparse(), T.Group(), T.Smooth(knots=6)], ids=repr)
def test_numbers_are_standardized_shrunk_or_bent(term):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 100, 300)})
    y = np.sin(frame["x"] / 20) + 0.1 * rng.normal(size=300)
    one = sa.StructuredRegressor(0.01, terms={"x": term}, tol=1e-9).fit(frame, y)
    other = sa.StructuredRegressor(0.01, terms={"x": term}, tol=1e-9).fit(100 * frame, y)
    np.testing.assert_allclose(one.predict(frame), other.predict(100 * frame), atol=1e-6)
    flat = sa.StructuredRegressor(1e6, terms={"x": term}, tol=1e-9).fit(frame, y)
    straight = np.polyfit(frame["x"], y, 1) if isinstance(term, T.Smooth) else [0.0, y.mean()]
    if not isinstance(term, T.Smooth):
        np.testing.assert_allclose(
            flat.predict(frame), np.polyval(straight, frame["x"]), atol=1e-5
        )
    assert one.score(frame, y) > flat.score(frame, y) + 0.01


def test_a_group_of_columns_is_in_or_out_as_a_whole():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    y = frame["a"] + 0.02 * frame["d"] + 0.1 * rng.normal(size=300)
    terms = {name: T.Group("ab" if name in "ab" else "cd") for name in "abcd"}
    model = sa.StructuredRegressor(0.2, terms=terms).fit(frame, y)
    assert (model.coef_[:2] != 0).all() and not model.coef_[2:].any()


def test_adaptive_weights_merge_what_is_near_and_keep_what_is_far():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.integers(0, 10, 4000)})
    y = 1.0 * (frame["a"] >= 5) + 0.3 * rng.normal(size=4000)
    model = sa.StructuredRegressor(
        3e-4, terms={"a": T.Ordered()}, weights="adaptive", tol=1e-9
    ).fit(frame, y)
    assert list(model.table_["class"]) == ["0..4", "5..9"]
    rel = model.table_["coefficient"]
    assert abs(rel.max() - rel.min() - 1.0) < 0.05


# ---------------------------------------------------------------- smurf


def data(*names):
    if "STOCHADMM_DATA" not in os.environ:
        pytest.skip("STOCHADMM_DATA does not name a folder with rent and beMTPL97")
    return [Path(os.environ["STOCHADMM_DATA"]) / name for name in names]


def rent():
    csv, pairs_of, runs = data(
        "rent/rent.csv.gz", "rent/munich-map.csv.gz", "rent/smurf-reference.json"
    )
    frame = pd.read_csv(csv)
    frame["decade"] = frame["year"] // 10 * 10
    quality = np.where(frame["good"] == 1, "good", "fair")
    quality = np.where(frame["best"] == 1, "excellent", quality)
    frame["quality"] = pd.Categorical(quality, ["fair", "good", "excellent"], ordered=True)
    edges = pd.read_csv(pairs_of).to_numpy().tolist()
    return frame, edges, json.loads(runs.read_text())["runs"]


def rent_terms(model, edges, n):
    one = np.sqrt(n / (n - 1))  # smurf standardizes with n - 1
    sparse = T.Sparse(levels=True, weight=one)
    terms = {
        "area": T.Map(edges) if "map" in model else T.Nominal(),
        "decade": T.Ordered(),
        "rooms": T.Ordered(),
        "quality": T.Ordered(),
        "size": T.Ordered(bins=list(range(30, 150, 10))),
    }
    for name in ("warm", "central", "tiles", "bathextra", "kitchen"):
        terms[name] = sparse
    if "map" in model:
        terms |= {
            name: T.Group("heating", levels=True, weight=one) for name in ("warm", "central")
        }
        terms["tiles"] = T.Free(levels=True)
    return terms, one


@pytest.mark.parametrize("run", range(12))
def test_fits_of_rents_reach_the_optimum_and_the_classes_of_smurf(run):
    frame, edges, runs = rent()
    r = runs[run]
    terms, one = rent_terms(r["model"], edges, len(frame))
    loss = "gamma" if "gamma" in r["model"] else "squared"
    weights = "equal" if r["pen_weights"] == "eq" else "standard"
    y = frame["rentm"].to_numpy()
    model = sa.StructuredRegressor(
        terms=terms, remainder="drop", weights=weights, loss=loss, tol=1e-8
    )
    if "glm" in r["pen_weights"]:  # given: smurf's first fit is another one than ours
        given = r["weights"]
        if isinstance(given, str):
            (given,) = (
                q["weights"]
                for q in runs
                if q["model"] == r["model"] and isinstance(q.get("weights"), dict)
            )
        model.set_params(terms=with_weights(model, frame, y, given, one), weights="equal")
        model.alpha = r["lam"]
    else:
        model.alpha = tariff.at_smurfs_scale(model, frame, y, r["lam"])
    model.fit(frame, y)
    objective = model.result_.objective - (1 + np.log(y).mean() if loss == "gamma" else 0)
    assert objective == pytest.approx(r["optimum"], rel=1e-9)
    if r["smurf_epsilon"] > 1e-10:
        return  # its answer is not accurate enough to compare classes
    for part in model._design.parts:
        if part.label in ("area", "decade", "rooms", "quality", "size"):
            _same_classes(part, model, r["coef"])


def with_weights(model, frame, y, given, one):
    """Return the terms with weights of smurf, whose pairs come in another order."""
    model._prepare(frame, y, None, None)
    terms = {}
    for part in model._design.parts:
        named = given.get({"decade": "year"}.get(part.label, part.label), 1.0)
        own = np.atleast_1d(np.asarray(named, dtype=float))
        term = part.term
        if isinstance(term, (T.Nominal, T.Map)):
            matrix = part.block.rows[0].matrix.toarray()
            pairs = [tuple(np.flatnonzero(row)) for row in matrix]
            key = (
                (lambda p: (p[1] - p[0], p[0]))
                if isinstance(term, T.Nominal)
                else (lambda p: (p[1], p[0]))
            )
            own = dict(zip(sorted(pairs, key=key), own, strict=True))
            own = np.array([own[pair] for pair in pairs])
        factor = one if isinstance(term, T.Sparse) else 1.0
        terms[part.key] = replace(term, weight=tuple((factor * own).tolist()))
    return terms


def _same_classes(part, model, coef):
    prefix = {"decade": "year"}.get(part.label, part.label)
    starts = ["0", *map(str, range(30, 150, 10))] if part.label == "size" else part.block.names
    theirs = np.array([coef.get(prefix + start, 0.0) for start in starts])
    ours = part.spread(model.coef_)
    ours = ours - ours[0]
    np.testing.assert_allclose(ours, theirs, atol=1e-3)  # its last digits
    merged = np.abs(theirs[:, None] - theirs) < 1e-7
    labels = np.array(list(dict.fromkeys(model.level_map_[part.key].values())))
    own = [model.level_map_[part.key][name] for name in part.block.names]
    codes = np.searchsorted(np.sort(labels), own)
    np.testing.assert_array_equal(codes[:, None] == codes, merged)


@pytest.mark.slow
@pytest.mark.parametrize("run", [0, 1])
def test_fits_of_claims_reach_the_optimum_of_smurfs_model(run):
    (folder,) = data(".")
    frame, _ = tariff.claims(folder)
    r = json.loads((folder / "beMTPL97/smurf-reference.json").read_text())["runs"][run]
    y, offset = frame["nclaims"].to_numpy(), np.log(frame["expo"].to_numpy())
    terms = tariff.plain_terms(len(frame))
    model = sa.StructuredRegressor(terms=terms, remainder="drop", loss="poisson", tol=1e-8)
    model.alpha = tariff.at_smurfs_scale(model, frame, y, r["lam"])
    model.fit(frame, y, offset=offset)
    assert model.result_.objective - tariff.perfect_loss(y) == pytest.approx(
        r["optimum"], rel=1e-9
    )
