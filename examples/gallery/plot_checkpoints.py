"""
Resume a run that was killed
============================

Long runs meet time limits, full disks and power cuts. With ``checkpoint=`` a run leaves a file
from which another process can continue, and it ends with the same bits as if nothing had happened.
"""

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa

data = sa.datasets.make_graph_fused(5_000, 50)
A = sa.VStack([sa.Incidence(data.graph, 50), sa.Identity(50)])
problem = sa.Problem.linear(
    sa.Logistic(), data.X, data.y, structure=A, on_structure=sa.L1(1e-3), intercept=True
)
asked = {"stop": sa.Gap(1e-6), "max_passes": 500, "random_state": 0}

# %%
# The same in another process, which dies in the middle: its callback ends it without a word, as
# ``kill -9`` would.
script = """
import os, sys
import stochadmm as sa

def dies(record, state):
    if record.epoch == 5:
        os._exit(1)

data = sa.datasets.make_graph_fused(5_000, 50)
A = sa.VStack([sa.Incidence(data.graph, 50), sa.Identity(50)])
problem = sa.Problem.linear(
    sa.Logistic(), data.X, data.y, structure=A, on_structure=sa.L1(1e-3), intercept=True
)
sa.minimize(problem, "acc-sadmm", stop=sa.Gap(1e-6), max_passes=500, random_state=0,
            checkpoint=sys.argv[1], checkpoint_every=0, callback=dies)
"""
folder = tempfile.TemporaryDirectory()
file = Path(folder.name) / "run.ckpt"
child = subprocess.run([sys.executable, "-c", script, str(file)])
print(f"the process ended with code {child.returncode} and left {file.stat().st_size:,} bytes")

# %%
# Resume from its file; for comparison, a run that was never stopped.
resumed = sa.minimize(problem, "acc-sadmm", resume=file, **asked)
whole = sa.minimize(problem, "acc-sadmm", **asked)

# %%
bound = whole.objective - whole.gap
figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for records, style in (
    (whole.history, {"color": "0.85", "linewidth": 7, "label": "never stopped"}),
    (resumed.history[:6], {"marker": ".", "label": "before it was killed"}),
    (resumed.history[5:], {"marker": ".", "label": "resumed"}),
):
    ax.plot([r.passes for r in records], [r.objective - bound for r in records], **style)
ax.axvline(resumed.history[5].passes, color="0.5", linestyle=":")
ax.set(yscale="log", xlabel="passes over the data", ylabel="objective minus the proved bound")
ax.legend(frameon=False)
plt.show()

# %%
differ = np.count_nonzero(resumed.coef != whole.coef)
print(f"{resumed.n_epochs} epochs, {differ} of {whole.coef.size} coefficients differ in any bit,")
print(f"certified gap {resumed.relative_gap:.1e}")
folder.cleanup()
