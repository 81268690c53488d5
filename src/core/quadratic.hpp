// The small quadratic problem: the splitting loop, the augmented Lagrangian, Newton's matrix.
#pragma once
#include "prox.hpp"

namespace VARIANT {
namespace {

double largest(const double *x, idx n) {
  double top = 0;
  for (idx j = 0; j < n; ++j) top = most(top, fabs(x[j]));
  return top;
}

// Alternate between w and z, in place. Returns the iterations made and the residuals of
// S w - b = z and of stationarity, relative to the numbers themselves and at least to `length` and
// `force`. The multiplier is in the subdifferential of h at z after every iteration.
inline Found splitting(const Small &s) {
  idx C = s.outputs, m = s.S.rows * C, dC = s.S.columns * C;
  Buffer<double> pull(m), image(m), shifted(m), before(m), moved(m), right(dC);
  Matrix<double> inverse(s.inverse, s.S.columns, C);
  const double penalty = s.penalty, relax = s.relax, step = 1 / penalty;
  const double *RESTRICT b = s.b;
  double *RESTRICT z = s.z, *RESTRICT dual = s.dual, *RESTRICT at = image.at;
  double *RESTRICT ahead = shifted.at, *RESTRICT exact = before.at, *RESTRICT pulled = pull.at;
  Found found = {0, INFINITY, INFINITY};
  for (idx k = 0; k < s.max_iter; ++k) {
    for (idx i = 0; i < m; ++i) pulled[i] = penalty * (z[i] + b[i]) - dual[i];
    multiply_transposed(s.S, C, pull.at, right.at);
    for (idx j = 0; j < dC; ++j) right[j] += s.a[j];
    inverse.times(right, s.w);
    multiply(s.S, C, s.w, image.at);
    for (idx i = 0; i < m; ++i) {
      at[i] -= b[i];
      exact[i] = dual[i] + penalty * (at[i] - z[i]);
      ahead[i] = relax * at[i] + (1 - relax) * z[i] + dual[i] / penalty;
    }
    prox(s.h, C, shifted.at, step, s.z);
    for (idx i = 0; i < m; ++i) dual[i] = penalty * (ahead[i] - z[i]);
    found.iterations++;
    if ((k + 1) % s.every == 0 || k + 1 == s.max_iter) {
      for (idx i = 0; i < m; ++i) {
        exact[i] = dual[i] - exact[i];
        moved[i] = at[i] - z[i];
      }
      multiply_transposed(s.S, C, before.at, right.at);
      found.primal = largest(moved, m) / most(largest(s.z, m), s.length);
      found.stationary = largest(right, dC);
      multiply_transposed(s.S, C, s.dual, right.at);
      found.stationary /= most(largest(right, dC), s.force);
      if (found.primal <= s.tol && found.stationary <= s.tol) break;
    }
  }
  return found;
}

// shifted = S w - b + dual / penalty, its prox z, the multiplier, and the derivative of the
// multiplier in S w: `weight`, and for groups minus a rank-one part.
void augmented(const Augmented &s) {
  idx C = s.outputs, m = s.S.rows * C;
  const Penalty<double> &h = s.h;
  const double penalty = s.penalty;
  multiply(s.S, C, s.w, s.shifted);
  for (idx i = 0; i < m; ++i) s.shifted[i] += s.dual[i] / penalty - s.b[i];
  prox(h, C, s.shifted, 1 / penalty, s.z);
  for (idx i = 0; i < m; ++i) s.new_dual[i] = penalty * (s.shifted[i] - s.z[i]);
  for (idx t = 0; t < h.n_terms; ++t) {
    if (h.kinds[t] == ELEMENTWISE) {
      for (idx e = h.starts[t] * C; e < h.starts[t + 1] * C; ++e) {
        idx k = h.per_entry ? e : e / C;
        bool held = (fabs(s.shifted[e]) * penalty <= h.l1[k] && h.l1[k] > 0) || s.z[e] <= h.lo[k] ||
                    s.z[e] >= h.hi[k];
        s.weight[e] = penalty * (1 - (held ? 0.0 : penalty / (penalty + h.l2[k])));
      }
    } else {
      for (idx g = h.first_group[t]; g < h.first_group[t + 1]; ++g) {
        idx start = h.group_starts[g] * C, stop = h.group_stops[g] * C;
        double norm = penalty * norm_of(s.shifted, start, stop);
        double share = norm <= h.group_weights[g] ? 1.0 : h.group_weights[g] / norm;
        for (idx j = start; j < stop; ++j) s.weight[j] = penalty * share;
      }
    }
  }
}

// Takes the direction of a group that is on, along which its norm is straight, out of the matrix.
struct Directions {
  const NewtonMatrix &s;
  Buffer<double> spread_out;
  Buffer<idx> touched;
  Buffer<char> seen;
  explicit Directions(const NewtonMatrix &s) : s(s), spread_out(s.d), touched(s.d), seen(s.d) {}
  void subtract(idx g) {
    const Operator<double> &S = s.S;
    idx start = s.h.group_starts[g], stop = s.h.group_stops[g], count = 0;
    double limit = s.h.group_weights[g], norm2 = 0, top = 0;
    if (limit == 0) return;
    for (idx j = start; j < stop; ++j) {
      norm2 += s.shifted[j] * s.shifted[j];
      top = most(top, s.weight[j]);
    }
    // off groups have top = penalty and penalty * norm below the weight: they leave here
    if (norm2 == 0 || top * sqrt(norm2) < limit * (1 - 1e-14)) return;
    for (idx j = start; j < stop; ++j)
      for (int32_t k = S.indptr[j]; k < S.indptr[j + 1]; ++k) {
        idx column = S.indices[k];
        if (!seen[column]) {
          seen[column] = 1;
          touched[count++] = column;
        }
        spread_out[column] += S.data[k] * s.shifted[j];
      }
    for (idx k = 0; k < count; ++k)
      for (idx m = 0; m < count; ++m)
        if (touched[m] <= touched[k])
          s.out[touched[k] * s.d + touched[m]] -=
              top / norm2 * spread_out[touched[k]] * spread_out[touched[m]];
    for (idx k = 0; k < count; ++k) {
      spread_out[touched[k]] = 0;
      seen[touched[k]] = 0;
    }
  }
};

// H + S' D S into the lower triangle of out, D from `augmented`; one output.
void newton_matrix(const NewtonMatrix &s) {
  const Operator<double> &S = s.S;
  copy(s.H, s.d * s.d, s.out);
  for (idx i = 0; i < S.rows; ++i) {
    if (s.weight[i] == 0) continue;
    for (int32_t k = S.indptr[i]; k < S.indptr[i + 1]; ++k) {
      int32_t row = S.indices[k];
      double value = s.weight[i] * S.data[k];
      for (int32_t m = S.indptr[i]; m < S.indptr[i + 1]; ++m)
        if (S.indices[m] <= row) s.out[row * s.d + S.indices[m]] += value * S.data[m];
    }
  }
  bool groups = false;
  for (idx t = 0; t < s.h.n_terms; ++t) groups |= s.h.kinds[t] == GROUP_NORMS;
  if (!groups) return;
  Directions directions(s);
  for (idx t = 0; t < s.h.n_terms; ++t)
    if (s.h.kinds[t] == GROUP_NORMS)
      for (idx g = s.h.first_group[t]; g < s.h.first_group[t + 1]; ++g) directions.subtract(g);
}

}  // namespace
}  // namespace VARIANT
