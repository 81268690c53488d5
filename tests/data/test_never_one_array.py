"""No code path turns a Dask collection, a file or a memory map into one array.

Dask collections here cannot be computed as a whole, nor be made an array; sources hold the reader
to blocks, to one shard at a time, and refuse to be made an array.
"""

from itertools import pairwise

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.data import ArraySource
from stochadmm.data._arrays import ArrayShard

ROWS, D, PART = 1200, 4, 150


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, D))
    y = np.sign(X @ [1.0, 1.0, -1.0, 0.0] + rng.logistic(size=ROWS))
    return X, y, rng.uniform(0.5, 2.0, ROWS)


class Whole(AssertionError):
    """Somebody asked for all rows at once."""


class LockedShard:
    """A shard of which only one may be open at a time, in blocks."""

    open_now = 0
    longest_part = 0

    def __init__(self, shard):
        self.shard, self.first, self.n_rows = shard, shard.first, shard.n_rows

    def blocks(self, max_bytes):
        if LockedShard.open_now:
            raise Whole("two shards are open at a time")
        LockedShard.open_now += 1
        try:
            yield from self.shard.blocks(max_bytes)
        finally:
            LockedShard.open_now -= 1

    def part(self, first, n_rows):
        LockedShard.longest_part = max(LockedShard.longest_part, n_rows)
        return LockedShard(self.shard.part(first, n_rows))

    def __array__(self, *args, **kwargs):
        raise Whole("a shard was made an array")


class Locked:
    """A source that refuses to be read in any way but by its shards."""

    def __init__(self, X, y, w):
        edges = np.linspace(0, len(X), 9).astype(int)
        self.shards = [
            LockedShard(ArrayShard(int(a), int(b - a), X, y, w)) for a, b in pairwise(edges)
        ]
        whole = ArraySource(X, y, w)
        self.n_rows, self.n_columns, self.dtype = whole.n_rows, whole.n_columns, whole.dtype
        self.names, self.fingerprint = None, whole.fingerprint

    def __array__(self, *args, **kwargs):
        raise Whole("a source was made an array")

    __len__ = __getitem__ = __iter__ = __array__


@pytest.fixture
def locked_dask(rows, monkeypatch):
    """Return Dask collections, as arrays or a frame, that cannot be computed as a whole."""
    pytest.importorskip("dask")
    import dask
    import dask.array as da
    import dask.dataframe as dd

    parts = [da.from_array(part, chunks=(PART, -1)[: part.ndim]) for part in rows]
    frame = dd.from_dask_array(parts[0], columns=[f"x{j}" for j in range(D)])

    def refuse(*args, **kwargs):
        raise Whole("a Dask collection was computed as a whole")

    for kind in (da.Array, dd.DataFrame, dd.Series):
        for name in ("compute", "persist", "__array__", "__len__", "__iter__", "to_numpy"):
            if hasattr(kind, name):
                monkeypatch.setattr(kind, name, refuse)
    genuine = dask.compute

    def by_partition(*parts, **kwargs):
        if any(isinstance(part, (da.Array, dd.DataFrame, dd.Series)) for part in parts):
            raise Whole("dask.compute was given a collection")
        return genuine(*parts, **kwargs)

    monkeypatch.setattr(dask, "compute", by_partition)
    return {"array": (parts[0], parts[1], parts[2]), "frame": (frame, parts[1], parts[2])}


@pytest.fixture(params=["source", "dask array", "dask frame"])
def given(request, rows, locked_dask):
    """Return X, y and weight as they are passed to fit."""
    LockedShard.open_now = 0
    if request.param == "source":
        return Locked(*rows), None, None
    return locked_dask[request.param.split()[1]]


@pytest.fixture(autouse=True)
def one_thread():
    with sa.cluster.use(sa.cluster.Local(1)):
        yield


def stated(loss, given):
    X, y, w = given
    return sa.Problem.linear(
        loss,
        X,
        y,
        structure=sa.Differences(D),
        on_structure=sa.L1(0.01),
        intercept=True,
        sample_weight=w,
    )


@pytest.mark.parametrize("loss", [sa.Logistic(), sa.Squared(), sa.Huber()])
def test_minimize_reads_parts(loss, given):
    assert sa.minimize(stated(loss, given), stop=sa.Gap(1e-6), memory="4MiB").converged


@pytest.mark.parametrize("method", ["acc-sadmm", "svrg-admm"])
def test_stochastic_methods_read_extents(method, rows):
    LockedShard.open_now = LockedShard.longest_part = 0
    problem = stated(sa.Logistic(), (Locked(*rows), None, None))
    f2 = problem.f2.with_memory(1 << 14)  # the rows take 38 kB
    problem = sa.Problem(f2, problem.h1, A1=problem.A1, A2=problem.A2)
    assert sa.minimize(problem, method, stop=sa.Gap(1e-3)).converged
    assert 0 < LockedShard.longest_part <= ROWS // 10


