"""Sources of rows: whatever they are stored in, the same rows come out, block by block."""

import numpy as np
import pytest
from scipy import sparse
from tests.sources import stored

import stochadmm as sa
from stochadmm import cluster
from stochadmm.data import DataError, Source, open_source


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((57, 4)) < 0.5, rng.standard_normal((57, 4)), 0.0)
    return X, rng.standard_normal(57), rng.uniform(0.5, 2.0, 57)


def make(kind, X, y, w, folder):
    source = stored(kind, X, y, w, folder, [(0, 30), (30, None)])
    if source is not None:
        return source
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    table = pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y, "w": w})
    if kind.startswith("parquet"):
        options = {
            "parquet": {},
            "parquet plain": {"use_dictionary": False, "compression": "none"},
            "parquet zstd": {"compression": "zstd"},
        }[kind]
        parquet.write_table(table.slice(0, 30), folder / "a.parquet", row_group_size=11, **options)
        parquet.write_table(table.slice(30), folder / "b.parquet", row_group_size=7, **options)
        return open_source(folder / "*.parquet", "y", weight="w")
    if kind == "arrow":
        with pa.ipc.new_file(str(folder / "t.arrow"), table.schema) as writer:
            for batch in table.to_batches(max_chunksize=13):
                writer.write_batch(batch)
        return open_source(folder / "t.arrow", "y", weight="w")
    if kind == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, folder / "t.csv")
        return open_source(folder / "t.csv", "y", weight="w")
    raise AssertionError(kind)


KINDS = [
    "array",
    "csr",
    "memory map",
    "npy",
    "raw csr",
    "parquet",
    "parquet plain",
    "parquet zstd",
    "arrow",
    "csv",
    "npz",
    "npz csr compressed",
]


