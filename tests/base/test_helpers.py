"""Small functions that many packages use: what they say of simple things."""

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.base.capabilities import (
    Has,
    declared,
    fact,
    first_of_kind,
    has_members,
    lacks,
    offers,
    require,
)
from stochadmm.base.clock import NEVER, Deadline
from stochadmm.base.files import replacing
from stochadmm.base.immutable import attributes, copied, field_values
from stochadmm.base.lazy import load
from stochadmm.base.names import did_you_mean, near
from stochadmm.base.validation import (
    generator,
    is_between,
    is_whole,
    listed,
    real_array,
    refuse_masked,
    too_coarse,
)
from stochadmm.estimators._classifier import as_signs
from stochadmm.estimators._data import with_exposure
from stochadmm.estimators._scores import explained
from stochadmm.estimators._structure import tied
from stochadmm.estimators.refit import of_support
from stochadmm.problem import at_strength
from stochadmm.run.path import alpha_grid


def test_parts_say_what_they_offer():
    assert Has.TERMS in declared(sa.L1(1.0)) and Has.TERMS not in declared(sa.Nuclear(1.0))
    assert offers(sa.Logistic(), Has.CONJUGATE, Has.CURVATURE)
    assert not offers(None, Has.CONJUGATE)
    assert fact(sa.Squared(), "nonnegative") and not fact(sa.Poisson(), "nonnegative")


def test_members_are_looked_up_without_being_evaluated():
    class Costly:
        @property
        def norm2(self):
            raise AssertionError("evaluated")

    assert has_members(Costly(), "norm2") and not has_members([], "append", "matvec")
    assert [lacks(part, "prox") for part in (sa.L1(1.0), None)] == [False, False]
    assert lacks(sa.L1(1.0), "gradient")
    with pytest.raises(TypeError, match=r"h1 .list. has no `value`; it must offer `value`"):
        require([], "h1", "value", "prox")


def test_tables_of_kinds_find_the_first_that_fits():
    table = ((int, "number"), ((list, tuple), "items"))
    assert first_of_kind(table, (1, 2)) == "items" and first_of_kind(table, "1") is None


def test_a_deadline_passes_and_none_never_does():
    assert Deadline.after(0.0).passed()
    assert not Deadline.after(60.0).passed() and not NEVER.passed()


def test_a_file_appears_when_it_is_whole(tmp_path):
    target = tmp_path / "a.txt"
    with replacing(target) as temporary:
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"


def test_fields_attributes_and_copies():
    penalty = sa.ElasticNet(1.0, 0.5)
    assert field_values(penalty)["alpha"] == attributes(penalty)["alpha"] == 1.0
    assert attributes(1.0) is None
    state = type("State", (), {})()
    state.x = state.output = np.zeros(2)
    other = copied(state)
    other.x[0] = 1.0
    assert other.output is other.x and not state.x.any()


def test_a_name_is_loaded_from_the_module_that_lists_it():
    found = load("stochadmm", {"losses": ["Huber", "Absolute = Quantile"]}, "Absolute")
    assert found is sa.Quantile
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        load("stochadmm", {"losses": ["Huber"]}, "Nothing")


def test_names_that_are_nearly_right():
    assert near("acc-sdmm", ["acc-sadmm", "admm", "rda-admm", "auto"]) == ["acc-sadmm"]
    assert near("svrg", ["svrg-admm", "asvrg-admm", "auto"]) == ["svrg-admm"]
    assert near("zzz", ["auto"]) == []
    assert did_you_mean("squraed", ["squared", "huber"]) == "did you mean squared?"


def test_numbers_and_lists_as_users_write_them():
    assert [is_whole(value) for value in (np.int32(3), 3.0, True)] == [True, False, False]
    assert is_between(0, 0, 1, below=True) and not is_between(0, 0, 1)
    assert not is_between("0.5", 0, 1)
    assert listed(("age", 3)) == ["age", 3] and listed("age") is None and listed(3) is None
    assert isinstance(generator(0), np.random.Generator)
    with pytest.raises(ValueError, match="random_state is 'first', expected a whole number"):
        generator("first")


def test_arrays_as_users_pass_them():
    assert real_array([0.5], "b", "float32").dtype == np.float32
    with pytest.raises(ValueError, match="b has dtype complex128, expected real numbers"):
        real_array([1j], "b")
    with pytest.raises(ValueError, match="X has 1 masked entries, expected numbers"):
        refuse_masked(np.ma.masked_equal([1.0, -9.0], -9.0), "X")


def test_types_too_coarse_for_numbers_of_a_size():
    y = np.linspace(0.0, 1.0, 9)
    assert not too_coarse(np.float32, [y]) and too_coarse(np.float32, [y + 1e6])
    assert too_coarse(np.float32, [y + 1e6, np.full(9, -1e6)])
    assert not too_coarse(np.float64, [y + 1e6])


def test_labels_exposures_and_scores_of_estimators():
    np.testing.assert_array_equal(
        as_signs([[0, 1], [1, 1]], np.zeros((2, 1))), [[-1.0, 1.0], [1.0, 1.0]]
    )
    y, weight, offset = with_exposure("tweedie", [0.0, 3.0], None, None, [0.5, 2.0])
    assert y.tolist() == [0.0, 1.5] and weight.tolist() == [0.5, 2.0] and offset is None
    seen = np.array([0.0, 1.0, 5.0])
    assert explained(sa.Quantile(0.5), np.array([0.0, 1.0, 3.0]), seen, None) == pytest.approx(0.6)


def test_ties_and_supports_of_coefficients():
    graph = sa.Incidence([(0, 1), (1, 2)], 4, signs=[-1, 1])
    labels, signs = tied(graph, np.array([2.0, -2.0, 5.0, 5.0]))
    assert labels.tolist() == [0, 0, 1, 2] and signs.tolist() == [1.0, -1.0, 1.0, 1.0]
    space = of_support(np.array([0.0, 2.0, 0.0]), np.array([True, False, False]))
    assert space.basis.toarray().tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]


def test_families_of_problems_and_grids_of_strengths():
    unit = sa.Problem.linear(sa.Squared(), np.eye(2), np.ones(2), on_coefficients=sa.L1(1.0))
    assert at_strength(unit, 0.1).h2 == sa.L1(0.1)
    np.testing.assert_allclose(alpha_grid(1.0, n_alphas=3, eps=0.01), [1.0, 0.1, 0.01])
