// The small problem of the small route, min_v 1/2 v'Hv + c'v + h(S v + at): splitting, then Newton
// on the augmented Lagrangian. The algorithms are those of quadratic/run.py and newton.py.
#pragma once
#include "quadratic.hpp"

namespace VARIANT {
namespace {

// ---------------------------------------------------------------- dense symmetric systems

const idx PANEL = 4;  // columns of a factor that are made together

// The factor of a triangle of at most four rows, and 1 / its diagonal; false where it is not definite.
INLINE bool corner(double *a, idx p, idx width, double *share) {
  for (idx c = 0; c < width; ++c) {
    if (!(a[c * p + c] > 0)) return false;
    a[c * p + c] = sqrt(a[c * p + c]);
    share[c] = 1 / a[c * p + c];
    for (idx i = c + 1; i < width; ++i) a[i * p + c] *= share[c];
    for (idx i = c + 1; i < width; ++i)
      for (idx j = c + 1; j <= i; ++j) a[i * p + j] -= a[i * p + c] * a[j * p + c];
  }
  return true;
}

// A row below that triangle: x solves x l' = its entries.
INLINE void beside_corner(const double l[6], const double share[PANEL], double *x) {
  double x0 = x[0] * share[0];
  double x1 = (x[1] - x0 * l[0]) * share[1];
  double x2 = ((x[2] - x0 * l[1]) - x1 * l[2]) * share[2];
  double x3 = ((x[3] - x0 * l[3]) - (x1 * l[4] + x2 * l[5])) * share[3];
  x[0] = x0, x[1] = x1, x[2] = x2, x[3] = x3;
}

// The Cholesky factor of the lower triangle of a, in place; false where it is not definite. Four
// columns at a time: their triangle, the rows below it, then what is right of them, two rows at
// once, so that the rest of the matrix is written a quarter and the columns are read half as often.
bool factorize(double *a, idx p) {
  Buffer<double> memory(PANEL * p, false);
  double *c0 = memory, *c1 = c0 + p, *c2 = c1 + p, *c3 = c2 + p, share[PANEL];
  for (idx k = 0; k < p; k += PANEL) {
    double *top = a + k * p + k;
    if (!corner(top, p, least(PANEL, p - k), share)) return false;
    idx stop = k + PANEL;
    if (stop >= p) return true;
    const double *t = top + p, l[6] = {t[0], t[p], t[p + 1], t[2 * p], t[2 * p + 1], t[2 * p + 2]};
    for (idx i = stop; i < p; ++i) {
      double *x = a + i * p + k;
      beside_corner(l, share, x);
      c0[i] = x[0], c1[i] = x[1], c2[i] = x[2], c3[i] = x[3];
    }
    for (idx i = stop; i < p; i += 2) {
      const double *x = a + i * p + k, *y = x + p;
      double *RESTRICT to = a + i * p, *RESTRICT below = to + p;
      const double x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
      if (i + 1 == p) {
        for (idx j = stop; j <= i; ++j)
          to[j] -= (x0 * c0[j] + x1 * c1[j]) + (x2 * c2[j] + x3 * c3[j]);
        break;
      }
      const double y0 = y[0], y1 = y[1], y2 = y[2], y3 = y[3];
      for (idx j = stop; j <= i; ++j) {
        to[j] -= (x0 * c0[j] + x1 * c1[j]) + (x2 * c2[j] + x3 * c3[j]);
        below[j] -= (y0 * c0[j] + y1 * c1[j]) + (y2 * c2[j] + y3 * c3[j]);
      }
      below[i + 1] -= (y0 * y0 + y1 * y1) + (y2 * y2 + y3 * y3);
    }
  }
  return true;
}
void solve_lower(const double *l, idx p, double *x) {
  double sum;
  for (idx i = 0; i < p; ++i) {
    dot(l + i * p, i, x, &sum);
    x[i] = (x[i] - sum) / l[i * p + i];
  }
}
void solve_upper(const double *l, idx p, double *x) {
  for (idx i = p - 1; i >= 0; --i) {
    x[i] /= l[i * p + i];
    add(-x[i], l + i * p, x, i);
  }
}
void solve(const double *l, idx p, double *x) {
  solve_lower(l, p, x);
  solve_upper(l, p, x);
}

// A CSR matrix with its transpose beside it.
struct Structure {
  Operator<double> S;
  Buffer<int32_t> t_indptr, t_indices;
  Buffer<double> t_data;
  Structure(idx rows, idx columns, const int32_t *indptr, const int32_t *indices, const double *data)
      : t_indptr(columns + 1), t_indices(indptr[rows]), t_data(indptr[rows]) {
    for (int32_t k = 0; k < indptr[rows]; ++k) t_indptr[indices[k] + 1]++;
    for (idx j = 0; j < columns; ++j) t_indptr[j + 1] += t_indptr[j];
    Buffer<int32_t> next(columns);
    copy(t_indptr.at, columns, next.at);
    for (idx i = 0; i < rows; ++i)
      for (int32_t k = indptr[i]; k < indptr[i + 1]; ++k) {
        int32_t to = next[indices[k]]++;
        t_indices[to] = (int32_t)i;
        t_data[to] = data[k];
      }
    S = {SPARSE, rows, columns, 1.0, indptr, indices, t_indptr.at, t_indices.at, data, t_data.at};
  }
};

struct Inner {
  const double ridge_share = 1e-11;  // of the mean diagonal: collinear columns leave H singular
  const double enough = 1e-11;  // relative residuals that are accepted where less is asked for
  const idx splitting_rounds = 12, stretch = 50;
  const idx trials = 2, trial = 10;  // rounds after which the penalty is balanced, at the start
  idx p, m;
  const Operator<double> &S;
  const Penalty<double> &h;
  const double *H;
  Buffer<double> c, at, step, dual, z;
  double penalty = 0, primal = INFINITY, stationary = INFINITY;

