"""Threads change the time of a pass and nothing else."""

import itertools
import os
import subprocess
import sys
import threading
import time
import weakref
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

import stochadmm as sa
from stochadmm.kernels import extension
from stochadmm.linear_algebra import dense, threads
from stochadmm.risk import finite_sum

N, D, C = 6000, 20, 4


@pytest.fixture
def many_parts(monkeypatch):
    """Let small data be cut as large data is."""
    few = partial(finite_sum.Passes, part_bytes=1 << 12, rows_per_sum=100)
    monkeypatch.setattr(finite_sum, "Passes", few)
    small = dense.GramOptions(part_work=1 << 10, sparse_work=1 << 10, compiled=0)
    monkeypatch.setattr(dense, "OPTIONS", small)


def data(storage="dense", dtype=np.float64, outputs=None, weights=False, n=N):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D)) * (rng.random((n, D)) < 0.2)
    X = (sparse.csr_array(X) if storage == "csr" else X).astype(dtype)
    weight = rng.uniform(0.0, 2.0, n) if weights else None
    if outputs is None:
        y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        return sa.FiniteSum(sa.Logistic(), X, y, weight, intercept=True)
    y = rng.integers(outputs, size=n)
    return sa.FiniteSum(sa.Multinomial(outputs), X, y, weight, intercept=True)


def same_for_any_number(compute):
    """Compute with one, two and three threads, require equal bits, and return them."""
    found = []
    for number in (1, 2, 3, 2):
        with sa.use_threads(number):
            found.append([np.asarray(a) for a in compute()])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    return found[0]


