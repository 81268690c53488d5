"""Exact prox of total variation along a line, in linear time.

    min_x  1/2 sum_j (x_j - v_j)^2 + t sum_j |x_{j+1} - x_j|

Johnson's dynamic programming [1]_. Let ``f_j(b)`` be the least cost of the first j entries when
``x_j = b``. The derivative of ``f_j(b) + (b - v_{j+1})^2/2`` is piecewise linear and increasing;
going one entry further clips it to [-t, t]. ``low_j`` and ``high_j`` are where it reaches -t and
+t, and going backwards ``x_j = clip(x_{j+1}, low_j, high_j)``.

The derivative is kept as a queue of knots: ``knots[k]`` with the changes ``derivatives[k]`` and
``offsets[k]`` of the line ``derivative * b + offset`` that applies to its right. Clipping removes
knots from either end and puts one back, so every entry pays for the knots it adds: two each,
linear in all. The two ends grow outwards from the middle of arrays of length 2 n.

.. [1] N. A. Johnson, "A dynamic programming algorithm for the fused lasso and L0-segmentation",
   J. Comput. Graph. Stat. 22(2), 2013. doi:10.1080/10618600.2012.681238
"""

from __future__ import annotations

from ..base.protocols import Array
from . import _numpy
from .extension import available, core


def fuse_columns(v: Array, threshold: float, out: Array) -> None:
    """Write the prox of every column of ``v`` (n, C) into ``out``."""
    if available():
        core().fuse_columns(v, threshold, out)
    else:
        _numpy.fuse_columns(v, threshold, out)
