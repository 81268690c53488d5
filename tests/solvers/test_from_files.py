"""Stochastic methods over rows in files: windows of extents, the same iterates, sound bounds."""

import gc
import threading
import tracemalloc
from itertools import islice

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.data import ArraySource, Lanes, ScratchOptions, shuffle_for, spill
from stochadmm.data._copies import reserved
from stochadmm.linear_algebra import threads
from stochadmm.risk.streamed import StreamedSum, opening
from stochadmm.risk.windows import WindowRuns, windows
from stochadmm.solvers import Unsuitable, defaults

D = 6
METHODS = {
    "acc-sadmm": sa.AccSADMM(beta=0.3, batch_size=50, metric="none"),
    "acc-sadmm, exact": sa.AccSADMM(beta=0.3, batch_size=50, metric="identity", restart=2),
    "svrg-admm": sa.SVRGADMM(beta=0.3, batch_size=50),
    "asvrg-admm": sa.solvers.ASVRGADMM(beta=0.3, batch_size=50),
}


def generated(n=3000, seed=0):
    """Rows sorted by label, with weights and offsets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    y = np.sign(X @ [1.0, 1.0, 1.0, 0.0, -1.0, -1.0] + rng.logistic(size=n))
    order = np.argsort(y, kind="stable")
    return X[order], y[order], rng.uniform(0.5, 2.0, n), 0.3 * rng.standard_normal(n)


def stated(X, *arrays, **more):
    return sa.Problem.linear(
        sa.Logistic(),
        X,
        *arrays,
        structure=sa.Differences(D),
        on_structure=sa.L1(0.01),
        intercept=True,
        **more,
    )


def tenths(f2, batch_size, kind=WindowRuns):
    """Return windows of a tenth of the rows, in extents of nineteen."""
    return kind(f2.n_terms, f2.n_terms, batch_size, 19, f2.n_terms // 190)


class AllAtOnce(WindowRuns):
    """The same batches for rows in memory; those of .npy files come from a shuffled copy."""

    shuffled = False

    def draw(self, rng, n_batches):
        rows = rows_of(super().draw(rng, n_batches))
        return np.argsort(self.lanes(0).places(0, self.n_rows))[rows] if self.shuffled else rows


def rows_of(drawn):
    return np.concatenate(list(drawn.windows()))


@pytest.fixture
def tenth(monkeypatch):
    monkeypatch.setattr(WindowRuns, "of", staticmethod(tenths))
    genuine = defaults.sampling

    def windowed(problem, kind, b):
        in_files = isinstance(problem.f2, StreamedSum)
        return genuine(problem, kind, b) if in_files else tenths(problem.f2, b, AllAtOnce)

    monkeypatch.setattr(defaults, "sampling", windowed)


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("storage", ["npy", "raw csr"])
@pytest.mark.parametrize("name", METHODS)
def test_iterates_are_those_of_rows_in_memory(name, storage, engine, tenth, tmp_path, monkeypatch):
    monkeypatch.setattr(AllAtOnce, "shuffled", storage == "npy")
    X, y, weight, offset = generated()
    given = X if storage == "npy" else sparse.csr_array(X)
    source = spill(ArraySource(given, y, weight, offset), tmp_path)
    here = sa.iterate(stated(X, y, sample_weight=weight, offset=offset), METHODS[name], 5)
    there = sa.iterate(stated(source), METHODS[name], 5, engine=engine)
    for known, found in islice(zip(here, there, strict=False), 4):
        np.testing.assert_allclose(found.output.x2, known.output.x2, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.dual, known.dual, rtol=0, atol=1e-10)
        # of files the read for constants counts, and is that of the first snapshot
        assert found.n_passes == known.n_passes


def as_parquet(X, y, folder):
    """Return a Parquet file as a source, whose copies are made in a folder."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table({**{f"x{j}": X[:, j] for j in range(D)}, "y": y})
    pyarrow.parquet.write_table(table, folder / "t.parquet", row_group_size=300)
    return sa.open(folder / "t.parquet", "y", scratch=folder / "scratch")


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize("name", ["acc-sadmm", "svrg-admm", "asvrg-admm"])
def test_all_that_is_asked_before_the_first_step_comes_from_one_read(
    name, kind, tmp_path, monkeypatch
):
    X, y, *_ = generated()
    whole = stated(X, y)
    source = (
        as_parquet(X, y, tmp_path) if kind == "parquet" else spill(ArraySource(X, y), tmp_path)
    )
    f2 = stated(source).f2.with_memory(1 << 17)
    problem = sa.Problem(f2, whole.h1, A1=whole.A1, A2=whole.A2)
    lengths, genuine = [], type(source.shards[0]).blocks

    def counting(shard, max_bytes):
        for block in genuine(shard, max_bytes):
            lengths.append(len(block))
            yield block

    monkeypatch.setattr(type(source.shards[0]), "blocks", counting)
    epochs = sa.iterate(problem, name, 0)
    first = next(epochs)
    steps = first.n_inner * first.notes["batch_size"] / 3000
    assert first.n_passes == pytest.approx(1 + steps)
    if kind == "parquet":  # what is read later is read from its copies, one for windows
        assert 3000 <= sum(lengths) < 3400 and len(list((tmp_path / "scratch").iterdir())) == 2
    assert next(epochs).n_passes == pytest.approx(2 + 2 * steps)


