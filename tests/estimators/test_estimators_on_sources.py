"""Estimators on rows that are not in memory: the same answers, and lazy predictions."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.data import ArraySource, spill
from stochadmm.risk.streamed import StreamedSum


def generated(kind="labels", n=1500, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])[:d] + 0.5
    z = X @ np.repeat([1.0, -1.0, 0.0], d // 3) - 0.3
    offset = 0.2 * rng.standard_normal(n)
    y = {
        "labels": np.where(z + offset + rng.logistic(size=n) > 0, 7, 3),
        "numbers": z + offset + rng.standard_normal(n),
        "counts": rng.poisson(np.exp(0.3 * np.clip(z, -4, 4) + offset)).astype(float),
        "several": np.column_stack([z, -z, 0.5 * z]) + rng.standard_normal((n, 3)),
        "classes": 5 + 2 * np.argmax(np.outer(z, [1.0, 0.0, -1.0]) + rng.gumbel(size=(n, 3)), 1),
    }[kind]
    return X, y, rng.uniform(0.5, 2.0, n), offset


MODELS = {
    "logistic": (sa.GraphFusedClassifier(alpha=0.01, tol=1e-8), "labels"),
    "balanced": (
        sa.SparseLogisticClassifier(alpha=0.01, tol=1e-8, class_weight="balanced"),
        "labels",
    ),
    "hinge": (sa.FusedLassoClassifier(alpha=0.01, tol=1e-7, loss="squared_hinge"), "labels"),
    "squared": (sa.FusedLassoRegressor(alpha=0.01, tol=1e-8), "numbers"),
    "standardized": (sa.LassoRegressor(alpha=0.05, tol=1e-8, standardize=True), "numbers"),
    "huber": (sa.GeneralizedLassoRegressor(alpha=0.01, tol=1e-8, loss="huber"), "numbers"),
    "poisson": (sa.LassoRegressor(alpha=0.01, tol=1e-8, loss="poisson"), "counts"),
    "groups": (
        sa.OverlappingGroupRegressor(
            groups=[[0, 1], [1, 2, 3], [4, 5]], alpha=0.05, tol=1e-8, latent=True
        ),
        "numbers",
    ),
    "unpenalized": (sa.FusedLassoRegressor(alpha=0.05, tol=1e-8, unpenalized=[2]), "numbers"),
    "low rank": (sa.SparseLowRankRegressor(alpha=0.1, tol=1e-8), "several"),
    "several huber": (sa.LassoRegressor(alpha=0.01, tol=1e-8, loss="huber"), "several"),
    "classes": (sa.GraphFusedClassifier(alpha=0.01, tol=1e-8), "classes"),
    "balanced classes": (
        sa.SparseLogisticClassifier(alpha=0.01, tol=1e-8, class_weight="balanced"),
        "classes",
    ),
    "one against the rest": (
        sa.FusedLassoClassifier(alpha=0.01, tol=1e-7, loss="squared_hinge"),
        "classes",
    ),
    "classes of low rank": (sa.SparseLowRankClassifier(alpha=0.02, tol=1e-8), "classes"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_to_a_source_is_that_to_its_rows(name):
    from sklearn.base import clone

    model, kind = MODELS[name]
    X, y, weight, offset = generated(kind)
    if kind in ("several", "classes"):
        offset = None
    here = clone(model).fit(X, y, weight, offset)
    there = clone(model).fit(ArraySource(X, y.astype(float), weight, offset))
    np.testing.assert_allclose(there.coef_, here.coef_, atol=3e-4)
    np.testing.assert_allclose(there.intercept_, here.intercept_, atol=3e-4)
    assert there.dual_gap_ <= model.tol and there.n_features_in_ == 6
    answers = there.predict(ArraySource(X, y.astype(float), weight, offset))
    assert type(answers).__name__ == "Predictions" and len(answers) == len(X)
    np.testing.assert_array_equal(np.asarray(answers), there.predict(X, offset))
    if kind != "several":
        source = ArraySource(X, y.astype(float), weight, offset)
        wanted = there.score(X, y, weight, offset)
        assert there.score(source) == pytest.approx(wanted, abs=1e-9)
    assert "coefficients" in there.summary()
    if name in ("logistic", "classes"):
        assert there.aic_ == pytest.approx(here.aic_, rel=1e-4)
        proba = np.asarray(there.predict_proba(source))
        np.testing.assert_allclose(proba, there.predict_proba(X, offset), rtol=1e-12)


@pytest.mark.parametrize("sample", [60, None])  # a few of the rows, or all of them
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "huber", "quantile", "poisson", "gamma"])
def test_scores_of_files_are_those_in_memory_wherever_the_targets_lie(
    loss, weighted, sample, tmp_path, monkeypatch
):
    if sample is not None:
        monkeypatch.setattr(StreamedSum, "sample_rows", sample)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 2))
    counts = loss in ("poisson", "gamma")
    for middle in (0.05, 1.0, 17.0, 983.0) if counts else (0.0, -3.0, 983.0, 1e5):
        y = X[:, 0] + rng.standard_normal(300) + middle
        if counts:
            y = middle * np.exp(0.3 * X[:, 0]) * rng.gamma(2.0, size=300)
        y = np.floor(y) if loss == "poisson" else y
        more = {}
        if weighted:
            more = {"sample_weight": rng.integers(0, 3, 300), "offset": rng.standard_normal(300)}
        for name, array in {"X": X, "y": y, **more}.items():
            np.save(tmp_path / f"{name}.npy", np.asarray(array, dtype=float))
        model = sa.LassoRegressor(alpha=0.01, loss=loss).fit(X, y, **more)
        files = {name: str(tmp_path / f"{name}.npy") for name in ("X", "y", *more)}
        assert model.score(**files) == pytest.approx(model.score(X, y, **more), abs=1e-11)


def test_scores_of_dask_collections_are_those_in_memory():
    da = pytest.importorskip("dask.array")
    X = np.arange(1000.0)[:, None] % 7 - 3
    y = X[:, 0] + np.tile([1.5, -1.5], 500) + 983
    model = sa.LassoRegressor(alpha=0.01).fit(X, y)
    there = model.score(da.from_array(X, chunks=(300, -1)), da.from_array(y, chunks=300))
    assert there == pytest.approx(model.score(X, y), abs=1e-12)


def frame_file(tmp_path, kind="labels"):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    X, y, weight, offset = generated(kind)
    table = pa.table({**{f"x{j}": X[:, j] for j in range(6)}, "y": y, "w": weight, "o": offset})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=400)
    return X, y, weight, offset, tmp_path / "t.parquet"


def test_names_of_files_and_columns_are_enough(tmp_path):
    X, y, weight, offset, path = frame_file(tmp_path)
    model = sa.SparseLogisticClassifier(alpha=0.01, tol=1e-8)
    model.fit(str(path), "y", sample_weight="w", offset="o")
    here = sa.SparseLogisticClassifier(alpha=0.01, tol=1e-8).fit(X, y, weight, offset)
    np.testing.assert_allclose(model.coef_, here.coef_, atol=1e-4)
    assert list(model.feature_names_in_) == [f"x{j}" for j in range(6)]
    assert model.classes_.tolist() == [3, 7]
    rows = sa.open(path, "y", columns=[f"x{j}" for j in range(6)], offset="o")
    model.predict(rows).save(tmp_path / "p.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), predicted(model, X, offset))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(sa.open(path, "y", columns=["x1", "x0", "x2", "x3", "x4", "x5"]))


@pytest.mark.parametrize("frame", [False, True])
def test_dask_collections_are_fitted_and_predicted_lazily(frame):
    pytest.importorskip("dask")
    import dask.array as da

    X, y, weight, _ = generated()
    parts = da.from_array(X, chunks=(400, -1)), da.from_array(y, chunks=400)
    w = da.from_array(weight, chunks=400)
    model = sa.FusedLassoClassifier(alpha=0.01, tol=1e-8)
    if frame:
        dd = pytest.importorskip("dask.dataframe")
        names = [f"x{j}" for j in range(6)]
        whole = dd.concat(
            [
                dd.from_dask_array(parts[0], columns=names),
                dd.from_dask_array(parts[1], columns="y"),
                dd.from_dask_array(w, columns="w"),
            ],
            axis=1,
        )
        model.fit(whole, "y", sample_weight="w")
        labels, proba = model.predict(whole), model.predict_proba(whole[names])
    else:
        model.fit(*parts, w)
        labels, proba = model.predict(parts[0]), model.predict_proba(parts[0])
        assert labels.shape == (1500,) and proba.shape == (1500, 2)
    here = sa.FusedLassoClassifier(alpha=0.01, tol=1e-8).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, here.coef_, atol=1e-4)
    assert hasattr(labels, "dask") and hasattr(proba, "dask")
    np.testing.assert_array_equal(labels.compute(), predicted(model, X))
    np.testing.assert_allclose(proba.compute().sum(axis=1), 1.0)


def predicted(model, X, offset=0.0):
    return model.classes_[(X @ model.coef_[0] + model.intercept_[0] + offset > 0).astype(int)]


def test_what_cannot_be_streamed_is_said(tmp_path):
    X, y, *_ = generated()
    many = ArraySource(X, np.arange(len(X)) % 101.0)
    with pytest.raises(ValueError, match="more than 100 different values"):
        sa.SparseLogisticClassifier().fit(many)
    with pytest.raises(ValueError, match="one class"):
        sa.SparseLogisticClassifier().fit(ArraySource(X, np.ones(len(X))))
    source = ArraySource(X, y.astype(float))
    with pytest.raises(ValueError, match="refit needs rows in memory"):
        sa.SparseLogisticClassifier(refit=True).fit(source)
    with pytest.raises(ValueError, match="glasso"):
        sa.GraphFusedClassifier(graph="glasso").fit(source)
    with pytest.raises(ValueError, match="which has its own"):
        sa.SparseLogisticClassifier().fit(source, y)
    model = sa.SparseLogisticClassifier().fit(source)
    with pytest.raises(ValueError, match="is expecting 6 features"):
        model.predict(ArraySource(X[:, :5], y.astype(float)))


def test_sparse_files_are_standardized_as_in_memory(tmp_path):
    X, y, *_ = generated("numbers")
    X = np.where(np.abs(X) > 1, X, 0.0)
    source = spill(ArraySource(sparse.csr_array(X), y), tmp_path)
    there = sa.LassoRegressor(alpha=0.05, tol=1e-9, standardize=True).fit(source)
    here = sa.LassoRegressor(alpha=0.05, tol=1e-9, standardize=True).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (sa.SparseLogisticClassifier(tol=1e-8), "labels"),
        (sa.FusedLassoClassifier(tol=1e-8, unpenalized=[1]), "labels"),
        (sa.GraphFusedRegressor(tol=1e-8), "numbers"),
        (sa.LassoRegressor(tol=1e-8, loss="poisson"), "counts"),
        (sa.LassoRegressor(tol=1e-8, loss="huber", fit_intercept=False), "numbers"),
        (sa.SparseLogisticClassifier(tol=1e-8), "classes"),
        (sa.FusedLassoClassifier(tol=1e-8, unpenalized=[1]), "classes"),
    ],
)
def test_the_largest_useful_alpha_and_the_path_are_those_of_the_rows(model, kind):
    X, y, weight, offset = generated(kind)
    offset = None if kind == "classes" else offset
    source = ArraySource(X, y.astype(float), weight, offset)
    here, there = model.alpha_max(X, y, weight, offset), model.alpha_max(source)
    assert there == pytest.approx(here, rel=1e-6)
    paths = [
        model.path(X, y, sample_weight=weight, offset=offset, alphas=4, eps=0.05),
        model.path(source, alphas=4, eps=0.05),
    ]
    np.testing.assert_allclose(paths[1].coefs, paths[0].coefs, atol=1e-3)
    assert (paths[1].gaps <= 1e-8).all()


@pytest.mark.filterwarnings("ignore:.*may score better")
@pytest.mark.parametrize("kind", ["labels", "classes", "numbers"])
def test_cross_validation_reads_folds_of_a_source(kind):
    X, y, weight, _ = generated(kind)
    order = np.argsort(y, kind="stable")  # consecutive folds would see one class only
    X, y, weight = X[order], y[order].astype(float), weight[order]
    kinds = {
        "labels": sa.SparseLogisticClassifierCV,
        "classes": sa.SparseLogisticClassifierCV,
        "numbers": sa.FusedLassoRegressorCV,
    }
    model = kinds[kind](alphas=4, eps=0.01, cv=3, tol=1e-6)
    model.fit(ArraySource(X, y, weight))
    assert model.score_path_.shape == (4, 3) and model.alpha_ in model.alphas_
    from stochadmm.data import Fold

    folds = [
        (np.flatnonzero(~inside), np.flatnonzero(inside))
        for inside in (Fold(k, 3, True).mask(0, len(X)) for k in range(3))
    ]
    here = kinds[kind](alphas=model.alphas_, cv=folds, tol=1e-6).fit(X, y, weight)
    np.testing.assert_allclose(model.score_path_, here.score_path_, rtol=1e-4)
    np.testing.assert_allclose(model.coef_, here.coef_, atol=1e-3)


def test_cross_validation_of_a_source_says_what_it_does_not_take():
    X, y, *_ = generated("numbers")
    source = ArraySource(X, y)
    with pytest.raises(ValueError, match="expected a number of folds"):
        sa.LassoRegressorCV(cv=[([0], [1])]).fit(source)
    with pytest.raises(ValueError, match="scoring needs rows in memory"):
        sa.LassoRegressorCV(scoring="r2").fit(source)


# ---------------------------------------------------------------- labels that are texts


def texts_in_files(folder, kind, labels, X):
    """Write rows and a column of labels; return the name of the file."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import csv, feather, parquet

    table = pa.table({f"x{j}": column for j, column in enumerate(X.T)} | {"label": labels})
    path = str(folder / f"rows.{kind}")
    write = {"csv": csv.write_csv, "arrow": feather.write_feather, "parquet": parquet.write_table}
    write[kind](table, path)
    return path


