"""Data sets: the store of files, the command, the loaders on real files."""

import functools
import gzip
import hashlib
import json
import subprocess
import sys
import threading
import warnings
from collections import Counter
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import scipy.sparse as sp
from reproduction.tests.tiny import assert_one_line, called

from stochadmm_reproduction import datasets
from stochadmm_reproduction.datasets import _store
from stochadmm_reproduction.datasets.__main__ import main

FILES = ("usps/zip.train.csv.gz", "usps/zip.test.csv.gz")

needs_data = pytest.mark.skipif(
    datasets.data_folder() is None or not datasets.data_folder().is_dir(),
    reason="STOCHADMM_DATA does not name a folder",
)


# ---------------------------------------------------------------- the store of files


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder with a tiny usps, known by its checksums; cache and environment are empty."""
    folder = tmp_path / "source"
    (folder / "usps").mkdir(parents=True)
    rows = np.hstack([np.arange(6)[:, None], np.linspace(-1, 1, 6 * 256).reshape(6, 256)])
    sums = dict(_store.checksums())
    for path in FILES:
        with gzip.open(folder / path, "wb") as stream:
            np.savetxt(stream, rows, delimiter=",")
        sums[path] = hashlib.md5((folder / path).read_bytes()).hexdigest()
    monkeypatch.setattr(_store, "checksums", lambda: sums)
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("STOCHADMM_DATA", raising=False)
    monkeypatch.delenv("STOCHADMM_DATA_URL", raising=False)
    return folder


@pytest.fixture
def server(source, monkeypatch):
    """The same folder behind HTTP; records the paths that were asked for."""
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(source))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("STOCHADMM_DATA_URL", f"http://127.0.0.1:{http.server_port}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield asked
        http.shutdown()
        thread.join()


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_files_in_the_data_folder_are_used_where_they_are(source, monkeypatch, tmp_path):
    monkeypatch.setenv("STOCHADMM_DATA", str(source))
    data = datasets.load("usps")
    assert data.X.shape == (6, 256)
    assert datasets.find(FILES[0]) == source / FILES[0]
    assert not (tmp_path / "cache" / "usps").exists()


def test_a_download_is_kept_in_the_cache_and_not_repeated(server, tmp_path):
    first = datasets.load("usps")
    second = datasets.load("usps")
    np.testing.assert_array_equal(first.X, second.X)
    assert len(server) == 2
    assert files_in(tmp_path / "cache" / "usps") == ["zip.test.csv.gz", "zip.train.csv.gz"]


def test_a_second_load_reads_the_parsed_copy(server, tmp_path):
    first = datasets.load("usps")
    for path in FILES:
        (tmp_path / "cache" / path).unlink()
    np.testing.assert_array_equal(datasets.load("usps").X, first.X)
    assert len(server) == 2


def test_a_damaged_parsed_copy_is_replaced(source, monkeypatch, tmp_path):
    monkeypatch.setenv("STOCHADMM_DATA", str(source))
    first = datasets.load("usps")
    (copy,) = (tmp_path / "cache" / "parsed").iterdir()
    content = copy.read_bytes()
    copy.write_bytes(content[: len(content) // 2])
    np.testing.assert_array_equal(datasets.load("usps").X, first.X)
    assert copy.stat().st_size == len(content)


def test_a_download_with_a_wrong_checksum_leaves_nothing_behind(server, source, tmp_path):
    (source / FILES[0]).write_bytes(b"not what it should be")
    with pytest.raises(OSError, match=r"md5 .* expected .* try again") as caught:
        datasets.fetch(FILES[0])
    assert "\n" not in str(caught.value)
    assert files_in(tmp_path / "cache") == []
    assert datasets.fetch(FILES[1]).is_file()


def test_a_damaged_file_in_the_data_folder_is_named(source, monkeypatch):
    monkeypatch.setenv("STOCHADMM_DATA", str(source))
    (source / FILES[1]).write_bytes(b"damaged")
    with pytest.raises(OSError, match=r"zip\.test\.csv\.gz has the md5 .* replace or delete"):
        datasets.load("usps")


def test_a_missing_file_is_told_with_places_and_remedies(source, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load("usps")
    message = str(caught.value)
    for part in (FILES[0], str(tmp_path / "cache"), "STOCHADMM_DATA ", "STOCHADMM_DATA_URL"):
        assert part in message
    assert "\n" not in message


def test_an_unreachable_server_is_told(source, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as http:
        port = http.server_port
    monkeypatch.setenv("STOCHADMM_DATA_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(ConnectionError, match="check the network"):
        datasets.fetch(FILES[0])


@pytest.mark.parametrize("address", ["foo", "host/folder", "C:\\data"])
def test_what_is_no_address_is_told(source, monkeypatch, address):
    monkeypatch.setenv("STOCHADMM_DATA_URL", address)
    with pytest.raises(ValueError, match="expected an address such as https://host/folder"):
        datasets.fetch(FILES[0])


def test_a_file_that_the_server_lacks_is_told(server, source):
    (source / FILES[0]).unlink()
    with pytest.raises(ConnectionError, match="File not found"):
        datasets.fetch(FILES[0])


def test_a_download_into_an_unwritable_cache_says_what_to_do(server, monkeypatch, tmp_path):
    # A file in the way stops every user, the superuser included.
    (tmp_path / "file").touch()
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"cannot write to .*STOCHADMM_CACHE"):
        datasets.fetch(FILES[0])


def test_an_unwritable_cache_does_not_stop_a_load_from_files(source, monkeypatch, tmp_path):
    monkeypatch.setenv("STOCHADMM_DATA", str(source))
    (tmp_path / "file").touch()
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path / "file"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        assert datasets.load("usps").X.shape == (6, 256)
        assert datasets.load("usps").X.shape == (6, 256)
    assert [str(w.message) for w in told if "parsed at every load" in str(w.message)]
    assert len(told) == 1


def test_unknown_names_and_options_are_told_with_what_there_is():
    with pytest.raises(ValueError, match="did you mean covtype"):
        datasets.load("covtyp")
    with pytest.raises(TypeError, match="no option 'colour'; it takes unit_rows, dtype, task"):
        datasets.load("usps", colour="red")
    with pytest.raises(ValueError, match="float32 or float64"):
        datasets.load("usps", dtype=int)
    with pytest.raises(ValueError, match="no file of a known data set"):
        datasets.fetch("../secret")


def test_every_data_set_has_files_with_checksums():
    listed = [path for name in datasets.names() for path in datasets.describe(name).files]
    assert sorted(listed) == sorted(_store.checksums())


def test_importing_loads_no_heavy_library():
    code = (
        "import sys, importlib.util as u, importlib.machinery\n"
        "import numpy, scipy.sparse\n"
        "before = set(sys.modules)\n"
        "import stochadmm_reproduction.datasets\n"
        "heavy = {'pandas', 'matplotlib', 'polars', 'pyarrow', 'dask', 'networkx'}\n"
        "print(sorted(heavy & set(sys.modules) - before))"
    )
    code = f"import sys; sys.path[:] = {sys.path!r}\n{code}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_unit_rows_leave_empty_rows_alone():
    X = np.array([[3.0, 4.0], [0.0, 0.0]])
    expected = np.array([[0.6, 0.8], [0.0, 0.0]])
    np.testing.assert_allclose(datasets.scale_rows(X), expected)
    np.testing.assert_allclose(datasets.scale_rows(sp.csr_array(X)).toarray(), expected)
    assert X[0, 0] == 3.0


# ---------------------------------------------------------------- the command


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("STOCHADMM_DATA", raising=False)
    monkeypatch.delenv("STOCHADMM_DATA_URL", raising=False)
    return lambda words: called(main, *words.split())


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("info", ["name", "info --help"]),
        ("info covtyp", ["covtyp", "did you mean covtype"]),
        ("fetch", ["--all"]),
        ("fetch usps nope", ["'nope'"]),
        ("fetch usps", ["usps/zip.test.csv.gz is not in", "STOCHADMM_DATA"]),
    ],
)
def test_bad_usage_of_the_command_is_one_line_and_code_2(command, words, parts):
    assert_one_line(command(words), *parts)


def test_the_list_names_every_set_and_where_it_can_be_had(command):
    listed = json.loads(command("list --json").stdout)
    assert [entry["name"] for entry in listed] == datasets.names()
    assert not any(entry["here"] for entry in listed)
    assert all(len(entry["where"]) > 10 and "://" not in entry["where"] for entry in listed)
    shown = command("list").stdout
    assert all(name in shown for name in datasets.names())


def test_info_tells_options_and_missing_files(command):
    facts = json.loads(command("info covtype --json").stdout)
    assert facts["options"][2:] == ["binary", "split", "standardize", "seed"]
    assert facts["files"] == {"covtype/covtype.csv.xz": None}
    assert "(missing)" in command("info covtype").stdout
    assert "MALSAR" in command("info school").stdout


@needs_data
@pytest.mark.data
def test_fetch_finds_and_verifies_files():
    result = called(main, "fetch", "usps", "--json")
    assert result.exit_code == 0
    paths = datasets.describe("usps").files
    assert json.loads(result.stdout) == {p: str(datasets.data_folder() / p) for p in paths}


# ---------------------------------------------------------------- real files


@pytest.fixture(scope="module")
def parsed_once(tmp_path_factory):
    """A cache of this module's own, so that the user's cache neither helps nor grows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STOCHADMM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def real(test):
    for mark in (pytest.mark.usefixtures("parsed_once"), pytest.mark.data, needs_data):
        test = mark(test)
    return test


