"""
A tariff whose levels merge
===========================

Claims of an insurer depend on the driver's age (ordered) and the region (unordered). Fusing
neighboring ages, and all pairs of regions, merges levels that the data do not tell apart. The
result is a tariff with few classes; exposures enter as an offset.
"""

# %%
# Generated policies: one-hot columns for age and region.
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

import stochadmm as sa

rng = np.random.default_rng(0)
n, ages, regions = 40_000, 60, 12
age, region = rng.integers(ages, size=n), rng.integers(regions, size=n)
age_effect = np.select([np.arange(ages) < 7, np.arange(ages) < 45], [0.7, 0.0], 0.35)
region_effect = np.repeat([-0.3, 0.0, 0.4], 4)
exposure = rng.uniform(0.1, 1.0, n)
claims = rng.poisson(exposure * np.exp(-1.5 + age_effect[age] + region_effect[region]))
rows = np.arange(n)
X = sparse.hstack(
    [
        sparse.csr_array((np.ones(n), (rows, age)), shape=(n, ages)),
        sparse.csr_array((np.ones(n), (rows, region)), shape=(n, regions)),
    ]
).tocsr()

# %%
# Ages form a chain, regions a complete graph. Cross-validation chooses the strength, and a second
# fit gives the classes that were found their own rates, without shrinkage.
edges = [(j, j + 1, 1.0) for j in range(ages - 1)]
edges += [(ages + i, ages + j, 0.25) for i, j in combinations(range(regions), 2)]
model = sa.GraphFusedRegressorCV(
    graph=edges, loss="poisson", l1_ratio=0.02, alphas=12, eps=0.01, cv=3, refit=True
)
model.fit(X, claims, offset=np.log(exposure))

# %%
# Each level by itself, and the merged tariff.
base = np.log(claims.sum() / exposure.sum())
alone = np.log((X.T @ claims) / (X.T @ exposure)) - base
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", width_ratios=(2, 1))
for ax, part, name in ((axes[0], slice(0, ages), "age"), (axes[1], slice(ages, None), "region")):
    found = model.coef_[part]
    shift = alone[part].mean() - found.mean()
    places = np.arange(found.size)
    ax.plot(places, alone[part], ".", color="0.6", label="every level by itself")
    ax.step(places, found + shift, where="mid", color="tab:blue", label="merged")
    truth = age_effect if name == "age" else region_effect
    ax.step(
        places,
        truth - truth.mean() + alone[part].mean(),
        where="mid",
        color="tab:orange",
        linestyle=":",
        label="truth",
    )
    ax.set(xlabel=name, ylabel="log rate, against the mean")
axes[0].legend()
plt.show()

# %%
merged = [len(np.unique(model.coef_[part])) for part in (slice(0, ages), slice(ages, None))]
print(f"{merged[0]} classes of {ages} ages, {merged[1]} of {regions} regions (3 and 3 planted)")
print(f"certified gap {model.dual_gap_:.1e}")
