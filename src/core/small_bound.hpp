// What is left of the dual equation in floating point costs at most so much: certificates/_charge.py
// in the form that the small route needs. docs/design/small.md derives it.
#pragma once
#include "small_quadratic.hpp"

namespace VARIANT {
namespace {

INLINE bool holds(const Penalty<double> &h, idx row) {  // both sides of an elementwise row
  return h.l1[row] > 0 || h.l2[row] > 0 || (h.lo[row] > -INFINITY && h.hi[row] < INFINITY);
}

// Which rows of S the level sets of their penalties bound, and what bounds them.
struct Held {
  const Penalty<double> &h;
  Buffer<char> row;  // 1: elementwise, 2: in a group
  Buffer<idx> group;
  Held(const Penalty<double> &h) : h(h), row(h.rows), group(h.rows) {
    for (idx t = 0; t < h.n_terms; ++t)
      if (h.kinds[t] == ELEMENTWISE) {
        for (idx k = h.starts[t]; k < h.starts[t + 1]; ++k) row[k] = holds(h, k) ? 1 : 0;
      } else {
        for (idx g = h.first_group[t]; g < h.first_group[t + 1]; ++g)
          for (idx k = h.group_starts[g]; k < h.group_stops[g]; ++k) {
            row[k] = h.group_weights[g] > 0 ? 2 : 0;
            group[k] = g;
          }
      }
  }
  // A bound on <size, |S x|> over all x whose penalty is at most `level`.
  double cost(const double *size, double level) const {
    double worst = 0, fixed = 0, squares = 0;
    idx k = 0;
    while (k < h.rows) {
      if (row[k] == 2) {
        idx stop = h.group_stops[group[k]];
        double norm2 = 0;
        for (idx j = k; j < stop; ++j) norm2 += size[j] * size[j];
        worst = most(worst, sqrt(norm2) / h.group_weights[group[k]]);
        k = stop;
        continue;
      }
      if (size[k] > 0) {
        if (!row[k]) return INFINITY;
        if (h.l1[k] > 0) worst = most(worst, size[k] / h.l1[k]);
        else if (h.l2[k] > 0) squares += size[k] * size[k] / h.l2[k];
        else fixed += size[k] * most(fabs(h.lo[k]), fabs(h.hi[k]));
      }
      ++k;
    }
    return worst * level + sqrt(2 * level * squares) + fixed;
  }
};

// How residuals of the dual equation are made up for: by rows of S, and along free directions N.
// For any |r| <= rho there are a multiplier |mu| <= rows(rho) and |c| <= free(rho) with
// r = S' mu + sum_k c_k e_{at_k}, and c = N' r.
struct Split {
  const Operator<double> &S;
  idx p, m, n_free = 0;
  Buffer<idx> own, where;   // a row with this coordinate alone, or -1; coordinates of N
  Buffer<double> factor, N; // inverse of its entry; N is (n_free, p)
  Buffer<double> inverse;   // of the Gram matrix on the coordinates that are not free
  Buffer<idx> inner;
  idx n_inner = 0;
  bool plain = true;        // single rows do it all

  Split(const Operator<double> &S, const Held &held, bool loss_only)
      : S(S), p(S.columns), m(S.rows), own(p), where(p), factor(p), N(p * p), inverse(p * p),
        inner(p), used(m) {
    for (idx j = 0; j < p; ++j) own[j] = -1;
    for (idx i = 0; i < m; ++i) used[i] = !loss_only && held.row[i];
    for (idx i = 0; i < m; ++i) {
      idx k = S.indptr[i];
      if (!used[i] || S.indptr[i + 1] != k + 1 || S.data[k] == 0) continue;
      idx j = S.indices[k];
      double turned = 1 / fabs(S.data[k]), price = turned * held_price(held.h, held, i);
      if (own[j] < 0 || price < factor[j] * held_price(held.h, held, own[j]))
        own[j] = i, factor[j] = turned;
    }
    for (idx i = 0; i < m; ++i)
      if (used[i] && S.indptr[i + 1] > S.indptr[i] + 1)
        for (int32_t k = S.indptr[i]; k < S.indptr[i + 1]; ++k)
          if (S.data[k] != 0 && own[S.indices[k]] < 0) plain = false;
    if (!plain) {
      general();
      return;
    }
    for (idx j = 0; j < p; ++j)
      if (own[j] < 0) {
        where[n_free] = j;
        N[n_free * p + j] = 1;
        n_free++;
      }
  }

