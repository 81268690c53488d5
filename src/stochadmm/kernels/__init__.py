"""The compiled kernels as Python functions; their sources are in ``src/core``.

``views`` describes problems as arrays, ``loops`` runs the methods, ``passes`` reads all rows
and all entries of a loss,
``quadratic`` and ``tv`` serve the small problem and the total variation. The extension is loaded
on first use, never with the package; ``extension`` says which variant of it runs.
"""
