"""Generated data: what was planted is there, and seeds repeat it."""

import numpy as np
import pytest
import scipy.sparse as sp

from stochadmm import datasets

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
