"""
Methods side by side
====================

ACC-SADMM, methods that it is compared with, and the default solver on one graph-guided problem:
the true gap against passes over the data.
"""

# %%
import matplotlib.pyplot as plt

import stochadmm as sa

data = sa.datasets.make_graph_fused(5000, 40, random_state=0)
structure = sa.VStack([sa.Incidence(data.graph, 40), sa.Identity(40)])
problem = sa.Problem.linear(
    sa.Logistic(), data.X, data.y, structure=structure, on_structure=sa.L1(1e-3)
)
optimum = sa.minimize(problem, stop=sa.Gap(1e-12), max_passes=1000)

# %%
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name in ("auto", "acc-sadmm", "svrg-admm", "stoc-admm", "linearized-admm"):
    result = sa.minimize(problem, name, stop=sa.Gap(1e-9), max_passes=60)
    gaps = [max(r.objective - optimum.objective, 1e-14) for r in result.history]
    ax.semilogy([r.passes for r in result.history], gaps, marker=".", label=name)
ax.set(xlabel="passes over the data", ylabel="F - F*", ylim=(1e-12, None))
ax.legend()
plt.show()

# %%
print(
    f"optimum {optimum.objective:.10f}, certified within {optimum.relative_gap:.0e};",
    f"auto chose {optimum.info['route']}: {optimum.info['reason']}",
)
