// Problems with many columns, each held by its own penalty, in one call: Newton steps on the columns
// that are not zero and those that pull hardest, whose models coordinate descent minimizes.
// docs/design/small.md.
#pragma once
#include "descent.hpp"
#include "small.hpp"

namespace VARIANT {
namespace {

INLINE idx square(idx k) { return k * k; }

struct FewColumns {
  const double slack = 1.4e-14;  // rounding of a value: 64 units
  const double settled = 1e-11;  // violation, relative to the largest slope at zero or at the start
  const idx most_steps = 100;
  const ColumnsRoute &s;
  Lines f;
  Single h;
  idx n, p, k = 0;  // k columns in the set
  Buffer<double> z, u, c, g, zn, un, gn, wn, losses, room, pull;
  Buffer<double> lines, H, H_before;  // of the columns in the set
  idx n_lines = 0, known = 0;         // lines that are there, and those whose products stay
  Buffer<idx> set;
  Buffer<char> chosen;
  double value = 0, penalty = 0, share = 0;
  idx passes = 0, steps = 0;
  bool full = false;  // more columns are needed than the set may have
  double until, work = 0;  // when to leave, and the products so far
  bool late = false, rests = false;

  template <class T> FewColumns(const ColumnsRoute &s, const Data<T> &data)
      : s(s), f(data), h{s.l1, s.l2, s.lo, s.hi}, n(f.n), p(f.p), z(n), u(n), c(n), g(p), zn(n),
        un(n), gn(p), wn(p), losses(n), room(n), pull(p), lines(least(p, s.most) * n, false),
        H(square(least(p, s.most)), false), H_before(square(least(p, s.most)), false), set(p),
        chosen(p) {
    if (f.loss.kinked) share = 1e-3;
    until = s.now() + s.seconds;
  }

  double objective() const { return value + penalty; }
  double evaluate(const double *w, double *z_, double *u_, double &pen) {
    pen = 0;
    for (idx j = 0; j < p; ++j) pen += h.value(j, w[j]);
    f.predict(w, z_);
    for (idx i = 0; i < n; ++i) z_[i] += f.offset[i];
    f.loss.values(f.p0, f.p1, z_, f.y, n, u_, losses);
    return f.mean(losses);
  }

  double violation(const double *w, const double *slopes) const {
    double worst = 0;
    for (idx j = 0; j < p; ++j) worst = most(worst, h.violation(j, w[j], slopes[j]));
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
    for (idx a = n_lines; a < k; ++a) copy(f.X + set[a] * n, n, lines + a * n);
    n_lines = k;
    f.loss.curvatures(f.p0, f.p1, z, f.y, n, c);
    for (idx i = 0; i < n; ++i) room[i] = f.q[i] * ((1 - share) * c[i] + share * f.cap) / (double)n;
    if (known) copy(H.at, known * known, H_before.at);
    for (idx a = 0; a < known; ++a) copy(H_before + a * known, known, H + a * k);
    weighted_gram(lines, k, n, room, H, known);
    work += 0.5 * (double)n * (double)(k * k - known * known);
    known = f.loss.quadratic ? k : 0;
  }

  // A lower bound where an l1 norm and nothing else holds every column: slopes scaled into the dual
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
  // no longer tell, slopes do: a bound is as good as they are.
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
    double slope = 0, bent = 0, ahead = 0, now = objective();
    for (idx a = 0; a < k; ++a) {
      double move = descent.x[a] - x[a];
      slope += r[a] * move;
      bent += (descent.r[a] - r[a]) * move;
      ahead += Single{l1, l2, lo, hi}.value(a, descent.x[a]);
    }
    const double promised = penalty - ahead - slope - 0.5 * bent;
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
  FewColumns route(s, data);
  route.run();
  copy(route.z.at, route.n, s.z);
  copy(route.u.at, route.n, s.u);
  copy(route.g.at, route.p, s.gradient);
  return {route.value, route.penalty, route.bound(), route.steps, route.passes, route.k,
          route.late, route.rests};
}

}  // namespace
}  // namespace VARIANT
