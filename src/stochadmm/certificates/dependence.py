"""Exact linear dependences between columns, in integers modulo two primes.

F does not change along n where ``S n = 0`` on all penalized rows and ``X n = 0``, exactly: numbers
as they are stored, no rounding. Every stored number is an integer times a power of two, so it has
a residue modulo an odd prime, and sums and products of residues are exact. The rank modulo a prime
is at most the rank over the rationals; it is smaller only where the prime divides *all* minors of
the larger size. Two primes of 31 bits are taken, and the larger rank counts: columns that nearly
agree differ by small multiples of their last digit, never by multiples of 2^61.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base.protocols import Array
from ..data import CSR
from ..forms.structure import Structure
from ..risk import FiniteSum

PRIMES = (2147483647, 2147483629)
MOST_COLUMNS = 600
"""Of an elimination, which takes about their cube; more only where the basis is exact itself."""

Residues = NDArray[np.int64]


def nullity(
    f2: FiniteSum, structure: Structure, mask: bytes, basis: bytes, shape: tuple[int, int]
) -> tuple[int, int]:
    """Return the dimensions of ``{n: S n = 0}`` and ``{n: S n = 0, X n = 0}``, at least so many.

    Only n with the support of the basis (dense, as bytes) are looked for, and S has the rows of
    the mask. Zero where there are too many columns to tell.
    """
    N = np.frombuffer(basis).reshape(shape)
    support = np.flatnonzero(N.any(axis=1))
    rows = sparse.csr_array(structure.S[np.frombuffer(mask, dtype=bool)][:, support])
    rows.eliminate_zeros()
    rows = rows[np.diff(rows.indptr) > 0]
    found = [_nullity(f2, rows, N[support], support, p) for p in PRIMES]
    return min(free for free, _ in found), min(both for _, both in found)


def _nullity(
    f2: FiniteSum, S: Any, N: Array, support: NDArray[np.intp], p: int
) -> tuple[int, int]:
    E = residues(N, p)
    if (_product(_sparse_residues(S, p), E, p) != 0).any():
        # the basis was computed in floating point: the directions are solved for in residues
        if support.size > MOST_COLUMNS:
            return 0, 0
        E = null_space(residues(S.toarray(), p), p)
    if not 0 < E.shape[1] <= MOST_COLUMNS:
        return E.shape[1], 0
    return E.shape[1], _data_nullity(f2, support, E, p)


def _data_nullity(f2: FiniteSum, support: NDArray[np.intp], E: Residues, p: int) -> int:
    """Return the dimension of ``{c: X E c = 0}``.

    It is found on a few rows, and tried on all: rows where a random member of the null space does
    not vanish join the few.
    """
    rng, d = np.random.default_rng(0), f2.n_features
    own = support[support < d]
    X, ones = f2.rows.columns(own), np.flatnonzero(support == d)
    n = f2.n_terms
    counted = np.ones(n, dtype=bool) if f2.row_weight is None else f2.row_weight > 0
    live = np.flatnonzero(counted)

    def product(rows: Any, v: Residues) -> Residues:
        block = X.take(rows)
        if block.storage == CSR:
            A: Any = _sparse_residues(block.X, p)
        else:
            A = residues(block.dense(), p)
        out = _product(A, v[support < d], p)
        return (out + v[ones].sum(axis=0)) % p if ones.size else out

    few = rng.choice(live, min(live.size, E.shape[1] + 10), replace=False)
    known = np.zeros((0, E.shape[1]), dtype=np.int64)
    while True:
        known = echelon(np.concatenate([known, product(np.sort(few), E)]), p)
        kernel = null_space(known, p)
        if kernel.shape[1] == 0:
            return 0
        member = _product(kernel, rng.integers(1, p, (kernel.shape[1], 1)), p)
        v = _product(E, member, p)
        wrong = np.zeros(n, dtype=bool)
        for rows in X.ranges():
            wrong[rows] = product(rows, v)[:, 0] != 0
        more = np.flatnonzero(wrong & counted)
        if not more.size:
            return int(kernel.shape[1])
        few = rng.choice(more, min(more.size, E.shape[1] + 10), replace=False)


def residues(a: Array, p: int) -> Residues:
    """Return what the numbers are modulo p, exactly."""
    mantissa, exponent = np.frexp(np.asarray(a, dtype=np.float64))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    return np.asarray(whole % p * _powers_of_two(p)[exponent - 53 + 1200] % p, dtype=np.int64)


@cache
def _powers_of_two(p: int) -> Residues:
    """Return ``2^k`` modulo p, k from -1200 to 1100."""
    return np.array([pow(2, k, p) for k in range(-1200, 1100)], dtype=np.int64)


def _sparse_residues(A: Any, p: int) -> Any:
    A = sparse.csr_array(A)
    return sparse.csr_array((residues(A.data, p), A.indices, A.indptr), A.shape)


def _product(A: Any, B: Residues, p: int) -> Residues:
    """Return ``A B`` modulo p: factors of 31 and 16 bits, sums of 2^15 of them, fit 63 bits."""
    if A.shape[1] > 1 << 15:
        half = A.shape[1] // 2
        return (_product(A[:, :half], B[:half], p) + _product(A[:, half:], B[half:], p)) % p
    low, high = B & 0xFFFF, B >> 16
    return np.asarray(((A @ high) % p * 65536 + A @ low) % p, dtype=np.int64)


def echelon(M: Residues, p: int) -> Residues:
    """Return the reduced row echelon form modulo p, without rows of zeros."""
    M, rank = M.copy(), 0
    for column in range(M.shape[1]):
        below = np.flatnonzero(M[rank:, column])
        if not below.size:
            continue
        pivot = rank + int(below[0])
        M[[rank, pivot]] = M[[pivot, rank]]
        M[rank] = M[rank] * pow(int(M[rank, column]), -1, p) % p
        others = np.flatnonzero(M[:, column])
        others = others[others != rank]
        M[others] = (M[others] - M[others, column, None] * M[rank] % p) % p
        rank += 1
        if rank == len(M):
            break
    return M[:rank]


def null_space(M: Residues, p: int) -> Residues:
    """Return a basis of the vectors that M takes to zero modulo p, as columns."""
    M = echelon(M, p)
    pivots = (M != 0).argmax(axis=1)
    free = np.setdiff1d(np.arange(M.shape[1]), pivots)
    out = np.zeros((M.shape[1], free.size), dtype=np.int64)
    out[free, np.arange(free.size)] = 1
    out[pivots] = (p - M[:, free]) % p
    return out
