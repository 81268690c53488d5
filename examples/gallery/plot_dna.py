"""
Positions of a DNA sequence
===========================

Letters at positions around a site, one-hot encoded. Neighboring positions share their effect, so
the answer is a profile along the sequence rather than hundreds of unrelated numbers.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa

rng = np.random.default_rng(0)
n, length = 4000, 40
letters = rng.integers(4, size=(n, length))
profile = np.zeros((length, 4))
profile[8:16, 2], profile[22:30, 0], profile[22:30, 3] = 0.5, -0.35, 0.35
score = profile[np.arange(length), letters].sum(axis=1)
y = rng.random(n) < 1 / (1 + np.exp(-(score - score.mean())))
X = np.zeros((n, length * 4))
X[np.arange(n)[:, None], np.arange(length) * 4 + letters] = 1.0

# %%
# One chain for each letter: column 4 p + letter is joined with 4 (p + 1) + letter.
edges = [(4 * p + k, 4 * (p + 1) + k) for p in range(length - 1) for k in range(4)]
model = sa.GraphFusedClassifierCV(graph=edges, l1_ratio=0.3, alphas=15, cv=3).fit(X, y)
found = model.coef_.reshape(length, 4)

# %%
figure, axes = plt.subplots(2, 1, figsize=(9, 3.6), sharex=True, layout="constrained")
for ax, values, name in zip(axes, (profile, found), ("planted", "found"), strict=True):
    ax.imshow(values.T, cmap="RdBu_r", vmin=-0.6, vmax=0.6, aspect="auto")
    ax.set(yticks=range(4), yticklabels=list("ACGT"), title=name)
axes[1].set_xlabel("position")
plt.show()

# %%
print(
    f"{len(np.unique(model.levels_))} levels among {X.shape[1]} columns,",
    f"{model.score(X, y):.1%} correct, certified gap {model.dual_gap_:.1e}",
)
