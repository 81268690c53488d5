from typing import ClassVar

from benchmark_utils import real
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Public data sets, from the folder that STOCHADMM_DATA names; digits from scikit-learn."""

    name = "Real"
    parameters: ClassVar = {
        "data_set, problem": [
            ("digits", "graph-fused-logistic"),
            ("digits", "sparse-low-rank"),
            ("covtype", "graph-fused-logistic"),
            ("a9a", "graph-fused-logistic"),
            ("protein", "graph-fused-logistic"),
            ("dna-methylation", "graph-fused-logistic"),
            ("breast-cancer-graph", "lasso"),
            ("p53-pathways", "overlapping-groups"),
            ("usps", "sparse-low-rank"),
        ]
    }

    def get_data(self):
        try:
            return {"task": real(self.data_set, self.problem)}
        except OSError as missing:  # the objective says so and skips it
            return {"task": missing}
