"""Frames without a penalty, against the generalized linear models of statsmodels and glum."""

import warnings

import numpy as np
import pandas as pd
import pytest

import stochadmm as sa

T = sa.terms
FACTORS = {"age": T.Ordered(base=20), "brand": T.Nominal(base="a"), "fuel": T.Free(base="diesel")}
FAMILIES = ("squared", "logistic", "poisson", "gamma", "tweedie", "negative_binomial")
THETA = 0.7


def policies(family, n=1500, seed=0):
    """Return a frame of factors, a number and an exposure, with targets of the family."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 28, n),
            "brand": rng.choice(["a", "b", "c", "d"], n),
            "fuel": rng.choice(["diesel", "petrol"], n),
            "power": rng.uniform(0.4, 2.0, n),
            "years": rng.uniform(0.2, 1.0, n),
        }
    )
    z = -0.3 + 0.5 * (frame["age"] < 22) + 0.4 * (frame["brand"] == "b") + 0.2 * frame["power"]
    mean = np.exp(z)
    if family == "squared":
        y = z + rng.normal(size=n)
    elif family == "logistic":
        y = rng.random(n) < 1 / (1 + np.exp(-z))
    elif family == "poisson":
        y = rng.poisson(mean * frame["years"])
    elif family == "negative_binomial":
        y = rng.poisson(mean * frame["years"] * rng.gamma(1 / THETA, THETA, n))
    else:
        y = mean * frame["years"] * rng.gamma(2.0, 0.5, n)
        y = y * (rng.random(n) < 0.4) if family == "tweedie" else y
    return frame.assign(y=y)


def coded(frame):
    """Return the usual coding: an intercept, the first level of every factor left out."""
    dummies = [frame[name] == level for name, level in columns_of(frame)]
    return np.column_stack([np.ones(len(frame)), *dummies, frame["power"]]).astype(float)


def columns_of(frame):
    return [(name, level) for name in FACTORS for level in sorted(frame[name].unique())[1:]]


def fitted(frame, family):
    losses = {"tweedie": sa.Tweedie(1.5), "negative_binomial": sa.NegativeBinomial(THETA)}
    kind = sa.StructuredClassifier if family == "logistic" else sa.StructuredRegressor
    model = kind(0.0, terms=FACTORS, loss=losses.get(family, family), refit=True, tol=1e-9)
    given = {} if family in ("squared", "logistic") else {"exposure": "years"}
    X = frame if given else frame.drop(columns="years")
    return model.fit(X, "y", **given)


def coefficients(model, frame):
    """Return intercept, coefficients of levels against the first, and that of the number."""
    table = model.table_.assign(level=model.table_["class"].astype(str))
    table = table.set_index(["term", "level"])["coefficient"]
    levels = [table[name, str(level)] for name, level in columns_of(frame)]
    origin = frame.iloc[[0]].assign(age=20, brand="a", fuel="diesel", power=0.0)
    if hasattr(model, "decision_function"):
        intercept = model.decision_function(origin.drop(columns="years", errors="ignore"))[0]
    else:
        intercept = model.predict(origin.drop(columns="years"))[0]
        intercept = intercept if model.loss == "squared" else np.log(intercept)
    return np.array([intercept, *levels, table["power", "power"]])


def exposed(frame, family):
    """Return the target, the log of the exposure and weights as the family takes them."""
    y, years = frame["y"].to_numpy(float), frame["years"].to_numpy()
    if family in ("poisson", "negative_binomial"):
        return y, np.log(years), np.ones(len(y))
    if family in ("gamma", "tweedie"):
        return y / years, np.zeros(len(y)), years
    return y, np.zeros(len(y)), np.ones(len(y))


@pytest.mark.parametrize("family", FAMILIES)
def test_fits_without_penalty_are_those_of_statsmodels(family):
    sm = pytest.importorskip("statsmodels.api")
    frame = policies(family)
    model = fitted(frame, family)
    y, offset, weight = exposed(frame, family)
    families = {
        "squared": sm.families.Gaussian(),
        "logistic": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(sm.families.links.Log()),
        "tweedie": sm.families.Tweedie(sm.families.links.Log(), var_power=1.5),
        "negative_binomial": sm.families.NegativeBinomial(sm.families.links.Log(), alpha=THETA),
    }
    X = coded(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = sm.GLM(y, X, family=families[family], offset=offset, var_weights=weight).fit(
            tol=1e-13, maxiter=200
        )
        null = 1.0 - theirs.deviance / theirs.null_deviance
    np.testing.assert_allclose(coefficients(model, frame), theirs.params, atol=1e-6)
    if family != "logistic":
        given = {} if family == "squared" else {"exposure": "years"}
        assert model.score(frame, "y", **given) == pytest.approx(null, abs=1e-9)
    assert model.dof_ == np.linalg.matrix_rank(X)
    if family in ("poisson", "negative_binomial", "logistic"):
        assert model.aic_ == pytest.approx(theirs.aic, rel=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_fits_without_penalty_are_those_of_glum(family):
    glum = pytest.importorskip("glum")
    frame = policies(family, seed=1)
    y, offset, weight = exposed(frame, family)
    families = {
        "squared": "normal",
        "logistic": "binomial",
        "tweedie": glum.TweedieDistribution(1.5),
        "negative_binomial": glum.NegativeBinomialDistribution(THETA),
    }
    theirs = glum.GeneralizedLinearRegressor(
        alpha=0.0,
        family=families.get(family, family),
        link="auto" if family in ("squared", "logistic") else "log",
        gradient_tol=1e-10,
    )
    X = np.ascontiguousarray(coded(frame)[:, 1:])
    theirs.fit(X, y, offset=offset, sample_weight=weight)
    own = coefficients(fitted(frame, family), frame)
    np.testing.assert_allclose(own, [theirs.intercept_, *theirs.coef_], atol=1e-6)
    np.testing.assert_allclose(np.exp(own), np.exp([theirs.intercept_, *theirs.coef_]), rtol=2e-6)
