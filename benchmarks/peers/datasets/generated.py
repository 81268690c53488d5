from typing import ClassVar

from benchmark_utils import generated
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Rows with a planted structure, from stochadmm's generators."""

    name = "Generated"
    parameters: ClassVar = {
        "problem": [
            "graph-fused-logistic",
            "fused-lasso",
            "overlapping-groups",
            "lasso",
            "sparse-logistic",
            "sparse-low-rank",
        ],
        "size": ["small", "large"],
    }

    def get_data(self):
        return {"task": generated(self.problem, self.size)}