@pytest.mark.parametrize("kind", ["csv", "arrow", "parquet"])
@pytest.mark.parametrize("names", [["no", "maybe not"], ["b", "a longer one", "ä"]])
def test_texts_are_labels_of_files(tmp_path, kind, names):
    X, y, *_ = generated("labels" if len(names) == 2 else "classes")
    labels = np.array(names)[np.unique(y, return_inverse=True)[1]]
    order = np.argsort(labels, kind="stable")  # the first rows have the shorter names alone
    X, labels = X[order], labels[order]
    path = texts_in_files(tmp_path, kind, labels.tolist(), X)
    here = sa.SparseLogisticClassifier(alpha=0.01, tol=1e-8).fit(X, labels)
    there = sa.SparseLogisticClassifier(alpha=0.01, tol=1e-8).fit(path, "label")
    assert there.classes_.tolist() == here.classes_.tolist() == sorted(names)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=3e-4)
    predicted = there.predict(path)
    predicted.save(tmp_path / "labels.npy")
    for found in (np.asarray(predicted), np.load(tmp_path / "labels.npy")):
        assert np.mean(found == here.predict(X)) > 0.999
    assert there.score(path, "label") == pytest.approx(here.score(X, labels), abs=2e-3)
    searched = sa.SparseLogisticClassifierCV(alphas=[0.05, 0.01], cv=2)
    with pytest.warns(UserWarning, match="the smallest of 2"):
        searched.fit(path, "label")
    assert searched.classes_.tolist() == sorted(names)


