"""What models say about themselves, word by word; times and last digits are left open."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stochadmm as sa

PAGE = Path(__file__).parents[2] / "docs" / "start" / "first-fit.md"


def told(model):
    """Return a summary without what differs between machines."""
    text = re.sub(r"gap \d\.\d+e-\d+", "gap SMALL", model.summary())
    return re.sub(r"after \d+ passes and \S+ s", "after SOME passes", text)


def rows(n=200, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, d)), 2)
    return rng, X, X @ [0, 0, 1, 1, 1, 0]


def regressor():
    rng, X, z = rows()
    y = z + np.round(rng.standard_normal(200), 2)
    return sa.FusedLassoRegressor(alpha=0.1).fit(X, y), (X, y)


def counts():
    rng, X, z = rows()
    years = np.round(rng.uniform(0.5, 2, 200), 2)
    y = rng.poisson(years * np.exp(0.3 * z))
    model = sa.OverlappingGroupRegressor(
        groups=[[0, 1], [2, 3, 4], [5]], alpha=0.1, loss="poisson"
    )
    return model.fit(X, y, exposure=years), (X, y, None, None, years)


def classifier():
    rng, X, z = rows()
    y = np.where(z + rng.standard_normal(200) > 0, "yes", "no")
    return sa.GraphFusedClassifier(alpha=0.05).fit(X, y), (X, y)


def labels():
    rng, X, z = rows()
    Y = np.column_stack([z > 0, z + rng.standard_normal(200) > 0.5]).astype(int)
    return sa.SparseLowRankClassifier(alpha=0.05).fit(X, Y), (X, Y)


def search():
    rng, X, z = rows()
    y = z + np.round(rng.standard_normal(200), 2)
    return sa.LassoRegressorCV(alphas=5, cv=2, loss="huber").fit(X, y), (X, y)


def tariff():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 25, 400), "fuel": rng.choice(["a", "b"], 400)})
    frame["claims"] = rng.poisson(0.2 + 0.3 * (frame["age"] < 22))
    model = sa.StructuredRegressor(
        terms={"age": sa.terms.Ordered()}, alpha=0.01, loss="poisson", refit=True
    )
    return model.fit(frame, "claims"), (frame, "claims")


TOLD_REGRESSOR = """\
FusedLassoRegressor with squared loss, alpha = 0.1, l1_ratio = 0.5
R2 0.7633 on the training rows
4 of 6 coefficients are not zero, 3 degrees of freedom
3 sets of equal coefficients along the graph
Converged: relative duality gap SMALL, tolerance 1.00e-04, after SOME passes by auto
AIC 594.098, BIC 603.993"""

TOLD_COUNTS = """\
OverlappingGroupRegressor with poisson loss, alpha = 0.1, l1_ratio = 0
Deviance explained (D2) 0.2228 on the training rows
4 of 6 coefficients are not zero, 5 degrees of freedom
2 of 3 groups are active
Converged: relative duality gap SMALL, tolerance 1.00e-04, after SOME passes by auto
AIC 536.637, BIC 553.128"""

TOLD_CLASSIFIER = """\
GraphFusedClassifier of 2 classes with logistic loss, alpha = 0.05, l1_ratio = 0.5
Accuracy 0.875 on the training rows
4 of 6 coefficients are not zero, 4 degrees of freedom
4 sets of equal coefficients along the graph
Converged: relative duality gap SMALL, tolerance 1.00e-04, after SOME passes by auto
AIC 145.538, BIC 158.731"""

TOLD_LABELS = """\
SparseLowRankClassifier of 2 labels with logistic loss, alpha = 0.05, l1_ratio = 0.5
Accuracy (all labels right) 0.805 on the training rows
8 of 12 coefficients are not zero, 10 degrees of freedom
rank 2 of at most 2
Converged: relative duality gap SMALL, tolerance 1.00e-04, after SOME passes by auto
AIC 237.169, BIC 270.152"""

TOLD_SEARCH = """\
LassoRegressorCV with huber loss, alpha = 0.0285531, l1_ratio = 1
Deviance explained (D2) 0.7503 on the training rows
4 of 6 coefficients are not zero, 5 degrees of freedom
alpha chosen among 5 by 2 folds: held-out mean loss 0.5712 +- 0.0087, at the largest alpha 2.192
Converged: relative duality gap SMALL, tolerance 1.00e-04, after SOME passes by auto"""

TOLD_TARIFF = """\
StructuredRegressor with poisson loss, alpha = 0.01
Deviance explained (D2) 0.1418 on the training rows
3 of 5 coefficients are not zero, 4 degrees of freedom
age: 5 levels in 3 classes (rows, target, relativity)
    20                                     77           47    3.937
    21                                     65           35    3.475
    22..24                                258           40    1.000 (base)
fuel: 2 levels in 2 classes (rows, target, relativity)
    a                                     194           60    0.993
    b                                     206           62    1.000 (base)
Converged: relative duality gap SMALL, tolerance 1.00e-04, after SOME passes by auto
AIC 526.801, BIC 542.767"""


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (regressor, TOLD_REGRESSOR),
        (counts, TOLD_COUNTS),
        (classifier, TOLD_CLASSIFIER),
        (labels, TOLD_LABELS),
        (search, TOLD_SEARCH),
        (tariff, TOLD_TARIFF),
    ],
)
def test_the_summary_names_loss_score_size_structure_and_certificate(make, expected):
    model, _ = make()
    assert told(model) == expected


@pytest.mark.parametrize("make", [regressor, counts, classifier, labels, search, tariff])
@pytest.mark.parametrize("standardize", [False, True])
def test_the_score_of_a_summary_is_that_of_the_training_rows(make, standardize):
    model, given = make()
    names = ("X", "y", "sample_weight", "offset", "exposure")
    kept = dict(zip(names, given, strict=False))
    if standardize:
        if make is tariff:
            pytest.skip("terms have units of their own")
        model.set_params(standardize=True).fit(**kept)
    said = re.search(r"(?:Accuracy|R2|D2|right)\)? (\S+) on the training rows", model.summary())
    assert float(said[1]) == pytest.approx(model.score(**kept), abs=1e-4)


def test_the_summary_on_the_first_page_is_the_one_that_is_printed():
    data = sa.datasets.make_chain(n_rows=400, n_features=50, n_levels=4, noise=0.5, random_state=0)
    model = sa.FusedLassoRegressor(alpha=0.05, l1_ratio=0.1).fit(data.X, data.y)
    if not PAGE.exists():
        pytest.skip("the documentation is not part of this distribution")
    shown = re.search(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    shown = re.sub(r"gap \S+, tolerance", "gap SMALL, tolerance", shown)
    shown = re.sub(r"after \d+ passes and \S+ s", "after SOME passes", shown)
    assert told(model) == shown.strip()
