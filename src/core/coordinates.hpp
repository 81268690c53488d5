// Coordinate descent on the second-order model of a loss with several outputs, over sparse columns.
//
// The Hessian in the predictions of row i is diag(c_i) - s_i s_i' (s may be null). Of the step
// w - start the predictions V = X (w - start) are kept output by output, and m_i = <s_i, V_i>, so
// that the derivative of one coefficient costs the entries of its column, coupled outputs or not.
#pragma once
#include "lanes.hpp"

namespace VARIANT {
namespace {

inline double nearest(double pull, double l1, double bend, double lo, double hi) {
  double w = pull > l1 ? (pull - l1) / bend : pull < -l1 ? (pull + l1) / bend : 0.0;
  return w < lo ? lo : w > hi ? hi : w;
}

// What a visit reads of a row, beside each other: of each entry of a column one line of the cache.
struct Cell {
  double c, s, V, none;
};

struct Sweeps {
  const Coordinates &k;
  Buffer<Cell> memory;
  explicit Sweeps(const Coordinates &k) : k(k), memory(k.outputs * k.n, false) {
    for (idx i = 0; i < k.outputs * k.n; ++i) memory[i] = {k.c[i], k.s ? k.s[i] : 0.0, k.V[i], 0.0};
  }
  void close() const {
    for (idx i = 0; i < k.outputs * k.n; ++i) k.V[i] = memory[i].V;
  }

  // The derivative of the model along a column, in four sums: a single one would be a chain that takes
  // longer than all else.
  double derivative_along(idx j, idx output) const {
    const Cell *rows = memory.at + output * k.n;
    idx e = k.indptr[j], last = k.indptr[j + 1];
    auto bent = [&](idx at) {
      const Cell &row = rows[k.indices[at]];
      double own = row.c * row.V;
      return k.data[at] * (k.s ? own - row.s * k.m[k.indices[at]] : own);
    };
    double p = 0, q = 0, r = 0, t = 0;
    for (; e + 4 <= last; e += 4) p += bent(e), q += bent(e + 1), r += bent(e + 2), t += bent(e + 3);
    for (; e < last; ++e) p += bent(e);
    return (p + q) + (r + t);
  }

  // Minimize over one coefficient; returns by how much that changed its derivative.
  double visit(idx a, idx output) {
    Cell *RESTRICT rows = memory.at + output * k.n;
    double *RESTRICT m = k.m;
    idx j = k.columns[a], first = k.indptr[j], last = k.indptr[j + 1];
    double bend = k.bend[a], w = k.w[a];
    double derivative = derivative_along(j, output) + k.gradient[a];
    double ahead = nearest(bend * w - derivative, k.l1[a], bend + k.l2[a], k.lo[a], k.hi[a]);
    double step = ahead - w;
    if (step == 0) return 0;
    k.w[a] = ahead;
    if (k.s)
      for (idx e = first; e < last; ++e) {
        Cell &row = rows[k.indices[e]];
        double move = step * k.data[e];
        row.V += move;
        m[k.indices[e]] += move * row.s;
      }
    else
      for (idx e = first; e < last; ++e) rows[k.indices[e]].V += step * k.data[e];
    double size = (bend + k.l2[a]) * step;
    return size < 0 ? -size : size;
  }

  // A visit of all coefficients, or of those that are not at zero; returns the largest change.
  double sweep(bool all) {
    double largest = 0;
    for (idx c = 0; c < k.outputs; ++c)
      for (idx a = k.starts[c]; a < k.starts[c + 1]; ++a)
        if (all || k.w[a] != 0) {
          double moved = visit(a, c);
          largest = moved > largest ? moved : largest;
        }
    return largest;
  }
};

// Sweeps over all coordinates, and between them over those that are not at zero, until no visit of
// all changes a derivative by more than tol. Returns the largest change of the last sweep over all.
inline double coordinate_sweeps(const Coordinates &k, idx &sweeps) {
  double worst = 0;
  Sweeps run(k);
  for (sweeps = 0; sweeps < k.most;) {
    worst = run.sweep(true);
    ++sweeps;
    if (worst <= k.tol) break;
    for (idx round = 0; round < k.inner && sweeps < k.most; ++round) {
      double largest = run.sweep(false);
      ++sweeps;
      if (largest <= 0.3 * k.tol) break;
    }
  }
  run.close();
  return worst;
}

}  // namespace
}  // namespace VARIANT
