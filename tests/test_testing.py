"""The public checks catch parts that are wrong, and accept parts with required members only."""

import numpy as np
import pytest

from stochadmm import losses
from stochadmm.base.capabilities import Has, declared, offers
from stochadmm.base.terms import Elementwise
from stochadmm.losses import Logistic, Multinomial, Squared
from stochadmm.operators import Differences, Matrix
from stochadmm.penalties import (
    L1,
    GroupL2,
    L2Ball,
    NonNegative,
    Nuclear,
    RowsL21,
    TotalVariation1D,
)
from stochadmm.testing import check_loss, check_operator, check_penalty


class MinimalLoss:
    curvature_bound = 1.0

    def value(self, z, y, weight=None):
        return Squared().value(z, y, weight)

    def derivative(self, z, y):
        return z - y.astype(z.dtype)


class MinimalPenalty:
    def value(self, x):
        return float(np.abs(x).sum())

    def prox(self, v, step, out=None):
        return L1(1.0).prox(v, step, out)


class MinimalOperator:
    shape = (3, 3)
    norm2 = 4.0

    def matvec(self, x, out=None):
        return np.multiply(x, 2, out=out)

    rmatvec = matvec


def test_parts_with_required_members_only_pass():
    check_loss(MinimalLoss())
    check_penalty(MinimalPenalty(), (5, 2))
    check_operator(MinimalOperator())


def test_a_declaration_must_tell_the_truth():
    declared_only = type("Declared", (MinimalPenalty,), {"capabilities": {Has.CONJUGATE}})
    with pytest.raises(AssertionError, match="CONJUGATE is declared but there is no `conjugate`"):
        check_penalty(declared_only(), (5,))
    members = {"capabilities": {Has.TERMS}, "terms": lambda self, n_rows: None}
    with pytest.raises(AssertionError, match="terms gives None"):
        check_penalty(type("Declared", (MinimalPenalty,), members)(), (5,))
    with pytest.raises(AssertionError, match="CURVATURE is declared"):
        check_loss(type("Declared", (MinimalLoss,), {"capabilities": {Has.CURVATURE}})())
    with pytest.raises(AssertionError, match="SPARSE is declared"):
        check_operator(type("Declared", (MinimalOperator,), {"capabilities": {Has.SPARSE}})())


def test_a_part_that_declares_nothing_offers_the_members_it_has():
    assert declared(MinimalLoss()) == frozenset()
    assert declared(MinimalPenalty()) == {Has.PROX}
    own = type("Own", (MinimalPenalty,), {"conjugate": lambda self, u: 0.0, "terms": None})()
    assert declared(own) == {Has.PROX, Has.CONJUGATE}
    assert offers(own, Has.PROX, Has.CONJUGATE)
    assert not offers(own, Has.PROX, Has.TERMS)


def test_a_subclass_can_take_back_what_its_base_declares():
    assert Has.KERNEL in declared(Logistic())
    assert Has.KERNEL not in declared(broken(Logistic, kernel=None)())


def test_a_declaration_can_hold_back_a_member():
    held = type("Held", (MinimalPenalty,), {"conjugate": lambda self, u: 0.0})
    assert not offers(type("Less", (held,), {"capabilities": ()})(), Has.CONJUGATE)


@pytest.mark.parametrize(
    "part",
    [getattr(losses, name)() for name in losses.__all__]
    + [L1(1.0), RowsL21(1.0), GroupL2(1.0, [2, 1]), Nuclear(1.0), L2Ball(1.0)]
    + [TotalVariation1D(1.0), Differences(4), Matrix(np.eye(2))],
    ids=lambda part: type(part).__name__,
)
def test_the_parts_of_the_library_declare_all_their_members(part):
    assert declared(part) == {has for has in Has if getattr(part, has.value, None) is not None}


def broken(base, **members):
    return type("Broken" + base.__name__, (base,), members)


def change_input(self, z, y):
    z += 1.0
    return z - y


@pytest.mark.parametrize(
    ("base", "members", "message"),
    [
        (
            Squared,
            {"derivative": lambda self, z, y: 2 * (z - y)},
            "derivative is not the derivative",
        ),
        (Squared, {"derivative": lambda self, z, y: (z - y)[:, None]}, "derivative has shape"),
        (Logistic, {"curvature_bound": 0.01}, "curvature_bound is not a bound"),
        (Logistic, {"curvature": lambda self, z, y: 0 * z + 9}, "between 0 and curvature_bound"),
        (Squared, {"curvature_apply": lambda self, z, y, v: 3 * v}, "curvature_apply is not"),
        (Squared, {"value": lambda self, z, y, w=None: Squared().value(z, y)}, "weighted mean"),
        (Squared, {"conjugate": lambda self, u, y: 0.5 * u * u}, "miss Fenchel-Young"),
        (
            Logistic,
            {"dual_step_limit": lambda self, u, du, y: np.ones(len(u))},
            "leaves the domain",
        ),
        (
            Logistic,
            {"dual_step_limit": lambda self, u, du, y: np.zeros(len(u))},
            "largest possible",
        ),
        (Squared, {"prox": lambda self, v, step, y: v}, "prox is not a minimizer"),
        (Squared, {"prox_conjugate": lambda self, v, step, y: v}, "Moreau's identity"),
        (Squared, {"derivative": change_input}, "input array was changed"),
        (Multinomial, {"mean": lambda self, z: z[:, 0]}, "mean changes the shape"),
        (Logistic, {"mean": lambda self, z: z.astype(float)}, "mean does not keep float32"),
        (
            Squared,
            {"derivative": lambda self, z, y: np.asarray(z - y, dtype=np.float64)},
            "derivative does not keep float32",
        ),
        (MinimalLoss, {"check_targets": lambda self, y: 1 / 0}, "division"),
    ],
)
def test_broken_losses_are_caught(base, members, message):
    expected = ZeroDivisionError if message == "division" else AssertionError
    with pytest.raises(expected, match=message):
        check_loss(broken(base, **members)())


