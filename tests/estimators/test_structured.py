"""Models of data frames: coding, exposure, tables, unseen and missing levels."""

import json
import pickle
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import stochadmm as sa

T = sa.terms


def motor(n=1500, seed=0):
    """Return a frame of all kinds of columns, with counts and exposures."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 30, n),
            "brand": rng.choice(["a", "b", "c", "d"], n),
            "zone": rng.choice([1, 2, 3, 4, 5], n),
            "fuel": rng.choice(["diesel", "petrol"], n),
            "power": rng.uniform(40, 200, n),
        }
    )
    z = -1 + 0.5 * (frame["age"] < 22) + 0.4 * frame["brand"].isin(["a", "b"])
    z += 0.3 * (frame["zone"] > 3) + 0.002 * frame["power"]
    frame["years"] = rng.uniform(0.2, 1.0, n)
    frame["claims"] = rng.poisson(np.exp(z) * frame["years"])
    return frame


MAP = [(1, 2), (2, 3), (3, 4), (4, 5), (1, 5)]
CLASSES = [sa.StructuredRegressor, sa.StructuredClassifier]
SEARCHES = [sa.StructuredRegressorCV, sa.StructuredClassifierCV]


@parametrize_with_checks([kind() for kind in CLASSES])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")  # halves of ten rows may be separable
@parametrize_with_checks([kind(alphas=2, cv=2, eps=0.01) for kind in SEARCHES])
def test_scikit_learn_contract_of_searches(estimator, check):
    check(estimator)


@pytest.mark.parametrize("seed", range(42, 50))
def test_weights_are_repeated_rows_to_the_last_digits(seed):
    rng = np.random.default_rng(seed)
    X, y, weight = rng.random((15, 30)), rng.integers(0, 3, 15), rng.integers(0, 5, 15)
    one = sa.StructuredClassifier().fit(X.repeat(weight, axis=0), y.repeat(weight))
    other = sa.StructuredClassifier().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(X), rtol=1e-9, atol=1e-11
    )


TERMS = {"age": T.Ordered(), "brand": T.Nominal(), "zone": T.Map(MAP)}


def fitted(frame, alpha=3e-3, **options):
    given = {"terms": TERMS, "loss": "poisson", "tol": 1e-9} | options
    return sa.StructuredRegressor(alpha, **given).fit(frame, "claims", exposure="years")


def test_a_frame_gives_the_coefficients_of_the_same_model_built_by_hand():
    frame = motor()
    model = fitted(frame, weights="equal")

    ages, brands, zones = np.arange(18, 30), list("abcd"), [1, 2, 3, 4, 5]
    one_hot = [
        (frame[name].to_numpy()[:, None] == np.array(levels)).astype(float)
        for name, levels in (("age", ages), ("brand", brands), ("zone", zones))
    ]
    power = frame["power"].to_numpy()
    spread = power.std()
    columns = [
        *one_hot,
        frame[["fuel"]].to_numpy() == "petrol",
        (power - power.mean())[:, None] / spread,
    ]
    X = np.hstack(columns).astype(float)
    edges = [(i, i + 1) for i in range(11)]
    edges += [(12 + i, 12 + j) for i in range(4) for j in range(i + 1, 4)]
    edges += [(16 + i - 1, 16 + j - 1) for i, j in MAP]
    by_hand = sa.GraphFusedRegressor(
        3e-3, l1_ratio=0.0, graph=edges, loss="poisson", unpenalized=[21, 22], tol=1e-9
    ).fit(X, frame["claims"], offset=np.log(frame["years"]))

    rows = motor(200, seed=1)
    ours = np.log(model.predict(frame))
    theirs = np.log(by_hand.predict(X))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    coef = dict(zip(model.get_feature_names_out(), model.coef_, strict=True))
    at = 0
    for name, levels in (("age", ages), ("brand", brands), ("zone", zones)):
        own = np.array([coef.get(f"{name}={level}", 0.0) for level in levels])
        theirs = by_hand.coef_[at : at + len(levels)]
        base = int(np.argmin(np.abs(own)))
        np.testing.assert_allclose(own, theirs - theirs[base], atol=1e-6)
        at += len(levels)
    assert coef["power"] == pytest.approx(by_hand.coef_[-1] / spread, abs=1e-7)
    assert len(rows) == 200


def test_without_penalty_it_is_the_poisson_model_of_scikit_learn():
    frame = motor()
    model = fitted(frame, alpha=0.0, tol=1e-9)
    X = pd.get_dummies(frame[["age", "brand", "zone", "fuel"]].astype(str), drop_first=True)
    X = np.column_stack([X, (frame["power"] - 120) / 50]).astype(float)
    rate = frame["claims"] / frame["years"]
    theirs = PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=500, solver="newton-cholesky")
    theirs.fit(X, rate, sample_weight=frame["years"])
    np.testing.assert_allclose(model.predict(frame), theirs.predict(X), rtol=1e-5)
    assert model.dof_ == 1 + 11 + 3 + 4 + 1 + 1
    expected = theirs.score(X, rate, sample_weight=frame["years"])
    assert model.score(frame, "claims", exposure="years") != pytest.approx(0.0)
    assert expected == pytest.approx(
        1 - _deviance(frame, theirs.predict(X)) / _deviance(frame, _null(frame)), rel=1e-6
    )


def _null(frame):
    return np.full(len(frame), frame["claims"].sum() / frame["years"].sum())


def _deviance(frame, rate):
    y, mean = frame["claims"].to_numpy(), np.asarray(rate) * frame["years"].to_numpy()
    logs = np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / mean), 0.0)
    return 2 * (logs - y + mean).sum()


def test_the_score_is_the_deviance_explained():
    frame = motor()
    model = fitted(frame)
    expected = 1 - _deviance(frame, model.predict(frame)) / _deviance(frame, _null(frame))
    assert model.score(frame, "claims", exposure="years") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", [pl.from_pandas, pa.Table.from_pandas])
def test_frames_of_all_libraries_give_the_same_model(kind):
    frame = motor(600)
    model, other = fitted(frame), fitted(kind(frame))
    np.testing.assert_array_equal(other.coef_, model.coef_)
    np.testing.assert_array_equal(other.predict(kind(frame)), model.predict(frame))
    assert type(other.table_) is type(kind(frame))
    assert nw.from_native(other.table_)["class"].to_list() == model.table_["class"].to_list()


def test_the_base_changes_the_table_only():
    frame = motor()
    one = fitted(frame)
    other = fitted(frame, terms=TERMS | {"brand": T.Nominal(base="d"), "age": T.Ordered(base=18)})
    np.testing.assert_allclose(other.predict(frame), one.predict(frame), rtol=1e-12)
    table = other.table_
    base = table[table["is_base"] & (table["term"] == "brand")]
    assert "d" in base["class"].iloc[0] and base["relativity"].iloc[0] == 1.0
    assert (one.table_["relativity"] != table["relativity"]).any()


def test_the_order_of_rows_does_not_matter():
    frame = motor()
    mixed = frame.sample(frac=1.0, random_state=0)
    np.testing.assert_allclose(fitted(mixed).coef_, fitted(frame).coef_, atol=1e-7)


def test_the_table_adds_up_and_the_level_map_covers_all_levels():
    frame = motor()
    model = fitted(frame, refit=True)
    for name in TERMS:
        own = model.table_[model.table_["term"] == name]
        assert own["exposure"].sum() == pytest.approx(frame["years"].sum())
        assert own["target"].sum() == pytest.approx(frame["claims"].sum())
        assert own["is_base"].sum() == 1
        assert set(model.level_map_[name]) == {str(v) for v in frame[name].unique()}
        assert set(model.level_map_[name].values()) == set(own["class"])
        assert len(own) < frame[name].nunique() or name == "brand"
        assert (own["standard_error"][~own["is_base"]] > 0).all()
    assert "age: 12 levels in" in model.summary()


def test_a_refit_is_the_plain_model_on_the_simplified_frame():
    frame = motor()
    model = fitted(frame, refit=True)
    simple = model.simplify(frame)[["age", "brand", "zone", "fuel"]]
    X = pd.get_dummies(simple, drop_first=True)
    X = np.column_stack([X, (frame["power"] - 120) / 50]).astype(float)
    theirs = PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=500, solver="newton-cholesky")
    theirs.fit(X, frame["claims"] / frame["years"], sample_weight=frame["years"])
    np.testing.assert_allclose(model.predict(frame), theirs.predict(X), rtol=1e-4)
    assert model.dof_ == np.linalg.matrix_rank(np.column_stack([np.ones(len(X)), X]))


def test_standard_errors_are_those_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    frame = motor()
    largest = str(frame.groupby("age")["years"].sum().idxmax())
    names = [str(a) for a in range(18, 30) if str(a) != largest]
    X = np.column_stack([frame["age"].astype(str) == name for name in names]).astype(float)
    rest = [frame["brand"] == b for b in "bcd"] + [frame["fuel"] == "petrol", frame["power"] / 100]
    X = np.column_stack([np.ones(len(frame)), X, *rest, frame["zone"]]).astype(float)
    model = fitted(
        frame,
        alpha=0.0,
        tol=1e-9,
        terms={"age": T.Free(levels=True), "brand": T.Free(), "zone": T.Free()},
        refit=True,
    )
    theirs = sm.GLM(
        frame["claims"], X, family=sm.families.Poisson(), offset=np.log(frame["years"])
    ).fit(tol=1e-12)
    table = model.table_[model.table_["term"] == "age"].set_index("class")
    np.testing.assert_allclose(
        table.loc[names, "coefficient"], theirs.params[1 : 1 + len(names)], atol=1e-5
    )
    np.testing.assert_allclose(
        table.loc[names, "standard_error"], theirs.bse[1 : 1 + len(names)], rtol=1e-4
    )
    assert model.aic_ == pytest.approx(theirs.aic, rel=1e-7)


def test_exports_say_what_predict_says(tmp_path):
    import sqlite3

    frame = motor(400)
    model = fitted(frame)
    for kind in ("csv", "json", "sql"):
        model.export(tmp_path / f"tariff.{kind}")
    assert len(pd.read_csv(tmp_path / "tariff.csv")) == len(model.table_)
    found = json.loads((tmp_path / "tariff.json").read_text())
    z = np.full(len(frame), found["intercept"])
    for term in found["terms"]:
        column = frame[term["columns"][0]]
        if "derivative" in term:
            z += term["derivative"] * column
        else:
            z += column.astype(str).map({e["level"]: e["coefficient"] for e in term["levels"]})
    np.testing.assert_allclose(np.exp(z), model.predict(frame), rtol=1e-12)
    with sqlite3.connect(":memory:") as base:
        frame.to_sql("policies", base, index=False)
        sql = (tmp_path / "tariff.sql").read_text()
        rows = base.execute(f"SELECT {sql} FROM policies").fetchall()
    np.testing.assert_allclose(np.exp(np.ravel(rows)), model.predict(frame), rtol=1e-12)


def test_terms_follow_the_types_of_columns():
    frame = motor()
    frame["age"] = pd.Categorical(frame["age"], ordered=True)
    frame["flag"] = frame["zone"] > 2
    model = sa.StructuredRegressor(1e-3, loss="poisson")
    model.fit(frame, "claims", exposure="years")
    kinds = {part.key: type(part.term).__name__ for part in model._design.parts}
    assert kinds == {
        "age": "Ordered",
        "brand": "Nominal",
        "zone": "Free",
        "fuel": "Free",
        "power": "Free",
        "flag": "Free",
    }


def test_a_text_of_many_levels_asks_for_a_term():
    frame = pd.DataFrame({"id": [f"p{i}" for i in range(60)]})
    with pytest.raises(ValueError, match=r"'id' has 60 levels.*Map\(edges\), Group\(\)"):
        sa.StructuredRegressor().fit(frame, np.arange(60.0))


@pytest.mark.parametrize("rule", ["error", "base", "mean"])
def test_unseen_levels_follow_the_rule(rule):
    frame = motor()
    model = fitted(frame, unseen=rule)
    row = frame.iloc[[0]].assign(brand="new")
    if rule == "error":
        with pytest.raises(ValueError, match=r"'brand' has the level 'new'"):
            model.predict(row)
        return
    z = np.log(model.predict(row))[0]
    each = {b: np.log(model.predict(row.assign(brand=b)))[0] for b in "abcd"}
    years = frame.groupby("brand")["years"].sum()
    mean = sum(each[b] * years[b] for b in "abcd") / years.sum()
    assert z == pytest.approx(each[years.idxmax()] if rule == "base" else mean, abs=1e-12)


def test_a_level_of_the_map_without_rows_has_the_mean_of_its_neighbors():
    frame = motor()
    model = fitted(frame, terms=TERMS | {"zone": T.Map([*MAP, (9, 1), (4, 9)])})
    row = frame.iloc[[0]]
    one, four, new = (np.log(model.predict(row.assign(zone=v)))[0] for v in (1, 4, 9))
    assert new == pytest.approx((one + four) / 2, abs=1e-12)


@pytest.mark.parametrize("missing", ["error", "level", "mean"])
def test_missing_values_follow_the_rule(missing):
    frame = motor()
    frame["brand"] = frame["brand"].where(frame.index % 7 > 0)
    if missing == "error":
        with pytest.raises(ValueError, match=r"'brand' contains NaN or missing.*missing='level'"):
            fitted(frame)
        return
    model = fitted(frame, missing=missing)
    assert np.isfinite(model.predict(frame)).all()
    assert ("(missing)" in model.level_map_["brand"]) == (missing == "level")


def test_rows_without_exposure_are_left_out_with_a_note():
    frame = motor()
    more = pd.concat([frame, frame.iloc[:20].assign(years=0.0, claims=0)])
    with pytest.warns(UserWarning, match="exposure of zero are left out"):
        model = fitted(more)
    np.testing.assert_allclose(model.coef_, fitted(frame).coef_, atol=1e-7)
    with pytest.raises(ValueError, match="row 0 has an exposure of zero"):
        fitted(frame.iloc[:20].assign(years=0.0, claims=1))


@pytest.mark.parametrize("loss", ["poisson", sa.NegativeBinomial(0.5), sa.Tweedie(1.5)], ids=str)
def test_exposure_is_an_offset_of_counts_and_a_weight_of_means(loss):
    frame = motor()
    y, e = frame["claims"].to_numpy(float), frame["years"].to_numpy()
    X = frame[["age", "power"]].to_numpy(float)
    settings = {"alpha": 1e-3, "loss": loss, "tol": 1e-7, "standardize": True}
    model = sa.LassoRegressor(**settings).fit(X, y, exposure=e)
    if isinstance(loss, sa.Tweedie):
        same = sa.LassoRegressor(**settings).fit(X, y / e, sample_weight=e)
    else:
        same = sa.LassoRegressor(**settings).fit(X, y, offset=np.log(e))
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-7)
    np.testing.assert_allclose(model.predict(X, exposure=e), e * same.predict(X), rtol=1e-5)
    path = sa.LassoRegressor(**settings).path(X, y, alphas=[1e-3], exposure=e)
    np.testing.assert_allclose(path.coefs[0], model.coef_, atol=1e-6)


def test_losses_without_a_log_link_take_no_exposure():
    with pytest.raises(ValueError, match="takes no exposure"):
        sa.LassoRegressor().fit(np.eye(3), np.ones(3), exposure=np.ones(3))


def test_folds_know_levels_that_only_other_folds_have():
    frame = motor(300)
    frame.loc[frame.index[0], "brand"] = "rare"
    model = sa.StructuredRegressorCV(terms=TERMS, loss="poisson", alphas=4, cv=3)
    model.fit(frame, "claims", exposure="years")
    assert np.isfinite(model.score_path_).all()
    assert "rare" in model.level_map_["brand"]


def test_models_travel_through_pickle_clone_pipelines_and_searches():
    frame = motor(400)
    model = fitted(frame)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert clone(model).terms == TERMS
    X = frame.drop(columns=["claims", "years"])
    pipe = make_pipeline(
        FunctionTransformer(), sa.StructuredRegressor(terms=TERMS, loss="poisson")
    )
    search = GridSearchCV(pipe, {"structuredregressor__alpha": [1e-3, 1e-2]}, cv=2)
    search.fit(X, frame["claims"])
    assert search.predict(X).shape == (400,)


def test_searches_and_pipelines_pass_exposure_on():
    frame = motor(400)
    X = frame.drop(columns=["claims", "years"])
    with sklearn.config_context(enable_metadata_routing=True):
        model = sa.StructuredRegressor(terms=TERMS, loss="poisson")
        model.set_fit_request(exposure=True).set_score_request(exposure=True)
        pipe = make_pipeline(FunctionTransformer(), model)
        search = GridSearchCV(pipe, {"structuredregressor__alpha": [1e-3, 1e-2]}, cv=2)
        search.fit(X, frame["claims"], exposure=frame["years"])
    own = sa.StructuredRegressor(search.best_params_["structuredregressor__alpha"])
    own.set_params(terms=TERMS, loss="poisson").fit(frame, "claims", exposure="years")
    np.testing.assert_allclose(search.predict(X), own.predict(X), rtol=1e-12)


@pytest.mark.parametrize("kind", ["one alpha", "search", "labels"])
def test_models_travel_through_skops(kind):
    sio = pytest.importorskip("skops.io")
    frame = motor(300)
    model = sa.StructuredRegressor(1e-3, terms=TERMS, loss="poisson", refit=True)
    if kind == "search":
        model = sa.StructuredRegressorCV(terms=TERMS, loss="poisson", alphas=3, cv=2)
    if kind == "labels":
        labels = np.where(frame["claims"] > 0, "yes", "no")
        model = sa.StructuredClassifier(1e-3, terms=TERMS, remainder="drop").fit(frame, labels)
    else:
        model.fit(frame, "claims", exposure="years")
    written = sio.dumps(model)
    again = sio.loads(written, trusted=sio.get_untrusted_types(data=written))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.status_ is model.status_ and again.level_map_ == model.level_map_


def test_a_classifier_of_a_frame_gives_odds():
    frame = motor()
    model = sa.StructuredClassifier(1e-3, terms=TERMS, remainder="drop")
    model.fit(frame, frame["claims"] > 0)
    z = model.decision_function(frame)
    table = model.table_.set_index(["term", "class"])
    assert table["relativity"].loc["age"].iloc[0] > table["relativity"].loc["age"].iloc[-1]
    # the target of two labels is the number of rows with the second
    assert table["target"].loc["age"].sum() == (frame["claims"] > 0).sum()
    assert "(rows, label True, odds ratio)" in model.summary()
    assert model.predict_proba(frame)[:, 1] == pytest.approx(1 / (1 + np.exp(-z)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"terms": {"agee": T.Ordered()}}, "no column of X.*did you mean age"),
        ({"terms": {"age": "ordered"}}, "expected one of stochadmm.terms"),
        ({"weights": "smurf"}, "weights is 'smurf'"),
        ({"unpenalized": ["age"]}, r"use the term Free\(\)"),
        ({"terms": {"age": T.Ordered(base=99)}}, "no level 99"),
        ({"terms": {"zone": T.Map([("x", "y")])}}, "no pair of the map joins"),
    ],
)
def test_what_cannot_be_meant_is_named(options, words):
    with pytest.raises(ValueError, match=words):
        fitted(motor(100), **options)


def test_columns_are_found_by_name_and_a_lack_of_one_is_named():
    frame = motor(300)
    model = fitted(frame)
    X = frame.drop(columns=["claims", "years"])
    np.testing.assert_array_equal(model.predict(X), model.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X.drop(columns="zone"))


def test_arrays_have_numbered_columns():
    frame = motor(400)
    X = frame[["age", "zone"]].to_numpy()
    model = sa.StructuredRegressor(1e-3, terms={0: T.Ordered()}, loss="poisson")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, frame["claims"])
    assert list(model.level_map_) == [0] and model.predict(X).shape == (400,)


def test_a_search_keeps_the_order_of_categories():
    rng = np.random.default_rng(0)
    names = ["low", "middle", "high"]
    column = pd.Categorical(rng.choice(names, 300), ["none", *names], ordered=True)
    frame = pd.DataFrame({"a": column, "b": column})
    y = np.array([0.0, 0.0, 1.0, 2.0])[column.codes] + 0.1 * rng.normal(size=300)
    terms = {"a": T.Ordered(increasing=True), "b": T.Free()}
    model = sa.StructuredRegressorCV(terms=terms, alphas=3, cv=3).fit(frame, y)
    assert list(model.level_map_["a"]) == ["none", *names]
    assert list(model.level_map_["b"]) == names


@pytest.mark.parametrize("base", [None, "d"])
@pytest.mark.parametrize("term", [T.Nominal, T.Sparse])
def test_standard_errors_are_those_of_differences_to_the_base(base, term):
    sm = pytest.importorskip("statsmodels.api")
    frame = motor()
    model = fitted(
        frame, alpha=1e-9, terms={"brand": term(base=base)}, remainder="drop", refit=True
    )
    table = model.table_.set_index("class")
    first = table.index[table["is_base"]][0]
    others = [b for b in "abcd" if b != first]
    X = np.column_stack([np.ones(len(frame)), *(frame["brand"] == b for b in others)])
    theirs = sm.GLM(
        frame["claims"], X.astype(float), family=sm.families.Poisson(), exposure=frame["years"]
    ).fit(tol=1e-12)
    np.testing.assert_allclose(table.loc[others, "coefficient"], theirs.params[1:], atol=1e-5)
    np.testing.assert_allclose(table.loc[others, "standard_error"], theirs.bse[1:], rtol=1e-4)
    assert table.loc[first, "standard_error"] == 0


def test_the_null_model_of_a_refit_has_a_table():
    frame = motor(300)[["age", "claims"]]
    model = sa.StructuredRegressor(10.0, terms={"age": T.Ordered()}, refit=True, loss="poisson")
    model.fit(frame, "claims")
    assert list(model.table_["class"]) == ["18..29"] and model.table_["standard_error"][0] == 0


def test_merged_bins_are_named_by_their_ends():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.uniform(0, 100, 900)})
    y = np.select([frame["size"] < 40, frame["size"] < 60], [0.0, 1.0], 2.0)
    term = T.Ordered(bins=list(range(10, 100, 10)))
    model = sa.StructuredRegressor(0.05, terms={"size": term}).fit(frame, y)
    assert list(model.table_["class"]) == ["below 40", "40 to 60", "from 60"]


def test_pictures_have_a_panel_for_every_factor():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    frame = motor(600)
    points = np.array([[0, 0], [1, 0], [2, 1], [1, 2], [0, 1]])
    terms = TERMS | {
        "zone": T.Map.from_points([1, 2, 3, 4, 5], points),
        ("age", "brand"): T.Grid(),
    }
    model = fitted(frame, terms=terms, refit=True)
    axes = model.plot_terms()
    assert [ax.get_title() for ax in axes] == ["age", "brand", "zone", "fuel", "age x brand"]
    age, _, zone, _, cells = axes
    steps = age.lines[0].get_ydata()
    table = model.table_.set_index(["term", "class"])["relativity"]
    own = [table["age", model.level_map_["age"][str(a)]] for a in range(18, 30)]
    np.testing.assert_allclose(steps, own)
    np.testing.assert_array_equal(zone.collections[0].get_offsets(), points)
    assert cells.images[0].get_array().shape == (12, 4)
    pyplot.close("all")


def test_small_strengths_and_many_levels_are_certified():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(0, 60, 20_000), "brand": rng.integers(0, 30, 20_000)}
    )
    years = rng.uniform(0.2, 1.0, 20_000)
    claims = rng.poisson(0.1 * np.exp(0.5 * (frame["age"] < 20)) * years)
    terms = {"age": T.Ordered(), "brand": T.Nominal()}
    model = sa.StructuredRegressor(1e-5, terms=terms, loss="poisson", tol=1e-8)
    assert model.fit(frame, claims, exposure=years).result_.converged


def test_numbers_in_texts_are_in_the_order_of_their_size():
    frame = pd.DataFrame({"ratio": ["13-15", "9-12", "6-8", "9-12", "0.5-6"] * 20})
    model = sa.StructuredRegressor(0.0, terms={"ratio": T.Ordered()})
    model.fit(frame, np.tile([4.0, 3.0, 2.0, 3.0, 1.0], 20))
    assert list(model.level_map_["ratio"]) == ["0.5-6", "6-8", "9-12", "13-15"]


def test_a_search_notes_rows_without_exposure_once():
    frame = motor(300)
    frame.loc[:9, ["years", "claims"]] = 0
    model = sa.StructuredRegressorCV(terms={"age": T.Ordered()}, loss="poisson", alphas=2, cv=3)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        model.fit(frame[["age", "years", "claims"]], "claims", exposure="years")
    assert sum("exposure of zero" in str(note.message) for note in notes) == 1


def test_a_summary_says_where_all_levels_are_merged():
    frame, words = motor(300), "This alpha merges all levels"
    terms = {"brand": T.Nominal(), "fuel": T.Free()}
    model = sa.StructuredRegressor(10.0, terms=terms, remainder="drop", loss="poisson")
    assert words in model.fit(frame, "claims").summary()
    assert words not in model.set_params(alpha=1e-4).fit(frame, "claims").summary()


def test_a_square_of_strength_zero_is_no_penalty():
    frame = motor(300)[["age", "brand", "claims"]]
    terms = {"age": T.Ordered(order=2), "brand": T.Nominal(bounds=(-0.1, 0.2))}
    model = sa.StructuredRegressor(0.0, terms=terms, loss="poisson", l2_ratio=0.3)
    assert model.fit(frame, "claims").result_.converged
    plain = sa.StructuredRegressor(0.0, terms=terms, loss="poisson").fit(frame, "claims")
    np.testing.assert_allclose(model.predict(frame), plain.predict(frame), rtol=1e-4)
    path = model.path(frame, "claims", alphas=[0.01])
    one = model.set_params(alpha=0.01).fit(frame, "claims")
    np.testing.assert_allclose(path.results[0].objective, one.result_.objective, rtol=1e-4)


def test_without_an_intercept_several_factors_are_certified():
    frame = motor(400)[["brand", "fuel", "power", "claims"]]
    terms = {"brand": T.Nominal(), "fuel": T.Free(), "power": T.Smooth()}
    plain = sa.StructuredRegressor(1e-3, terms=terms, tol=1e-8, loss="poisson")
    other = sa.StructuredRegressor(
        1e-3, terms=terms, tol=1e-8, loss="poisson", fit_intercept=False
    )
    plain.fit(frame, "claims"), other.fit(frame, "claims")
    assert other.result_.converged
    np.testing.assert_allclose(other.predict(frame), plain.predict(frame), rtol=1e-3)
    np.testing.assert_allclose(other.result_.objective, plain.result_.objective, rtol=1e-7)
