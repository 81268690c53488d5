"""Fingerprints: the same content gives the same text, any other content another."""

import subprocess
import sys
import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import stochadmm as sa
from stochadmm.base.fingerprint import CHUNK_WORDS, ODD, Unidentified, fingerprint

DTYPES = ["f8", "f4", "i8", "i4", "u1", "?", "c16", "S3", "f2"]


def data(n=30, d=4, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(dtype)
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


def problem(X=None, y=None, alpha=0.1, loss=None, **options):
    given_X, given_y = data()
    X, y = given_X if X is None else X, given_y if y is None else y
    return sa.Problem.linear(
        sa.Logistic() if loss is None else loss,
        X,
        y,
        structure=options.pop("structure", sa.Differences(X.shape[1])),
        on_structure=sa.L1(alpha),
        **options,
    )


# ---------------------------------------------------------------- arrays


@settings(max_examples=100, deadline=None)
@given(
    array=hnp.arrays(
        st.sampled_from(DTYPES), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=9)
    ),
    draw=st.data(),
)
def test_any_single_changed_entry_is_noticed(array, draw):
    before = fingerprint(array)
    assert fingerprint(array.copy()) == before
    place = draw.draw(st.integers(0, array.nbytes - 1))
    bit = draw.draw(st.integers(0, 7))
    changed = array.copy()
    changed.view(np.uint8).reshape(-1)[place] ^= 1 << bit
    assert fingerprint(changed) != before


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("place", [0, 1, CHUNK_WORDS - 1, CHUNK_WORDS, -1])
def test_single_entries_of_large_arrays_are_noticed(dtype, place):
    X = np.zeros(5 * CHUNK_WORDS + 3, dtype=dtype)
    before = fingerprint(X)
    for value in (1.0, -0.0, np.finfo(dtype).tiny, np.inf):
        X[place] = value
        assert fingerprint(X) != before
    X[place] = 0.0
    assert fingerprint(X) == before


@settings(max_examples=200, deadline=None)
@given(
    i=st.integers(0, 3 * CHUNK_WORDS - 1),
    j=st.integers(0, 3 * CHUNK_WORDS - 1),
    value=st.sampled_from([1.0, 2.0, -1.0, 0.5, 3.0, 1e300]),
)
def test_exchanged_entries_are_noticed(i, j, value):
    X = np.zeros(3 * CHUNK_WORDS)
    X[i] = value
    before, X[i], X[j] = fingerprint(X), 0.0, value
    assert (fingerprint(X) == before) == (i == j)


def test_no_two_multipliers_agree_in_the_digits_that_floating_point_numbers_use():
    assert (ODD % 2 == 1).all()
    # 0, 1, 2 ... of float64 and float32 are multiples of 2^20 and 2^23 after mixing: exchanging
    # two of them goes unnoticed only where two multipliers agree modulo 2^40
    assert np.unique(ODD % np.uint64(1 << 40)).size == ODD.size


