"""
A tariff whose levels merge, with a map
=======================================

Claims of an insurer depend on the driver's age (ordered), the brand (nominal) and the district (on
a map). Levels that the data do not tell apart merge, so that the tariff has few classes, each with
a relativity that can be explained.
"""

# %%
# Generated policies: a data frame as it comes from a warehouse, with an exposure in years.
import numpy as np
import pandas as pd

import stochadmm as sa

rng = np.random.default_rng(0)
n = 10_000
places = pd.DataFrame(rng.uniform(0, 1, (25, 2)), columns=["long", "lat"])
places.index = [f"D{k:02d}" for k in range(25)]
policies = pd.DataFrame(
    {
        "age": rng.integers(18, 80, n),
        "brand": rng.choice(list("ABCDEF"), n, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05]),
        "district": rng.choice(places.index, n),
        "power": rng.uniform(40, 200, n),
        "years": rng.uniform(0.1, 1.0, n),
    }
)
city = np.hypot(places["long"] - 0.4, places["lat"] - 0.5) < 0.3
log_rate = (
    -1.0
    + np.select([policies["age"] < 25, policies["age"] < 63], [0.7, 0.0], 0.3)
    + np.where(policies["brand"].isin(["C", "F"]), 0.35, 0.0)
    + np.where(city[policies["district"]], 0.4, 0.0)
    + 0.002 * policies["power"]
)
policies["claims"] = rng.poisson(policies["years"] * np.exp(log_rate))

# %%
# One term per factor. ``from_points`` makes neighbors of districts that lie beside each other. The
# number ``power`` keeps one slope without a penalty. Adaptive weights shrink large differences
# less. Cross-validation chooses the strength, the simplest model within one standard error, and a
# second fit takes the shrinkage away.
terms = {
    "age": sa.terms.Ordered(),
    "brand": sa.terms.Nominal(),
    "district": sa.terms.Map.from_points(places.index, places),
}
model = sa.StructuredRegressorCV(
    terms=terms,
    weights="adaptive",
    loss="poisson",
    alphas=8,
    eps=0.01,
    cv=3,
    one_standard_error=True,
    refit=True,
)
model.fit(policies, "claims", exposure="years")
axes = model.plot_terms()

# %%
# The rating table, and how the levels of a factor map to its classes. ``export`` writes it as CSV,
# JSON or SQL.
print(model.table_.drop(columns="term").to_string(float_format="{:.3g}".format))
print(model.level_map_["brand"])

# %%
classes = {name: len(set(model.level_map_[name].values())) for name in terms}
print(f"classes: {classes}; planted: 3 of ages, 2 of brands, 2 of districts")
print(f"certified relative gap {model.dual_gap_:.1e}")
