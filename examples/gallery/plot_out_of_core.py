"""
More rows than memory
=====================

Rows in a file are read block by block, a handful of times. The answer and its certificate are
those of a fit in memory; the memory of the process does not grow with the file.
"""

# %%
# Up to 400,000 rows on disk, and a budget of eight megabytes for a fit.
import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa

folder = tempfile.TemporaryDirectory()
place = Path(folder.name)
sizes = (25_000, 100_000, 400_000)
data = sa.datasets.make_graph_fused(max(sizes), 20, random_state=0)
structure = sa.VStack([sa.Incidence(data.graph, 20), sa.Identity(20)])

# %%
# The same problem with more and more rows; memory as counted by Python:
megabytes, peaks, gaps = [], [], []
for n in sizes:
    np.save(place / "X.npy", data.X[:n].astype(np.float32))
    np.save(place / "y.npy", data.y[:n])
    source = sa.open(place / "X.npy", target=place / "y.npy")
    problem = sa.Problem.linear(
        sa.Logistic(), source, structure=structure, on_structure=sa.L1(1e-3), intercept=True
    )
    tracemalloc.start()
    result = sa.minimize(problem, stop=sa.Gap(1e-6), memory="8MB")
    peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
    tracemalloc.stop()
    megabytes.append((place / "X.npy").stat().st_size / 1e6)
    gaps.append(result.relative_gap)

# %%
figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.loglog(megabytes, megabytes, "o--", color="0.6", label="rows on disk")
ax.loglog(megabytes, peaks, "o-", label="peak memory of the fit")
for axis, ticks in ((ax.xaxis, megabytes), (ax.yaxis, (1, 3, 10, 30))):
    axis.set_ticks(ticks, [f"{tick:.0f}" for tick in ticks])
    axis.set_ticks([], minor=True)
ax.set(xlabel="size of the file (MB)", ylabel="MB")
ax.legend()
plt.show()

# %%
print(
    f"{megabytes[-1]:.0f} MB of rows, {peaks[-1]:.1f} MB of memory,",
    f"{result.n_passes:.0f} passes, certified gap {max(gaps):.0e}",
)
folder.cleanup()
