"""The same solve from a dense array, a CSR matrix and a read-only memory map."""

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.data import as_rows
from stochadmm.data.rows import Blocking
from stochadmm.kernels import extension
from stochadmm.kernels.columns import squares


def solve(X, y, method="auto"):
    problem = sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(X.shape[1]), on_structure=sa.L1(0.005)
    )
    return sa.minimize(problem, method, stop=sa.Gap(1e-12), max_passes=300, random_state=0)


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 12)) * (rng.random((400, 12)) < 0.5)
    y = np.where(X[:, 0] + rng.standard_normal(400) > 0, 1.0, -1.0)
    np.save(tmp_path / "X.npy", X)
    return X, y, np.load(tmp_path / "X.npy", mmap_mode="r")


@pytest.mark.parametrize("method", ["auto", "acc-sadmm"])
def test_a_memory_map_gives_the_bits_of_an_array_and_csr_the_same_coefficients(data, method):
    X, y, mapped = data
    dense, from_map, csr = (solve(A, y, method) for A in (X, mapped, sparse.csr_array(X)))
    assert not mapped.flags.writeable
    np.testing.assert_array_equal(dense.coef, from_map.coef)
    assert dense.n_passes == from_map.n_passes
    if method == "auto":  # the others stop within their tolerance, not at the optimum's digits
        np.testing.assert_allclose(csr.coef, dense.coef, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_rows_come_in_another_type_piece_by_piece(data, kind):
    rows = as_rows(kind(data[0].astype(np.float32))).take(slice(0, 400))
    rows = replace(rows, blocking=Blocking(block_bytes=1 << 12, fewest=1))
    seen, memory = [], set()
    for part, stored, wide in rows.in_type(np.float64):
        assert stored.dtype == np.float32 and wide.dtype == np.float64
        assert np.array_equal(wide.dense(), data[0][part].astype(np.float32))
        seen += range(part.start, part.stop)
        memory.add(wide.dense().__array_interface__["data"][0])
    assert seen == list(range(400)) and len(seen) > len(memory)
    if kind is np.asarray:
        assert len(memory) == 1


def test_rows_count_their_reads(data):
    X, y, _ = data
    f2 = sa.FiniteSum(sa.Logistic(), X, y)
    before = f2.rows.reads
    assert before == 1  # the check of the numbers
    f2.evaluate(np.ones(12))
    assert f2.rows.reads == before + 1
    f2.gradient_rows(np.arange(100), np.ones(12))
    assert f2.rows.reads == before + 1.25
    f2.value(np.ones(12))
    assert f2.rows.reads == before + 2.25


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_copy_of_a_map_is_made(tmp_path):
    script = textwrap.dedent("""
        import sys, tracemalloc, numpy as np, stochadmm as sa
        X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
        def own():  # memory of this process without pages of the file
            for line in open("/proc/self/status"):
                if line.startswith("RssAnon"):
                    return int(line.split()[1]) * 1024
        sa.minimize(sa.Problem(sa.FiniteSum(sa.Squared(), X[:500], y[:500]), h2=sa.L1(0.1)))
        before, most = own(), 0
        tracemalloc.start()  # sees copies that are gone before the callback
        f2 = sa.FiniteSum(sa.Squared(), X, y)
        def watch(record, state):
            global most
            most = max(most, own())
        sa.minimize(sa.Problem(f2, h2=sa.L1(0.1)), callback=watch)
        print(max(most - before, own() - before, tracemalloc.get_traced_memory()[1]))
    """)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 160), dtype=np.float32)  # 32 MB; numbers per row are 0.4 MB
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", X[:, 0] + rng.standard_normal(len(X), dtype=np.float32))
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "X.npy", tmp_path / "y.npy"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert int(done.stdout) < X.nbytes // 2


def at_an_odd_address(array):
    """Return the same numbers, one byte beside where a processor wants them."""
    own = np.frombuffer(bytearray(array.nbytes + 1), array.dtype, array.size, offset=1)
    own[:] = array.ravel()
    assert not own.flags.aligned
    return own.reshape(array.shape)


@pytest.mark.parametrize("method", ["auto", "acc-sadmm"])
def test_numbers_at_odd_addresses_are_copied_where_they_come_in(data, method):
    X, y, _ = data
    csr = sparse.csr_array(X)
    odd = sparse.csr_array(X)
    odd.data, odd.indices = at_an_odd_address(csr.data), at_an_odd_address(csr.indices)
    for plain, other in ((X, at_an_odd_address(X)), (csr, odd)):
        f2 = sa.FiniteSum(sa.Logistic(), other, at_an_odd_address(y))
        parts = [f2.y, f2.X] if f2.storage == "dense" else [f2.y, f2.X.data, f2.X.indices]
        assert all(part.flags.aligned for part in parts)
        one, two = solve(plain, y, method), solve(other, at_an_odd_address(y), method)
        np.testing.assert_array_equal(one.x2, two.x2)


def test_kernels_refuse_numbers_at_odd_addresses():
    if not extension.available():
        pytest.skip("no compiled kernels")
    with pytest.raises(TypeError, match="aligned"):
        squares(at_an_odd_address(np.ones((3, 2))))
