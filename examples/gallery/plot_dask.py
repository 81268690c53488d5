"""
Rows on a Dask cluster
======================

Dask arrays can be passed in place of NumPy arrays. Partitions are processed where they are; only
sums of the size of the coefficients are sent, and the number of workers does not change a bit of
the answer.
"""

# %%
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa

data = sa.datasets.make_graph_fused(60_000, 30, random_state=0)
X = da.from_array(data.X, chunks=(10_000, 30))
y = da.from_array(data.y, chunks=10_000)
structure = sa.VStack([sa.Incidence(data.graph, 30), sa.Identity(30)])


def problem(X, y):
    """Return the same model for rows of any kind."""
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=structure, on_structure=sa.L1(1e-3), intercept=True
    )


# %%
lazy = sa.minimize(problem(X, y), stop=sa.Gap(1e-8))
whole = sa.minimize(problem(data.X, data.y), stop=sa.Gap(1e-8))

# %%
order = np.argsort(data.coef, kind="stable")
figure, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
ax.step(np.arange(30), np.asarray(data.coef)[order], where="mid", color="0.6", label="planted")
ax.plot(whole.coef[order], "o", mfc="none", ms=9, label="rows in memory")
ax.plot(lazy.coef[order], ".", label=f"{X.numblocks[0]} Dask partitions")
ax.set(xlabel="column, sorted by planted level", ylabel="coefficient")
ax.legend()
plt.show()

# %%
apart = np.abs(lazy.coef - whole.coef).max()
print(
    f"coefficients differ by at most {apart:.0e}; {lazy.n_passes:.0f} passes,",
    f"certified gap {lazy.relative_gap:.0e}",
)
