// Coordinate descent for min_v 1/2 v'Hv + c'v + sum_j h_j(w_j + v_j), h_j = l1 |x| + l2 x^2 / 2 within
// bounds: sweeps until signs and bounds rest, then all free coordinates at once by a Cholesky
// factor, so that the end is exact to rounding.
#pragma once
#include "coordinates.hpp"
#include "small_quadratic.hpp"

namespace VARIANT {
namespace {

// What holds single coefficients.
struct Single {
  const double *l1, *l2, *lo, *hi;
  double value(idx j, double x) const { return fabs(x) * (l1[j] + 0.5 * l2[j] * fabs(x)); }
  bool is_free(idx j, double x) const { return (x != 0 || l1[j] == 0) && x > lo[j] && x < hi[j]; }
  // the derivative of h_j at a free coefficient
  double derivative(idx j, double x) const {
    return (x > 0 ? l1[j] : x < 0 ? -l1[j] : 0.0) + l2[j] * x;
  }
  // how far -g is from the subdifferential of h_j at x
  double violation(idx j, double x, double g) const {
    double pull = -g - l2[j] * x, low = x > 0 ? l1[j] : -l1[j], high = x < 0 ? -l1[j] : l1[j];
    if (x <= lo[j]) low = -INFINITY;
    if (x >= hi[j]) high = INFINITY;
    return most(most(low - pull, pull - high), 0.0);
  }
};

struct Descent {
  const idx most_sweeps = 2000, rest = 3, patience = 30;  // sweeps: at most, and before a factor
  idx p;
  const double *H;
  Single h;
  Buffer<double> x, r;  // where it is, and the derivative of the quadratic there
  double work = 0;      // products

 private:
  Buffer<double> matrix, move;
  Buffer<idx> free_ones;
  Buffer<char> pattern;
  double ridge;

 public:
  // H is p x p and stays with the caller, as do the numbers of h
  Descent(idx p, const double *H, const Single &h, const double *start, const double *derivative)
      : p(p), H(H), h(h), x(p, false), r(p, false), matrix(p * p, false), move(p), free_ones(p),
        pattern(p), ridge(0) {
    copy(start, p, x.at), copy(derivative, p, r.at);
    for (idx j = 0; j < p; ++j) ridge += 1e-13 * H[j * p + j] / (double)p;
  }

  // Until no derivative is off by more than tol, or the time is over.
  void run(double tol, double (*now)(), double until) {
    idx still = 0, last = 0;
    for (idx sweep = 0; sweep < most_sweeps; ++sweep) {
      bool same = true;
      double worst = 0;
      for (idx j = 0; j < p; ++j) worst = most(worst, visit(j, same));
      if (worst <= tol) return;
      still = same ? still + 1 : 0;
      if (still < rest && sweep - last < patience) continue;
      last = sweep, still = 0;
      if (now() > until) return;
      if (finish() && worst_violation() <= tol) return;
    }
  }

 private:
  char side(idx j) const {
    return x[j] <= h.lo[j] ? 1 : x[j] >= h.hi[j] ? 2 : x[j] > 0 ? 3 : x[j] < 0 ? 4 : 5;
  }
  double visit(idx j, bool &same) {
    double bend = H[j * p + j];
    if (!(bend > 0)) return 0;  // a column of zeros stays where it is
    double ahead = nearest(bend * x[j] - r[j], h.l1[j], bend + h.l2[j], h.lo[j], h.hi[j]);
    double step = ahead - x[j];
    if (step != 0) {
      x[j] = ahead;
      add(step, H + j * p, r.at, p);
      work += (double)p;
    }
    char now = side(j);
    same &= now == pattern[j];
    pattern[j] = now;
    return (bend + h.l2[j]) * fabs(step);
  }
  double worst_violation() const {
    double worst = 0;
    for (idx j = 0; j < p; ++j) worst = most(worst, h.violation(j, x[j], r[j]));
    return worst;
  }
  // Newton's step of the free coordinates, as far as all of them stay free; true for a whole one.
  bool finish() {
    idx k = 0;
    for (idx j = 0; j < p; ++j)
      if (H[j * p + j] > 0 && h.is_free(j, x[j])) free_ones[k++] = j;
    if (k == 0) return true;
    for (idx a = 0; a < k; ++a) {
      for (idx b = 0; b <= a; ++b) matrix[a * k + b] = H[free_ones[a] * p + free_ones[b]];
      matrix[a * k + a] += h.l2[free_ones[a]] + ridge;
    }
    work += (double)k * (double)k * (double)k / 6;
    if (!factorize(matrix, k)) return false;
    for (int round = 0; round < 2; ++round) {  // the second one for what the ridge and rounding left
      for (idx a = 0; a < k; ++a) move[a] = -(r[free_ones[a]] + h.derivative(free_ones[a], x[free_ones[a]]));
      solve(matrix, k, move);
      double t = 1;
      idx first = -1;
      for (idx a = 0; a < k; ++a) {
        double share = room(free_ones[a], move[a]);
        if (share < t) t = share, first = a;
      }
      for (idx a = 0; a < k; ++a) {
        idx j = free_ones[a];
        double step = t * move[a];
        if (a == first) step = edge(j, move[a]) - x[j];
        x[j] = a == first ? edge(j, move[a]) : x[j] + step;
        if (step != 0) add(step, H + j * p, r.at, p);
      }
      if (first >= 0) return false;
    }
    return true;
  }
  double edge(idx j, double move) const {  // where a coefficient that moves stops being free
    if (move < 0) return x[j] > 0 && h.l1[j] > 0 ? most(0.0, h.lo[j]) : h.lo[j];
    return x[j] < 0 && h.l1[j] > 0 ? least(0.0, h.hi[j]) : h.hi[j];
  }
  double room(idx j, double move) const {
    return move == 0 ? 1.0 : (edge(j, move) - x[j]) / move;
  }
};

}  // namespace
}  // namespace VARIANT