  void rows(const double *rho, double *out) const {
    clear(out, m);
    if (plain) {
      for (idx j = 0; j < p; ++j)
        if (own[j] >= 0) out[own[j]] = rho[j] * factor[j];
      return;
    }
    Buffer<double> y(p);
    for (idx a = 0; a < n_inner; ++a) {
      double sum = 0;
      for (idx b = 0; b < n_inner; ++b) sum += fabs(inverse[a * n_inner + b]) * rho[inner[b]];
      y[inner[a]] = 1.001 * sum;
    }
    for (idx i = 0; i < m; ++i)
      if (used[i])
        for (int32_t k = S.indptr[i]; k < S.indptr[i + 1]; ++k)
          out[i] += fabs(S.data[k]) * y[S.indices[k]];
  }
  // N' r for any |r| <= rho
  void free(const double *rho, double *out) const {
    for (idx k = 0; k < n_free; ++k) {
      double sum = 0;
      for (idx j = 0; j < p; ++j) sum += fabs(N[k * p + j]) * rho[j];
      out[k] = plain ? sum : 1.001 * sum;
    }
  }

 private:
  Buffer<char> used;
  static double held_price(const Penalty<double> &h, const Held &held, idx i) {
    if (held.row[i] == 2) return 1 / h.group_weights[held.group[i]];
    return h.l1[i] > 0 ? 1 / h.l1[i] : 0.0;
  }
  // Coordinates one by one: those that the rows see beyond the ones before are inner. With G the
  // Gram matrix of the rows, r = S'(S G11^-1 r1) + (r2 - G21 G11^-1 r1) on the others.
  void general() {
    Buffer<double> gram(p * p), lower(p * p), row(p);
    for (idx i = 0; i < m; ++i)
      if (used[i])
        for (int32_t k = S.indptr[i]; k < S.indptr[i + 1]; ++k)
          for (int32_t l = S.indptr[i]; l < S.indptr[i + 1]; ++l)
            gram[S.indices[k] * p + S.indices[l]] += S.data[k] * S.data[l];
    Buffer<char> is_free(p);
    for (idx j = 0; j < p; ++j) {
      for (idx a = 0; a < n_inner; ++a) row[a] = gram[j * p + inner[a]];
      double sum = 0;
      for (idx a = 0; a < n_inner; ++a) {
        double s;
        dot(lower + a * p, a, row.at, &s);
        row[a] = (row[a] - s) / lower[a * p + a];
        sum += row[a] * row[a];
      }
      double pivot = gram[j * p + j] - sum;
      if (pivot > 1e-10 * gram[j * p + j]) {
        copy(row.at, n_inner, lower + n_inner * p);
        lower[n_inner * p + n_inner] = sqrt(pivot);
        inner[n_inner++] = j;
      } else is_free[j] = 1;
    }
    for (idx a = 0; a < n_inner; ++a) {
      clear(row.at, p);
      row[a] = 1;
      back_and_forth(lower, row.at);
      copy(row.at, n_inner, inverse + a * n_inner);
    }
    for (idx j = 0; j < p; ++j) {
      if (!is_free[j]) continue;
      for (idx a = 0; a < n_inner; ++a) row[a] = gram[j * p + inner[a]];
      back_and_forth(lower, row.at);
      for (idx a = 0; a < n_inner; ++a) N[n_free * p + inner[a]] = -row[a];
      N[n_free * p + j] = 1;
      where[n_free++] = j;
    }
  }
  void back_and_forth(const double *lower, double *x) const {
    double sum;
    for (idx a = 0; a < n_inner; ++a) {
      dot(lower + a * p, a, x, &sum);
      x[a] = (x[a] - sum) / lower[a * p + a];
    }
    for (idx a = n_inner - 1; a >= 0; --a) {
      x[a] /= lower[a * p + a];
      add(-x[a], lower + a * p, x, a);
    }
  }
};

}  // namespace
}  // namespace VARIANT
