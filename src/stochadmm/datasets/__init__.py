"""Generated data with a known answer: rows, targets and the structure over the columns.

Real data sets are loaded by the reproduction of the paper's experiments, which is no part of this
package.
"""

from ._dataset import Dataset
from .generators import (
    dna_structure,
    make_chain,
    make_graph_fused,
    make_low_rank_tasks,
    make_onehot_dna,
    make_overlapping_groups,
    one_hot_dna,
)

__all__ = [
    "Dataset",
    "dna_structure",
    "make_chain",
    "make_graph_fused",
    "make_low_rank_tasks",
    "make_onehot_dna",
    "make_overlapping_groups",
    "one_hot_dna",
]
