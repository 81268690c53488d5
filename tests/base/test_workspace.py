"""Results are computed once per workspace and told apart by their parts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from stochadmm.base.workspace import Workspace


def counted(calls, A, power=1):
    calls.append(power)
    return A**power


def test_computed_once_per_parts():
    calls, workspace, A = [], Workspace(), np.arange(3.0)
    first = workspace.once(counted, calls, A, 2)
    assert workspace.once(counted, calls, A, 2) is first
    assert calls == [2]


def test_equal_arrays_are_different_parts():
    calls, workspace = [], Workspace()
    workspace.once(counted, calls, np.ones(2))
    workspace.once(counted, calls, np.ones(2))
    assert len(calls) == 2


def test_numbers_are_told_apart_by_value_and_type():
    calls, workspace, A = [], Workspace(), np.ones(2)
    for power in (1, 1.0, True, 2, 1, 1.0):
        workspace.once(counted, calls, A, power)
    assert len(calls) == 4


def test_parts_are_held_so_that_no_identity_is_used_again():
    calls, workspace = [], Workspace()
    for value in range(100):  # temporaries would reuse addresses
        assert workspace.once(counted, calls, np.full(2, float(value)))[0] == value
    assert len(calls) == 100


def test_none_is_a_result():
    calls, workspace = [], Workspace()
    for _ in range(2):
        assert workspace.once(calls.append, 1) is None
    assert calls == [1]


def test_runs_share_what_is_kept_in_the_shared_one():
    calls, path, A = [], Workspace(), np.ones(2)
    one, two = path.run(), path.run()
    for run in (one, two):
        run.once(counted, calls, A, 1)
        run.shared.once(counted, calls, A, 2)
    assert sorted(calls) == [1, 1, 2]


def test_threads_compute_once():
    calls, workspace, A = [], Workspace(), np.ones(2)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: workspace.once(counted, calls, A), range(50)))
    assert len(calls) == 1
    assert all(r is results[0] for r in results)
