"""Results: written and read without pickle, history as a frame, clear errors."""

import dataclasses
import json
import os
import sys

import numpy as np
import pytest

import stochadmm as sa


def solved(outputs=None, intercept=True, solver="acc-sadmm", dtype=np.float64, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5)).astype(dtype)
    y = rng.standard_normal(40 if outputs is None else (40, outputs))
    problem = sa.Problem.linear(
        sa.Squared(),
        X,
        y,
        structure=sa.Differences(5),
        on_structure=sa.L1(0.1),
        intercept=intercept,
    )
    return problem, sa.minimize(problem, solver, max_passes=20, **options)


@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "linearized-admm"])
def test_save_and_load_give_the_same_result(tmp_path, outputs, intercept, solver):
    _, result = solved(outputs, intercept, solver)
    path = result.save(tmp_path / "fit")
    assert path == tmp_path / "fit.npz" and path.exists()
    loaded = sa.Result.load(path)
    for field in dataclasses.fields(sa.Result):
        a, b = getattr(result, field.name), getattr(loaded, field.name)
        if field.name in ("coef", "x1", "x2", "dual"):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
        elif field.name == "intercept":
            np.testing.assert_array_equal(np.asarray(a, float), np.asarray(b, float))
            assert type(a) is type(b)
        elif field.name == "ergodic":
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_array_equal(a.x1, b.x1)
                np.testing.assert_array_equal(a.x2, b.x2)
        elif field.name == "state":
            assert b is None
        elif field.name == "info":
            assert a.keys() == b.keys()
        else:
            assert a == b, field.name


def test_a_saved_result_holds_no_pickle(tmp_path):
    _, result = solved(2)
    path = result.save(tmp_path / "fit.npz")
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    assert all(array.dtype != object for array in arrays.values())
    plain = json.loads(arrays["meta"].tobytes())
    assert plain["status"] == result.status.value and len(plain["history"]) == len(result.history)
    assert b"\x80\x04" not in arrays["meta"].tobytes()


def test_a_loaded_result_is_a_start(tmp_path):
    problem, result = solved(stop=1e-8)
    loaded = sa.Result.load(result.save(tmp_path / "fit"))
    again = sa.minimize(problem, "acc-sadmm", start=loaded, stop=1e-6, max_passes=10)
    assert again.objective <= result.objective * (1 + 1e-9)
    np.testing.assert_array_equal(loaded.pair.x2, result.pair.x2)


def test_float32_and_infinite_numbers_survive(tmp_path):
    _, result = solved(dtype=np.float32)
    odd = dataclasses.replace(result, gap=np.inf, relative_gap=np.inf, kkt_residual=None)
    loaded = sa.Result.load(odd.save(tmp_path / "odd"))
    assert loaded.coef.dtype == np.float32
    assert loaded.gap == np.inf and loaded.kkt_residual is None


def test_errors_of_writing_name_the_file_and_the_remedy(tmp_path):
    _, result = solved()
    with pytest.raises(OSError, match="writable") as error:
        result.save(tmp_path / "missing" / "fit.npz")
    assert "missing" in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(OSError, match="writable"):
        result.save(os.devnull + "/fit")


@pytest.mark.parametrize(
    "content",
    [b"", b"not a result", b"PK\x03\x04 cut short", b"\x93NUMPY garbage"],
    ids=["empty", "text", "broken zip", "broken array"],
)
def test_files_that_are_no_result_are_refused(tmp_path, content):
    path = tmp_path / "fit.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a saved result") as error:
        sa.Result.load(path)
    assert "fit.npz" in str(error.value) and "\n" not in str(error.value)


def test_other_archives_and_cut_files_are_refused(tmp_path):
    other = tmp_path / "other.npz"
    np.savez(other, a=np.ones(3))
    with pytest.raises(ValueError, match=r"not a saved result.*Result\.save"):
        sa.Result.load(other)
    _, result = solved()
    path = result.save(tmp_path / "fit")
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match="not a saved result"):
        sa.Result.load(path)
    with pytest.raises(FileNotFoundError):
        sa.Result.load(tmp_path / "nothing.npz")


def test_pickled_objects_in_a_file_are_not_run(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, meta=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="not a saved result"):
        sa.Result.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    _, result = solved()
    path = result.save(tmp_path / "fit")
    whole = path.read_bytes()

    def full(file, **arrays):
        file.write(b"half of it")
        raise error

    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        monkeypatch.setattr(np, "savez", full)
        with pytest.raises(type(error)):
            result.save(path)
        monkeypatch.undo()
        assert path.read_bytes() == whole and os.listdir(tmp_path) == ["fit.npz"]
    sa.Result.load(path)