@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 5), (40_000, 3)])
def test_the_layout_in_memory_does_not_matter(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    wide = np.zeros((2 * shape[0], *shape[1:]))
    wide[::2] = X
    backwards = np.ascontiguousarray(X[::-1])[::-1]
    for other in (np.asfortranarray(X), wide[::2], backwards):
        assert not other.flags.c_contiguous
        assert fingerprint(other) == fingerprint(X)
    X.flags.writeable = False
    assert fingerprint(X) == fingerprint(X.copy())


def test_a_file_in_memory_counts_as_its_content(tmp_path):
    X, _ = data()
    X.tofile(tmp_path / "x")
    assert fingerprint(np.memmap(tmp_path / "x", X.dtype, "r", shape=X.shape)) == fingerprint(X)


def test_shape_and_type_count():
    X = np.zeros(12)
    others = [X.reshape(3, 4), X.reshape(4, 3), X.astype("f4"), X.astype("i8"), X[:-1], X.tolist()]
    assert len({fingerprint(a) for a in (X, *others)}) == 1 + len(others)


def test_sparse_matrices_count_by_content():
    X = sparse.random_array((20, 8), density=0.3, rng=np.random.default_rng(0), format="csr")
    assert fingerprint(X) == fingerprint(X.copy())
    for name in ("data", "indices", "indptr"):
        changed = X.copy()
        getattr(changed, name)[3] += 1
        assert fingerprint(changed) != fingerprint(X), name
    for kind in ("csc", "coo", "dia", "lil", "bsr"):
        assert fingerprint(X.asformat(kind)) == fingerprint(X.copy().asformat(kind))


# ---------------------------------------------------------------- parts


def test_equal_parts_have_equal_fingerprints_and_others_do_not():
    parts = [
        sa.L1(0.1),
        sa.L1(0.2),
        sa.L1(0.1, [1.0, 2.0]),
        sa.Ridge(0.1),
        sa.Box(0, 1),
        sa.Box(0, 2),
        sa.Differences(4),
        sa.Differences(5),
        sa.Identity(4),
        sa.Identity(4, scale=-1.0),
        sa.VStack([sa.Identity(4), sa.Differences(4)]),
        sa.VStack([sa.Differences(4), sa.Identity(4)]),
        sa.Logistic(),
        sa.Squared(),
        sa.Squared(half=False),
        sa.Huber(1.0),
        sa.Huber(2.0),
        sa.AccSADMM(),
        sa.AccSADMM(beta=0.1),
        sa.solvers.ADMM(),
        sa.Stacked([(sa.L1(0.1), 3), (sa.Zero(), 1)]),
    ]
    found = [fingerprint(part) for part in parts]
    assert len(set(found)) == len(parts)
    for part, text in zip(parts, found, strict=True):
        if hasattr(part, "norm2"):
            assert part.norm2 >= 0  # what a part computes and keeps does not count
        assert fingerprint(replace(part)) == text


def test_numbers_count_by_value_and_texts_as_texts():
    same = [1, 1.0, True, np.float64(1), np.int32(1), np.float32(1)]
    assert len({fingerprint(v) for v in same}) == 1
    others = [0, -1, 1.5, 2**70, 2**70 + 1, 0.1, np.float32(0.1), np.nan, np.inf, "1", b"1", None]
    assert len({fingerprint(v) for v in [1, *others]}) == 1 + len(others)


def test_containers_count_by_content_and_order_where_it_means_something():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({3, 1, 2}) == fingerprint({2, 1, 3})
    assert fingerprint({(1, 2): "x", 3: "y"}) == fingerprint({3: "y", (1, 2): "x"})
    different = [[1, 2], [2, 1], [[1], 2], [1, [2]], [1, 2, None], {"a": 1}, {"a": 2}, {1: "a"}]
    assert len({fingerprint(v) for v in different}) == len(different)
    assert fingerprint("ab", "c") != fingerprint("a", "bc")


def test_a_redefined_loss_is_another_loss():
    def loss(power):
        class Own(sa.Squared):
            def value(self, z, y, weight=None):
                return float(np.mean(np.abs(z - y) ** power))

        Own.power = power
        return Own

    first, second = loss(2)(), loss(4)()
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(first) == fingerprint(loss(2)())
    source = "class Own:\n    def value(self, z):\n        return z {} 2\n"
    made = []
    for sign in "+*+":
        space = {"__name__": "notebook"}
        exec(source.format(sign), space)
        made.append(fingerprint(space["Own"]()))
    assert made[0] == made[2] != made[1]


def test_functions_count_by_code_and_closure():
    def scaled(factor):
        return lambda x: factor * x

    assert fingerprint(scaled(2.0)) == fingerprint(scaled(2.0)) != fingerprint(scaled(3.0))
    operator = aslinearoperator(np.eye(3))
    other = aslinearoperator(2 * np.eye(3))
    assert fingerprint(operator) == fingerprint(aslinearoperator(np.eye(3))) != fingerprint(other)


def test_objects_that_hold_themselves_are_read_once():
    ring = [1]
    ring.append(ring)
    again = [1]
    again.append(again)
    assert fingerprint(ring) == fingerprint(again)
    table = {1: "a"}
    table[2] = table
    assert fingerprint(table) != fingerprint({1: "a"})


def test_objects_without_content_are_refused_unless_they_say_what_they_are():
    with pytest.raises(Unidentified, match=r"lock.*__fingerprint__") as error:
        fingerprint([threading.Lock()])
    assert "\n" not in str(error.value)

    @dataclass
    class Named:
        name: str
        lock: object

        def __fingerprint__(self):
            return self.name

    assert fingerprint(Named("a", threading.Lock())) == fingerprint(Named("a", threading.Lock()))
    assert fingerprint(Named("a", None)) != fingerprint(Named("b", None))


# ---------------------------------------------------------------- problems


def test_every_part_of_a_problem_counts():
    X, y = data()
    changed = X.copy()
    changed[7, 2] += 1e-12
    flipped = y.copy()
    flipped[3] *= -1
    weight = np.ones(30)
    problems = [
        problem(),
        problem(alpha=0.2),
        problem(changed),
        problem(y=flipped),
        problem(intercept=True),
        problem(structure=sa.Identity(4)),
        problem(loss=sa.SquaredHinge()),
        problem(on_coefficients=sa.Ridge(0.1)),
        problem(sample_weight=weight * np.arange(30)),
        problem(offset=weight),
        problem(X.astype(np.float32)),
        problem(sparse.csr_array(X)),
        replace(problem(), b=np.ones(3)),
    ]
    found = [p.identity() for p in problems]
    assert len(set(found)) == len(problems)
    assert found == [replace(p).identity() for p in problems]
    assert problem(X.copy(), y.tolist()).identity() == found[0]


def test_what_a_run_leaves_behind_does_not_count():
    p = problem()
    before = p.identity()
    for solver in ("auto", "acc-sadmm", "sdca-admm"):
        sa.minimize(p, solver, max_passes=5)
    assert p.identity() == before == problem().identity()


def test_the_text_is_the_same_in_another_process():
    lines = (
        "import numpy as np, stochadmm as sa; from stochadmm.base.fingerprint import fingerprint; "
        "X = np.arange(40.0).reshape(10, 4); "
        "p = sa.Problem.linear(sa.Squared(), X, X[:, 0], on_structure=sa.L1(0.1)); "
        "print(p.identity(), fingerprint(sa.AccSADMM(), {'a', 'b', 'c'}))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", lines],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
        for path in [":".join(sys.path)]
    }
    assert len(seen) == 1 and len(seen.pop().split()) == 2
