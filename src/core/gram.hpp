// Sums over rows of products of columns, for columns that lie one after the other: blocks of rows
// stay in the cache, and a tile of sums in registers.
#pragma once
#include "algebra.hpp"

namespace VARIANT {
namespace {

const idx GRAM_BLOCK = 128;  // rows at once: 128 columns of them, twice, stay in a second-level cache

// sums[r][k] += sum_i rows[r][i] X[k][i] over i < size, for R rows and four lines of X
template <int R>
INLINE void tile_products(const double *rows, const double *X, idx n, idx size, double *sums,
                          idx stride) {
  constexpr int N = lanes<double>();
  const double *a = X, *b = X + n, *c = b + n, *e = c + n, *second = rows + (R - 1) * GRAM_BLOCK;
  Vec<double> zero = spread(0.0);
  Vec<double> p = zero, q = zero, r = zero, s = zero, t = zero, u = zero, v = zero, w = zero;
  idx i = 0;
  for (; i + N <= size; i += N) {
    Vec<double> one = load(rows + i), la = load(a + i), lb = load(b + i), lc = load(c + i);
    Vec<double> le = load(e + i);
    p += one * la, q += one * lb, r += one * lc, s += one * le;
    if (R > 1) {
      Vec<double> two = load(second + i);
      t += two * la, u += two * lb, v += two * lc, w += two * le;
    }
  }
  double first[4] = {total(p), total(q), total(r), total(s)};
  double other[4] = {total(t), total(u), total(v), total(w)};
  for (; i < size; ++i) {
    const double x[4] = {a[i], b[i], c[i], e[i]};
    for (int k = 0; k < 4; ++k) {
      first[k] += rows[i] * x[k];
      if (R > 1) other[k] += second[i] * x[k];
    }
  }
  for (int k = 0; k < 4; ++k) {
    sums[k] += first[k];
    if (R > 1) sums[stride + k] += other[k];
  }
}

// X diag(weight) X' for p lines of n numbers, both triangles into out; products of two of the first
// `known` lines are there already. Four lines stay in the first cache while all that are weighted
// pass by.
inline void weighted_gram(const double *X, idx p, idx n, const double *weight, double *out,
                          idx known = 0) {
  Buffer<double> memory(p * GRAM_BLOCK, false);
  double *rows = memory.at;
  clear(out + known * p, (p - known) * p);
  for (idx start = 0; start < n; start += GRAM_BLOCK) {
    idx size = least(GRAM_BLOCK, n - start);
    for (idx j = known; j < p; ++j)
      for (idx i = 0; i < size; ++i)
        rows[j * GRAM_BLOCK + i] = weight[start + i] * X[j * n + start + i];
    idx k = 0;
    for (; k + 4 <= p; k += 4) {
      const double *lines = X + k * n + start;
      idx j = most(k, known);
      for (; j + 2 <= p; j += 2)
        tile_products<2>(rows + j * GRAM_BLOCK, lines, n, size, out + j * p + k, p);
      if (j < p) tile_products<1>(rows + j * GRAM_BLOCK, lines, n, size, out + j * p + k, p);
    }
    for (; k < p; ++k)
      for (idx j = most(k, known); j < p; ++j) {
        double sum;
        dot(X + k * n + start, size, rows + j * GRAM_BLOCK, &sum);
        out[j * p + k] += sum;
      }
  }
  for (idx j = 0; j < p; ++j)
    for (idx k = 0; k < j; ++k) out[k * p + j] = out[j * p + k];
}

// The largest |entry| of each column of T X, for p lines of n numbers, into out
inline void largest_entries(const double *T, idx p, const double *X, idx n, double *out) {
  Buffer<double> room(GRAM_BLOCK, false);
  double *RESTRICT sum = room.at;
  clear(out, n);
  for (idx start = 0; start < n; start += GRAM_BLOCK) {
    idx size = least(GRAM_BLOCK, n - start);
    for (idx l = 0; l < p; ++l) {
      clear(sum, size);
      for (idx k = 0; k < p; ++k)
        if (T[l * p + k] != 0) add(T[l * p + k], X + k * n + start, sum, size);
      for (idx i = 0; i < size; ++i) out[start + i] = most(out[start + i], fabs(sum[i]));
    }
  }
}

}  // namespace
}  // namespace VARIANT
