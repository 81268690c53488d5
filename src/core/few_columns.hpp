// Problems with many columns, each held by its own penalty, in one call: Newton steps on the columns
// that are not zero and those that pull hardest, whose models coordinate descent minimizes.
// docs/design/small.md.
#pragma once
#include "descent.hpp"
#include "passes.hpp"
#include "small.hpp"

namespace VARIANT {
namespace {

INLINE idx square_of(idx k) { return k * k; }

// The rows as they are given: read one after the other for products, and single columns of them
// copied where they are worked on.
template <class T> struct Table : RowLosses {
  const Data<T> &f;
  Buffer<double> energy, part;
  Buffer<idx> place;

  explicit Table(const Data<T> &f) : RowLosses(f), f(f), energy(p), part(p), place(p) {
    column_energies(f, 1, f.weight != nullptr, part, energy);
    const double scale = f.weight ? q_over_weight() : 1.0;
    for (idx j = 0; j < p; ++j) energy[j] = sqrt(scale * energy[j]);
  }
  double q_over_weight() const {  // weights of mean one over those that are given
    for (idx i = 0; i < n; ++i)
      if (f.weight[i] != 0) return q[i] / (double)f.weight[i];
    return 1;
  }
  void predict(const double *w, double *z) const {  // without offset
    for (idx i = 0; i < n; ++i) z[i] = f.intercept ? w[f.d] : 0.0;
    with_rows(f, [&](auto rows) {
      for (idx i = 0; i < n; ++i) z[i] += product(rows, i, w);
      return 0;
    });
  }
  // X'(q u) / n in blocks, so that rounding is at most `unit` times the sizes of the terms
  double unit() const { return 2.3e-16 * (double)(block / 4 + 8 + n / block); }
  void pull_back(const double *u, double *room, double *out) {
    for (idx i = 0; i < n; ++i) room[i] = q[i] * u[i];
    clear(out, p);
    for (idx at = 0; at < n; at += block) {
      idx stop = least(at + block, n);
      clear(part.at, p);
      with_rows(f, [&](auto rows) {
        add_rows(rows, at, stop, room, part);
        return 0;
      });
      if (f.intercept)
        for (idx i = at; i < stop; ++i) part[f.d] += room[i];
      for (idx j = 0; j < p; ++j) out[j] += part[j];
    }
    for (idx j = 0; j < p; ++j) out[j] /= (double)n;
  }
  // columns set[from..to) into lines of n numbers
  void take(const idx *set, idx from, idx to, double *lines) {
    if (f.sparse) clear(lines + from * n, (to - from) * n);
    for (idx a = from; a < to; ++a) {
      place[set[a]] = a + 1;
      if (set[a] == f.d)  // the intercept
        for (idx i = 0; i < n; ++i) lines[a * n + i] = 1;
    }
    with_rows(f, [&](auto rows) {
      pick(rows, set, from, to, lines);
      return 0;
    });
    for (idx a = from; a < to; ++a) place[set[a]] = 0;
  }

 private:
  static double product(const Dense<T> &rows, idx i, const double *w) {
    const T *a = rows.X + i * rows.d;
    Vec<double> even = spread(0.0), odd = even;
    double rest = 0;
    idx j = 0;
    for (; j + 8 <= rows.d; j += 8) {
      even += widened(a + j) * load(w + j);
      odd += widened(a + j + 4) * load(w + j + 4);
    }
    for (; j < rows.d; ++j) rest += (double)a[j] * w[j];
    return total(even + odd) + rest;
  }
  template <class I> static double product(const Csr<T, I> &rows, idx i, const double *w) {
    double sum = 0;
    for (idx k = (idx)rows.indptr[i], end = (idx)rows.indptr[i + 1]; k < end; ++k)
      sum += (double)rows.data[k] * w[rows.indices[k]];
    return sum;
  }
  // out += sum_i u_i a_i over rows lo..hi, four at a time
  static NOINLINE void add_rows(const Dense<T> &rows, idx lo, idx hi, const double *u,
                                double *RESTRICT out) {
    idx d = rows.d, i = lo;
    for (; i + 4 <= hi; i += 4) {
      const T *RESTRICT a = rows.X + i * d, *RESTRICT b = a + d;
      const T *RESTRICT c = b + d, *RESTRICT e = c + d;
      double t = u[i], v = u[i + 1], x = u[i + 2], y = u[i + 3];
      for (idx j = 0; j < d; ++j)
        out[j] += (t * (double)a[j] + v * (double)b[j]) + (x * (double)c[j] + y * (double)e[j]);
    }
    for (; i < hi; ++i)
      for (idx j = 0; j < d; ++j) out[j] += u[i] * (double)rows.X[i * d + j];
  }
  template <class I>
  static void add_rows(const Csr<T, I> &rows, idx lo, idx hi, const double *u,
                       double *RESTRICT out) {
    for (idx i = lo; i < hi; ++i)
      for (idx k = (idx)rows.indptr[i], end = (idx)rows.indptr[i + 1]; k < end; ++k)
        out[rows.indices[k]] += u[i] * (double)rows.data[k];
  }
  void pick(const Dense<T> &rows, const idx *set, idx from, idx to, double *lines) const {
    const idx side = 32;  // rows of a square that stays in the first cache
    for (idx start = 0; start < n; start += side)
      for (idx a = from; a < to; ++a)
        if (set[a] < f.d)
          for (idx i = start; i < least(start + side, n); ++i)
            lines[a * n + i] = (double)rows.X[i * f.d + set[a]];
  }
  template <class I>
  void pick(const Csr<T, I> &rows, const idx *, idx, idx, double *lines) const {
    for (idx i = 0; i < n; ++i)
      for (idx k = (idx)rows.indptr[i], end = (idx)rows.indptr[i + 1]; k < end; ++k) {
        idx a = place[rows.indices[k]];
        if (a) lines[(a - 1) * n + i] += (double)rows.data[k];
      }
  }
};

template <class T> struct FewColumns {
  const double slack = 1.4e-14;  // rounding of a value: 64 units
  const double settled = 1e-11;  // violation, relative to the largest derivative at zero or at the start
  const idx most_steps = 100;
  const ColumnsRoute &s;
  Table<T> f;
  Single h;
  idx n, p, k = 0;  // k columns in the set
  Buffer<double> z, u, c, g, zn, un, gn, wn, losses, room, pull;
  Buffer<double> lines, H, H_before;  // of the columns in the set
  idx n_lines = 0, known = 0;         // lines that are there, and those whose products stay
  Buffer<idx> set;
  Buffer<char> chosen;
  double value = 0, penalty = 0, share = 0;
  idx passes = 0, steps = 0;
  bool full = false;    // more columns are needed than the set may have
  bool covered = true;  // all columns that are not at zero are in the set
  double until, work = 0;  // when to leave, and the products so far
  bool late = false, rests = false;

  FewColumns(const ColumnsRoute &s, const Data<T> &data)
      : s(s), f(data), h{s.l1, s.l2, s.lo, s.hi}, n(f.n), p(f.p), z(n), u(n), c(n), g(p), zn(n),
        un(n), gn(p), wn(p), losses(n), room(n), pull(p), lines(least(p, s.most) * n, false),
        H(square_of(least(p, s.most)), false), H_before(square_of(least(p, s.most)), false), set(p),
        chosen(p) {
    if (f.loss.kinked) share = 1e-3;
    until = s.now() + s.seconds;
  }

  double objective() const { return value + penalty; }
  double evaluate(const double *w, double *z_, double *u_, double &pen) {
    pen = 0;
    for (idx j = 0; j < p; ++j) pen += h.value(j, w[j]);
    predict(w, z_);
    for (idx i = 0; i < n; ++i) z_[i] += f.offset[i];
    f.loss.values(f.p0, f.p1, z_, f.y, n, u_, losses);
    return f.mean(losses);
  }

  // By the columns of the set; by the rows before there is one.
  void predict(const double *w, double *z_) const {
    if (n_lines == 0 || !covered) return f.predict(w, z_);
    clear(z_, n);
    for (idx a = 0; a < n_lines; ++a)
      if (w[set[a]] != 0) add(w[set[a]], lines + a * n, z_, n);
  }

  double violation(const double *w, const double *derivatives) const {
    double worst = 0;
    for (idx j = 0; j < p; ++j) worst = most(worst, h.violation(j, w[j], derivatives[j]));
    return worst;
  }

  void run() {
    double *w = s.w;
    for (idx j = 0; j < p; ++j) w[j] = clip(w[j], h.lo[j], h.hi[j]) + 0.0;
    value = evaluate(w, z, u, penalty);
    f.pull_back(u, room, g), passes++;
    double scale = largest(g, p);
    for (steps = 0; steps < most_steps; ++steps) {
      late = work > s.work || s.now() > until;
      if (late) break;
      double worst = violation(w, g);
      rests = worst <= settled * scale;
      if (rests || !grow(w)) break;
      double t = step(w, worst);
      if (t == 0 || full) {
        if (share >= 1 || f.loss.quadratic || full) break;
        share = share > 0 ? least(1.0, 10 * share) : 1e-3;
        continue;
      }
      if (share > 0) share = t == 1 ? (share > 1e-7 ? share / 10 : share) : least(1.0, 10 * share);
      else if (t < 1) share = 1e-3;
    }
  }

  // Columns that are not at zero or not held there, and as many again of those that pull hardest;
  // where there is no room, those that have come to rest at zero leave. False where the set is empty.
  bool grow(const double *w) {
    idx support = add_used(w), pulled = measure_pulls(w), more = least(pulled, most(s.first, support));
    if (k + s.first <= s.most) more = least(more, s.most - k);
    else if (k + more > s.most) {
      clear(chosen.at, p);
      k = n_lines = known = 0;
      add_used(w);
      pulled = measure_pulls(w), more = least(more, s.most - k);
      full = more == 0 && pulled > 0;
    }
    // the largest by halving an interval: as exact as it needs to be
    double low = 0, high = largest(pull, p);
    for (int round = 0; round < 40 && more < pulled; ++round) {
      double middle = 0.5 * (low + high);
      idx above = 0;
      for (idx j = 0; j < p; ++j) above += pull[j] > middle;
      if (above > more) low = middle;
      else high = middle;
      if (above == more) break;
    }
    double cut = more < pulled ? high : 0.0;
    for (idx j = 0; j < p; ++j)
      if (pull[j] > cut || (cut > 0 && pull[j] == cut)) choose(j);
    return k > 0;
  }
  idx add_used(const double *w) {
    idx support = 0;
    for (idx j = 0; j < p; ++j)
      if (w[j] != 0 || h.l1[j] == 0) {
        support++;
        if (!chosen[j]) choose(j);
        covered &= chosen[j] || w[j] == 0;
      }
    return support;
  }
  idx measure_pulls(const double *w) {
    idx pulled = 0;
    for (idx j = 0; j < p; ++j) {
      pull[j] = chosen[j] ? 0.0 : h.violation(j, w[j], g[j]);
      pulled += pull[j] > 0;
    }
    return pulled;
  }
  void choose(idx j) {
    if (k >= s.most) return;
    chosen[j] = 1;
    set[k++] = j;
  }

  // The Hessian of the columns in the set; that of a quadratic loss only grows.
  void model() {
    f.take(set, n_lines, k, lines);
    n_lines = k;
    f.loss.curvatures(f.p0, f.p1, z, f.y, n, c);
    for (idx i = 0; i < n; ++i) room[i] = f.q[i] * ((1 - share) * c[i] + share * f.cap) / (double)n;
    if (known) copy(H.at, known * known, H_before.at);
    for (idx a = 0; a < known; ++a) copy(H_before + a * known, known, H + a * k);
    weighted_gram(lines, k, n, room, H, known);
    work += 0.5 * (double)n * (double)(k * k - known * known);
    known = f.loss.quadratic ? k : 0;
  }

  // A lower bound where an l1 norm and nothing else holds every column: derivatives scaled into the dual
  // set, by so much that the rounding of their gradient does not matter.
  double bound() {
    double scale = 1, rms, top = 0;
    for (idx i = 0; i < n; ++i) room[i] = u[i] * u[i];
    rms = sqrt(f.mean(room));
    for (idx j = 0; j < p; ++j) {
      bool plain = h.l1[j] > 0 && h.l2[j] == 0 && h.lo[j] == -INFINITY && h.hi[j] == INFINITY;
      if (!plain) return -INFINITY;
      top = most(top, (fabs(g[j]) + f.unit() * f.energy[j] * rms) / h.l1[j]);
    }
    if (top >= 1) scale = (1 - 4.5e-16) / top;
    for (idx i = 0; i < n; ++i) {
      un[i] = scale * u[i];
      if (f.q[i] != 0 && !(un[i] >= f.low[i] && un[i] <= f.high[i])) return -INFINITY;
    }
    f.loss.duals(f.p0, f.p1, un, f.y, n, room);
    for (idx i = 0; i < n; ++i) room[i] -= un[i] * f.offset[i];
    return -f.mean(room);
  }

  // Minimize the model on the set and move there, or part of the way; returns the part. Where values
  // no longer tell, derivatives do: a bound is as good as they are.
  double step(double *w, double worst) {
    Buffer<double> numbers(6 * k, false);
    double *l1 = numbers, *l2 = l1 + k, *lo = l2 + k, *hi = lo + k, *x = hi + k, *r = x + k;
    for (idx a = 0; a < k; ++a) {
      idx j = set[a];
      l1[a] = h.l1[j], l2[a] = h.l2[j], lo[a] = h.lo[j], hi[a] = h.hi[j], x[a] = w[j], r[a] = g[j];
    }
    model();
    Descent descent(k, H, {l1, l2, lo, hi}, x, r);
    descent.run(1e-13 * most(largest(r, k), 1e-300), s.now, until);
    work += descent.work;
    double derivative = 0, bent = 0, ahead = 0, now = objective();
    for (idx a = 0; a < k; ++a) {
      double move = descent.x[a] - x[a];
      derivative += r[a] * move;
      bent += (descent.r[a] - r[a]) * move;
      ahead += Single{l1, l2, lo, hi}.value(a, descent.x[a]);
    }
    const double promised = penalty - ahead - derivative - 0.5 * bent;
    const bool tells = promised > 1e-15 * fabs(now);
    double t = 1, pen, found;
    for (int trial = 0; trial < (tells ? 30 : 1); ++trial, t /= 2) {
      copy(w, p, wn.at);
      for (idx a = 0; a < k; ++a)
        wn[set[a]] = t == 1 ? descent.x[a] : x[a] + t * (descent.x[a] - x[a]);
      found = evaluate(wn, zn, un, pen);
      double least_gain = tells ? 1e-3 * t * promised : 0;
      if (!(found + pen <= now - least_gain + slack * fabs(now))) continue;
      f.pull_back(un, room, gn), passes++;
      if (!tells && !(violation(wn, gn) <= 0.5 * worst)) return 0;
      copy(wn.at, p, w), copy(zn.at, n, z.at), copy(un.at, n, u.at), copy(gn.at, p, g.at);
      value = found, penalty = pen;
      return t;
    }
    return 0;
  }
};

template <class T> ColumnsFound few_columns(const ColumnsRoute &s, const Data<T> &data) {
  FewColumns<T> route(s, data);
  route.run();
  copy(route.z.at, route.n, s.z);
  copy(route.u.at, route.n, s.u);
  copy(route.g.at, route.p, s.gradient);
  return {route.value, route.penalty, route.bound(), route.steps, route.passes, route.k,
          route.late, route.rests};
}

}  // namespace
}  // namespace VARIANT