@pytest.mark.parametrize("name", ["acc-sadmm", "svrg-admm", "asvrg-admm"])
def test_sorted_rows_are_solved_to_a_certificate_in_little_memory(name, tmp_path):
    X, y, weight, offset = generated(20_000)
    truth = sa.minimize(
        stated(X, y, sample_weight=weight, offset=offset), stop=sa.Gap(1e-11), max_passes=500
    )
    source = spill(ArraySource(X, y, weight, offset), tmp_path)
    found = sa.minimize(stated(source), name, stop=sa.Gap(1e-4), memory="4MiB")
    assert found.converged and found.relative_gap <= 1e-4
    assert found.objective - truth.objective <= found.gap + 1e-12
    assert found.objective - found.gap <= truth.objective + 1e-12  # the bound is one


def test_a_window_holds_extents_from_everywhere():
    f2 = StreamedSum(sa.Logistic(), ArraySource(*generated(20_000)[:2]), memory=1 << 19)
    runs = WindowRuns.of(f2, 100)
    batches = rows_of(runs.draw(np.random.default_rng(0), 400))  # two passes
    assert batches.min() >= 0 and batches.max() < 20_000
    for span in runs.spans(400):
        extents = np.unique(batches[span] // runs.extent)
        assert extents.size <= runs.per_window
        assert extents.size * runs.extent * 8 * D <= 0.7 * (1 << 19)
        labels = (batches[span] < 10_000).mean()  # sorted: the first half is the other label
        assert 0.45 < labels < 0.55
    seen = np.bincount(batches.ravel() // runs.extent, minlength=runs.n_extents)
    assert (seen > 0).all()


def test_neighbours_of_a_file_are_far_apart_in_its_shuffled_copy(tmp_path):
    X, y, weight, offset = generated(5000)
    source = spill(ArraySource(X, y, weight, offset), tmp_path)
    copies, lanes = [], Lanes(5000, count=12, length=30, seed=3)
    for step in (700, 5000):  # any blocks write the same copy
        copy = shuffle_for(source, lanes)
        for shard in source.shards:
            for block in shard.blocks(step * 8 * D):
                copy.write(block)
        copies.append(copy.files)
    place = lanes.places(0, 5000)
    assert np.array_equal(np.sort(place), np.arange(5000))
    for first, n in ((1234, 77), (4900, 100), (4999, 1), (0, 1)):
        assert np.array_equal(lanes.places(first, n), place[first : first + n])
    for first in range(0, 4680, 12):  # of twelve rows, each extent of the neighbourhood gets one
        assert np.array_equal(np.unique(place[first : first + 12] // 30 % 12), np.arange(12))
    assert (place[:360] < 360).all()  # nobody leaves the neighbourhood
    for files in copies:
        assert np.array_equal(np.load(files.X.path)[place], X)
        for file, known in ((files.y, y), (files.weight, weight), (files.offset, offset)):
            assert np.array_equal(np.load(file.path)[place], known)
        assert files.n_rows == 5000 and len(files.shards) == 1


def test_rows_are_not_shuffled_where_they_need_not_or_cannot_be(tmp_path):
    X, y, *_ = generated(5000)
    source = spill(ArraySource(X, y), tmp_path)
    big = StreamedSum(sa.Logistic(), source)
    assert opening(big).constants.shuffled is None  # one window holds all
    small = big.with_memory(1 << 16)
    assert opening(small).constants.shuffled is not None
    assert opening(small.changed(source=ArraySource(X, y))).constants.shuffled is None
    full = ScratchOptions(room=1e12)  # the disk
    assert reserved(source, options=full) is None


def test_batches_of_windows_are_unbiased():
    X = generated(1000)[0]
    runs = WindowRuns(1000, 1000, 20, 10, 13)
    rng = np.random.default_rng(0)
    batches = np.concatenate([rows_of(runs.draw(rng, 100)) for _ in range(200)])
    mean = X[batches].mean(axis=(0, 1))
    assert np.abs(mean - X.mean(axis=0)).max() < 5 / np.sqrt(batches.size)


def test_windows_have_the_rows_that_were_drawn():
    X, y, weight, offset = generated(500)
    f2 = StreamedSum(sa.Logistic(), ArraySource(X, y, weight, offset))
    runs = WindowRuns(500, 500, 7, 30, 4)
    drawn = runs.draw(np.random.default_rng(1), 60)
    batches = rows_of(drawn)
    assert len(runs.spans(60)) > 1
    found = windows(f2, drawn, float(weight.mean()))
    for window, span in zip(found, runs.spans(60), strict=True):
        rows = batches[span]
        np.testing.assert_array_equal(window.f2.X[window.batches], X[rows])
        np.testing.assert_array_equal(window.f2.y[window.batches], y[rows])
        np.testing.assert_allclose(
            window.weight * window.f2.weight[window.batches], weight[rows] / weight.mean()
        )


def test_constants_are_those_of_rows_in_memory():
    X, y, weight, _ = generated(700)
    found = opening(
        StreamedSum(sa.Logistic(), ArraySource(X, y, weight), intercept=True, memory=1 << 17)
    ).constants
    known = sa.FiniteSum(sa.Logistic(), X, y, weight, intercept=True)
    assert found.mean == pytest.approx(known.lipschitz_mean, rel=1e-8)
    assert found.largest == pytest.approx(known.lipschitz_max, rel=1e-12)
    assert found.weight == pytest.approx(weight.mean())


def test_the_budget_holds(tmp_path):
    rng = np.random.default_rng(0)
    n, d = 200_000, 40
    X = rng.standard_normal((n, d)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.sign(X[:, 0] + rng.logistic(size=n)))
    del X
    source = sa.open(tmp_path / "X.npy", tmp_path / "y.npy")
    problem = sa.Problem.linear(
        sa.Logistic(), source, structure=sa.Differences(d), on_structure=sa.L1(1e-3)
    )
    tracemalloc.start()
    found = sa.minimize(
        problem,
        "acc-sadmm",
        stop=sa.Gap(1e-3),
        max_passes=3,
        memory="8MB",
        cluster=sa.cluster.Local(1),
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.n_epochs == 1 and peak < 12e6  # the rows take 32 MB, in float64 64


def test_parquet_is_copied_once_and_the_copy_is_deleted(tmp_path):
    X, y, *_ = generated(2000)
    source = as_parquet(X, y, tmp_path)
    during = []
    found = sa.minimize(
        stated(source),
        "svrg-admm",
        stop=sa.Gap(1e-4),
        memory="4MiB",
        callback=lambda record, state: during.append(len(list((tmp_path / "scratch").iterdir()))),
    )
    assert found.converged and set(during) == {1}
    del found
    assert not list((tmp_path / "scratch").iterdir())


def test_copies_are_deleted_with_a_run_whatever_the_collector_and_the_pool_do(tmp_path):
    X, y, *_ = generated(2000)
    source, hold = as_parquet(X, y, tmp_path), threading.Event()
    gc.collect()
    gc.disable()
    try:
        with sa.use_threads(2):
            threads.run(str, [1, 2])  # the pool is there
            busy = threads._pool(1).submit(hold.wait, 60)
            for method in ("auto", "acc-sadmm"):
                sa.minimize(stated(source), method, stop=sa.Gap(1e-3), memory="4MiB")
                assert not list((tmp_path / "scratch").iterdir())
    finally:
        gc.enable()
        hold.set()
        busy.result()


def test_without_room_on_the_disk_parquet_is_decoded_again(tmp_path, monkeypatch):
    import shutil
    from collections import namedtuple

    X, y, *_ = generated(2000)
    source = as_parquet(X, y, tmp_path)
    copied = sa.minimize(stated(source), stop=sa.Gap(1e-8), memory="4MiB")
    full = namedtuple("Usage", "total used free")(10, 10, 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    found = sa.minimize(stated(source), stop=sa.Gap(1e-8), memory="4MiB")
    assert found.converged and not list((tmp_path / "scratch").iterdir())
    np.testing.assert_allclose(found.coef, copied.coef, rtol=0, atol=1e-10)
    with pytest.raises(Unsuitable, match="disk"):
        sa.minimize(stated(source), "acc-sadmm", memory="4MiB")


def test_what_cannot_draw_from_a_source_says_so():
    X, y, *_ = generated(300)
    source = ArraySource(X, y)
    for name in ("sag-admm", "vr-pddy"):
        with pytest.raises(Unsuitable, match="acc-sadmm"):
            sa.minimize(stated(source), name)
    da = pytest.importorskip("dask.array")
    lazy = stated(da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100))
    with pytest.raises(Unsuitable, match="spill"):
        sa.minimize(lazy, "acc-sadmm")