def test_parquet_is_decoded_in_pieces(tmp_path, rows, monkeypatch):
    """Neither a table nor a row group is asked for at once, and pieces have the size of blocks."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    X, y, w = rows
    table = pa.table({**{f"x{j}": X[:, j] for j in range(D)}, "y": y, "w": w})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")  # one row group

    def refuse(*args, **kwargs):
        raise Whole("a file or a row group was read as a whole")

    largest = []
    genuine = pyarrow.parquet.ParquetFile.iter_batches

    def noted(self, size, **more):
        largest.append(size)
        return genuine(self, size, **more)

    for name in ("read", "read_row_group", "read_row_groups"):
        monkeypatch.setattr(pyarrow.parquet.ParquetFile, name, refuse)
    monkeypatch.setattr(pyarrow.parquet, "read_table", refuse)
    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", noted)
    monkeypatch.setattr(sa.risk.StreamedSum, "block_bytes", 100 * 8 * D)
    source = sa.open(tmp_path / "t.parquet", "y", weight="w", scratch=tmp_path / "scratch")
    assert source.decodes
    problem = stated(sa.Logistic(), (source, None, None))
    assert sa.minimize(problem, stop=sa.Gap(1e-6), memory="4MiB").converged
    assert largest and max(largest) <= 512


def test_estimators_fit_score_and_paths_read_parts(given):
    for model in (
        sa.FusedLassoClassifier(alpha=0.01),
        sa.FusedLassoRegressor(alpha=0.01),
        sa.LassoRegressor(alpha=0.01, standardize=True, loss="huber"),
    ):
        model.fit(*given)
        model.alpha_max(*given)
        model.path(given[0], given[1], sample_weight=given[2], alphas=2, eps=0.5)
        assert model.score(*given) > 0.1


@pytest.mark.filterwarnings("ignore:.*may score better")
def test_cross_validation_reads_parts(given):
    for model in (sa.SparseLogisticClassifierCV, sa.FusedLassoRegressorCV):
        found = model(alphas=2, eps=0.5, cv=2).fit(*given)
        assert found.score_path_.shape == (2, 2)


def test_predictions_are_lazy(rows, locked_dask):
    X, y, w = rows
    model = sa.FusedLassoClassifier(alpha=0.01).fit(X, y, w)
    wanted = model.predict(X)
    source = Locked(X, y, w)
    for call in (model.predict, model.predict_proba, model.decision_function):
        lazy = call(source)
        assert sum(len(part) for part in lazy) == ROWS
    np.testing.assert_array_equal(np.concatenate(list(model.predict(source))), wanted)
    import dask

    for kind in ("array", "frame"):
        lazy = model.predict(locked_dask[kind][0])
        parts = [
            dask.compute(part, scheduler="synchronous")[0] for part in np.ravel(lazy.to_delayed())
        ]
        np.testing.assert_array_equal(np.concatenate(parts), wanted)


def test_a_large_memory_map_is_read_in_parts(tmp_path, rows, monkeypatch):
    """Above the budget a map stands for a source; blocks of it are all that is taken."""
    from stochadmm import problem as stating
    from stochadmm.estimators import _data

    X, y, w = rows
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    monkeypatch.setattr(stating, "BUDGET", 1000)
    monkeypatch.setattr(_data, "BUDGET", 1000)
    largest = []
    genuine = ArrayShard.blocks

    def noted(self, max_bytes):
        for block in genuine(self, max_bytes):
            largest.append(max_bytes)
            yield block

    monkeypatch.setattr(ArrayShard, "blocks", noted)
    assert sa.minimize(stated(sa.Logistic(), (mapped, y, w)), stop=sa.Gap(1e-6)).converged
    assert largest
    largest.clear()
    sa.FusedLassoClassifier(alpha=0.01).fit(mapped, y, w)
    assert largest


def test_the_locks_hold(rows, locked_dask):
    """A test that cannot fail says nothing: each lock is tried."""
    with pytest.raises(Whole):
        np.asarray(Locked(*rows))
    X = locked_dask["array"][0]
    with pytest.raises(Whole):
        X.compute()
    with pytest.raises(Whole):
        np.asarray(X)
    with pytest.raises(Whole):
        locked_dask["frame"][0].compute()
    first, second = Locked(*rows).shards[:2]
    one = first.blocks(100)
    next(one)
    with pytest.raises(Whole):
        next(second.blocks(100))
    one.close()
    assert LockedShard.open_now == 0