 private:
  Buffer<double> gram, matrix, derivative, next, ahead, move, anchor, shifted, fresh, weight, image, right,
      at_minus, factor_weight, factor_shifted;
  double factor_lift = -1;  // of Newton's matrix whose factor is in `matrix`; -1 for none
  double force = 0, length = 0, ridge = 0, far = 0, usual = 0, hold = 0, trace_gram = 0, tol = 0;

 public:
  Inner(const Operator<double> &S, const Penalty<double> &h)
      : p(S.columns), m(S.rows), S(S), h(h), c(p), at(m), step(p), dual(m), z(m), gram(p * p),
        matrix(p * p), derivative(p), next(p), ahead(p), move(p), anchor(p), shifted(m), fresh(m),
        weight(m), image(m), right(p), at_minus(m), factor_weight(m), factor_shifted(m) {
    for (idx i = 0; i < m; ++i)
      for (int32_t k = S.indptr[i]; k < S.indptr[i + 1]; ++k)
        for (int32_t l = S.indptr[i]; l < S.indptr[i + 1]; ++l)
          gram[S.indices[k] * p + S.indices[l]] += S.data[k] * S.data[l];
    for (idx j = 0; j < p; ++j) trace_gram += gram[j * p + j];
  }

  // Solve for a new c and `at`, and a new H where it is `fresh`, to relative residuals `tol_`, or to
  // rounding; the multiplier and the penalty of the last problem are used.
  bool solve_for(const double *H_, bool fresh, double tol_, bool warm) {
    H = H_, tol = tol_;
    if (fresh) factor_lift = -1;
    double trace = 0, top = 0;
    for (idx j = 0; j < p; ++j) {
      trace += H[j * p + j];
      top = most(top, H[j * p + j]);
    }
    force = most(largest(c, p), 1e-300);
    double reach = least(force / most(top, 1e-300), 1.0);
    length = most(most(largest(at, m), reach), 1e-300);
    far = 1e8 * most(length, reach);
    ridge = ridge_share * most(trace, 2.3e-308) / (double)p;
    usual = trace / most(trace_gram, 1e-300);
    if (!(penalty > 0)) penalty = usual > 0 ? 0.1 * usual : 1.0;
    if (!(usual > 0)) usual = 1.0;
    penalty = clip(penalty, 1e-7 * usual, 1e4 * usual);
    primal = stationary = INFINITY;
    clear(step.at, p);
    copy(at.at, m, z.at);
    if (m == 0) return alone();
    if (warm && newton()) return true;
    for (idx round = 0; !warm && round < trials; ++round) {  // a penalty that suits comes first
      if (!split(trial) || !(largest(step, p) <= far)) return false;
      balance();
    }
    for (idx round = 0; round < splitting_rounds; ++round) {
      if (!split(stretch << least(round, (idx)4)) || !(largest(step, p) <= far)) return false;
      if (most(primal, stationary) <= tol || newton()) return true;
      balance();
    }
    return most(primal, stationary) <= most(tol, enough);
  }

