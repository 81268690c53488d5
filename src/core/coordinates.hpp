// Coordinate descent on the second-order model of a loss with several outputs, over sparse columns.
//
// The Hessian in the predictions of row i is diag(c_i) - s_i s_i' (s may be null). Of the step
// w - start the predictions V = X (w - start) are kept output by output, and m_i = <s_i, V_i>, so
// that the slope of one coefficient costs the entries of its column, coupled outputs or not.
#pragma once
#include "views.hpp"

namespace VARIANT {
namespace {

inline double nearest(double pull, double l1, double bend, double lo, double hi) {
  double w = pull > l1 ? (pull - l1) / bend : pull < -l1 ? (pull + l1) / bend : 0.0;
  return w < lo ? lo : w > hi ? hi : w;
}

// Minimize over one coefficient; returns by how much that changed its slope.
inline double visit(const Coordinates &k, idx a, idx output) {
  const double *c = k.c + output * k.n, *s = k.s ? k.s + output * k.n : nullptr;
  double *V = k.V + output * k.n, *m = k.m;
  idx j = k.columns[a], first = k.indptr[j], last = k.indptr[j + 1];
  double slope = 0;
  if (s)
    for (idx e = first; e < last; ++e) {
      idx i = k.indices[e];
      slope += k.data[e] * (c[i] * V[i] - s[i] * m[i]);
    }
  else
    for (idx e = first; e < last; ++e) slope += k.data[e] * c[k.indices[e]] * V[k.indices[e]];
  double bend = k.bend[a], w = k.w[a];
  slope += k.gradient[a];
  double ahead = nearest(bend * w - slope, k.l1[a], bend + k.l2[a], k.lo[a], k.hi[a]);
  double step = ahead - w;
  if (step == 0) return 0;
  k.w[a] = ahead;
  if (s)
    for (idx e = first; e < last; ++e) {
      idx i = k.indices[e];
      double move = step * k.data[e];
      V[i] += move;
      m[i] += move * s[i];
    }
  else
    for (idx e = first; e < last; ++e) V[k.indices[e]] += step * k.data[e];
  double size = (bend + k.l2[a]) * step;
  return size < 0 ? -size : size;
}

// Sweeps over all coordinates, and between them over those that are not at zero, until no visit of
// all changes a slope by more than tol. Returns the largest change of the last sweep over all.
inline double coordinate_sweeps(const Coordinates &k, idx &sweeps) {
  double worst = 0;
  for (sweeps = 0; sweeps < k.most;) {
    worst = 0;
    for (idx c = 0; c < k.outputs; ++c)
      for (idx a = k.starts[c]; a < k.starts[c + 1]; ++a) {
        double moved = visit(k, a, c);
        worst = moved > worst ? moved : worst;
      }
    ++sweeps;
    if (worst <= k.tol) break;
    for (idx round = 0; round < k.inner && sweeps < k.most; ++round) {
      double largest = 0;
      for (idx c = 0; c < k.outputs; ++c)
        for (idx a = k.starts[c]; a < k.starts[c + 1]; ++a)
          if (k.w[a] != 0) {
            double moved = visit(k, a, c);
            largest = moved > largest ? moved : largest;
          }
      ++sweeps;
      if (largest <= 0.3 * k.tol) break;
    }
  }
  return worst;
}

}  // namespace
}  // namespace VARIANT
