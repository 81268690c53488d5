"""Where passes over shards run: threads of this process, processes, a Dask or Ray cluster.

An engine has one method, ``map_reduce(shards, work, add)``. Sums are added along one binary tree
over the numbers of the shards, whatever runs where, so that results have the same bits for any
engine and any number of workers. A worker that dies is replaced by the engine; a pass that fails
for want of workers is begun again, and then given up with `EngineLost`.
"""

from ._context import current, shares_disk, use
from ._dask import Dask
from ._local import Local, Processes
from ._ray import Ray
from ._tree import Engine, EngineLost, add_node, nodes

__all__ = [
    "Dask",
    "Engine",
    "EngineLost",
    "Local",
    "Processes",
    "Ray",
    "add_node",
    "current",
    "nodes",
    "shares_disk",
    "use",
]