  // H step + c + S' dual into out
  void residual(double *out) {
    forward(H, p, p, step.at, out, 0);
    multiply_transposed(S, 1, dual.at, right.at);
    for (idx j = 0; j < p; ++j) out[j] += c[j] + right[j];
  }

 private:
  bool alone() {  // no penalty at all
    copy(H, p * p, matrix.at);
    for (idx j = 0; j < p; ++j) matrix[j * p + j] += ridge;
    if (!factorize(matrix, p)) return false;
    for (int round = 0; round < 3; ++round) {
      residual(derivative.at);
      solve(matrix, p, derivative);
      for (idx j = 0; j < p; ++j) step[j] -= derivative[j];
    }
    primal = stationary = 0;
    return largest(step, p) <= far;
  }

  // Alternate between v and z; the multiplier is in the subdifferential of h at z.
  bool split(idx rounds) {
    const double relax = 1.7;
    factor_lift = -1;
    for (idx k = 0; k < p * p; ++k) matrix[k] = H[k] + penalty * gram[k];
    for (idx j = 0; j < p; ++j) matrix[j * p + j] += ridge;
    if (!factorize(matrix, p)) return false;
    for (idx k = 0; k < rounds; ++k) {
      for (idx i = 0; i < m; ++i) fresh[i] = penalty * (z[i] - at[i]) - dual[i];
      multiply_transposed(S, 1, fresh.at, step.at);
      for (idx j = 0; j < p; ++j) step[j] -= c[j];
      solve(matrix, p, step);
      multiply(S, 1, step.at, image.at);
      for (idx i = 0; i < m; ++i) {
        image[i] += at[i];
        fresh[i] = dual[i] + penalty * (image[i] - z[i]);
        shifted[i] = relax * image[i] + (1 - relax) * z[i] + dual[i] / penalty;
      }
      prox(h, 1, shifted.at, 1 / penalty, z.at);
      for (idx i = 0; i < m; ++i) dual[i] = penalty * (shifted[i] - z[i]);
      if ((k + 1) % 10 && k + 1 < rounds) continue;
      for (idx i = 0; i < m; ++i) {
        fresh[i] = dual[i] - fresh[i];
        image[i] -= z[i];
      }
      multiply_transposed(S, 1, fresh.at, right.at);
      primal = largest(image, m) / most(largest(z, m), length);
      stationary = largest(right, p);
      multiply_transposed(S, 1, dual.at, right.at);
      stationary /= most(largest(right, p), force);
      if (most(primal, stationary) <= most(tol, 1e-7)) break;
    }
    return true;
  }

  // Move the penalty towards equal residuals, each in the unit of its own side.
  void balance() {
    double longest = largest(z, m);
    multiply_transposed(S, 1, dual.at, right.at);
    double pull = largest(right, p);
    double one = primal * most(longest, length) * pull;
    double two = stationary * most(pull, force) * longest;
    if (!(one > 0) || !(two > 0) || !(one < INFINITY) || !(two < INFINITY)) return;
    double ratio = clip(sqrt(one / two), 0.1, 10.0);
    if (ratio > 2 || ratio < 0.5)
      penalty = clip(penalty * ratio, 1e-9 * usual, 1e6 * usual);
  }

  // derivative of the augmented Lagrangian at v
  void look(const double *v, double *out) {
    Augmented s = {S, h, 1, at_minus.at, dual.at, penalty, v, shifted.at, z.at, fresh.at, weight.at};
    augmented(s);
    forward(H, p, p, v, out, 0);
    multiply_transposed(S, 1, fresh.at, right.at);
    for (idx j = 0; j < p; ++j) out[j] += c[j] + hold * (v[j] - anchor[j]) + right[j];
  }

  // Whether Newton's matrix is the one whose factor is at hand: exactly, or where a group that is on
  // has turned by less than a thousandth, which leaves a step that is a thousandth off.
  bool has_factor(double lift) const {
    if (lift != factor_lift) return false;
    for (idx t = 0; t < h.n_terms; ++t) {
      if (h.kinds[t] != GROUP_NORMS) {
        for (idx i = h.starts[t]; i < h.starts[t + 1]; ++i)
          if (weight[i] != factor_weight[i]) return false;
        continue;
      }
      for (idx g = h.first_group[t]; g < h.first_group[t + 1]; ++g) {
        idx start = h.group_starts[g], stop = h.group_stops[g];
        double near = 1e-3 * norm_of(factor_shifted.at, start, stop);
        for (idx i = start; i < stop; ++i) {
          if (!(fabs(weight[i] - factor_weight[i]) <= 1e-3 * factor_weight[i])) return false;
          if (!(fabs(shifted[i] - factor_shifted[i]) <= near)) return false;
        }
      }
    }
    return true;
  }

