"""What ``sa.open`` makes of files: all of them, columns as in memory, nothing left behind."""

import gc
import os

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.data import DataError
from stochadmm.risk.streamed import StreamedSum


def values(source):
    """Return all rows and targets of a source, dense."""
    blocks = [block for shard in source.shards for block in shard.blocks(1 << 16)]
    X = [b.X if isinstance(b.X, np.ndarray) else b.X.toarray() for b in blocks]
    return np.concatenate(X), np.concatenate([block.y for block in blocks])


def parquet(path, **columns):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


# ---------------------------------------------------------------- libsvm


def test_all_libsvm_files_of_a_pattern_a_list_or_a_folder_are_read(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:5 3:1\n-1 2:2\n")
    (tmp_path / "b.svm").write_text("1 2:7\n-1 4:3\n")  # wider, and nothing in the first column
    (tmp_path / "c.svm").write_text("")
    wanted = [[5, 0, 1, 0], [0, 2, 0, 0], [0, 7, 0, 0], [0, 0, 0, 3]]
    names = [tmp_path / f"{letter}.svm" for letter in "abc"]
    for path in (str(tmp_path / "*.svm"), names, tmp_path):
        source = sa.open(path)
        X, y = values(source)
        np.testing.assert_array_equal(X, wanted)
        np.testing.assert_array_equal(y, [1, -1, 1, -1])


@pytest.mark.parametrize(
    "given", [{"target": "z"}, {"columns": ["a"]}, {"weight": "w"}, {"offset": "o"}]
)
def test_what_libsvm_text_has_no_use_for_is_refused(given, tmp_path):
    (tmp_path / "a.svm").write_text("1 1:5\n")
    (name,) = given
    with pytest.raises(ValueError, match=rf"{name} is .* libsvm text has .* leave {name} out"):
        sa.open(tmp_path / "a.svm", **given)


def test_the_command_line_refuses_weights_of_libsvm_text(tmp_path):
    from stochadmm.cli._setting import Asked
    from stochadmm.cli._stream import opened

    (tmp_path / "a.svm").write_text("1 1:5\n-1 1:2\n")
    assert opened(str(tmp_path / "a.svm"), Asked()).n_rows == 2
    with pytest.raises(ValueError, match="weight is 'nosuch'"):
        opened(str(tmp_path / "a.svm"), Asked(weight="nosuch"))


# ---------------------------------------------------------------- scratch folders


@pytest.mark.parametrize("ending", ["csv", "svm"])
def test_sources_with_the_same_scratch_folder_keep_their_rows(ending, tmp_path):
    pytest.importorskip("pyarrow")
    scratch = tmp_path / "scratch"
    sources = []
    for k in (1, 2):
        text = f"x,y\n{k},0\n" if ending == "csv" else f"0 1:{k}\n"
        path = tmp_path / f"{k}.{ending}"
        path.write_text(text)
        target = "y" if ending == "csv" else None
        sources.append(sa.open(path, target=target, scratch=scratch))
    assert [values(source)[0].item() for source in sources] == [1, 2]
    assert len(list(scratch.iterdir())) == 2
    del sources
    gc.collect()
    assert not list(scratch.iterdir())


def test_a_source_that_is_not_made_leaves_nothing_behind(tmp_path):
    pytest.importorskip("pyarrow")
    scratch = tmp_path / "scratch"
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    (tmp_path / "late.csv").write_text("x,k,y\n" + "".join(f"{i},t{i},0\n" for i in range(10_001)))
    (tmp_path / "bad.svm").write_text("1 1:2\nwords and words\n")
    with pytest.raises(DataError, match="no column 'typo'"):
        sa.open(tmp_path / "t.csv", target="typo", scratch=scratch)
    assert not scratch.exists()  # the header was enough
    with pytest.raises(DataError, match="different texts"):
        sa.open(tmp_path / "late.csv", target="y", scratch=scratch)
    with pytest.raises(DataError, match="libsvm"):
        sa.open(tmp_path / "bad.svm", scratch=scratch)
    assert not list(scratch.iterdir())


# ---------------------------------------------------------------- columns of tables


def test_the_index_of_a_pandas_frame_is_no_column(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0.0, 1.0]}, index=[5, 9])
    frame.to_parquet(tmp_path / "plain.parquet")
    frame.rename_axis("key").to_parquet(tmp_path / "named.parquet")
    for name in ("plain", "named"):
        assert sa.open(tmp_path / f"{name}.parquet", target="y").names == ["a"]
    chosen = sa.open(tmp_path / "named.parquet", target="y", columns=["a", "key"])
    np.testing.assert_array_equal(values(chosen)[0], [[1, 5], [2, 9]])