# -------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outputs", [None, C])
@pytest.mark.parametrize("weights", [False, True])
def test_passes_are_the_same_bits_and_right(many_parts, storage, dtype, outputs, weights):
    f2 = data(storage, dtype, outputs, weights)
    assert len(f2._parts) > 6 and f2.compiled == (outputs is None and extension.available())
    x = np.random.default_rng(1).standard_normal(f2.shape).astype(dtype)

    def passes():
        at = f2.evaluate(x)
        return (
            at.predictions,
            at.derivative,
            at.value,
            at.gradient,
            f2.gradient(x),
            f2.value(x),
            f2.value_at(at.predictions),
            f2.predict(x),
            f2.pull_back(f2.weighted(at.derivative)),
        )

    z, u, value, gradient, *rest = same_for_any_number(passes)
    X = f2.X.toarray() if storage == "csr" else f2.X
    X = np.column_stack([X, np.ones(N)]).astype(np.float64)
    tol = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(z, X @ x, rtol=tol, atol=10 * tol)
    np.testing.assert_allclose(gradient, X.T @ f2.weighted(u) / N, rtol=tol, atol=10 * tol)
    np.testing.assert_allclose(rest[1:3], value, rtol=tol)
    np.testing.assert_allclose(rest[3], z, rtol=tol, atol=10 * tol)
    np.testing.assert_allclose(rest[4] / N, gradient, rtol=tol, atol=10 * tol)
    assert all(a.dtype == dtype for a in (z, u, gradient, rest[3], rest[4]))


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weights", [False, True])
def test_gram_matrices_are_the_same_bits_and_right(many_parts, storage, dtype, weights):
    f2 = data(storage, dtype, weights=weights)
    rng = np.random.default_rng(1)
    curvature, v = rng.random(N), rng.standard_normal(D + 1)
    rows = np.sort(rng.permutation(N)[: N // 2])

    def grams():
        return f2.gram(), f2.gram(curvature), f2.gram(curvature[rows], rows), f2.gram_product(v)

    X = f2.X.toarray() if storage == "csr" else f2.X
    X = np.column_stack([X, np.ones(N)]).astype(np.float64)
    q = np.ones(N) if f2.weight is None else f2.weight.astype(np.float64)
    tol = 1e-10 if dtype == np.float64 else 1e-4
    whole, curved, sampled, product = same_for_any_number(grams)
    np.testing.assert_allclose(whole, (X.T * q) @ X / N, atol=tol)
    np.testing.assert_allclose(curved, (X.T * (q * curvature)) @ X / N, atol=tol)
    part = X[rows]
    expected = (part.T * (q * curvature)[rows]) @ part / len(rows)
    np.testing.assert_allclose(sampled, expected, atol=tol)
    np.testing.assert_allclose(product, whole @ v, atol=10 * tol)


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm"])
@pytest.mark.parametrize("outputs", [None, C])
def test_minimize_returns_the_same_bits_and_says_how_many(many_parts, solver, outputs):
    problem = sa.Problem(data(outputs=outputs, n=2000), h2=sa.L1(0.01))
    seen = []

    def solve():
        result = sa.minimize(problem, solver, max_passes=10)
        seen.append(result.info["threads"])
        return result.coef, result.intercept, result.objective, result.n_passes

    same_for_any_number(solve)
    assert seen == [1, 2, 3, 2]


@pytest.mark.compiled
@pytest.mark.parametrize("loss", [sa.Logistic(), sa.Squared()])
def test_compiled_passes_do_not_depend_on_where_arrays_lie(loss):
    from stochadmm.kernels.passes import full_pass

    rng = np.random.default_rng(0)
    n, d = 700, 20
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    f2 = sa.FiniteSum(loss, rng.standard_normal((n, d)), y, rng.random(n), intercept=True)
    sizes, seen = {"z": n - 40, "u": n - 40, "gradient": d + 1}, set()
    for order in itertools.permutations(sizes):
        for gap in range(0, 256, 16):
            memory = np.zeros(2 * n + d + 1 + 3 * gap)
            starts = np.cumsum([0, *(sizes[name] + gap for name in order)])
            lie = {
                name: memory[k : k + sizes[name]] for name, k in zip(order, starts, strict=False)
            }
            value = full_pass(f2.view, 37, n - 3, np.ones(d + 1), **lie)
            seen.add((value, lie["gradient"].tobytes(), lie["u"].tobytes(), lie["z"].tobytes()))
    assert len(seen) == 1


def test_small_data_stays_on_the_calling_thread():
    f2 = data(n=300)
    with sa.use_threads(3):
        assert f2.n_threads == 1
        assert sa.minimize(sa.Problem(f2, h2=sa.L1(0.1))).info["threads"] == 1


def test_parts_do_not_depend_on_the_number_of_threads(many_parts):
    parts = []
    for number in (1, 3):
        with sa.use_threads(number):
            parts.append(data()._parts)
    assert parts[0] == parts[1]
    assert parts[0][0].start == 0 and parts[0][-1].stop == N


def test_fewer_matrices_than_parts_wait_to_be_added():
    alive, most, lock = [0], [0], threading.Lock()

    def part(k):
        with lock:
            alive[0] += 1
            most[0] = max(most[0], alive[0])
        time.sleep(0.05 if k == 0 else 0.0)
        return k

    taken = []

    def take(k):
        with lock:
            alive[0] -= 1
        taken.append(k)

    with sa.use_threads(3):
        threads.run(part, range(100), take)
    assert taken == list(range(100))
    assert most[0] <= threads.AHEAD * 3


# -------------------------------------------------------------------- how many


def test_the_number_follows_blas_the_variable_and_the_context(monkeypatch):
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    with threadpool_limits(1, user_api="blas"):
        assert threads.count() == 1
        monkeypatch.setenv(threads.VARIABLE, "3")
        assert threads.count() == 3
        with sa.use_threads(2):
            assert threads.count() == 2
            with sa.use_threads(5):
                assert threads.count() == 5
            assert threads.count() == 2
        assert threads.count() == 3
        monkeypatch.setenv(threads.VARIABLE, "")
        assert threads.count() == 1
    with threadpool_limits(64, user_api="blas"):
        assert threads.count() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("name", ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", threads.VARIABLE])
def test_variables_of_the_environment_mean_one(name):
    others = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", threads.VARIABLE)
    environment = {k: v for k, v in os.environ.items() if k not in others} | {name: "1"}
    code = "from stochadmm.linear_algebra import threads; print(threads.count())"
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "1"


def test_workers_of_joblib_use_one(monkeypatch):
    joblib = pytest.importorskip("joblib")
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    workers = max(2, os.cpu_count() or 1)
    with joblib.parallel_config("loky", n_jobs=workers):
        found = joblib.Parallel()(joblib.delayed(threads.count)() for _ in range(2))
    joblib.externals.loky.get_reusable_executor().shutdown()
    assert found == [1, 1]


@pytest.mark.parametrize("bad", [0, -1, 1.5, "two", "", None, True])
def test_a_wrong_number_is_told_at_once(bad):
    with pytest.raises(ValueError, match=r"n_threads is .* expected a whole number >= 1"):
        sa.use_threads(bad)


@pytest.mark.parametrize("bad", ["0", "-2", "1.5", "many"])
def test_a_wrong_variable_is_told(monkeypatch, bad):
    monkeypatch.setenv(threads.VARIABLE, bad)
    with pytest.raises(ValueError, match=f"{threads.VARIABLE} is '{bad}', expected a whole"):
        threads.count()


# -------------------------------------------------------------------- safety


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_blas_uses_one_thread_inside_ours_and_all_of_them_after(number):
    seen = []
    with threadpool_limits(2, user_api="blas"), sa.use_threads(number):
        before = blas_threads()
        threads.run(lambda k: blas_threads(), range(6), seen.append)
        assert seen == [{1}] * 6
        with pytest.raises(ZeroDivisionError):
            threads.run(lambda k: 1 // (k - 3), range(6))
        assert blas_threads() == before


def test_another_caller_sees_what_blas_may_use_outside():
    inside, seen = threading.Event(), threading.Event()

    def hold(k):
        inside.set()
        seen.wait(10)

    with threadpool_limits(2, user_api="blas"):
        expected = threads.count()
        caller = threading.Thread(target=threads.run, args=(hold, range(2)))
        caller.start()
        inside.wait(10)
        found = threads.count()
        seen.set()
        caller.join()
        assert found == expected
        assert max(blas_threads()) == 2


def test_threads_do_not_start_threads():
    seen = []

    def outer(k):
        inner = []
        threads.run(lambda m: threading.get_ident(), range(4), inner.append)
        return threads.count(), set(inner) == {threading.get_ident()}

    with sa.use_threads(3):
        threads.run(outer, range(8), seen.append)
        assert threads.count() == 3
    assert seen == [(1, True)] * 8


def test_no_more_threads_work_than_were_asked_for():
    with sa.use_threads(4):
        threads.run(lambda k: time.sleep(0.001), range(20))
    names = set()

    def task(k):
        names.add(threading.get_ident())
        time.sleep(0.001)

    with sa.use_threads(2):
        threads.run(task, range(20))
    assert len(names) <= 2 and threading.get_ident() in names


def test_an_error_in_any_thread_is_raised_and_the_pool_goes_on():
    caller = threading.get_ident()
    for in_caller in (True, False):

        def task(k, in_caller=in_caller):
            time.sleep(0.002)
            if (threading.get_ident() == caller) == in_caller:
                raise RuntimeError("from a part")
            return k

        with sa.use_threads(2):
            with pytest.raises(RuntimeError, match="from a part"):
                threads.run(task, range(200))
            taken = []
            threads.run(lambda k: k, range(9), taken.append)
            assert taken == list(range(9))


def test_a_busy_pool_does_not_keep_the_data_of_a_job():
    class Rows:
        pass

    busy, rows = threading.Event(), [Rows(), Rows()]
    with threads.use_threads(2):
        threads.run(str, rows)  # the pool is there
        blocker = threads._pool(1).submit(busy.wait, 60)
        threads.run(str, rows)
        known = weakref.ref(rows[0])
        del rows
        try:
            assert known() is None
        finally:
            busy.set()
            blocker.result()


def test_settings_of_numpy_reach_the_threads():
    def task(k):
        time.sleep(0.002)
        return np.exp(np.array([1e4]))[0]  # would warn, and warnings are errors here

    seen = []
    with sa.use_threads(3), np.errstate(over="ignore"):
        threads.run(task, range(12), seen.append)
    assert seen == [np.inf] * 12


INTERRUPTED = """
import os, signal, time
import stochadmm as sa
from stochadmm.linear_algebra import threads

signal.signal(signal.SIGINT, signal.default_int_handler)
done = []

def task(k):
    if k == 3:
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.005)
    done.append(k)

with sa.use_threads(2):
    try:
        threads.run(task, range(400))
    except KeyboardInterrupt:
        finished = len(done)
        time.sleep(0.05)
        assert len(done) == finished < 400
        threads.run(task, range(2))
        assert len(done) == finished + 2
        print("fine")
"""


FORKED = """
import os, threading, sys, time
import numpy as np
import stochadmm as sa
from stochadmm.linear_algebra import threads
from threadpoolctl import threadpool_limits, threadpool_info

def add(number=3):
    with sa.use_threads(number):
        return threads.add_up(lambda k: np.full(2, float(k)), range(20))[0]

def child(check):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

assert add() == 190
assert child(lambda: add() == 190) == 0
assert add() == 190

# a fork while another thread keeps BLAS to one
inside, leave = threading.Event(), threading.Event()
def hold(k):
    inside.set()
    leave.wait(20)
def free():
    pools = [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]
    return add() == 190 and all(number == 2 for number in pools)
threadpool_limits(2, user_api="blas")
other = threading.Thread(target=threads.run, args=(hold, range(2)))
other.start()
inside.wait(20)
found = child(free)
leave.set()
other.join()
assert found == 0
print("fine")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("program", [INTERRUPTED, FORKED], ids=["interrupt", "fork"])
def test_interrupts_and_forks_leave_working_threads(program):
    out = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert out.stdout.strip() == "fine", out.stderr
    assert out.returncode == 0


def test_callers_in_several_threads_agree(many_parts):
    f2 = data()
    x = np.ones(f2.shape)
    expected = f2.evaluate(x).gradient
    found = []

    def call():
        with sa.use_threads(2):
            found.extend(f2.evaluate(x).gradient for _ in range(5))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 20
    for gradient in found:
        np.testing.assert_array_equal(gradient, expected)
