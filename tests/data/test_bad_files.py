"""Files that cannot be worked on: one line that names the file, never a wrong answer."""

import io
import zipfile

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.cli._matrices import read_npz

N = 300


def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    return X, np.sign(X[:, 0] + rng.standard_normal(N))


def fit(source, method="auto"):
    problem = sa.Problem.linear(sa.Logistic(), source, on_structure=sa.L1(1e-2))
    return sa.minimize(problem, method, stop=sa.Gap(1e-4))


def as_csr(folder, **changed):
    """Write the arrays of a CSR matrix, some of them changed."""
    X = sparse.random_array((N, 5), density=0.5, rng=np.random.default_rng(0), format="csr")
    arrays = {name: getattr(X, name) for name in ("data", "indices", "indptr")}
    for name, change in changed.items():
        arrays[name] = change(arrays[name].copy())
    for name, array in {**arrays, "y": rows()[1]}.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "n_columns.txt").write_text("5")
    return sa.open(folder)


def put(array, place, value):
    array[place] = value
    return array


@pytest.mark.parametrize("method", ["auto", "acc-sadmm"])
@pytest.mark.parametrize("value", [-1, 5, 2**31 - 1])
def test_columns_that_are_not_there_never_reach_a_compiled_loop(value, method, tmp_path):
    source = as_csr(tmp_path, indices=lambda a: put(a, 7, value))
    with pytest.raises(sa.DataError, match=r"indices\.npy, rows 0 to 299: .* outside 0\.\.4"):
        fit(source, method)


@pytest.mark.parametrize("place", [0, 10, N])
def test_rows_of_entries_that_are_not_in_order_are_refused(place, tmp_path):
    source = as_csr(tmp_path, indptr=lambda a: put(a, place, 10**6 if place else -1))
    with pytest.raises(sa.DataError, match=r"indptr\.npy, rows 0 to 299"):
        fit(source)


def test_arrays_of_a_matrix_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(sa.DataError, match="whole numbers"):
        as_csr(tmp_path, indices=lambda a: a.astype(float))
    with pytest.raises(sa.DataError, match=r"indices\.npy has shape"):
        as_csr(tmp_path, indices=lambda a: a[:-1])


def test_a_matrix_in_memory_with_wrong_columns_is_refused():
    X, y = sparse.csr_array(np.ones((4, 2))), np.array([1.0, -1.0, 1.0, -1.0])
    X.indices[3] = 9
    with pytest.raises(sa.DataError, match="CSR matrix"):
        sa.data.ArraySource(X, y)


def test_partitions_with_wrong_columns_are_refused():
    da, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")

    def wrong():
        X = sparse.csr_array(np.ones((4, 2)))
        X.indices[3] = 9
        return X

    like = sparse.csr_array((0, 2))
    X = da.from_delayed(dask.delayed(wrong)(), (4, 2), float, meta=like)
    y = da.from_array(np.array([1.0, -1.0, 1.0, -1.0]), chunks=4)
    problem = sa.Problem.linear(sa.Logistic(), X, y, on_structure=sa.L1(1e-2))
    with pytest.raises(sa.DataError, match="begins at row 0 is no CSR matrix"):
        sa.minimize(problem)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_files_without_numbers_are_refused(shape, tmp_path):
    np.save(tmp_path / "X.npy", np.ones(shape))
    np.save(tmp_path / "y.npy", np.ones(shape[0]))
    with pytest.raises(sa.DataError, match=r"X\.npy has shape"):
        sa.open(tmp_path / "X.npy", target=tmp_path / "y.npy")
    with pytest.raises(sa.DataError, match="X has shape"):
        sa.data.ArraySource(np.ones(shape), np.ones(shape[0]))


def test_a_number_that_is_missing_is_named_by_its_file_and_row(tmp_path):
    X, y = rows()
    X[123, 1] = np.nan
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    with pytest.raises(sa.DataError, match=r"X\.npy, rows 0 to 299: X has .* in row 123"):
        fit(sa.open(tmp_path / "X.npy", target=tmp_path / "y.npy"))


def test_a_missing_value_of_a_text_is_named_by_that_text(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,1\n3,,-1\n")
    with pytest.raises(sa.DataError, match=r"t\.csv, rows 0 to 1: column 'b' .* in row 1"):
        fit(sa.open(tmp_path / "t.csv", target="y"))
    with pytest.raises(sa.DataError, match=r"t\.csv has no column 'z'"):
        sa.open(tmp_path / "t.csv", target="z")


def table(**more):
    pa = pytest.importorskip("pyarrow")
    X, y = rows()
    return pa.table({"a": X[:, 0], "b": X[:, 1], "y": y, **more})


def test_columns_are_named_once_and_are_not_the_target(tmp_path):
    path = tmp_path / "t.parquet"
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table(), path)
    for columns, words in {("a", "y"): "target and a column", ("a", "a"): "twice"}.items():
        with pytest.raises(sa.DataError, match=words):
            sa.open(path, target="y", columns=columns)
    with pytest.raises(ValueError, match="expected a list of names"):
        sa.open(path, target="y", columns="a")
    parquet.write_table(table().rename_columns(["a", "a", "y"]), path)
    with pytest.raises(sa.DataError, match="twice"):
        sa.open(path, target="y")


def test_columns_that_hold_neither_numbers_nor_texts_are_named_at_once(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for kind, values in {
        "timestamp": pa.array(range(N), pa.timestamp("ms")),
        "list": pa.array([[1.0, 2.0]] * N),
    }.items():
        parquet.write_table(table(c=values), tmp_path / "t.parquet")
        with pytest.raises(sa.DataError, match=rf"column 'c' holds {kind}.* columns="):
            sa.open(tmp_path / "t.parquet", target="y")
        assert sa.open(tmp_path / "t.parquet", target="y", columns=["a", "b"]).n_columns == 2


def test_a_damaged_page_is_named_by_its_file(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(table(), path, use_dictionary=False, compression="none")
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)  # the head of the first page
    path.write_bytes(content)
    with pytest.raises(sa.DataError, match=r"t\.parquet cannot be read"):
        fit(sa.open(path, target="y"))


def test_what_names_no_file_says_what_to_pass(tmp_path):
    with pytest.raises(ValueError, match="a function that makes"):
        sa.open(iter(table().to_batches()), target="y")
    np.save(tmp_path / "X.npy", np.ones((2, 2)))
    with pytest.raises(ValueError, match="no names"):
        sa.open(tmp_path / "X.npy", target=tmp_path / "X.npy", columns=["a"])


@pytest.mark.parametrize("declared", [(10**9, 100), (1, 3)])
def test_an_archive_that_declares_what_it_does_not_hold_is_refused_before_it_is_read(
    declared, tmp_path
):
    head, content = io.BytesIO(), rows()[0].tobytes()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": declared}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("X", "y"):
            archive.writestr(f"{name}.npy", head.getvalue() + content)
    for read in (sa.open, read_npz):
        with pytest.raises(ValueError, match=r"a\.npz cannot be read .*another size than it has"):
            read(str(tmp_path / "a.npz"))