def test_no_columns_are_not_all_columns(tmp_path):
    path = parquet(tmp_path / "t.parquet", a=[1.0], y=[0.0])
    with pytest.raises(DataError, match="no column is left"):
        sa.open(path, target="y", columns=[])


def test_a_missing_text_is_the_empty_text_in_every_format(tmp_path):
    path = parquet(tmp_path / "t.parquet", k=["None", None, "a"], y=[0.0, 1.0, 2.0])
    (tmp_path / "t.csv").write_text("k,y\nNone,0\n,1\na,2\n")
    for file in (path, tmp_path / "t.csv"):
        source = sa.open(file, target="y")
        assert source.names == ["k=", "k=None", "k=a"]
        np.testing.assert_array_equal(values(source)[0], [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


def test_parts_of_one_table_may_differ_in_what_does_not_matter(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("a,k,y\n1,u,0\n2,,1\n")
    (tmp_path / "b.csv").write_text("a,k,y\n")
    (tmp_path / "c.csv").write_text("k,y,a\n,2.5,0.5\n")  # no text at all, another order
    source = sa.open(str(tmp_path / "*.csv"), target="y")
    assert source.names == ["a", "k=", "k=u"]
    X, y = values(source)
    np.testing.assert_array_equal(X, [[1, 0, 1], [2, 1, 0], [0.5, 1, 0]])
    np.testing.assert_array_equal(y, [0, 1, 2.5])
    parquet(tmp_path / "a.parquet", a=[1, 2], k=["u", None], y=[0, 1])
    pa = pytest.importorskip("pyarrow")
    parquet(tmp_path / "b.parquet", y=[2.5], k=pa.nulls(1), a=[0.5])
    whole = sa.open(str(tmp_path / "*.parquet"), target="y")
    np.testing.assert_array_equal(values(whole)[0], X)
    np.testing.assert_array_equal(values(whole)[1], y)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_parts_that_differ_are_named_with_the_column(ending, tmp_path):
    pytest.importorskip("pyarrow")
    tables = {
        "a": {"a": [1.0], "y": [0.0]},
        "b": {"a": ["t"], "y": [0.0]},
        "c": {"y": [0.0]},
        "d": {"a": [1.0], "y": [0.0], "more": [1.0]},
    }
    for name, table in tables.items():
        if ending == "parquet":
            parquet(tmp_path / f"{name}.parquet", **table)
        else:
            cells = ",".join(str(value[0]) for value in table.values())
            (tmp_path / f"{name}.csv").write_text(f"{','.join(table)}\n{cells}\n")
    for name, words in {
        "b": rf"column 'a' holds double in .*a\.{ending} and string in .*b\.{ending}",
        "c": rf"c\.{ending} has no column 'a'",
        "d": rf"d\.{ending} has a column 'more'",
    }.items():
        with pytest.raises(DataError, match=words):
            sa.open([tmp_path / f"{n}.{ending}" for n in ("a", name)], target="y")
    both = [tmp_path / f"{n}.{ending}" for n in "ad"]
    assert sa.open(both, target="y", columns=["a"]).n_rows == 2


def test_cells_of_text_are_what_they_are_in_memory(tmp_path):
    from stochadmm.cli._design import Design
    from stochadmm.cli._tables import read_table

    pytest.importorskip("pyarrow")
    lines = ["1,true,2020-01-01,NA,12:30, u ,1", "2.5,false,2021-01-01,low,12:31,v,-1"]
    (tmp_path / "t.csv").write_text("\n".join(["n, b,d,m,t,s,y", *lines]) + "\n")
    source = sa.open(tmp_path / "t.csv", target="y")
    table = read_table(str(tmp_path / "t.csv"))
    design = Design.of(table, ["n", "b", "d", "m", "t", "s"])
    assert source.names == design.names
    np.testing.assert_array_equal(values(source)[0], design.rows(table))


def test_whole_numbers_at_first_and_others_later_are_numbers(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from stochadmm.data.formats import delimited

    monkeypatch.setattr(delimited, "BLOCK", 64)
    text = "a,y\n" + "1,0\n" * 50 + "0.5,1\n" * 50
    (tmp_path / "t.csv").write_text(text)
    X, _ = values(sa.open(tmp_path / "t.csv", target="y"))
    np.testing.assert_array_equal(X[:, 0], [1.0] * 50 + [0.5] * 50)


def test_blanks_around_names_are_no_part_of_them(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.csv").write_text("a, y\n1, 2\n3, 4\n")
    source = sa.open(tmp_path / "t.csv", target="y")
    assert source.names == ["a"]
    np.testing.assert_array_equal(values(source)[1], [2, 4])


# ---------------------------------------------------------------- names of files


def test_names_with_brackets_and_text_of_any_ending_are_opened(tmp_path):
    pytest.importorskip("pyarrow")
    folder = tmp_path / "run [1]"
    folder.mkdir()
    for name in ("a[1].csv", "a.txt"):
        (folder / name).write_text("x,y\n1,2\n")
        assert sa.open(folder / name, target="y").n_rows == 1
    with pytest.raises(ValueError, match="names no file"):
        sa.open([], target="y")
    assert sa.open(folder, target="y").n_rows == 1  # notes are text too, tables are not notes


def test_a_folder_of_text_stands_for_its_files_unless_it_holds_others(tmp_path):
    pytest.importorskip("pyarrow")
    for k in range(3):
        (tmp_path / f"{k}.csv").write_text(f"x,y\n{k},2\n")
    assert sa.open(tmp_path, target="y").n_rows == 3
    parquet(tmp_path / "t.parquet", x=[1.0], y=[2.0])
    assert sa.open(tmp_path, target="y").n_rows == 1


def test_empty_archives_are_left_out(tmp_path):
    for name, n in {"a": 0, "b": 3, "c": 0}.items():
        np.savez(tmp_path / f"{name}.npz", X=np.ones((n, 2)), y=np.ones(n))
    source = sa.open(tmp_path)
    assert source.n_rows == 3 and len(source.shards) == 1
    assert sa.minimize(sa.Problem.linear(sa.Squared(), source, on_coefficients=sa.L1(0.1)))
    with pytest.raises(DataError, match=r"a\.npz has no rows"):
        sa.open(tmp_path / "a.npz")


# ---------------------------------------------------------------- shapes and changes


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_column_of_weights_or_offsets_is_as_good_as_a_vector(kind, tmp_path):
    rng = np.random.default_rng(0)
    X, y, w, o = rng.random((50, 2)), rng.random(50), rng.random(50), rng.random(50)

    def fit(w, o):
        arrays = {"X": X, "y": y, "w": w, "o": o}
        if kind == "npz":
            np.savez(tmp_path / "t.npz", **arrays)
            source = sa.open(tmp_path / "t.npz", weight="w", offset="o")
        else:
            for name, array in arrays.items():
                np.save(tmp_path / f"{name}.npy", array)
            files = {name: tmp_path / f"{name}.npy" for name in "Xywo"}
            source = sa.open(files["X"], files["y"], weight=files["w"], offset=files["o"])
        return sa.minimize(sa.Problem.linear(sa.Huber(), source, on_coefficients=sa.L1(0.01)))

    np.testing.assert_array_equal(fit(w[:, None], o[:, None]).coef, fit(w, o).coef)
    with pytest.raises(DataError, match=r"weights have shape \(50, 2\), expected one per row"):
        fit(np.column_stack([w, w]), o)


def test_a_table_of_labels_is_refused_in_plain_words(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.random((50, 2)))
    np.save(tmp_path / "y.npy", rng.integers(0, 2, (50, 1)))
    with pytest.raises(ValueError, match="one label per row"):
        sa.SparseLogisticClassifier().fit(str(tmp_path / "X.npy"), str(tmp_path / "y.npy"))


@pytest.mark.parametrize("method", ["auto", "acc-sadmm"])
def test_a_file_that_changes_during_a_run_is_noticed(method, tmp_path, monkeypatch):
    monkeypatch.setattr(StreamedSum, "sample_rows", 500)  # the others are read again
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.sign(X[:, 0] + rng.standard_normal(2000)))
    source = sa.open(tmp_path / "X.npy", target=tmp_path / "y.npy")
    problem = sa.Problem.linear(sa.Logistic(), source, on_structure=sa.L1(1e-3))

    def replace(*_):
        np.save(tmp_path / "other.npy", X[::-1])
        os.replace(tmp_path / "other.npy", tmp_path / "X.npy")

    with pytest.raises(DataError, match=r"X\.npy has changed since it was opened"):
        sa.minimize(problem, method, stop=sa.Gap(1e-10), callback=replace)


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("ending", ["csv", "svm", "parquet"])
def test_a_run_over_text_goes_on_from_its_checkpoint(ending, tmp_path):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y, z = np.sign(X[:, 0] + rng.standard_normal(400)), np.sign(rng.standard_normal(400))
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        lines = (f"{a},{b},{c},{t},{u}" for (a, b, c), t, u in zip(X, y, z, strict=True))
        path.write_text("a,b,c,y,z\n" + "\n".join(lines) + "\n")
    elif ending == "svm":
        lines = (f"{t} 1:{a} 2:{b} 3:{c}" for (a, b, c), t in zip(X, y, strict=True))
        path.write_text("\n".join(lines) + "\n")
    else:
        parquet(path, a=X[:, 0], b=X[:, 1], c=X[:, 2], y=y, z=z)

    def run(target="y", **more):
        named = {} if ending == "svm" else {"target": target, "columns": ["a", "b", "c"]}
        problem = sa.Problem.linear(
            sa.Logistic(), sa.open(path, **named), on_structure=sa.L1(1e-3), intercept=True
        )
        return sa.minimize(
            problem, stop=sa.Gap(1e-9), checkpoint=tmp_path / "run.ckpt", resume=True, **more
        )

    def stop(*_):
        raise KeyboardInterrupt

    begun = run(callback=stop)
    assert begun.status.name == "INTERRUPTED"
    gc.collect()
    assert run().converged
    if ending != "svm":  # the same files with another target are another problem
        with pytest.raises(ValueError, match="another"):
            run("z")


# ---------------------------------------------------------------- Zarr


@pytest.fixture
def group(tmp_path):
    """Two targets, weights, whole numbers and a text beside 400 rows in chunks of 64 x 3."""
    zarr, rng = pytest.importorskip("zarr"), np.random.default_rng(0)
    made = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    X = rng.standard_normal((400, 5)).astype(np.float32)
    y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    made.create_array("X", data=X, chunks=(64, 3))
    for name, array in {"y": y, "two": np.stack([y, -y], axis=1), "w": np.ones(7)}.items():
        made.create_array(name, data=array)
    return X, y, tmp_path / "rows.zarr"


def test_a_zarr_group_holds_its_rows_in_the_type_in_which_they_are_stored(group):
    X, y, path = group
    source = sa.open(path)
    assert (source.n_rows, source.n_columns, source.dtype) == (400, 5, np.float32)
    np.testing.assert_array_equal(values(source)[0], X)
    np.testing.assert_array_equal(values(source)[1], y)
    assert sa.open(path, "two").n_outputs == 2


def test_a_zarr_group_is_decoded_once_for_a_run_and_its_copy_is_deleted(group, tmp_path):
    X, y, path = group
    source = sa.open(path, scratch=tmp_path / "scratch")
    for method in ("auto", "acc-sadmm"):
        found = sa.minimize(
            sa.Problem.linear(sa.Logistic(), source, on_coefficients=sa.L1(0.05)),
            method,
            stop=sa.Gap(1e-5),
        )
        truth = sa.minimize(sa.Problem.linear(sa.Logistic(), X, y, on_coefficients=sa.L1(0.05)))
        assert found.converged
        assert found.objective <= truth.objective * (1 + 2e-5)
        assert not list((tmp_path / "scratch").iterdir())


def test_what_a_zarr_group_lacks_is_said(group):
    *_, path = group
    with pytest.raises(ValueError, match="no array 'z'; it has "):
        sa.open(path, "z")
    with pytest.raises(ValueError, match=r"w .* \(7,\)"):
        sa.open(path, weight="w")
    with pytest.raises(ValueError, match="no names"):
        sa.open(path, columns=["a"])
    chunk = next(file for file in (path / "X").rglob("*") if file.name == "0" and file.is_file())
    source = sa.open(path)
    chunk.write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"rows\.zarr"):
        values(source)


def test_a_zarr_group_that_changes_during_a_run_is_refused(group):
    _, y, path = group
    source = sa.open(path)
    pytest.importorskip("zarr").open_group(path, mode="r+")["y"][0] = -y[0]
    with pytest.raises(DataError, match="changed since"):
        sa.minimize(sa.Problem.linear(sa.Logistic(), source, on_coefficients=sa.L1(0.05)))