def rewritten(path, change):
    """Write a saved result again with other content."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    plain = json.loads(arrays.pop("meta").tobytes())
    text = change(arrays, plain)
    text = json.dumps(plain) if text is None else text
    np.savez(path, meta=np.frombuffer(text.encode(), np.uint8), **arrays)


WRONG = {
    "no coefficients": lambda a, p: a.update(coefs=a.pop("coef")),
    "other coefficients": lambda a, p: a.update(coef=np.ones(3)),
    "other pair": lambda a, p: a.update(x2=np.ones((2, 6))),
    "whole numbers": lambda a, p: a.update(coef=np.arange(5)),
    "texts": lambda a, p: a.update(coef=np.array(["a"] * 5)),
    "three dimensions": lambda a, p: a.update(coef=np.ones((1, 1, 1))),
    "a number": lambda a, p: a.update(coef=np.array(1.0)),
    "half of an average": lambda a, p: a.update(ergodic1=a["x1"]) or a.pop("ergodic2", None),
    "no intercept, no place for one": lambda a, p: a.__delitem__("intercept"),
    "more": lambda a, p: a.update(other=np.ones(3)),
    "no intercept": lambda a, p: a.update(x=a.pop("intercept")),
    "no status": lambda a, p: p.pop("status") and None,
    "unknown status": lambda a, p: p.update(status="done"),
    "objective in words": lambda a, p: p.update(objective="low"),
    "no objective": lambda a, p: p.update(objective=None),
    "gap in words": lambda a, p: p.update(gap="small"),
    "epochs as a share": lambda a, p: p.update(n_epochs=1.5),
    "true passes": lambda a, p: p.update(n_passes=True),
    "history of words": lambda a, p: p.update(history=["a"]),
    "history as a table": lambda a, p: p.update(history={}),
    "short records": lambda a, p: p["history"][0].pop("epoch") and None,
    "info as a list": lambda a, p: p.update(info=[]),
    "unknown field": lambda a, p: p.update(state=1),
    "a list": lambda a, p: "[1, 2]",
    "no JSON": lambda a, p: "{",
    "deep": lambda a, p: "[" * 100_000,
    "no format": lambda a, p: p.pop("format") and None,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_content_is_refused_in_one_line(tmp_path, wrong):
    _, result = solved()
    path = result.save(tmp_path / "fit")
    rewritten(path, WRONG[wrong])
    with pytest.raises(
        ValueError, match=r"fit\.npz is not a saved result .*Result\.save"
    ) as error:
        sa.Result.load(path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_folders_and_unreadable_files_are_named(tmp_path):
    with pytest.raises(OSError, match=r"cannot read .*Result\.save"):
        sa.Result.load(tmp_path)


def test_another_format_is_named(tmp_path):
    _, result = solved()
    path = result.save(tmp_path / "fit")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    plain = json.loads(arrays.pop("meta").tobytes()) | {"format": 99}
    np.savez(path, meta=np.frombuffer(json.dumps(plain).encode(), np.uint8), **arrays)
    with pytest.raises(ValueError, match="another version"):
        sa.Result.load(path)


def test_history_as_a_frame_with_pandas():
    pd = pytest.importorskip("pandas")
    _, result = solved()
    frame = result.as_frame()
    assert isinstance(frame, pd.DataFrame) and len(frame) == len(result.history)
    names = [f.name for f in dataclasses.fields(sa.Record)]
    assert list(frame.columns) == ["reads" if name == "passes" else name for name in names]
    assert frame["objective"].tolist() == [r.objective for r in result.history]


def test_history_as_a_dict_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    _, result = solved()
    columns = result.as_frame()
    assert isinstance(columns, dict)
    assert columns["epoch"] == list(range(1, result.n_epochs + 1))
    assert columns["reads"][-1] == result.n_passes


def test_a_result_says_whether_it_converged_and_is_immutable():
    _, result = solved(stop=1e-2)
    assert result.converged is (result.status is sa.Status.CONVERGED)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.coef = None
    assert "state=" not in repr(result)


def test_a_printed_result_is_short_and_names_the_arrays_by_shape():
    _, result = solved(outputs=3)
    text = repr(result)
    assert len(text.splitlines()) <= 12
    assert result.status.name in text and result.message in text
    assert f"array of shape {result.coef.shape}" in text
    assert "array([" not in text


def test_numbers_of_a_result_are_plain_floats():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    labels, A1, A2 = rng.integers(0, 3, 40), rng.standard_normal((4, 5)), np.ones((4, 5))
    for h1 in (sa.GroupL2(0.05, [2, 3]), sa.L2Ball(1.0)):
        problem = sa.Problem(
            sa.FiniteSum(sa.Multinomial(3), X, labels), h1=h1, A1=A1, A2=A2, b=np.ones((4, 3))
        )
        result = sa.minimize(problem)
        numbers = (result.objective, result.feasibility, result.gap, result.relative_gap)
        assert [type(number) for number in numbers] == [float] * 4


def test_results_problems_pairs_paths_and_certificates_can_be_compared_and_kept_in_sets():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 4)), rng.standard_normal(20)
    A1, A2, b = (rng.standard_normal(shape) for shape in ((2, 3), (2, 4), 2))
    problem = sa.Problem(sa.FiniteSum(sa.Squared(), X, y), h1=sa.L1(0.1), A1=A1, A2=A2, b=b)
    one, two = sa.minimize(problem), sa.minimize(problem)
    same = sa.Problem(problem.f2, h1=sa.L1(0.1), A1=A1, A2=A2, b=b)
    proofs = [sa.certify(problem, result.pair) for result in (one, two)]
    paths = [sa.LassoRegressor().path(X, y, alphas=2) for _ in range(2)]
    for a, other in ((one, two), (problem, same), proofs, paths):
        assert a == a and a != other
        assert len({a, other}) == 2
    assert one.pair == two.pair and hash(one.pair) == hash(two.pair)
    assert one.pair != sa.Pair(one.x1, one.x2 + 1)
