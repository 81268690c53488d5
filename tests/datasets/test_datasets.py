"""Data sets: the store of files, the loaders on real files, the generators."""

import functools
import gzip
import hashlib
import subprocess
import sys
import threading
import warnings
from collections import Counter
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import scipy.sparse as sp

from stochadmm import datasets
from stochadmm.datasets import _store

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
        "import stochadmm.datasets\n"
        "heavy = {'pandas', 'matplotlib', 'polars', 'pyarrow', 'dask', 'networkx'}\n"
        "print(sorted(heavy & set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


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


# ---------------------------------------------------------------- generators

GENERATORS = [
    datasets.make_chain,
    datasets.make_graph_fused,
    datasets.make_low_rank_tasks,
    datasets.make_onehot_dna,
    datasets.make_overlapping_groups,
]


@pytest.mark.parametrize("make", GENERATORS)
def test_a_seed_repeats_the_data_and_another_does_not(make):
    first, again, other = make(50), make(50), make(50, random_state=1)
    np.testing.assert_array_equal(first.y, again.y)
    np.testing.assert_array_equal(first.coef, again.coef)
    assert not np.array_equal(first.y, other.y)


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_generators_keep_the_type_asked_for(make, dtype):
    data = make(20, dtype=dtype)
    assert data.X.dtype == data.y.dtype == dtype
    assert data.X.shape[0] == len(data.y) == 20


def test_the_communities_of_a_generated_graph_are_connected_and_level():
    data = datasets.make_graph_fused(10, 60, n_levels=4, cross_fraction=0.0)
    i, j = data.graph.T
    assert (i < j).all()
    assert len(np.unique(data.graph, axis=0)) == len(data.graph)
    np.testing.assert_array_equal(data.coef[i], data.coef[j])
    adjacency = sp.coo_array((np.ones(len(i)), (i, j)), (60, 60))
    assert sp.csgraph.connected_components(adjacency, directed=False)[0] == 4


def test_cross_edges_join_communities():
    data = datasets.make_graph_fused(10, 60, n_levels=4, cross_fraction=0.3)
    i, j = data.graph.T
    assert (data.coef[i] != data.coef[j]).any()


def test_without_noise_labels_are_the_signs_of_the_scores():
    data = datasets.make_graph_fused(300, 20, noise=0.0)
    np.testing.assert_array_equal(data.y, np.where(data.X @ data.coef > 0, 1.0, -1.0))
    dna = datasets.make_onehot_dna(300, 40, n_motifs=2, noise=0.0, dtype=np.float64)
    np.testing.assert_array_equal(dna.y, np.where(dna.X @ dna.coef > 0, 1.0, -1.0))


def test_active_columns_are_a_union_of_groups():
    data = datasets.make_overlapping_groups(30, n_groups=8, group_size=5, overlap=2, n_active=2)
    full = [group for group in data.groups.values() if (data.coef[group] != 0).all()]
    np.testing.assert_array_equal(np.flatnonzero(data.coef), np.unique(np.concatenate(full)))


def test_low_rank_tasks_have_the_rank_and_the_empty_rows_asked_for():
    data = datasets.make_low_rank_tasks(40, 20, 10, rank=2, n_active=6, response="classes")
    assert np.linalg.matrix_rank(data.coef) == 2
    assert (np.abs(data.coef).sum(axis=1) > 0).sum() == 6
    assert data.y.dtype == np.int64
    assert set(data.y.tolist()) <= set(range(10))


def test_generated_dna_has_one_letter_per_position_sparse_or_dense():
    data = datasets.make_onehot_dna(50, 30, n_motifs=2)
    dense = datasets.make_onehot_dna(50, 30, n_motifs=2, sparse=False)
    assert data.X.format == "csr"
    assert data.X.has_canonical_format
    np.testing.assert_array_equal(data.X.toarray(), dense.X)
    np.testing.assert_array_equal(dense.X.reshape(50, 30, 4).sum(axis=2), 1.0)
    active = np.flatnonzero(np.abs(data.coef.reshape(30, 4)).sum(axis=1))
    assert len(active) == 16


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (datasets.make_chain, {"n_levels": 0}, "n_levels is 0, expected 1 to 100"),
        (datasets.make_graph_fused, {"response": "odd"}, "expected 'binary' or 'real'"),
        (datasets.make_low_rank_tasks, {"response": "odd"}, "expected 'real' or 'classes'"),
        (datasets.make_low_rank_tasks, {"n_tasks": 3, "rank": 9}, "rank is 9, expected 1 to 3"),
        (datasets.make_low_rank_tasks, {"n_features": 5, "rank": 9}, "rank is 9, expected 1 to 5"),
        (datasets.make_low_rank_tasks, {"n_active": 2}, "rank is 3, expected 1 to 2"),
        (datasets.make_overlapping_groups, {"overlap": 10}, "overlap is 10"),
        (datasets.make_onehot_dna, {"n_motifs": 99}, "do not fit"),
    ],
)
def test_impossible_requests_are_refused(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(20, **options)


def test_unit_rows_leave_empty_rows_alone():
    from stochadmm.datasets._dataset import scale_rows

    X = np.array([[3.0, 4.0], [0.0, 0.0]])
    expected = np.array([[0.6, 0.8], [0.0, 0.0]])
    np.testing.assert_allclose(scale_rows(X), expected)
    np.testing.assert_allclose(scale_rows(sp.csr_array(X)).toarray(), expected)
    assert X[0, 0] == 3.0