def test_a_loss_that_overflows_is_caught():
    class Overflowing(Logistic):
        def _values(self, z, y):
            with np.errstate(over="ignore"):
                return np.log(1 + np.exp(-y * z))

    with pytest.raises(AssertionError, match="value is not finite at predictions"):
        check_loss(Overflowing())


def test_a_loss_without_acceptable_targets_is_named():
    def refuse(self, y):
        raise ValueError("no")

    with pytest.raises(AssertionError, match="give y"):
        check_loss(broken(Squared, check_targets=refuse)())


def ignore_out(self, v, step, out=None):
    return L1(self.alpha).prox(v, step)


def change_point(self, v, step, out=None):
    result = L1(self.alpha).prox(v, step, out)
    v *= 0.5
    return result


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"prox": lambda self, v, step, out=None: L1(2 * self.alpha).prox(v, step, out)},
            "not the minimizer",
        ),
        (
            {"prox": lambda self, v, step, out=None: L1(0.5 * self.alpha).prox(v, step, out)},
            "not the minimizer|Fenchel-Young",
        ),
        ({"prox": ignore_out}, "given as out"),
        ({"prox": change_point}, "input array was changed"),
        ({"conjugate": lambda self, u: 1.0}, "Fenchel-Young"),
        ({"dual_scale": lambda self, u: 1.0}, "dual_scale leaves the domain"),
        ({"dual_scale": lambda self, u: 0.0}, "not the largest possible"),
        ({"project_dual": lambda self, u: 0.5 * u}, "outside the domain"),
        ({"project": lambda self, x: 0.5 * x}, "tiny step|not a projection"),
        ({"zeros": lambda self, x: np.ones(x.shape, dtype=bool)}, "that are not zero"),
        ({"scaled": lambda self, factor: self}, "not twice the value"),
        ({"check": lambda self, shape: 1 / 0}, "division"),
        (
            {"terms": lambda self, n: [Elementwise(n, *(np.ones(n) for _ in range(4)))]},
            "do not add up to value",
        ),
        ({"terms": lambda self, n: []}, "do not cover the rows"),
        (
            {
                "prox": lambda self, v, step, out=None: L1(self.alpha).prox(
                    v.astype(float), step, out
                )
            },
            "does not keep float32",
        ),
    ],
)
def test_broken_penalties_are_caught(members, message):
    expected = ZeroDivisionError if message == "division" else AssertionError
    with pytest.raises(expected, match=message):
        check_penalty(broken(L1, **members)(1.0), (6,))


def test_a_prox_outside_the_domain_is_caught():
    outside = broken(NonNegative, prox=lambda self, v, step, out=None: L1(0.1).prox(v, step, out))
    with pytest.raises(AssertionError, match="prox is outside the domain"):
        check_penalty(outside(), (6,))


def test_a_shape_that_does_not_fit_is_refused_by_the_penalty():
    with pytest.raises(ValueError, match="the block has 4"):
        check_penalty(GroupL2(1.0, [2, 3]), (4,))


@pytest.mark.parametrize(
    ("base", "arguments", "members", "message"),
    [
        (Differences, (5,), {"rmatvec": lambda self, u, out=None: np.append(u, 0)}, "adjoint"),
        (Differences, (5,), {"norm2": 1.0}, "norm2 is below"),
        (Differences, (5,), {"tosparse": lambda self: Differences(5).tosparse() * 2}, "another"),
        (Differences, (5,), {"tosparse": lambda self: Differences(6).tosparse()}, "another shape"),
        (Differences, (5,), {"tosparse": lambda self: Differences(5).tosparse().tocsc()}, "csc"),
        (Differences, (5,), {"matvec": lambda self, x, out=None: np.diff(x, axis=0)}, "out"),
        (Differences, (5,), {"matvec": lambda self, x, out=None: x}, "matvec gives shape"),
        (Matrix, (np.eye(3),), {"matvec": lambda self, x, out=None: x + 1}, "adjoint|linear"),
    ],
)
def test_broken_operators_are_caught(base, arguments, members, message):
    with pytest.raises(AssertionError, match=message):
        check_operator(broken(base, **members)(*arguments))
