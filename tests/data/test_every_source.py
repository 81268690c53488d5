"""The same problem from everything that rows can be stored in: one table.

Every kind of source is cut into 1, 3 and 8 shards and read in blocks of three sizes. The full
product of kinds, cuts, blocks and engines would take minutes, so that a covering design is run:
every kind meets every cut and every size of block, each pair of them once over three kinds, and
every kind runs with one thread and with several.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from tests.sources import stored

import stochadmm as sa
from stochadmm.data import ArraySource, Source, _protocol
from stochadmm.risk.streamed import StreamedSum

ROWS, COLUMNS = 1200, 6
SHARDS = (1, 3, 8)
BLOCKS = (500, 9000, 1 << 24)
"""Bytes of a block: about ten rows, a few hundred, all."""
SAMPLE = 500
"""Rows of the sample behind models and certificates: fewer than there are."""
KINDS = (
    "array",
    "float32 array",
    "csr",
    "memory map",
    "npy",
    "raw csr",
    "npz",
    "npz csr compressed",
    "parquet",
    "parquet plain",
    "parquet zstd",
    "arrow ipc",
    "zarr",
    "libsvm",
    "csv",
    "arrow stream",
    "polars",
)
ENCODINGS = {
    "parquet": {},
    "parquet plain": {"use_dictionary": False, "compression": "none"},
    "parquet zstd": {"compression": "zstd", "use_dictionary": False},
}


@pytest.fixture(scope="module")
def rows():
    """Rows that every format can hold without rounding, sorted by label, a column of zeros."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((ROWS, COLUMNS)) < 0.6, rng.standard_normal((ROWS, COLUMNS)), 0.0)
    X = (X * 512).round() / 512
    y = np.sign(X @ [1.0, 1.0, 0.0, 0.0, -1.0, -1.0] + rng.logistic(size=ROWS))
    order = np.argsort(y, kind="stable")
    return X[order], y[order], (rng.uniform(0.5, 2.0, ROWS) * 256).round() / 256


@dataclass(frozen=True)
class Batches:
    """Starts an Arrow stream of some rows, again and again."""

    table: object
    first: int
    stop: int

    def __call__(self):
        return iter(self.table.slice(self.first, self.stop - self.first).to_batches(97))


