"""Every pair of loss, penalty, operator, weights, intercept and storage is solved and certified.

The table and the conic statement are those of ``benchmarks/covering.py``, which compares all of
it with the conic solver; here every sixth problem is compared.
"""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from benchmarks.covering import LEVELS, Case, build, certified_gap, meaningless, solve, table

import stochadmm as sa

TABLE = table()


# a class that nothing penalizes is told apart by a plane: coefficients grow without end, and no
# bound on a solution can be proved
#: equal changes of all outputs leave the loss alone, and a cone holds them on one side only: such
#: a direction is not charged, so that no bound is proved
WITHOUT_A_BOUND = {"multinomial-non-negative-selection-rows-yes-dense"}
WITHOUT_A_SOLUTION = {"multinomial-zero-shifted-none-yes-dense"}


def cases():
    for number, case in enumerate(TABLE):
        yield pytest.param(case, number % 6 == 0, id=str(case))


@pytest.mark.parametrize(("case", "conic"), list(cases()))
def test_solved_certified_and_in_agreement_with_a_conic_solver(case, conic):
    outcome = solve(case, conic=conic)
    if str(case) in WITHOUT_A_SOLUTION:
        assert outcome.status != "CONVERGED"
        return
    assert not outcome.note
    if str(case) in WITHOUT_A_BOUND:
        assert outcome.status != "CONVERGED"
        return
    assert outcome.status == "CONVERGED"
    assert outcome.certified <= 1e-6
    if conic:
        assert outcome.difference <= 1e-5


def test_the_table_contains_every_pair_that_makes_sense():
    assert 200 <= len(TABLE) <= 300
    without = {frozenset({("loss", a), (f, b)}) for a, f, b, _ in meaningless()}
    found = {
        frozenset(pair)
        for case in TABLE
        for pair in itertools.combinations(
            [(f.name, getattr(case, f.name)) for f in fields(case)], 2
        )
    }
    every = {
        frozenset({(f, a), (g, b)})
        for f, g in itertools.combinations(LEVELS, 2)
        for a in LEVELS[f]
        for b in LEVELS[g]
    }
    assert found == every - without


@pytest.mark.parametrize(
    ("loss", "factor", "level", "reason"),
    list(meaningless()),
    ids=lambda value: value.replace(" ", "-"),
)
def test_pairs_without_a_meaning_say_so(loss, factor, level, reason):
    plain = Case(loss, "l1", "identity", "none", "no", "dense")
    build(plain)
    with pytest.raises(ValueError) as error:
        build(replace(plain, **{factor: level}))
    message = str(error.value)
    assert "\n" not in message
    assert ("needs a matrix" if level == "nuclear" else "one weight per row") in message


def test_the_certificate_of_the_table_is_not_fooled():
    """A point that is not optimal has a gap, and no less than its distance to the optimum."""
    problem = build(Case("logistic", "l1", "differences", "rows", "yes", "dense"))
    result = sa.minimize(problem, stop=1e-9)
    worse = replace(result, coef=result.coef + 0.01)
    above = problem.objective(
        problem.feasible(sa.Pair(result.x1, np.append(worse.coef, worse.intercept)))
    )
    assert certified_gap(problem, result) <= 1e-9
    assert certified_gap(problem, worse) >= (above - result.objective) / above * (1 - 1e-6) > 1e-6
