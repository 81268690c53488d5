"""The integers that name operators inside compiled code."""

NOTHING = 0  # no constraint: zero rows
SCALED_IDENTITY = 1
SPARSE = 2
