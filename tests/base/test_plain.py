"""Objects as JSON and arrays: the same types, bits and sharing come back, and nothing is run."""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.base.clock import NEVER, Deadline
from stochadmm.base.serialize import CACHE, Reader, Unwritable, Writer
from stochadmm.base.workspace import Workspace
from stochadmm.problem import Pair

HERE = (__name__,)


def there_and_back(value, roots=None, workspace=None):
    writer = Writer(roots or {}, HERE)
    text = json.loads(json.dumps(writer.describe(value)))
    arrays = {name: array.copy(order="K") for name, array in writer.arrays.items()}
    return Reader(roots or {}, arrays, workspace, HERE).value(text)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        1 << 90,
        0.1,
        -0.0,
        float("inf"),
        "text",
        (1, "a", None),
        [],
        {"a": [1.5]},
        {1: 2, (3, 4): "b"},
        b"bytes",
        slice(1, None, 2),
        sa.Status.CONVERGED,
        np.float32(0.1),
        np.float64(1 / 3),
        np.int64(7),
        np.bool_(True),
        np.dtype(np.float32),
    ],
    ids=repr,
)
def test_values_come_back_with_their_types(value):
    found = there_and_back(value)
    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)  # the sign of zero included


def test_arrays_keep_bits_order_and_whether_they_may_change():
    fixed = np.arange(3)
    fixed.flags.writeable = False
    given = [np.asfortranarray(np.random.default_rng(0).random((3, 4))), np.array(np.nan), fixed]
    for array, found in zip(given, there_and_back(given), strict=True):
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes("A") == array.tobytes("A")
        assert found.flags.f_contiguous == array.flags.f_contiguous
        assert found.flags.writeable == array.flags.writeable


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array", "csr_matrix"])
def test_sparse_matrices_come_back(kind):
    matrix = getattr(sparse, kind)(np.eye(3)[:2])
    found = there_and_back(matrix)
    assert type(found) is type(matrix)
    assert (found != matrix).nnz == 0


def test_what_is_held_twice_is_one_object():
    array = np.zeros(3)
    ring: list = [array]
    ring.append(ring)
    first, second = there_and_back({"a": array, "b": ring}).values()
    assert second[0] is first
    assert second[1] is second


def test_parts_of_roots_are_named_not_written():
    problem = sa.Problem.linear(sa.Squared(), np.eye(4), np.ones(4), on_coefficients=sa.L1(0.1))
    writer = Writer({"problem": problem})
    text = writer.describe([problem.f2.X, problem.h2, problem.f2])
    assert not writer.arrays
    X, h2, f2 = Reader({"problem": problem}, {}).value(json.loads(json.dumps(text)))
    assert X is problem.f2.X and h2 is problem.h2 and f2 is problem.f2


def test_workspaces_and_deadlines_are_those_of_the_reader():
    mine = Workspace()
    found = there_and_back([Workspace(), Workspace().shared, Deadline.after(5.0)], workspace=mine)
    assert found == [mine, mine.shared, NEVER]


@dataclass
class Own:
    """An object with a field that is not written."""

    x: Pair
    notes: dict = field(default_factory=dict)
    spare: object = field(default=None, metadata=CACHE)


class Costly:
    """An object that is made again from its argument."""

    made = 0

    def __init__(self, size):
        Costly.made += 1
        self.size, self.table, self.call = size, np.arange(size), lambda: size

    def __recipe__(self):
        return (self.size,)

    @classmethod
    def __made__(cls, size, workspace):
        return cls(size)


def test_objects_are_made_without_their_constructors_and_caches():
    own = Own(Pair(np.ones(2), np.zeros(1)), {"a": 1}, spare=lambda: 0)
    found = there_and_back(own)
    assert type(found) is Own and found.spare is None and found.notes == {"a": 1}
    np.testing.assert_array_equal(found.x.x1, own.x.x1)


def test_recipes_and_what_is_inside_of_what_they_make():
    Costly.made = 0
    costly = Costly(5)
    writer = Writer({}, HERE)
    text = writer.describe({"a": costly, "b": costly.size})
    assert not writer.arrays  # neither the table nor the function
    assert Reader({}, {}, None, HERE).value(text)["a"].table.tolist() == [0, 1, 2, 3, 4]
    assert Costly.made == 2
    # objects inside of foreign modules are not looked into, those of the package are
    with pytest.raises(Unwritable, match="which cannot be written"):
        Writer({}).describe(costly)


@pytest.mark.parametrize("bad", [lambda: 0, object(), np.array([object()]), {"a": [print]}])
def test_what_cannot_be_written_is_named(bad):
    with pytest.raises(Unwritable, match="here"):
        Writer({}).describe({"x": bad}, "here")


@pytest.mark.parametrize(
    "text",
    [
        {"no": 1, "object": "os:system", "fields": {}},
        {"no": 1, "object": "stochadmm.base.files:write_text", "fields": {}},
        {"no": 1, "made": "stochadmm.problem:Pair", "of": []},
        {"no": 1, "method": "__init__", "of": 3},
        {"no": 1, "sparse": "linalg", "shape": [1, 1], "parts": []},
        {"no": 1, "named": "stochadmm.problem:Pair", "items": []},
        {"no": 1, "strange": 1},
        {"strange": 1},
        [1],
        {"no": 1, "object": ":", "fields": {}},
    ],
)
def test_descriptions_of_anything_else_are_refused(text):
    with pytest.raises(ValueError):
        Reader({}, {}).value(text)
