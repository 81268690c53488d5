"""
A masked volume: regions of a brain
===================================

Columns are the voxels inside a mask, as in brain imaging. The grid joins neighbouring voxels,
also across slices; cells outside the mask are not columns.
"""

# %%
# A ball of voxels, two of its regions with an effect, and noise that is smooth in space.
import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

import stochadmm as sa

rng = np.random.default_rng(0)
shape = (9, 12, 12)
z, y, x = np.indices(shape)
mask = ((z - 4) / 4.5) ** 2 + ((y - 5.5) / 6) ** 2 + ((x - 5.5) / 6) ** 2 <= 1
effect = np.zeros(shape)
effect[2:6, 2:6, 3:6], effect[3:7, 6:10, 6:9] = 0.3, -0.3
n = 200
scans = gaussian_filter(rng.standard_normal((n, *shape)), (0, 1, 1, 1)) * 4
X = scans[:, mask]
target = X @ effect[mask] + 2.0 * rng.standard_normal(n)

# %%
grid = sa.Grid(shape, mask=mask)
search = sa.GraphFusedRegressorCV(graph=grid, l1_ratio=0.2, alphas=12, eps=1e-2, cv=3, tol=1e-3)
model = search.fit(X, target)

# %%
# Slices side by side, gray outside the mask: planted above, found below.
figure, axes = plt.subplots(2, 1, figsize=(9, 3.6), layout="constrained")
top = np.abs(effect).max()
for ax, values, name in zip(axes, (effect[mask], model.coef_), ("planted", "found"), strict=True):
    slices = np.hstack(list(np.pad(grid.image(values), ((0, 0), (0, 0), (0, 1)), "edge")))
    picture = ax.imshow(slices, cmap="RdBu_r", vmin=-top, vmax=top)
    ax.set(title=name, xticks=[], yticks=[], facecolor="0.9")
figure.colorbar(picture, ax=axes, label="coefficient")
plt.show()

# %%
right = np.corrcoef(model.coef_, effect[mask])[0, 1]
print(
    f"{len(np.unique(model.levels_))} regions among {mask.sum()} voxels,",
    f"correlation {right:.2f} with the truth, certified gap {model.dual_gap_:.1e}",
)
