"""Tables as users have them: gaps, indexes, odd names and numbers, one meaning in every format."""

import csv
import decimal
import io
import json

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

import stochadmm as sa
from stochadmm.cli.main import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return lambda *arguments, **more: CliRunner().invoke(app, [str(a) for a in arguments], **more)


def one_line(done, *parts):
    assert done.exit_code == 2 and done.stdout == "", done.output
    assert done.stderr.startswith("stochadmm: ") and done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr, done.stderr


def succeeded(done):
    assert done.exit_code == 0, done.output
    return done


def columns_of(folder):
    with open(f"{folder}/coefficients.csv", newline="", encoding="utf-8") as file:
        return [row[0] for row in csv.reader(file)][2:]


def coef_of(folder):
    with np.load(f"{folder}/model.npz") as file:
        return file["coef"]


def parquet(path, columns, **more):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns, **more), path)


def csv_of(path, columns):
    cells = zip(*columns.values(), strict=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *cells])


SQUARED = ["--loss", "squared", "--alpha", "0.01"]


def whole(data):
    return data


def streamed(data):
    """Return a pattern for a file: files that are named by one are streamed."""
    return "?" + data[1:]


@pytest.fixture
def rows():
    """Two numbers and a target that is their sum, about."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)).round(6)
    return X, (X.sum(axis=1) + 0.1 * rng.standard_normal(60)).round(6)


def numbers(rows):
    X, y = rows
    return {"a": X[:, 0].tolist(), "b": X[:, 1].tolist(), "y": y.tolist()}


# ---------------------------------------------------------------- labels that are missing


@pytest.mark.parametrize("labels", [["0", "1"], ["no", "yes"], ["0.5", "1.5"], ["True", "False"]])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_missing_label_is_no_class(run, rows, tmp_path, labels, kind):
    labels = [labels[k % 2] for k in range(60)]
    labels[7] = labels[9] = None if kind == "parquet" else ""
    columns = numbers(rows) | {"y": labels}
    (csv_of if kind == "csv" else parquet)(tmp_path / f"t.{kind}", columns)
    done = run("fit", f"t.{kind}", "--loss", "logistic", "--alpha", "0.02")
    one_line(done, "column 'y'", "2 empty", "row 8", "fill or drop")
    assert not (tmp_path / "model").exists()


# ---------------------------------------------------------------- cells


@pytest.mark.parametrize(
    ("cells", "is_text"),
    [
        (["18_25", "26_40", "41_60"], True),
        (["1_000", "2", "3"], True),
        (["٣", "4", "5"], True),
        (["２", "4", "5"], True),
        (["0x10", "1.5", "18"], True),
        (["1e5", "2", "3E4"], False),
        ([" 1 ", "2", "3.5"], False),
        (["+1", "-.5", "2."], False),
        (["True", "False", "true"], False),
        (["TRUE", "1", "0"], False),
        (["yes", "no", "1"], True),
    ],
)
def test_cells_mean_the_same_in_memory_and_streamed(run, rows, tmp_path, cells, is_text):
    pytest.importorskip("pyarrow")
    columns = numbers(rows) | {"b": [cells[k % 3] for k in range(60)]}
    csv_of(tmp_path / "t.csv", columns)
    succeeded(run("fit", "t.csv", *SQUARED, "--tol", "1e-9", "--out", "whole"))
    succeeded(run("fit", streamed("t.csv"), *SQUARED, "--tol", "1e-9", "--out", "streamed"))
    found = columns_of("whole")
    assert (found != ["a", "b"]) == is_text
    assert [name.replace(" ", "") for name in columns_of("streamed")] == found
    np.testing.assert_allclose(coef_of("streamed"), coef_of("whole"), rtol=1e-3, atol=1e-5)
    assert (
        run("predict", "streamed", "t.csv").stderr == run("predict", "whole", "t.csv").stderr == ""
    )


@pytest.mark.parametrize("cell", ["nan", "NaN", "inf", "-inf", "infinity", "Infinity", ""])
@pytest.mark.parametrize("named", [whole, streamed])
def test_cells_that_are_no_finite_number_are_refused(run, rows, tmp_path, cell, named):
    pytest.importorskip("pyarrow")
    columns = numbers(rows)
    columns["a"][7] = cell
    csv_of(tmp_path / "t.csv", columns)
    assert run("fit", named("t.csv"), *SQUARED).exit_code == 2


def test_truths_are_numbers_as_features_and_keep_their_names_as_labels(run, rows, tmp_path):
    X, y = rows
    columns = numbers(rows) | {"y": (y > 0).tolist(), "b": (X[:, 1] > 0).tolist()}
    csv_of(tmp_path / "t.csv", columns)
    parquet(tmp_path / "t.parquet", columns)
    for kind in ("csv", "parquet"):
        succeeded(run("fit", f"t.{kind}", "--alpha", "0.01", "--out", kind))
        assert columns_of(kind) == ["a", "b"]
        for other in ("csv", "parquet"):
            found = json.loads(run("predict", kind, f"t.{other}", "--json").stdout)
            assert set(found) == {"y", "p(False)", "p(True)"}
    np.testing.assert_array_equal(coef_of("csv"), coef_of("parquet"))
    facts = json.loads(run("info", "t.csv", "--json").stdout)["columns"]
    assert facts["b"] == "number, 0 to 1"


# ---------------------------------------------------------------- columns that number the rows


def test_the_index_of_a_pandas_table_is_no_feature(run, rows, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(numbers(rows))[lambda t: t["a"] != 0].sample(frac=1, random_state=0)
    table.to_parquet(tmp_path / "ix.parquet")
    table.to_csv(tmp_path / "ix.csv")
    table.rename_axis("id").to_parquet(tmp_path / "id.parquet")
    names = {"ix.parquet": "'__index_level_0__'", "ix.csv": "without a name", "id.parquet": "'id'"}
    for data, name in names.items():
        for named in (whole, streamed):
            done = succeeded(run("fit", named(data), *SQUARED, "--overwrite"))
            assert columns_of("model") == ["a", "b"]
            assert "Note: " in done.stdout and name in done.stdout and "left out" in done.stdout
            succeeded(run("predict", "model", data))
        done = succeeded(run("path", data, "--loss", "squared", "--alphas", "3"))
        assert name in done.stderr and done.stdout.startswith("alpha,relative_gap,a,b\n")
        assert "rows" in succeeded(run("info", data)).stdout
    done = run("fit", "ix.parquet", *SQUARED, "--drop", "__index_level_0__", "--overwrite")
    assert "Note" not in succeeded(done).stdout
    facts = succeeded(run("fit", "ix.csv", *SQUARED, "--overwrite", "--json")).stdout
    assert "without a name" in json.loads(facts)["notes"][0]


def test_two_columns_of_one_name_are_refused_in_every_format(run, rows, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    X, y = rows
    pq.write_table(pa.table([*X.T, y], names=["a", "a", "y"]), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=X, y=y, names=["a", "y"])
    for data in ("t.parquet", "t.npz"):
        one_line(run("fit", data, *SQUARED), f"{data} has two columns named")
        one_line(run("info", data), f"{data} has two columns named")
    one_line(run("fit", streamed("t.parquet"), *SQUARED), "two columns named 'a'")


# ---------------------------------------------------------------- one spelling of nothing


def test_a_missing_text_is_empty_in_every_format(run, rows, tmp_path):
    columns = numbers(rows) | {"b": [["x", "y", None][k % 3] for k in range(60)]}
    parquet(tmp_path / "t.parquet", columns)
    csv_of(tmp_path / "t.csv", columns)
    for data in ("t.csv", "t.parquet"):
        succeeded(run("fit", data, *SQUARED, "--out", data[2:]))
        assert columns_of(data[2:]) == ["a", "b=", "b=x", "b=y"]
        answers = [succeeded(run("predict", data[2:], other)) for other in ("t.csv", "t.parquet")]
        assert answers[0].stdout == answers[1].stdout
        assert answers[0].stderr == answers[1].stderr == ""


def test_levels_are_known_by_their_text_where_a_file_has_numbers(run, rows, tmp_path):
    columns = numbers(rows) | {"b": [["1", "2", "3+"][k % 3] for k in range(60)]}
    csv_of(tmp_path / "t.csv", columns)
    succeeded(run("fit", "t.csv", *SQUARED))
    new = {"a": [0.0, 0.0], "b": [1, 2]}
    csv_of(tmp_path / "new.csv", new)
    parquet(tmp_path / "new.parquet", new)
    first, second = (run("predict", "model", f"new.{kind}") for kind in ("csv", "parquet"))
    assert succeeded(first).stdout == succeeded(second).stdout
    assert first.stderr == second.stderr == ""


def test_spaces_around_texts_do_not_count_in_any_format(run, rows, tmp_path):
    columns = numbers(rows) | {"b": [[" west", "east "][k % 2] for k in range(60)]}
    csv_of(tmp_path / "t.csv", columns)
    parquet(tmp_path / "t.parquet", columns)
    answers = []
    for data in ("t.csv", "t.parquet", "?.csv", "?.parquet"):
        succeeded(run("fit", data, *SQUARED, "--tol", "1e-9", "--overwrite"))
        assert sorted(columns_of("model")) == ["a", "b=east", "b=west"]
        for other in ("t.csv", "t.parquet"):
            done = succeeded(run("predict", "model", other, "--json"))
            assert done.stderr == ""
            answers.append(json.loads(done.stdout)["y"])
    np.testing.assert_allclose(answers, [answers[0]] * 8, atol=1e-5)
    columns["b"][0] = "west"
    csv_of(tmp_path / "t.csv", {f" {name}": values for name, values in columns.items()})
    for data in ("t.csv", "?.csv"):
        succeeded(run("fit", data, *SQUARED, "--overwrite"))
        assert sorted(columns_of("model")) == ["a", "b=east", "b=west"]


# ---------------------------------------------------------------- types of Parquet columns


def test_numbers_as_texts_decimals_and_dictionaries(run, rows, tmp_path):
    pa = pytest.importorskip("pyarrow")
    X, y = rows
    prices = [decimal.Decimal(f"{value:.2f}") for value in X[:, 0]]
    codes = [f"{10000 + k % 30}" for k in range(60)]
    sizes = pa.array([k % 3 for k in range(60)]).dictionary_encode()
    columns = {"price": prices, "zip": codes, "size": sizes, "y": y}
    parquet(tmp_path / "t.parquet", columns)
    succeeded(run("fit", "t.parquet", *SQUARED))
    assert columns_of("model") == ["price", *(f"zip={10000 + k}" for k in range(30)), "size"]
    assert "price" in succeeded(run("info", "t.parquet")).stdout


def test_a_parquet_file_without_rows_is_one_line(run, rows, tmp_path):
    columns = numbers(rows)
    parquet(tmp_path / "t.parquet", columns)
    succeeded(run("fit", "t.parquet", *SQUARED))
    parquet(tmp_path / "empty.parquet", {name: values[:0] for name, values in columns.items()})
    one_line(run("predict", "model", "empty.parquet"), "empty.parquet has no rows")
    one_line(run("fit", "empty.parquet", *SQUARED, "--out", "other"), "no rows")


# ---------------------------------------------------------------- matrices


@pytest.mark.parametrize("shape", [(60,), (60, 1)])
def test_labels_of_npz_files_may_be_text(run, rows, tmp_path, shape):
    X, y = rows
    labels = np.where(y > 0, "yes", "no")
    np.savez(tmp_path / "t.npz", X=X, y=labels.reshape(shape))
    succeeded(run("fit", "t.npz", "--alpha", "0.02"))
    found = json.loads(run("predict", "model", "t.npz", "--json").stdout)
    own = sa.SparseLogisticClassifier(alpha=0.02).fit(X, labels)
    assert found["y"] == own.predict(X).tolist()
    facts = json.loads(run("info", "t.npz", "--json").stdout)
    assert facts["columns"]["y"] == "text, 2 levels: no, yes"


def test_targets_of_npz_files_may_be_a_column(run, rows, tmp_path):
    X, y = rows
    np.savez(tmp_path / "t.npz", X=X, y=y[:, None])
    succeeded(run("fit", "t.npz", *SQUARED))
    own = sa.LassoRegressor(alpha=0.01).fit(X, y)
    np.testing.assert_allclose(coef_of("model")[0], own.coef_)


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"y": np.zeros((60, 2))}, ["(60, 2)", "for 60 rows"]),
        ({"y": np.zeros(59)}, ["(59,)", "for 60 rows"]),
        ({"X": np.full((60, 2), "a")}, ["X in bad.npz holds <U1", "numbers"]),
        ({"y": np.zeros(60, dtype=complex)}, ["y in bad.npz holds complex128"]),
        ({"names": ["a"]}, ["1 names for 2 columns"]),
    ],
)
def test_arrays_that_do_not_fit_are_one_line(run, rows, tmp_path, arrays, parts):
    X, y = rows
    np.savez(tmp_path / "bad.npz", **({"X": X, "y": y} | arrays))
    one_line(run("fit", "bad.npz", *SQUARED), *parts)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_archives_are_read_by_their_format(run, tmp_path, kind):
    rng = np.random.default_rng(0)
    X = sparse.random_array((40, 40), density=0.3, rng=rng).toarray()  # square: no shape tells
    y = X @ np.arange(40.0)
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_array(X).asformat(kind))
    with np.load(tmp_path / "X.npz") as parts:
        np.savez(tmp_path / "t.npz", **parts, y=y)
    succeeded(run("fit", "t.npz", *SQUARED))
    own = sa.LassoRegressor(alpha=0.01).fit(X, y)
    np.testing.assert_allclose(coef_of("model")[0], own.coef_, rtol=1e-6, atol=1e-9)
    predicted = json.loads(run("predict", "model", "X.npz", "--json").stdout)["y"]
    np.testing.assert_allclose(predicted, own.predict(X), rtol=1e-6)


def test_sparse_archives_that_cannot_be_read_are_one_line(run, tmp_path):
    sparse.save_npz(tmp_path / "X.npz", sparse.dia_array(np.eye(4)))
    one_line(run("fit", "X.npz", *SQUARED), "X.npz", "as dia", "csr, csc or coo")
    np.savez(tmp_path / "Y.npz", data=[1.0], indices=[0], indptr=[0, 1, 1], shape=(5, 2))
    one_line(run("fit", "Y.npz", *SQUARED), "Y.npz does not hold a CSR matrix")


@pytest.mark.parametrize("start", [0, 1])
def test_libsvm_columns_are_those_of_the_model(run, tmp_path, start):
    from sklearn.datasets import dump_svmlight_file

    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6))
    y = X.sum(axis=1)
    dump_svmlight_file(X, y, str(tmp_path / "tr.svm"), zero_based=start == 0)
    succeeded(run("fit", "tr.svm", *SQUARED))
    new = X[:8].copy()
    new[:, [0, 5]] = 0  # neither where counting begins nor how many there are can be seen
    dump_svmlight_file(new, y[:8], str(tmp_path / "te.svm"), zero_based=start == 0)
    found = json.loads(succeeded(run("predict", "model", "te.svm", "--json")).stdout)["y"]
    own = sa.LassoRegressor(alpha=0.01).fit(X, y)
    np.testing.assert_allclose(found, own.predict(new), rtol=1e-5)
    (tmp_path / "wide.svm").write_text(f"1 {start + 6}:1\n")
    one_line(run("predict", "model", "wide.svm"), "wide.svm has 7 columns, the model 6")
    if start == 1:
        (tmp_path / "zero.svm").write_text("1 0:1\n")
        one_line(run("predict", "model", "zero.svm"), "column 0", "counted from 1")


def test_the_last_columns_of_a_folder_of_arrays_may_be_empty(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4))

    def save(folder, X):
        (tmp_path / folder).mkdir()
        parts = sparse.csr_array(X)
        for name in ("data", "indices", "indptr"):
            np.save(tmp_path / folder / f"{name}.npy", getattr(parts, name))
        np.save(tmp_path / folder / "y.npy", X.sum(axis=1))

    save("train", X)
    save("new", X * [1, 1, 1, 0])
    succeeded(run("fit", "train", *SQUARED))
    found = json.loads(succeeded(run("predict", "model", "new", "--json")).stdout)["y"]
    assert len(found) == 50


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_number_that_is_missing_in_a_matrix_is_told_with_its_row(run, rows, tmp_path, kind):
    X, y = rows
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    succeeded(run("fit", "X.npy", *SQUARED, "--target", "y.npy"))
    bad = X.copy()
    bad[7, 1] = np.nan
    parts = {"X": bad} if kind == "dense" else arrays_of(sparse.csr_array(bad))
    np.savez(tmp_path / "bad.npz", **parts, y=y)
    for command in (["predict", "model", "bad.npz"], ["fit", "bad.npz", *SQUARED, "--out", "o"]):
        one_line(run(*command), "the matrix of bad.npz has 1 empty", "row 8")
    np.save(tmp_path / "bad.npy", bad)
    one_line(run("predict", "model", "bad.npy"), "the matrix of bad.npy", "row 8")
    np.save(tmp_path / "text.npy", np.full((3, 2), "a"))
    one_line(run("predict", "model", "text.npy"), "<U1, expected numbers")


def arrays_of(X):
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}


def test_arrays_beside_a_matrix_are_weights_offsets_and_targets(run, rows, tmp_path):
    X, y = rows
    weight, days = 1 + np.arange(60) % 2, np.arange(60).astype("datetime64[D]")
    np.savez(tmp_path / "t.npz", X=X, amount=y, w=weight, off=X[:, 0] ** 2, days=days)
    roles = ["--target", "amount", "--weight", "w", "--offset", "off", "--tol", "1e-9"]
    own = sa.LassoRegressor(alpha=0.01, tol=1e-9)
    own.fit(X, y, sample_weight=weight, offset=X[:, 0] ** 2)
    for named in (whole, streamed):
        succeeded(run("fit", named("t.npz"), *SQUARED, *roles, "--overwrite"))
        np.testing.assert_allclose(coef_of("model")[0], own.coef_, rtol=1e-5)
        found = json.loads(run("predict", "model", "t.npz", "--json").stdout)["amount"]
        np.testing.assert_allclose(found, own.predict(X, offset=X[:, 0] ** 2), rtol=1e-5)


def test_a_damaged_archive_and_an_impossible_column_are_one_line(run, rows, tmp_path):
    X, y = rows
    np.savez_compressed(tmp_path / "t.npz", X=X, y=y)
    damaged = bytearray((tmp_path / "t.npz").read_bytes())
    damaged[100:160] = bytes(60)
    (tmp_path / "t.npz").write_bytes(damaged)
    (tmp_path / "u.npz").write_bytes(b"PK" + bytes(50))
    (tmp_path / "t.svm").write_text("1 99999999999:2\n")
    for data in ("t.npz", "u.npz", "t.svm"):
        one_line(run("fit", data, *SQUARED), f"{data} cannot be read")


def test_streamed_targets_of_two_dimensions_are_one_line(run, rows, tmp_path):
    X, _ = rows
    np.save(tmp_path / "X.npy", X)
    one_line(run("fit", "X.npy", *SQUARED, "--target", "X.npy"), "target is a matrix")


# ---------------------------------------------------------------- text files


@pytest.mark.parametrize("size", [5, 20_000])
@pytest.mark.parametrize("command", ["fit", "info"])
def test_a_quote_that_is_not_closed_is_one_line(run, tmp_path, size, command):
    lines = [f"{k},word,{k % 7}" for k in range(size)]
    lines[2] = '2,"word,3'
    (tmp_path / "t.csv").write_text("x,t,y\n" + "\n".join(lines) + "\n")
    one_line(run(command, "t.csv"), "line 4 of t.csv", "quote")


def test_a_quote_in_the_last_column_loses_no_rows(run, tmp_path):
    (tmp_path / "t.csv").write_text('x,y\n1,2\n2,"3\n3,4\n4,5\n')
    one_line(run("info", "t.csv"), "line 3 of t.csv", "quote")


def test_a_mark_of_the_encoding_on_standard_input(run, rows):
    file = io.StringIO()
    cells = zip(*numbers(rows).values(), strict=True)
    csv.writer(file).writerows([["y", "größe", "b"], *cells])
    text = ("\ufeff" + file.getvalue()).encode()
    succeeded(run("fit", "-", *SQUARED, input=text))
    assert columns_of("model") == ["größe", "b"]
    text = b'\xef\xbb\xbf"y",a,b\n1,2,3\n2,3,3\n4,4,5\n'
    succeeded(run("fit", "-", *SQUARED, "--overwrite", input=text))


@pytest.mark.parametrize("structure", ["edges", "groups"])
def test_a_bad_byte_or_quote_in_a_structure_names_the_file(run, rows, tmp_path, structure):
    csv_of(tmp_path / "t.csv", numbers(rows))
    (tmp_path / "s.csv").write_bytes(b"a,b\n\xff,b\n")
    one_line(run("fit", "t.csv", *SQUARED, f"--{structure}", "s.csv"), "s.csv is not UTF-8")
    (tmp_path / "s.csv").write_bytes(b'a,b\na,"b\n')
    one_line(run("fit", "t.csv", *SQUARED, f"--{structure}", "s.csv"), "line 2 of s.csv")


def test_rows_of_later_parts_are_counted_from_the_beginning(run, rows, tmp_path, monkeypatch):
    columns = numbers(rows)
    csv_of(tmp_path / "t.csv", columns)
    succeeded(run("fit", "t.csv", *SQUARED))
    from stochadmm.cli import _tables, predict

    monkeypatch.setattr(
        predict,
        "read_chunks",
        lambda path, expected, dialect: _tables.read_chunks(path, 10, expected, dialect),
    )
    columns["a"][37] = None
    csv_of(tmp_path / "t.csv", columns)
    parquet(tmp_path / "t.parquet", columns)
    for kind in ("csv", "parquet"):
        done = run("predict", "model", f"t.{kind}", "--out", "out.csv")
        one_line(done, "1 empty", "row 38")


# ---------------------------------------------------------------- names with brackets


def test_names_with_brackets_are_shown_as_they_are(run, rows, tmp_path):
    X, y = rows
    names = ["rate[/day]", "size[cm]", "y", ":heart:"]
    columns = dict(zip(names, [*X.T.tolist(), y.tolist(), ["[b]", "[/b]"] * 30], strict=True))
    csv_of(tmp_path / "t.csv", columns)
    shown = succeeded(run("info", "t.csv")).stdout
    for text in (*names, "[/b], [b]"):
        assert text in shown
    succeeded(run("fit", "t.csv", *SQUARED, "--out", "m[odel]"))
    assert "m[odel]" in succeeded(run("info", "m[odel]")).stdout
    csv_of(tmp_path / "t[cm].csv", columns)
    done = run("bench", "t[cm].csv", "--loss", "squared", "--methods", "auto")
    assert "t[cm].csv" in succeeded(done).stdout


# ---------------------------------------------------------------- roles of columns


@pytest.mark.parametrize("named", [whole, streamed])
def test_no_column_is_left_when_all_are_dropped(run, rows, tmp_path, named):
    pytest.importorskip("pyarrow")
    csv_of(tmp_path / "t.csv", numbers(rows))
    one_line(run("fit", named("t.csv"), *SQUARED, "--drop", "a,b"), "no column besides the target")


@pytest.mark.parametrize("strength", [["--alpha", "0.02"], ["--cv", "3"]])
def test_classifiers_take_an_offset(run, rows, tmp_path, strength):
    X, y = rows
    label = np.where(y > 0, "yes", "no")
    columns = {"a": X[:, 0].tolist(), "y": label.tolist(), "off": X[:, 1].tolist()}
    csv_of(tmp_path / "t.csv", columns)
    succeeded(run("fit", "t.csv", "--offset", "off", *strength))
    kind = sa.SparseLogisticClassifier if "--alpha" in strength else sa.SparseLogisticClassifierCV
    own = kind(**({"alpha": 0.02} if "--alpha" in strength else {"cv": 3}))
    own.fit(X[:, :1], label, offset=X[:, 1])
    np.testing.assert_allclose(coef_of("model"), own.coef_, rtol=1e-6)
    found = json.loads(run("predict", "model", "t.csv", "--json").stdout)
    expected = own.predict_proba(X[:, :1], offset=X[:, 1])
    np.testing.assert_allclose(found["p(yes)"], expected[:, 1], rtol=1e-6)


def test_an_offset_for_several_classes_or_targets_is_one_line(run, rows, tmp_path):
    columns = numbers(rows) | {"c": ["u", "v", "w"] * 20}
    csv_of(tmp_path / "t.csv", columns)
    for target, what in (("c", "3 classes"), ("b,y", "2 targets")):
        drop = {"c": "y", "b,y": "c"}[target]
        options = ["--target", target, "--drop", drop, "--offset", "a", "--alpha", "0.02"]
        if target == "c":
            columns["d"] = columns["b"]
            csv_of(tmp_path / "t.csv", columns)
        one_line(run("fit", "t.csv", *options), "--offset", what)


def test_the_only_class_with_weights_is_named_plainly(run, rows, tmp_path):
    columns = numbers(rows) | {"y": [k % 2 for k in range(60)], "w": [k % 2 for k in range(60)]}
    csv_of(tmp_path / "t.csv", columns)
    one_line(run("fit", "t.csv", "--alpha", "0.02", "--weight", "w"), "have the class 1;")


def test_a_target_without_any_value_is_one_line(run, rows, tmp_path):
    csv_of(tmp_path / "t.csv", numbers(rows) | {"z": [""] * 60})
    one_line(run("fit", "t.csv", *SQUARED, "--target", "y,z"), "'z'", "60 empty")


def test_a_path_of_several_outputs_names_them(run, rows, tmp_path):
    columns = numbers(rows) | {"c": ["u", "v", "w"] * 20}
    csv_of(tmp_path / "t.csv", columns)
    done = succeeded(run("path", "t.csv", "--target", "c", "--drop", "b,y", "--alphas", "3"))
    assert done.stdout.startswith("alpha,relative_gap,a[u],a[v],a[w]\n")
    done = run("path", "t.csv", "--target", "y,b", "--drop", "c", "--alphas", "3")
    assert succeeded(done).stdout.startswith("alpha,relative_gap,a[y],a[b]\n")


@pytest.mark.parametrize("target", ["y,y", "", ","])
def test_targets_are_named_once(run, rows, tmp_path, target):
    csv_of(tmp_path / "t.csv", numbers(rows))
    one_line(run("fit", "t.csv", *SQUARED, "--target", target), "--target is", "differ")


def test_targets_and_columns_to_drop_that_are_named_one_by_one_add_up(run, rows, tmp_path):
    csv_of(tmp_path / "t.csv", numbers(rows) | {"c": [0, 1] * 30, "d": [1, 0] * 30})
    listed = ["--target", "y,a", "--drop", "c,d"]
    apart = ["--target", "y", "--target", "a", "--drop", "c", "--drop", "d"]
    for out, options in (("listed", listed), ("apart", apart)):
        succeeded(run("fit", "t.csv", *SQUARED, *options, "--out", out))
    assert columns_of("apart") == ["b"] and coef_of("apart").shape == (2, 1)
    np.testing.assert_array_equal(coef_of("apart"), coef_of("listed"))
    paths = [run("path", "t.csv", *options, "--alphas", "2") for options in (listed, apart)]
    assert succeeded(paths[0]).stdout == succeeded(paths[1]).stdout


@pytest.mark.parametrize("named", [whole, streamed])
@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--offset", "y"], ["'y'", "--target and by --offset"]),
        (["--weight", "y"], ["'y'", "--target and by --weight"]),
        (["--weight", "a", "--offset", "a"], ["'a'", "--weight and by --offset"]),
    ],
)
def test_a_column_has_one_role(run, rows, tmp_path, named, options, parts):
    csv_of(tmp_path / "t.csv", numbers(rows))
    one_line(run("fit", named("t.csv"), *SQUARED, *options), *parts)


def test_a_weight_below_zero_is_told_with_column_and_row(run, rows, tmp_path):
    csv_of(tmp_path / "t.csv", numbers(rows) | {"w": [1, 1, -2, *[1] * 57]})
    one_line(
        run("fit", "t.csv", *SQUARED, "--weight", "w"), "column 'w'", "weight -2 in row 3", ">= 0"
    )


@pytest.mark.parametrize("named", [whole, streamed])
@pytest.mark.parametrize(
    ("mark", "point", "word"),
    [(";", ".", "semicolons"), (";", ",", "semicolons"), ("\t", ".", "tabs")],
)
def test_fields_that_are_not_divided_by_commas_are_told(
    run, rows, tmp_path, named, mark, point, word
):
    columns = numbers(rows)
    lines = [columns, *(map(str, row) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(map(mark.join, lines)).replace(".", point))
    one_line(run("fit", named("t.csv"), *SQUARED), "t.csv has one column", word, "expected commas")


def test_a_level_that_is_named_like_a_column_is_refused(run, rows, tmp_path):
    columns = numbers(rows) | {"b": ["u", "v"] * 30, "b=u": [0, 1] * 30}
    csv_of(tmp_path / "t.csv", columns)
    one_line(run("fit", "t.csv", *SQUARED), "t.csv has two columns named 'b=u'")


@pytest.mark.parametrize(
    ("structure", "text", "parts"),
    [
        ("edges", "", ["s.csv is empty"]),
        ("groups", "\n\n", ["s.csv is empty"]),
        ("edges", "a,b\na,b,nan\n", ["line 2 of s.csv", "'nan'", ">= 0"]),
        ("edges", "a,b,-1\n", ["line 1 of s.csv", "'-1'"]),
        ("edges", "a,b,1_0\n", ["line 1 of s.csv", "'1_0'"]),
    ],
)
def test_structures_that_say_nothing_sensible_are_one_line(
    run, rows, tmp_path, structure, text, parts
):
    csv_of(tmp_path / "t.csv", numbers(rows))
    (tmp_path / "s.csv").write_text(text)
    one_line(run("fit", "t.csv", *SQUARED, f"--{structure}", "s.csv"), *parts)


@pytest.mark.parametrize("grid", ["2x2", "99999999999x2"])
def test_a_grid_of_other_size_than_the_columns_is_one_line(run, rows, tmp_path, grid):
    csv_of(tmp_path / "t.csv", numbers(rows))
    one_line(run("fit", "t.csv", *SQUARED, "--grid", grid), f"--grid {grid} has", "2 columns")


def test_a_file_is_no_model(run, rows, tmp_path):
    csv_of(tmp_path / "t.csv", numbers(rows))
    one_line(run("predict", "t.csv", "t.csv"), "t.csv is not a model")


# ---------------------------------------------------------------- help


def test_help_names_the_files_that_a_command_reads(run, tmp_path):
    np.save(tmp_path / "X.npy", np.ones((3, 2)))
    for command in ("fit", "path"):
        assert "npy" in run(command, "--help").stdout.replace(".npy mask", "")
    assert "npy" not in run("bench", "--help").stdout.replace(".npy mask", "")
    one_line(run("bench", "X.npy"), "'.npy'", "expected one of")


@pytest.mark.parametrize("named", [whole, streamed])
def test_counts_whose_means_reach_far_are_those_of_the_model(run, tmp_path, named):
    from sklearn.linear_model import PoissonRegressor

    pytest.importorskip("pyarrow")
    a = np.append(np.repeat([0.0, 1.0, 2.0], 40), 4.0)
    y = np.append(np.repeat([1.0, 3.0, 9.0], 40), 9.0)  # of the last row the mean is far above
    csv_of(tmp_path / "t.csv", {"a": a, "y": y})
    options = ("--loss", "poisson", "--alpha", "1e-9", "--tol", "1e-10")
    succeeded(run("fit", named("t.csv"), *options))
    other = PoissonRegressor(alpha=0.0, tol=1e-12, max_iter=1000).fit(a[:, None], y)
    assert other.predict([[4.0]]) > np.e * y.max()
    np.testing.assert_allclose(coef_of("model").ravel(), other.coef_, rtol=1e-5)
