// Coordinate descent on the second-order model of a loss with several outputs, over sparse columns.
//
// The Hessian in the predictions of row i is diag(c_i) - s_i s_i' (s may be null). Of the step
// w - start the predictions V = X (w - start) are kept output by output, and m_i = <s_i, V_i>, so
// that the derivative of one coefficient costs the entries of its column, coupled outputs or not.
#pragma once
#include "algebra.hpp"

namespace VARIANT {
namespace {

inline double nearest(double pull, double l1, double bend, double lo, double hi) {
  double w = pull > l1 ? (pull - l1) / bend : pull < -l1 ? (pull + l1) / bend : 0.0;
  return w < lo ? lo : w > hi ? hi : w;
}

// The rows of coupled outputs: what a visit reads of one, in a single line of the cache.
struct Coupled {
  struct Cell {
    double c, s, V, none;
  };
  const Coordinates &k;
  Buffer<Cell> cells;
  Buffer<double> m;
  explicit Coupled(const Coordinates &k) : k(k), cells(k.outputs * k.n, false), m(k.n) {
    for (idx i = 0; i < k.outputs * k.n; ++i) cells[i] = {k.c[i], k.s[i], 0.0, 0.0};
  }
  double bent(idx output, idx e) const {
    const Cell &row = cells[output * k.n + k.indices[e]];
    return k.data[e] * (row.c * row.V - row.s * m[k.indices[e]]);
  }
  void move(idx output, idx first, idx last, double step) {
    Cell *RESTRICT rows = cells.at + output * k.n;
    for (idx e = first; e < last; ++e) {
      Cell &row = rows[k.indices[e]];
      double moved = step * k.data[e];
      row.V += moved;
      m[k.indices[e]] += moved * row.s;
    }
  }
  double square() const {  // <V, C V> - |m|^2
    double sum = 0, part;
    for (idx i = 0; i < k.outputs * k.n; ++i) sum += cells[i].c * cells[i].V * cells[i].V;
    dot(m.at, k.n, m.at, &part);
    return sum - part;
  }
};

// Rows whose outputs are not coupled: r = C V is all that a visit reads, so that rows of some ten
// thousand stay in the nearest cache; most visits move nothing.
struct Separate {
  const Coordinates &k;
  Buffer<double> r;
  explicit Separate(const Coordinates &k) : k(k), r(k.outputs * k.n) {}
  double bent(idx output, idx e) const { return k.data[e] * r[output * k.n + k.indices[e]]; }
  void move(idx output, idx first, idx last, double step) {
    double *RESTRICT rows = r.at + output * k.n;
    const double *c = k.c + output * k.n;
    for (idx e = first; e < last; ++e) rows[k.indices[e]] += step * k.data[e] * c[k.indices[e]];
  }
  double square() const {
    double sum = 0;
    for (idx i = 0; i < k.outputs * k.n; ++i)
      if (k.c[i] > 0) sum += r[i] * r[i] / k.c[i];
    return sum;
  }
};

template <class Rows> struct Sweeps {
  const Coordinates &k;
  Rows rows;
  explicit Sweeps(const Coordinates &k) : k(k), rows(k) {}

  // The derivative of the model along a column, in four sums: a single one would be a chain that takes
  // longer than all else.
  double derivative_along(idx j, idx output) const {
    idx e = k.indptr[j], last = k.indptr[j + 1];
    double p = 0, q = 0, r = 0, t = 0;
    for (; e + 4 <= last; e += 4) {
      p += rows.bent(output, e), q += rows.bent(output, e + 1);
      r += rows.bent(output, e + 2), t += rows.bent(output, e + 3);
    }
    for (; e < last; ++e) p += rows.bent(output, e);
    return (p + q) + (r + t);
  }

  // Minimize over one coefficient; returns by how much that changed its derivative.
  double visit(idx a, idx output) {
    idx j = k.columns[a];
    double bend = k.bend[a], w = k.w[a];
    double derivative = derivative_along(j, output) + k.gradient[a];
    double ahead = nearest(bend * w - derivative, k.l1[a], bend + k.l2[a], k.lo[a], k.hi[a]);
    double step = ahead - w;
    if (step == 0) return 0;
    k.w[a] = ahead;
    rows.move(output, k.indptr[j], k.indptr[j + 1], step);
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

// The point that the last sweeps head for: the combination of their iterates, weights of sum one,
// whose residual is least (Anderson 1965; Bertrand and Massias 2021 for coordinate descent).
struct Extrapolation {
  static constexpr idx memory = 5;  // sweeps, the number of all who use it; more make the system singular
  const Coordinates &k;
  Separate &rows;
  idx count, kept = 0;
  Buffer<double> start, points, states, room;
  Extrapolation(const Coordinates &k, Separate &rows)
      : k(k), rows(rows), count(k.starts[k.outputs]), start(count, false),
        points((memory + 1) * count, false), states((memory + 1) * k.n, false), room(count, false) {
    copy(k.w, count, start.at);
  }
  double objective() const {
    double sum = 0.5 * rows.square();
    for (idx a = 0; a < count; ++a) {
      double w = k.w[a], size = w < 0 ? -w : w;
      if (w < k.lo[a] || w > k.hi[a]) return INFINITY;
      sum += k.gradient[a] * (w - start[a]) + size * (k.l1[a] + 0.5 * k.l2[a] * size);
    }
    return sum;
  }
  // After a sweep; goes to the combination once there are enough of them, if it is lower.
  void observe() {
    copy(k.w, count, points + kept * count);
    copy(rows.r.at, k.n, states + kept * k.n);
    if (kept++ < memory) return;
    kept = 0;
    double weights[memory];
    if (!solve(weights)) return;
    double before = objective();
    combine(weights, points, count, k.w);
    combine(weights, states, k.n, rows.r.at);
    if (objective() < before) return;
    copy(points + memory * count, count, k.w);
    copy(states + memory * k.n, k.n, rows.r.at);
  }
  void combine(const double *weights, const double *from, idx size, double *out) const {
    clear(out, size);
    for (idx t = 0; t < memory; ++t) add(weights[t], from + (t + 1) * size, out, size);
  }
  // Weights of sum one with the least |sum_t weights_t (point_t+1 - point_t)|
  bool solve(double *weights) const {
    double G[memory][memory], trace = 0, total = 0;
    Buffer<double> moves(memory * count, false);
    for (idx t = 0; t < memory; ++t)
      for (idx a = 0; a < count; ++a)
        moves[t * count + a] = points[(t + 1) * count + a] - points[t * count + a];
    for (idx t = 0; t < memory; ++t)
      for (idx u = 0; u <= t; ++u) {
        dot(moves + t * count, count, moves + u * count, &G[t][u]);
        G[u][t] = G[t][u];
      }
    for (idx t = 0; t < memory; ++t) trace += G[t][t], weights[t] = 1;
    if (!(trace > 0)) return false;
    for (idx t = 0; t < memory; ++t) G[t][t] += 1e-12 * trace;  // iterates on a line
    for (idx t = 0; t < memory; ++t)  // elimination without pivots: G is positive definite
      for (idx u = t + 1; u < memory; ++u) {
        double factor = G[u][t] / G[t][t];
        for (idx v = t; v < memory; ++v) G[u][v] -= factor * G[t][v];
        weights[u] -= factor * weights[t];
      }
    for (idx t = memory; t-- > 0;) {
      for (idx u = t + 1; u < memory; ++u) weights[t] -= G[t][u] * weights[u];
      weights[t] /= G[t][t];
      total += weights[t];
    }
    for (idx t = 0; t < memory; ++t) weights[t] /= total;
    return total > 0;
  }
};

// Sweeps over all coordinates, and between them over those that are not at zero, until no visit of
// all changes a derivative by more than tol.
template <class Rows> Swept swept(Sweeps<Rows> &run, const Coordinates &k, Extrapolation *ahead) {
  Swept found{0, 0, 0};
  while (found.sweeps < k.most) {
    found.worst = run.sweep(true);
    ++found.sweeps;
    if (found.worst <= k.tol) break;
    if (ahead) ahead->kept = 0, ahead->observe();
    for (idx round = 0; round < k.inner && found.sweeps < k.most; ++round) {
      double largest = run.sweep(false);
      ++found.sweeps;
      if (largest <= 0.3 * k.tol) break;
      if (ahead) ahead->observe();
    }
  }
  found.square = run.rows.square();
  return found;
}
inline Swept coordinate_sweeps(const Coordinates &k) {
  if (k.s) {
    Sweeps<Coupled> run(k);
    return swept(run, k, nullptr);
  }
  Sweeps<Separate> run(k);
  if (k.outputs > 1) return swept(run, k, nullptr);  // six copies of all rows would be much memory
  Extrapolation ahead(k, run.rows);
  return swept(run, k, &ahead);
}

}  // namespace
}  // namespace VARIANT