def counts(y):
    return [count for _, count in sorted(Counter(y.tolist()).items())]


@real
def test_a9a():
    data = datasets.load("a9a", dtype=np.float32)
    assert data.X.shape == (32561, 123)
    assert data.X_test.shape == (16281, 123)
    assert sp.issparse(data.X)
    assert data.X.dtype == data.y.dtype == np.float32
    assert counts(data.y) == [32561 - 7841, 7841]
    assert counts(data.y_test) == [16281 - 3846, 3846]


@real
def test_covtype():
    data = datasets.load("covtype")
    assert data.X.shape == (581012, 54)
    assert counts(data.y) == [297711, 283301]
    assert data.feature_names[:2] == ("Elevation", "Aspect")
    every = datasets.load("covtype", binary=False)
    assert counts(every.y) == [211840, 283301, 35754, 2747, 9493, 17367, 20510]
    halves = datasets.load("covtype", split=True, standardize=True, unit_rows=True)
    assert halves.X.shape == halves.X_test.shape == (290506, 54)
    np.testing.assert_allclose(np.linalg.norm(halves.X[:1000], axis=1), 1.0)


@real
def test_protein_halves_are_the_papers_sizes_and_repeatable():
    data = datasets.load("protein")
    assert data.X.shape == (72876, 74)
    assert data.X_test.shape == (72875, 74)
    assert (data.y == 1).sum() + (data.y_test == 1).sum() == 1296
    np.testing.assert_array_equal(data.y, datasets.load("protein").y)
    whole = datasets.load("protein", split=False, standardize=True)
    assert counts(whole.y) == [144455, 1296]
    np.testing.assert_allclose(whole.X.std(axis=0), 1.0)