@pytest.mark.parametrize("max_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_come_out_again_and_again(kind, max_bytes, rows, tmp_path):
    X, y, w = rows
    source = make(kind, X, y, w, tmp_path)
    assert isinstance(source, Source)
    assert (source.n_rows, source.n_columns) == X.shape
    for _ in range(2):
        seen = 0
        for shard in source.shards:
            assert shard.first == seen
            for block in shard.blocks(max_bytes):
                part = slice(block.first, block.first + len(block))
                assert block.first == seen
                dense = block.X if isinstance(block.X, np.ndarray) else block.X.toarray()
                np.testing.assert_array_equal(dense, X[part])
                np.testing.assert_array_equal(block.y, y[part])
                np.testing.assert_array_equal(block.weight, w[part])
                seen += len(block)
        assert seen == len(X)


def test_libsvm_text_becomes_a_sparse_source(rows, tmp_path):
    from sklearn.datasets import dump_svmlight_file

    X, y, _ = rows
    dump_svmlight_file(X, y, str(tmp_path / "t.svm"))
    source = open_source(tmp_path / "t.svm")
    blocks = [block for shard in source.shards for block in shard.blocks(1 << 20)]
    found = sparse.vstack([block.X for block in blocks]).toarray()
    np.testing.assert_allclose(found, X, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([block.y for block in blocks]), y, rtol=1e-12)


def test_a_model_of_archives_is_that_of_the_arrays(rows, tmp_path):
    X, y, w = rows
    fits = [
        sa.minimize(
            sa.Problem.linear(sa.Squared(), *data, on_coefficients=sa.L1(0.05), **weights),
            stop=sa.Gap(1e-10),
        )
        for data, weights in (
            ((X, y), {"sample_weight": w}),
            ((make("npz", X, y, w, tmp_path),), {}),
        )
    ]
    np.testing.assert_allclose(fits[1].coef, fits[0].coef, atol=1e-6)


def test_archives_that_do_not_fit_are_refused(rows, tmp_path):
    X, y, _ = rows
    columns = sparse.csc_array(X)
    parts = {name: getattr(columns, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "csc.npz", **parts, format=np.array(b"csc"), y=y)
    np.savez(tmp_path / "short.npz", X=X, y=y[:-1])
    np.savez(tmp_path / "bare.npz", X=X)
    np.savez(tmp_path / "words.npz", X=X, y=np.full(len(X), "a"))
    np.savez(tmp_path / "good.npz", X=X, y=y)
    np.savez(tmp_path / "narrow.npz", X=X[:, 1:], y=y)
    (tmp_path / "text.npz").write_text("not an archive")
    for names, part in {
        "csc": "csc",
        "short": "57 rows",
        "bare": "no y",
        "words": "expected numbers",
        "text": "as a .npz archive",
        "good narrow": r"columns: \[3, 4\]",
    }.items():
        with pytest.raises(ValueError, match=part):
            open_source([tmp_path / f"{name}.npz" for name in names.split()])
    wild = {"data": [1.0], "indices": [9], "indptr": [0, 1], "shape": [1, 2], "y": [0.0]}
    np.savez(tmp_path / "wild.npz", **wild)
    (shard,) = open_source(tmp_path / "wild.npz").shards
    with pytest.raises(DataError, match="CSR matrix"):
        list(shard.blocks(1 << 20))


def test_texts_become_one_column_per_level(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "kind": ["u", "v", "u"], "y": [0.0, 1.0, 2.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    source = open_source(tmp_path / "t.parquet", "y")
    assert source.names == ["a", "kind=u", "kind=v"]
    (block,) = source.shards[0].blocks(1 << 20)
    np.testing.assert_array_equal(block.X, [[1, 1, 0], [2, 0, 1], [3, 1, 0]])


def test_columns_of_every_type_are_read_as_they_are(tmp_path):
    """Dictionaries of numbers and of texts, whole numbers, halves, truth values; sliced too."""
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(4)
    n = 500
    wide = 1 + 2.0**-40 * rng.integers(0, 9, n)  # float32 would lose the difference
    whole = rng.integers(-(2**40), 2**40, n)
    texts = rng.choice(["u", "v", "w"], n)
    columns = {
        "a": pa.array(wide).dictionary_encode(),
        "kind": pa.array(texts).dictionary_encode(),
        "b": pa.array(whole),
        "c": pa.array(rng.random(n).astype(np.float16)),
        "d": pa.array(rng.random(n) < 0.5),
        "other": pa.array([None, *texts[1:]]),
        "e": pa.array(rng.integers(0, 200, n).astype(np.uint8)),
        "y": pa.array(rng.random(n)),
    }
    table = pa.table(columns)
    expected = np.column_stack(
        [
            wide,
            texts == "u",
            texts == "v",
            texts == "w",
            whole,
            table["c"].to_numpy(),
            table["d"].to_numpy(),
            [True] + [False] * (n - 1),
            *(np.r_[False, texts[1:] == kind] for kind in "uvw"),
            table["e"].to_numpy(),
        ]
    )
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=333)
    import pyarrow.parquet as parquet

    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=333)
    for source in (
        open_source(tmp_path / "t.arrow", "y"),
        open_source(tmp_path / "t.parquet", "y"),
        open_source(lambda: table.slice(100), "y"),
    ):
        names = ["kind=u", "kind=v", "kind=w"]
        assert source.names[1:4] == names
        blocks = [block for shard in source.shards for block in shard.blocks(5000)]
        assert len(blocks) > 3
        X = np.concatenate([block.X for block in blocks])
        assert X.dtype == np.float64
        kept = [
            k
            for k, name in enumerate(open_source(tmp_path / "t.arrow", "y").names)
            if name in source.names
        ]
        np.testing.assert_array_equal(X, expected[n - len(X) :, kept])


@pytest.mark.parametrize("cached", [0.0, 1.0])
def test_a_copy_past_the_page_cache_holds_the_same_rows(tmp_path, cached):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    from stochadmm.data import ScratchOptions, scratch_for

    rng = np.random.default_rng(5)
    table = pa.table({name: rng.random(3000) for name in ("a", "b", "y", "w")})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=700)
    source = open_source(tmp_path / "t.parquet", "y", weight="w", scratch=tmp_path / "scratch")
    scratch = scratch_for(source, ScratchOptions(cached=cached))
    assert scratch.passing == (cached == 0.0)
    blocks = [block for shard in source.shards[::-1] for block in shard.blocks(1 << 12)]
    for block in blocks:
        scratch.write(block)
    copied = [block for shard in scratch.files.shards for block in shard.blocks(1 << 20)]
    X = np.concatenate([block.X for block in copied])
    np.testing.assert_array_equal(X, np.column_stack([table["a"], table["b"]]))
    np.testing.assert_array_equal(np.concatenate([b.weight for b in copied]), table["w"])


def test_a_missing_value_is_named_by_its_row(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    x = [1.0] * 100
    x[71] = x[90] = None
    table = pa.table({"x": x, "y": [0.0] * 100})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=30)
    source = open_source(tmp_path / "t.parquet", "y")
    with pytest.raises(DataError, match=r"column 'x' has 1 missing values, the first in row 71"):
        for shard in source.shards:
            list(shard.blocks(1 << 20))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["no.parquet", "y"], ["no.parquet is not a file"]),
        (["*.pq", "y"], ["no file matches"]),
        (["t.xlsx", "y"], ["'.xlsx'"]),
        (["X.npy"], ["target is missing"]),
        (["X.npy", "short.npy"], ["short.npy", "expected as many rows"]),
        (["cut.npy", "y.npy"], ["cut short"]),
        (["bad.parquet", "y"], ["cannot be read"]),
        (["good.parquet", "yy"], ["no column 'yy'", "did you mean y"]),
        (["holes.parquet", "y"], ["1 missing"]),
    ],
)
def test_bad_files_are_named_in_one_line(arguments, parts, tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    monkeypatch.chdir(tmp_path)
    np.save("X.npy", np.ones((4, 2)))
    np.save("y.npy", np.ones(4))
    np.save("short.npy", np.ones(3))
    whole = (tmp_path / "X.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-8])
    (tmp_path / "t.xlsx").write_text("x")
    (tmp_path / "bad.parquet").write_text("x")
    parquet.write_table(pa.table({"x": [1.0, 2.0], "y": [0.0, 1.0]}), "good.parquet")
    parquet.write_table(pa.table({"x": [1.0, None], "y": [0.0, 1.0]}), "holes.parquet")
    with pytest.raises((ValueError, OSError)) as caught:
        source = open_source(*arguments)
        for shard in source.shards:
            list(shard.blocks(1000))
    assert isinstance(caught.value, (DataError, ValueError, FileNotFoundError))
    for part in parts:
        assert part in str(caught.value)


class Total:
    """Adds up y in float32, where the order matters."""

    def __call__(self, shard):
        total = np.float32(0)
        for block in shard.blocks(64):
            total = total + block.y.astype(np.float32).sum(dtype=np.float32)
        return total


def plus(a, b):
    return np.float32(a + b)


@pytest.mark.parametrize("engine", [cluster.Local(1), cluster.Local(3), cluster.Local(16)])
def test_sums_have_the_same_bits_for_any_number_of_workers(engine):
    rng = np.random.default_rng(1)
    values = (10.0 ** rng.uniform(-8, 8, 13)).tolist()
    from stochadmm.data._arrays import ArrayShard

    y = np.array(values)
    shards = [ArrayShard(k, 1, np.ones((13, 1)), y) for k in range(13)]
    reference = cluster.Local(1).map_reduce(shards, Total(), plus)
    assert engine.map_reduce(shards, Total(), plus).tobytes() == reference.tobytes()