def ranges(count):
    return list(pairwise(ROWS * k // count for k in range(count + 1)))


def made(kind, rows, folder, count):
    """Return the rows as a source of so many shards."""
    X, y, w = rows
    if kind == "float32 array":  # the numbers fit
        return ArraySource(X.astype(np.float32), y, w)
    source = stored(kind, X, y, w, folder, ranges(count))
    if source is not None:
        return source
    if kind == "libsvm":
        return text(X, y, folder)
    pa = pytest.importorskip("pyarrow")
    table = pa.table({**{f"x{j}": X[:, j] for j in range(COLUMNS)}, "y": y, "w": w})
    return from_table(kind, table, folder, count)


def text(X, y, folder):
    """Return libsvm text as a source; it has no weights."""
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(X, y, str(folder / "t.svm"))
    return sa.open(folder / "t.svm")


def from_table(kind, table, folder, count):
    """Return an Arrow table as a source by way of a format that holds one."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if kind in ENCODINGS:
        size = -(-ROWS // count)
        path = folder / "t.parquet"
        pyarrow.parquet.write_table(table, path, row_group_size=size, **ENCODINGS[kind])
        return sa.open(path, "y", weight="w")
    if kind == "arrow ipc":
        with pa.ipc.new_file(str(folder / "t.arrow"), table.schema) as writer:
            for a, b in ranges(count):
                writer.write_table(table.slice(a, b - a).combine_chunks())
        return sa.open(folder / "t.arrow", "y", weight="w")
    if kind == "csv":
        pyarrow.csv.write_csv(table, folder / "t.csv")
        return sa.open(folder / "t.csv", "y", weight="w")
    starts = [Batches(table, a, b) for a, b in ranges(count)]
    if kind == "polars":
        polars = pytest.importorskip("polars")
        starts = [polars.from_arrow(table.slice(s.first, s.stop - s.first)) for s in starts]
    return sa.open(starts, "y", weight="w")


def stated(source, y=None, weight=None, d=COLUMNS):
    structure = sa.VStack([sa.Differences(d), sa.Identity(d)])
    return sa.Problem.linear(
        sa.Logistic(),
        source,
        y,
        structure=structure,
        on_structure=sa.L1(5e-3),
        intercept=True,
        sample_weight=weight,
    )


def solved(problem, workers=1, engine=None):
    engine = engine or sa.cluster.Local(workers)
    found = sa.minimize(problem, stop=sa.Gap(1e-9), memory="4MiB", cluster=engine)
    assert found.converged and found.info["route"] == "streamed-newton"
    return found


@pytest.fixture(scope="module")
def reference(rows):
    """Coefficients from an array, with and without weights, checked against rows in memory."""
    X, y, w = rows
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamedSum, "sample_rows", SAMPLE)
        for weighted in (True, False):
            weight = w if weighted else None
            found[weighted] = solved(stated(ArraySource(X, y, weight)))
            truth = sa.minimize(stated(X, y, weight), stop=sa.Gap(1e-12), max_passes=1000)
            assert found[weighted].objective - truth.objective <= 1e-9 * truth.objective
            np.testing.assert_allclose(found[weighted].coef, truth.coef, atol=1e-4)
    return {key: np.append(answer.coef, answer.intercept) for key, answer in found.items()}


@pytest.fixture
def cut(monkeypatch):
    """Set how many shards arrays and raw files are cut into, and the size of blocks."""

    def setting(count, block_bytes, kind):
        entries = 0.6 * COLUMNS * 12 if kind in {"csr", "raw csr", "libsvm"} else COLUMNS * 8
        entries = COLUMNS * 4 if kind == "float32 array" else entries
        shard = int(ROWS * entries / (count - 0.5)) if count > 1 else 1 << 26
        monkeypatch.setattr(_protocol, "SHARDING", _protocol.Sharding(shard_bytes=shard))
        monkeypatch.setattr(StreamedSum, "block_bytes", block_bytes)
        monkeypatch.setattr(StreamedSum, "sample_rows", SAMPLE)

    return setting


@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_coefficients(kind, turn, rows, reference, cut, tmp_path):
    count = SHARDS[turn]
    block = BLOCKS[(turn + KINDS.index(kind)) % 3]
    cut(count, block, kind)
    source = made(kind, rows, tmp_path, count)
    assert isinstance(source, Source)
    if kind != "csv":  # text is spilled into pieces of its own
        assert len(source.shards) == count
    problem = stated(source)
    found = [solved(problem, workers) for workers in ((1, 3) if turn else (1, 2))]
    wanted = reference[kind != "libsvm"]
    got = np.append(found[0].coef, found[0].intercept)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-10)
    assert found[0].coef.tobytes() == found[1].coef.tobytes()
    assert (found[0].objective, found[0].gap) == (found[1].objective, found[1].gap)


@pytest.fixture(scope="module")
def client():
    """Two processes of a Dask cluster."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


@pytest.mark.parametrize("count", SHARDS)
@pytest.mark.parametrize("kind", ["array", "sparse array", "frame"])
def test_dask_collections_give_the_same_coefficients_on_two_processes(
    kind, count, client, rows, reference, cut
):
    import dask.array as da

    cut(1, BLOCKS[SHARDS.index(count)], "array")
    sizes = tuple(b - a for a, b in ranges(count))
    X, y, w = (da.from_array(part, chunks=(sizes, -1)[: part.ndim]) for part in rows)
    if kind == "sparse array":
        X = X.map_blocks(sparse.csr_matrix)
    if kind == "frame":
        dd = pytest.importorskip("dask.dataframe")
        X = dd.from_dask_array(X, columns=[f"x{j}" for j in range(COLUMNS)])
    problem = stated(X, y, w)
    assert len(problem.f2.source.shards) == count
    assert isinstance(sa.cluster.current(problem.f2.source), sa.cluster.Dask)
    there = sa.minimize(problem, stop=sa.Gap(1e-9), memory="4MiB")
    got = np.append(there.coef, there.intercept)
    np.testing.assert_allclose(got, reference[True], rtol=0, atol=1e-10)
    here = solved(problem)
    assert here.coef.tobytes() == there.coef.tobytes()


def test_files_on_a_dask_cluster_have_the_bits_of_files_read_here(client, rows, cut, tmp_path):
    cut(8, BLOCKS[1], "npy")
    problem = stated(made("npy", rows, tmp_path, 8))
    here, there = solved(problem), solved(problem, engine=sa.cluster.Dask(client))
    assert here.coef.tobytes() == there.coef.tobytes()