@real
def test_mnist():
    data = datasets.load("mnist", dtype=np.float32)
    assert data.X.shape == (60000, 784)
    assert data.X_test.shape == (10000, 784)
    assert (data.X.min(), data.X.max()) == (0.0, 1.0)
    assert counts(data.y)[:2] == [5923, 6742]
    parity = datasets.load("mnist", task="even-odd")
    np.testing.assert_array_equal(parity.y == 1.0, data.y % 2 == 0)


@real
def test_dna_methylation():
    data = datasets.load("dna-methylation")
    assert data.X.shape == data.X_test.shape == (107600, 164)
    assert counts(data.y) == counts(data.y_test) == [53800, 53800]
    assert data.X.nnz == 107600 * 41
    assert len(data.groups) == 41
    dense = datasets.load("dna-methylation", task="4mC_F.vesca", sparse=False)
    np.testing.assert_array_equal(dense.X.reshape(-1, 41, 4).sum(axis=2), 1.0)
    every = datasets.load("dna-methylation", task="all")
    assert every.X.shape[0] + every.X_test.shape[0] == 500783
    assert len(every.task_names) == 17
    with pytest.raises(ValueError, match=r"try .*6mA_T\.thermophile"):
        datasets.load("dna-methylation", task="T.thermophile")


@real
def test_dna_gue():
    promoters = datasets.load("dna-gue")
    assert promoters.X.shape == (47356, 280)
    assert promoters.X_test.shape == (5920, 280)
    factors = datasets.load("dna-gue", task="tf", validation="test")
    assert factors.X.shape == (128344, 404)
    assert factors.X_test.shape == (10000, 404)
    assert counts(factors.tasks) == [32378, 30672, 19000, 27294, 19000]


