// Sums over rows of products of columns, for columns that lie one after the other: blocks of rows
// stay in the cache, and a tile of sums in registers.
#pragma once
#include "algebra.hpp"

namespace VARIANT {
namespace {

const idx GRAM_BLOCK = 256;  // rows at once: 256 columns of them stay in a second-level cache
const size_t CACHE_LINE = 64;  // a vector that begins where a line does never lies in two

// sums[r][k] += sum_i rows[r][i] lines[k][i] over i < size, whole vectors, for R rows and four lines
// that are GRAM_BLOCK apart
template <int R>
INLINE void tile_products(const double *rows, const double *lines, idx size, double *sums,
                          idx stride) {
  constexpr int N = lanes<double>();
  const double *a = lines, *b = a + GRAM_BLOCK, *c = b + GRAM_BLOCK, *e = c + GRAM_BLOCK;
  const double *second = rows + (R - 1) * GRAM_BLOCK;
  Vec<double> zero = spread(0.0);
  Vec<double> p = zero, q = zero, r = zero, s = zero, t = zero, u = zero, v = zero, w = zero;
  for (idx i = 0; i < size; i += N) {
    Vec<double> one = load(rows + i), two = load(second + i), line = load(a + i);
    p += one * line;
    if (R > 1) t += two * line;
    line = load(b + i);
    q += one * line;
    if (R > 1) u += two * line;
    line = load(c + i);
    r += one * line;
    if (R > 1) v += two * line;
    line = load(e + i);
    s += one * line;
    if (R > 1) w += two * line;
  }
  sums[0] += total(p), sums[1] += total(q), sums[2] += total(r), sums[3] += total(s);
  if (R > 1) {
    sums += stride;
    sums[0] += total(t), sums[1] += total(u), sums[2] += total(v), sums[3] += total(w);
  }
}

// Lines of n numbers, those from `start` on that fit into a block, followed by zeros up to a whole
// vector. Copies begin at a cache line, which the lines themselves rarely do.
struct Block {
  idx start, size, whole;
  Block(idx start, idx n) : start(start), size(least(GRAM_BLOCK, n - start)) {
    constexpr idx N = lanes<double>();
    whole = (size + N - 1) / N * N;
  }
  void take(const double *line, double *RESTRICT to) const {
    copy(line + start, size, to);
    clear(to + size, whole - size);
  }
  void weigh(const double *line, const double *weight, double *RESTRICT to) const {
    for (idx i = 0; i < size; ++i) to[i] = weight[start + i] * line[start + i];
    clear(to + size, whole - size);
  }
};

// X diag(weight) X' for p lines of n numbers, both triangles into out; products of two of the first
// `known` lines are there already. Four lines stay in the first cache while all that are weighted
// pass by.
inline void weighted_gram(const double *X, idx p, idx n, const double *weight, double *out,
                          idx known = 0) {
  Buffer<double> memory((p + 4) * GRAM_BLOCK + (idx)(CACHE_LINE / sizeof(double)), false);
  double *lines = (double *)(((size_t)memory.at + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  double *rows = lines + 4 * GRAM_BLOCK;
  clear(out + known * p, (p - known) * p);
  for (idx start = 0; start < n; start += GRAM_BLOCK) {
    Block block(start, n);
    for (idx j = known; j < p; ++j) block.weigh(X + j * n, weight, rows + j * GRAM_BLOCK);
    for (idx k = 0; k < p; k += 4) {
      idx count = least((idx)4, p - k), j = most(k, known);
      for (idx c = 0; c < count; ++c) block.take(X + (k + c) * n, lines + c * GRAM_BLOCK);
      if (count < 4) {  // the last lines: sums of what is left of the others are not used
        clear(lines + count * GRAM_BLOCK, (4 - count) * GRAM_BLOCK);
        for (; j < p; ++j) {
          double sums[4] = {0, 0, 0, 0};
          tile_products<1>(rows + j * GRAM_BLOCK, lines, block.whole, sums, 0);
          for (idx c = 0; c < count; ++c) out[j * p + k + c] += sums[c];
        }
        break;
      }
      for (; j + 2 <= p; j += 2)
        tile_products<2>(rows + j * GRAM_BLOCK, lines, block.whole, out + j * p + k, p);
      if (j < p) tile_products<1>(rows + j * GRAM_BLOCK, lines, block.whole, out + j * p + k, p);
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
