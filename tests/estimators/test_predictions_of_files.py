"""Predictions and labels of rows that are not in memory, as those of rows that are."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.estimators import _data

N = 300


def generated():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((N, 4)) < 0.7, rng.standard_normal((N, 4)), 0.0)
    return X, X[:, 0] - X[:, 1] + rng.logistic(size=N) > 0


def stored(kind, X, y, folder):
    """Write rows to a file, with targets only where the format has no rows without them."""
    if kind == "npy":
        np.save(folder / "X.npy", X)
        return folder / "X.npy"
    if kind == "npz":
        np.savez(folder / "t.npz", X=X)
        return folder / "t.npz"
    if kind == "raw csr":
        S = sparse.csr_array(X)
        for name in ("data", "indices", "indptr"):
            np.save(folder / f"{name}.npy", getattr(S, name))
        return folder
    if kind == "libsvm":
        from sklearn.datasets import dump_svmlight_file

        dump_svmlight_file(X, y, str(folder / "t.svm"), zero_based=False)
        return folder / "t.svm"
    pa = pytest.importorskip("pyarrow")
    table = pa.table({f"x{j}": X[:, j] for j in range(4)})
    if kind == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, folder / "t.csv")
        return folder / "t.csv"
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize("kind", ["npy", "npz", "raw csr", "libsvm", "csv", "parquet"])
def test_predictions_of_files_need_no_targets(kind, tmp_path):
    X, y = generated()
    model = sa.SparseLogisticClassifier(alpha=0.01).fit(X, y.astype(int))
    path = stored(kind, X, y.astype(int), tmp_path)
    for name in (path, str(path)):
        np.testing.assert_array_equal(np.asarray(model.predict(name)), model.predict(X))
    scores, shares = model.decision_function(path), model.predict_proba(path)
    np.testing.assert_allclose(np.asarray(scores), model.decision_function(X), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(shares), model.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("kind", ["raw csr", "libsvm"])
def test_last_columns_that_are_empty_in_other_rows_are_there(kind, tmp_path):
    X, y = generated()
    model = sa.SparseLogisticClassifier(alpha=0.01).fit(X, y.astype(int))
    X = X * [1, 1, 0, 0]
    path = stored(kind, X, y.astype(int), tmp_path)
    np.testing.assert_array_equal(np.asarray(model.predict(path)), model.predict(X))


def test_offsets_of_predictions_are_named_as_in_a_fit(tmp_path):
    X, y = generated()
    model = sa.SparseLogisticClassifier(alpha=0.01).fit(X, y)
    offset = np.linspace(-1, 1, N)
    np.save(tmp_path / "o.npy", offset)
    path = stored("npy", X, y, tmp_path)
    found = model.decision_function(path, offset=tmp_path / "o.npy")
    np.testing.assert_allclose(np.asarray(found), model.decision_function(X, offset), rtol=1e-12)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_have_the_columns_and_levels_of_the_fit_and_may_have_more(ending, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(1)

    def write(name, kinds, **more):
        frame = pd.DataFrame({"a": rng.standard_normal(len(kinds)), "k": kinds, **more})
        path = tmp_path / f"{name}.{ending}"
        if ending == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path, index=False)
        return str(path), frame

    kinds = rng.choice(["1", "2", "x"], N)
    train, _ = write("train", kinds, y=(kinds == "x") + 0.1 * rng.standard_normal(N))
    model = sa.LassoRegressor(alpha=1e-3).fit(train, "y")
    names = ["a", "k=1", "k=2", "k=x"]
    assert list(model.feature_names_in_) == names

    def predicted(frame):
        X = np.column_stack([frame["a"], *(frame["k"] == kind for kind in "12x")]).astype(float)
        return X @ model.coef_ + model.intercept_

    # a level less, a new one, texts that look like numbers, columns in another order, more of them
    for number, kinds in enumerate((["1", "2"], ["x", "other"], ["2", "2"])):
        path, other = write(f"new{number}", kinds, w=[1.0, 2.0], y=[0.5, 0.75])
        np.testing.assert_allclose(np.asarray(model.predict(path)), predicted(other), rtol=1e-12)
        wanted = 1 - np.sum((predicted(other) - other.y) ** 2) / np.sum(
            (other.y - other.y.mean()) ** 2
        )
        assert model.score(path, "y") == pytest.approx(wanted)
    (tmp_path / "less.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="no column 'k=1' of the model"):
        model.predict(str(tmp_path / "less.csv"))


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_offsets_of_dask_predictions_are_added_row_by_row(outputs, frame):
    da = pytest.importorskip("dask.array")
    X, y = generated()
    rng = np.random.default_rng(2)
    targets = X[:, 0] if outputs == 1 else X[:, :3]
    models = [sa.LassoRegressor(alpha=0.01).fit(X, targets)]
    if outputs == 1:
        models.append(sa.SparseLogisticClassifier(alpha=0.01).fit(X, y))
    else:
        models.append(sa.SparseLogisticClassifier(alpha=0.01).fit(X, X[:, :3].argmax(axis=1)))
    offset = rng.standard_normal((N, outputs)) if outputs > 1 else rng.standard_normal(N)
    rows = da.from_array(X, chunks=(100, -1))
    lazy = da.from_array(offset, chunks=(100, -1)[: offset.ndim])
    if frame:
        dd = pytest.importorskip("dask.dataframe")
        rows = dd.from_dask_array(rows, columns=[f"x{j}" for j in range(4)])
        names = [f"o{j}" for j in range(outputs)] if outputs > 1 else "o"
        lazy = dd.from_dask_array(lazy, columns=names)
    for model in models:
        found = model.predict(rows, offset=lazy).compute()
        np.testing.assert_array_equal(found, model.predict(X, offset))
    shares = models[1].predict_proba(rows, offset=lazy).compute()
    np.testing.assert_allclose(shares, models[1].predict_proba(X, offset), rtol=1e-12)
    wrong = lazy[["o0"]] if frame and outputs > 1 else None
    if not frame:
        wrong = lazy[:, None] if outputs == 1 else lazy[:, 0]
    if wrong is not None:
        with pytest.raises(ValueError, match="offset has shape"):
            models[0].predict(rows, offset=wrong)
    with pytest.raises(TypeError, match="pass offset as a Dask"):
        models[0].predict(rows, offset=offset)


LABELS = {
    "texts": lambda y: np.where(y, "yes", "no"),
    "objects": lambda y: np.where(y, "yes", "no").astype(object),
    "truth values": lambda y: y,
    "small numbers": lambda y: y.astype(np.int8),
    "three": lambda y: np.where(y, "yes", np.where(np.arange(N) % 2, "no", "perhaps")),
}


@pytest.mark.parametrize("kind", [*LABELS, "series", "list"])
@pytest.mark.parametrize("route", ["memory map", "dask"])
def test_labels_of_any_kind_are_those_of_a_fit_in_memory(route, kind, tmp_path, monkeypatch):
    X, signs = generated()
    y = LABELS.get(kind, LABELS["texts"])(signs)
    if kind == "series":
        pd = pytest.importorskip("pandas")
        y = pd.Series(y, index=np.arange(N)[::-1])
    y = y.tolist() if kind == "list" else y
    here = sa.SparseLogisticClassifier(alpha=0.01, tol=1e-8).fit(X, y)
    if route == "dask":
        da = pytest.importorskip("dask.array")
        rows = da.from_array(X, chunks=(100, -1)), da.from_array(np.asarray(y), chunks=100)
    else:
        monkeypatch.setattr(_data, "BUDGET", 0)
        np.save(tmp_path / "X.npy", X)
        rows = np.load(tmp_path / "X.npy", mmap_mode="r"), y
    there = sa.SparseLogisticClassifier(alpha=0.01, tol=1e-8).fit(*rows)
    assert there.classes_.dtype == here.classes_.dtype
    np.testing.assert_array_equal(there.classes_, here.classes_)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-4)
    assert there.score(*rows) == here.score(X, y)
    np.testing.assert_array_equal(np.asarray(there.predict(rows[0])), here.predict(X))


def test_texts_where_numbers_are_needed_and_mixed_labels_are_refused():
    da = pytest.importorskip("dask.array")
    X, y = generated()
    rows = da.from_array(X, chunks=(100, -1))
    texts = da.from_array(np.where(y, "yes", "no"), chunks=100)
    for loss in ("squared", "huber"):
        with pytest.raises(sa.DataError, match="expected numbers; a classifier takes texts"):
            sa.LassoRegressor(loss=loss).fit(rows, texts)
    mixed = np.where(y, "yes", None)
    with pytest.raises(sa.DataError, match="of several kinds, or some are missing"):
        sa.SparseLogisticClassifier().fit(rows, da.from_array(mixed, chunks=100))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "npy", "dask"])
def test_truth_values_are_the_same_labels_as_in_memory(tmp_path, ending):
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    pa = pytest.importorskip("pyarrow")
    X = rng.standard_normal((300, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(300) > 0
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    path, target = tmp_path / f"rows.{ending}", "y"
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "arrow":
        table = pa.Table.from_pandas(frame)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
    elif ending == "npy":
        np.save(path, X)
        target = tmp_path / "y.npy"
        np.save(target, y)
    else:
        path = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    options = {"class_weight": {False: 2.0}}
    held = sa.SparseGroupLassoClassifier(0.01, **options).fit(X, y)
    model = sa.SparseGroupLassoClassifier(0.01, **options).fit(path, target)
    assert model.classes_.tolist() == [False, True] and model.classes_.dtype == bool
    np.testing.assert_allclose(model.coef_, held.coef_, atol=2e-2)
    labels = np.asarray(model.predict(path))
    assert labels.dtype == bool
    np.testing.assert_array_equal(labels, X @ model.coef_[0] + model.intercept_ > 0)
    assert model.score(path, target) == pytest.approx(np.mean(labels == y))