@real
def test_dna_statlog():
    data = datasets.load("dna-statlog")
    assert data.X.shape == (2000, 180)
    assert counts(data.y) == [464, 485, 1051]
    assert counts(data.y_test) == [303, 280, 603]


@real
def test_20news():
    small = datasets.load("20news")
    assert small.X.shape == (16242, 100)
    assert counts(small.y) == [4605, 3519, 2657, 5461]
    assert small.target_names == ("comp", "rec", "sci", "talk")
    large = datasets.load("20news", words=1000)
    assert large.X.shape == (11256, 1000)
    assert large.X_test.shape == (7489, 1000)
    assert len(large.target_names) == 20
    sci = datasets.load("20news", binary="sci")
    assert counts(sci.y) == [16242 - 2657, 2657]


@real
def test_breast_cancer_graph():
    data = datasets.load("breast-cancer-graph")
    assert data.X.shape == (150, 922)
    assert np.isfinite(data.X).all()
    assert counts(data.y) == [38, 112]
    assert len(data.groups) == 386
    merged = datasets.load("breast-cancer-graph", target="metastasis", merge_probes=True)
    assert counts(merged.y) == [93, 53]
    assert merged.graph.shape == (203, 2)
    assert len({gene for group in merged.groups.values() for gene in group.tolist()}) == 254


@real
def test_p53_pathways():
    data = datasets.load("p53-pathways")
    assert data.X.shape == (50, 4301)
    assert counts(data.y) == [17, 33]
    assert len(data.groups) == 308
    assert sum(map(len, data.groups.values())) == 13237
    assert len(np.unique(np.concatenate(list(data.groups.values())))) == 4301


@real
def test_school():
    data = datasets.load("school")
    assert data.X.shape == (15362, 28)
    assert data.tasks.shape == data.y.shape == (15362,)
    assert len(data.task_names) == data.tasks.max() + 1 == 139


@real
def test_clinc150():
    data = datasets.load("clinc150", min_df=2)
    assert data.X.shape[0] == 15000
    assert data.X_test.shape == (4500, data.X.shape[1])
    assert counts(data.y) == [100] * 150
    assert counts(data.y_test) == [30] * 150
    assert datasets.load("clinc150", validation="train").X.shape[0] == 18000


@real
def test_usps_and_coil20():
    digits = datasets.load("usps")
    assert digits.X.shape == (7291, 256)
    assert digits.X_test.shape == (2007, 256)
    assert (digits.X.min(), digits.X.max()) == (-1.0, 1.0)
    objects = datasets.load("coil20")
    assert objects.X.shape == (1440, 1024)
    assert counts(objects.y) == [72] * 20