  void direction() {  // move = -matrix^-1 derivative
    double lift = ridge + hold;
    for (idx j = 0; j < p; ++j) move[j] = -derivative[j];
    if (has_factor(lift)) return solve(matrix, p, move);
    NewtonMatrix s = {S, h, p, H, shifted.at, weight.at, matrix.at};
    for (int trial = 0; trial < 8; ++trial) {
      newton_matrix(s);
      for (idx j = 0; j < p; ++j) matrix[j * p + j] += lift;
      if (factorize(matrix, p)) {
        factor_lift = lift;
        copy(weight.at, m, factor_weight.at), copy(shifted.at, m, factor_shifted.at);
        return solve(matrix, p, move);
      }
      lift *= 100;
    }
    factor_lift = -1;
    for (idx j = 0; j < p; ++j) move[j] = -derivative[j] / most(H[j * p + j], lift);
  }

  double product(const double *a, const double *b) {
    double sum;
    dot(a, p, b, &sum);
    return sum;
  }

  // Newton's method; true where both residuals are small enough, else everything is as before.
  bool newton() {
    Buffer<double> old_step(p), old_dual(m), old_z(m);
    copy(step.at, p, old_step.at), copy(dual.at, m, old_dual.at), copy(z.at, m, old_z.at);
    double old_penalty = penalty, old_primal = primal, old_stationary = stationary, last = INFINITY;
    for (idx i = 0; i < m; ++i) at_minus[i] = -at[i];
    multiply_transposed(S, 1, dual.at, right.at);
    double size = most(force, largest(right, p));
    copy(step.at, p, anchor.at);
    hold = 0;
    bool good = false;
    for (int outer = 0; outer < 40; ++outer) {
      look(step, derivative);
      for (int k = 0; k < 25; ++k) {
        double before = largest(derivative, p);
        // not more accurate than the multiplier is; one step at least
        if (k > 0 && before <= most(0.1 * tol, 1e-3 * least(primal, 1.0)) * size) break;
        direction();
        double first = product(derivative, move), t = 1, rise = 0;
        for (int trial = 0; trial < 12; ++trial) {
          for (idx j = 0; j < p; ++j) ahead[j] = step[j] + t * move[j];
          look(ahead, next);
          rise = product(next, move);
          if (rise <= 0.5 * fabs(first)) break;
          t *= most(0.1, fabs(first) / (fabs(first) + rise));
        }
        copy(ahead.at, p, step.at), copy(next.at, p, derivative.at);
        if (largest(derivative, p) > 0.5 * before && before <= 1e-9 * size) break;
      }
      if (!(largest(step, p) <= far)) break;
      multiply(S, 1, step.at, image.at);
      double top = 0, apart = 0;
      for (idx i = 0; i < m; ++i) {
        image[i] += at[i];
        top = most(top, fabs(image[i]));
        apart = most(apart, fabs(image[i] - z[i]));
      }
      last = primal;
      primal = apart / most(top, length);
      copy(fresh.at, m, dual.at);
      multiply_transposed(S, 1, dual.at, right.at);
      size = most(force, largest(right, p));
      double left = 0;
      for (idx j = 0; j < p; ++j)
        left = most(left, fabs(derivative[j] - hold * (step[j] - anchor[j])));
      stationary = left / size;
      copy(step.at, p, anchor.at);
      good = most(primal, stationary) <= most(tol, enough);
      if (good && primal <= tol) break;
      if (good && primal > 0.5 * last) break;  // rounding is what is left
      if (largest(derivative, p) > 0.1 * size * most(most(tol, enough), primal)) {
        // too many pieces between here and the solution: smaller steps on smoother ground
        hold = most(hold, 1e-3 * ridge / ridge_share);
        penalty *= 0.1;
      } else if (primal > most(most(tol, enough), 0.2 * last)) penalty *= 4.0;
      hold *= 0.1;
    }
    if (good) return true;
    copy(old_step.at, p, step.at), copy(old_dual.at, m, dual.at), copy(old_z.at, m, z.at);
    penalty = old_penalty, primal = old_primal, stationary = old_stationary;
    return false;
  }
};

}  // namespace
}  // namespace VARIANT