@pytest.mark.parametrize("kind", ["csv", "arrow", "parquet"])
def test_a_missing_text_is_no_class_and_no_target_of_a_regressor(tmp_path, kind):
    X, y, *_ = generated("labels", n=50)
    labels = np.where(y == 7, "yes", "no").tolist()
    path = texts_in_files(tmp_path, kind, labels, X)
    with pytest.raises(sa.DataError, match="expected numbers"):
        sa.LassoRegressor().fit(path, "label")
    labels[17] = None
    path = texts_in_files(tmp_path, kind, labels, X)
    with pytest.raises(sa.DataError, match="'label' has 1 missing values, the first in row 17"):
        sa.SparseLogisticClassifier().fit(path, "label")


def test_texts_are_not_spilled(tmp_path):
    X, y, *_ = generated("labels", n=50)
    labels = np.where(y == 7, "yes", "no")
    with pytest.raises(TypeError, match="y holds"):
        spill(ArraySource(X, labels), tmp_path)


def test_a_fit_keeps_to_the_memory_that_it_is_given(monkeypatch):
    X, y, *_ = generated("numbers")
    asked = []

    def noted(self, memory):
        asked.append(memory)
        return given(self, memory)

    given = StreamedSum.with_memory
    monkeypatch.setattr(StreamedSum, "with_memory", noted)
    source = ArraySource(X, y)
    few = sa.LassoRegressor(alpha=0.05, tol=1e-8).fit(source, memory="4MiB")
    assert set(asked) == {4 << 20}
    many = sa.LassoRegressor(alpha=0.05, tol=1e-8).fit(source)
    np.testing.assert_allclose(few.coef_, many.coef_, atol=1e-4)
    asked.clear()
    with pytest.warns(UserWarning, match="the smallest of 2"):
        sa.LassoRegressorCV(alphas=[0.1, 0.05], cv=2).fit(source, memory="8MiB")
    assert set(asked) == {8 << 20}
    with pytest.raises(ValueError, match="memory is 'much'"):
        sa.LassoRegressor().fit(source, memory="much")
