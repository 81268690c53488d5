// The small route: a whole solve, with its certificate, in one call. docs/design/small.md.
//
// min over w  (1/n) sum_i q_i loss((X w)_i + offset_i, y_i) + h(S w),   everything in double.
#pragma once
#include "entries.hpp"
#include "gram.hpp"
#include "small_bound.hpp"

namespace VARIANT {
namespace {

// The loss of every row, in double: weights of mean one, targets, offsets, ranges of derivatives.
struct RowLosses {
  static constexpr idx block = 64;  // rows whose terms are added up before the sums of blocks are
  idx n, p;                         // p coefficients, that of the intercept included
  const EntryLoops &loss;
  double p0, p1;
  Buffer<double> y, q, offset, low, high;
  double cap;  // of the second derivative

  template <class T> explicit RowLosses(const Data<T> &f)
      : n(f.n), p(f.d + f.intercept), loss(entry_loops(f.loss)), p0(f.p0), p1(f.p1), y(n), q(n),
        offset(n), low(n), high(n), cap(loss.cap(p0, p1)) {
    double total = 0;
    for (idx i = 0; i < n; ++i) {
      y[i] = (double)f.y[i];
      q[i] = f.weight ? (double)f.weight[i] : 1.0;
      offset[i] = f.offset ? (double)f.offset[i] : 0.0;
      total += q[i];
    }
    if (f.weight)
      for (idx i = 0; i < n; ++i) q[i] *= (double)n / total;
    loss.ranges(p0, p1, y, n, low, high);
  }
  double mean(const double *values) const {
    double sum = 0, part;
    for (idx at = 0; at < n; at += block) {
      dot(values + at, least(block, n - at), q + at, &part);
      sum += part;
    }
    return sum / (double)n;
  }
};

// The rows, transposed and in double: one line of n numbers per coefficient, the intercept last.
struct Lines : RowLosses {
  Buffer<double> X, energy;

  template <class T> explicit Lines(const Data<T> &f) : RowLosses(f), X(n * p), energy(p) {
    if (f.sparse && f.wide) spread_rows<T, int64_t>(f);
    else if (f.sparse) spread_rows<T, int32_t>(f);
    else transpose(f);
    if (f.intercept)
      for (idx i = 0; i < n; ++i) X[f.d * n + i] = 1;
    Buffer<double> room(n);
    for (idx j = 0; j < p; ++j) {
      for (idx i = 0; i < n; ++i) room[i] = q[i] * X[j * n + i];
      dot(X + j * n, n, room.at, energy + j);
      energy[j] = sqrt(energy[j] / (double)n);
    }
  }
  template <class T> void transpose(const Data<T> &f) {  // in squares that stay in the first cache
    const idx side = 32;
    for (idx start = 0; start < n; start += side)
      for (idx first = 0; first < f.d; first += side)
        for (idx j = first; j < least(first + side, f.d); ++j)
          for (idx i = start; i < least(start + side, n); ++i)
            X[j * n + i] = (double)f.X[i * f.d + j];
  }
  template <class T, class I> void spread_rows(const Data<T> &f) {
    const I *indptr = (const I *)f.indptr, *indices = (const I *)f.indices;
    for (idx i = 0; i < n; ++i)
      for (I k = indptr[i]; k < indptr[i + 1]; ++k)
        X[(idx)indices[k] * n + i] += (double)f.data[k];
  }
  void predict(const double *w, double *z) const {  // without offset
    clear(z, n);
    for (idx j = 0; j < p; ++j)
      if (w[j] != 0) add(w[j], X + j * n, z, n);
  }
  // X'(q u) / n in blocks, so that rounding is at most `unit` times the sizes of the terms
  double unit() const { return 2.3e-16 * (double)(block / 8 + 8 + n / block); }
  void pull_back(const double *u, double *room, double *out) const {
    for (idx i = 0; i < n; ++i) room[i] = q[i] * u[i];
    for (idx j = 0; j < p; ++j) {
      double sum = 0, part;
      for (idx at = 0; at < n; at += block) {
        dot(X + j * n + at, least(block, n - at), room + at, &part);
        sum += part;
      }
      out[j] = sum / (double)n;
    }
  }
  // X' diag(q c) X / n, both triangles
  void hessian(const double *c, double *out) const {
    Buffer<double> weight(n, false);
    for (idx i = 0; i < n; ++i) weight[i] = q[i] * c[i] / (double)n;
    weighted_gram(X, p, n, weight, out);
  }
};

double penalty_value(const Penalty<double> &h, const double *x) {
  double sum = 0;
  for (idx t = 0; t < h.n_terms; ++t)
    if (h.kinds[t] == ELEMENTWISE) {
      for (idx k = h.starts[t]; k < h.starts[t + 1]; ++k) {
        if (x[k] < h.lo[k] || x[k] > h.hi[k]) return INFINITY;
        double size = fabs(x[k]);
        sum += size * (h.l1[k] + 0.5 * h.l2[k] * size);
      }
    } else
      for (idx g = h.first_group[t]; g < h.first_group[t + 1]; ++g)
        sum += h.group_weights[g] * norm_of(x, h.group_starts[g], h.group_stops[g]);
  return sum;
}
// The conjugate at mu, which is moved into the domain where it is outside by rounding.
double penalty_dual(const Penalty<double> &h, double *mu) {
  double sum = 0;
  for (idx t = 0; t < h.n_terms; ++t)
    if (h.kinds[t] == ELEMENTWISE) {
      for (idx k = h.starts[t]; k < h.starts[t + 1]; ++k) {
        double l1 = h.l1[k], l2 = h.l2[k];
        if (l2 == 0 && h.hi[k] == INFINITY) mu[k] = least(mu[k], l1);
        if (l2 == 0 && h.lo[k] == -INFINITY) mu[k] = most(mu[k], -l1);
        double pull = mu[k] - clip(mu[k], -l1, l1), x = 0;
        if (pull != 0) x = l2 > 0 ? pull / l2 : pull > 0 ? h.hi[k] : h.lo[k];
        x = clip(x, h.lo[k], h.hi[k]);
        sum += mu[k] * x - fabs(x) * (l1 + 0.5 * l2 * fabs(x));
      }
    } else
      for (idx g = h.first_group[t]; g < h.first_group[t + 1]; ++g) {
        double norm = norm_of(mu, h.group_starts[g], h.group_stops[g]), weight = h.group_weights[g];
        if (norm > weight)
          for (idx k = h.group_starts[g]; k < h.group_stops[g]; ++k)
            mu[k] *= weight / norm * (1 - 1e-15);
      }
  return sum;
}

// Coefficients whose zeros, ties and bounds are exact: those of the rows where z is.
struct Levels {
  const Operator<double> &S;
  const Penalty<double> &h;
  idx p;
  Buffer<idx> parent, size;
  Buffer<double> ratio, level, total;  // x_j = ratio_j x_parent
  Buffer<char> fixed, zero;
  Levels(const Operator<double> &S, const Penalty<double> &h)
      : S(S), h(h), p(S.columns), parent(p), size(p), ratio(p), level(p), total(p), fixed(p),
        zero(S.rows) {}
  idx root(idx j, double &scale) {
    scale = 1;
    while (parent[j] != j) {
      scale *= ratio[j];
      j = parent[j];
    }
    return j;
  }
  void fix(idx j, double value) {
    double scale;
    idx top = root(j, scale);
    double want = value / scale;
    if (fixed[top] && level[top] != want) want = 0;
    fixed[top] = 1;
    level[top] = want;
  }
  void tie(idx i, idx j, double factor) {  // x_j = factor x_i
    double a, b;
    idx one = root(i, a), two = root(j, b);
    double link = factor * a / b;  // x_two = link x_one
    if (one == two) {
      if (fabs(link - 1) > 1e-9) fixed[one] = 1, level[one] = 0;
      return;
    }
    parent[two] = one;
    ratio[two] = link;
    if (fixed[two]) fix(one, level[two] / link);
  }
  // false where a row of three entries or more vanishes, which is not made exact here
  bool project(const double *z, const double *w, double *out) {
    bool exact = true;
    for (idx j = 0; j < p; ++j) {
      parent[j] = j, ratio[j] = 1, fixed[j] = 0, level[j] = 0, total[j] = 0, size[j] = 0;
    }
    clear(zero.at, S.rows);
    for (idx t = 0; t < h.n_terms; ++t)
      if (h.kinds[t] == ELEMENTWISE) {
        for (idx k = h.starts[t]; k < h.starts[t + 1]; ++k) zero[k] = z[k] == 0 && h.l1[k] > 0;
      } else
        for (idx g = h.first_group[t]; g < h.first_group[t + 1]; ++g)
          if (h.group_weights[g] > 0 && norm_of(z, h.group_starts[g], h.group_stops[g]) == 0)
            for (idx k = h.group_starts[g]; k < h.group_stops[g]; ++k) zero[k] = 1;
    for (idx i = 0; i < S.rows; ++i) {
      idx first = S.indptr[i], entries = S.indptr[i + 1] - first;
      const int32_t *column = S.indices + first;
      const double *value = S.data + first;
      if (entries == 0) continue;
      bool bound = entries == 1 && (z[i] <= h.lo[i] || z[i] >= h.hi[i]);
      if (entries == 1 && (zero[i] || bound)) fix(column[0], zero[i] ? 0.0 : z[i] / value[0]);
      else if (entries == 2 && zero[i]) tie(column[0], column[1], -value[0] / value[1]);
      else if (zero[i]) exact = false;
    }
    for (idx j = 0; j < p; ++j) {
      double scale;
      idx top = root(j, scale);
      if (!fixed[top]) level[top] += scale * w[j];
      total[top] += scale * scale;
      size[top]++;
    }
    for (idx j = 0; j < p; ++j) {
      double scale;
      idx top = root(j, scale);
      if (size[top] == 1 && !fixed[top]) out[j] = w[j];
      else out[j] = scale * (fixed[top] ? level[top] : level[top] / total[top]);
      out[j] += 0.0;  // a zero has no sign
    }
    inside(out);
    return exact;
  }
  void inside(double *w) const {  // bounds of single coefficients
    for (idx i = 0; i < S.rows; ++i) {
      idx k = S.indptr[i];
      if (S.indptr[i + 1] != k + 1 || S.data[k] == 0) continue;
      double x = S.data[k] * w[S.indices[k]];
      if (x < h.lo[i]) w[S.indices[k]] = h.lo[i] / S.data[k];
      if (x > h.hi[i]) w[S.indices[k]] = h.hi[i] / S.data[k];
    }
  }
};

struct Route {
  const double slack = 1.4e-14;     // rounding of a value: 64 units
  const double close = 1e-3;        // relative distance to a dual value worth a charge at the end
  const double near = 1e-7;         // the same on the way, where a step is likely to make it useless
  const double settled = 1e-15;     // relative gap that only rounding makes smaller
  const double proved = 1e-8;       // relative gap whose rest is what rounding is charged for
  const double flat = 3e-6;         // relative decrease below which the Hessian is kept
  const double sharp = 1e-14;       // relative residuals of the last models
  const idx most_steps = 40;
  const SmallRoute &s;
  Lines f;
  Structure structure;
  const Operator<double> &S;
  const Penalty<double> &h;
  idx n, p, m;
  Inner inner;
  Levels levels;
  Held held;
  Buffer<double> z, u, c, g, zn, un, gn, wn, losses, room, H, image, moved, dual_u, dual_g, dual_mu;
  Buffer<double> projected;
  Buffer<double> rho;
  Split by_rows, by_loss;  // how residuals are made up for: with rows of S, by the loss alone
  double value = 0, penalty = 0, bound = -INFINITY, share = 0;
  double at_zero = 0;            // the conjugates there: minus the least that F may be
  double dual = 0, conjugate = 0;  // value of the last dual point, and the penalty's part of it
  bool rough = false;            // whether the loss alone might charge less for it
  idx passes = 0, steps = 0;
  bool exact = false;

  template <class T> Route(const SmallRoute &s, const Data<T> &data)
      : s(s), f(data), structure(s.rows, s.columns, s.indptr, s.indices, s.data), S(structure.S),
        h(s.h), n(f.n), p(f.p), m(s.rows), inner(S, h), levels(S, h), held(h), z(n), u(n), c(n),
        g(p), zn(n), un(n), gn(p), wn(p), losses(n), room(n), H(p * p), image(m), moved(n),
        dual_u(n), dual_g(p), dual_mu(m), projected(p), rho(p), by_rows(S, held, false),
        by_loss(S, held, true) {
    Buffer<double> none(n), nothing(m);
    at_zero = mean_dual(none) + penalty_dual(h, nothing);
  }

  double objective() const { return value + penalty; }

  double evaluate(const double *w, double *z_, double *u_, double *g_, double &pen) {
    multiply(S, 1, w, image.at);
    pen = penalty_value(h, image);
    f.predict(w, z_);
    for (idx i = 0; i < n; ++i) z_[i] += f.offset[i];
    f.loss.values(f.p0, f.p1, z_, f.y, n, u_, losses);
    f.pull_back(u_, room, g_);
    passes++;
    return f.mean(losses);
  }

  // The Hessian, with a share of the bound on second derivatives; that of a quadratic loss is the
  // same for all penalties on the same rows, and may be given.
  void model() {
    f.loss.curvatures(f.p0, f.p1, z, f.y, n, c);
    if (share > 0)
      for (idx i = 0; i < n; ++i) c[i] = (1 - share) * c[i] + share * f.cap;
    if (f.loss.quadratic && s.gram && s.gram_known) {
      copy(s.gram, p * p, H.at);
      return;
    }
    f.hessian(c, H);
    passes++;
    if (f.loss.quadratic && s.gram) copy(H.at, p * p, s.gram);
  }

  // The multipliers of single coefficients that belong to a gradient and the other multipliers.
  void complete(double *mu) {
    multiply_transposed(S, 1, mu, wn.at);
    for (idx i = s.first; i < m; ++i) {
      idx k = S.indptr[i];
      if (S.indptr[i + 1] == k + 1 && mu[i] == 0) mu[i] = -(g[S.indices[k]] + wn[S.indices[k]]);
    }
    penalty_dual(h, mu);  // into the domain
  }

  void run() {
    double *w = s.w;
    levels.inside(w);
    value = evaluate(w, z, u, g, penalty);
    copy(s.dual, m, inner.dual.at);
    bool fresh = true, warm = false;
    double tol = f.loss.quadratic ? sharp : 1e-2;
    for (idx j = 0; j < p; ++j) warm |= w[j] != 0;
    if (warm) complete(inner.dual);
    if (warm && !f.loss.quadratic) tol = 1e-6;  // a start is mostly near: the model is good there
    if (f.loss.kinked) share = 1e-3;
    for (steps = 0; steps < most_steps; ++steps) {
      if (fresh) model();
      copy(g.at, p, inner.c.at);
      multiply(S, 1, w, inner.at.at);
      if (!inner.solve_for(H, fresh, tol, warm)) {
        if (share >= 1 || f.loss.quadratic) break;
        share = share > 0 ? least(1.0, 10 * share) : 1e-6, fresh = true;
        continue;
      }
      warm = true;
      double top = most(fabs(objective()), 1e-300), change = predicted(w);
      // the distance to the dual value is about what the model promises
      double left = -change <= near * top ? certify(near) : INFINITY;
      // or the distance is rounding's, and so is what another step promises
      bool rests = exact && left <= slack * top && -change <= settled * top;
      // beside a residual that costs something, the distance to the dual value says nothing
      if (left <= settled * top || rests) {
        refine();
        if (objective() - bound <= proved * top) break;
      }
      double t = change < 0 || tol <= sharp ? step(w, change) : 0;
      // the model is solved as far as its own error is worth it
      if (t == 0 && tol > sharp) {
        tol = most(sharp, 1e-3 * tol), fresh = false;
        continue;
      }
      if (t == 0) {
        if (left == INFINITY) certify(close);
        break;
      }
      // the next distance is about the square of this one
      double part = -change / top;
      if (!f.loss.quadratic) tol = part <= 1e-4 ? sharp : least(1e-2, 0.1 * part * least(part, 0.1));
      share = t == 1 ? (share > 1e-7 ? share / 10 : share) : least(1.0, most(1e-3, 10 * share));
      fresh = !f.loss.quadratic && (t < 1 || -change > flat * top);
      if (steps > 1 && -change <= 1e-16 * top) break;
    }
    refine();
    copy(inner.dual.at, m, s.dual);
  }

  // the change of the model along its step
  double predicted(const double *w) {
    double linear, square, pen;
    dot(g.at, p, inner.step.at, &linear);
    forward(H.at, p, p, inner.step.at, wn.at, 0);
    dot(wn.at, p, inner.step.at, &square);
    for (idx j = 0; j < p; ++j) wn[j] = w[j] + inner.step[j];
    levels.inside(wn);
    multiply(S, 1, wn.at, image.at);
    pen = penalty_value(h, image);
    return linear + 0.5 * square + pen - penalty;
  }

  // Go to the model's minimizer, or part of the way; returns the part.
  double step(double *w, double change) {
    double now = objective(), t = 1, pen, found;
    for (int trial = 0; trial < 30; ++trial, t /= 2) {
      for (idx j = 0; j < p; ++j) wn[j] = w[j] + t * inner.step[j];
      bool made = t == 1 && levels.project(inner.z, wn, projected);
      if (t == 1) copy(projected.at, p, wn.at);
      else levels.inside(wn);
      found = evaluate(wn, zn, un, gn, pen);
      if (found + pen <= now + 1e-3 * t * least(change, 0.0) + slack * fabs(now)) {
        // where rounding decides between the two, exact structure does
        if (t == 1 && found + pen > now && -change <= 1e-13 * fabs(now) && (exact || !made)) return 0;
        take(w, found, pen);
        exact = made;
        return t;
      }
    }
    return 0;
  }
  void take(double *w, double found, double pen) {
    copy(wn.at, p, w), copy(zn.at, n, z.at), copy(un.at, n, u.at), copy(gn.at, p, g.at);
    value = found, penalty = pen;
  }

  // ---------------------------------------------------------------- the bound

  // Derivatives moved along the model's step: their gradient is minus S' dual up to rounding. Returns
  // the distance to the dual value, before what is charged; infinity where there is no bound, or
  // the distance is above `worth`, relative to the value.
  double certify(double worth) {
    f.predict(inner.step, moved);
    for (idx i = 0; i < n; ++i)
      dual_u[i] = clip(u[i] + c[i] * moved[i], f.low[i], f.high[i]);
    copy(inner.dual.at, m, dual_mu.at);
    conjugate = penalty_dual(h, dual_mu), dual = -mean_dual(dual_u) - conjugate;
    passes++, rough = false;
    if (!(objective() - dual <= worth * most(fabs(objective()), 1e-300))) return INFINITY;
    f.pull_back(dual_u, room, dual_g);
    multiply_transposed(S, 1, dual_mu.at, wn.at);
    double rms = mean_square(dual_u), unit = f.unit();
    for (idx j = 0; j < p; ++j) rho[j] = fabs(dual_g[j] + wn[j]) + unit * f.energy[j] * rms;
    for (idx i = 0; i < m; ++i)
      for (int32_t k = S.indptr[i]; k < S.indptr[i + 1]; ++k)
        rho[S.indices[k]] += unit * fabs(S.data[k] * dual_mu[i]);
    double cost = charge(by_rows);
    rough = !(cost <= 1e-10 * level());
    bound = most(bound, dual - cost);
    return cost < INFINITY || rough ? objective() - dual : INFINITY;
  }
  // Where rows of S hold little, the loss is asked what it holds: that takes as long as a model.
  void refine() {
    if (rough) bound = most(bound, dual - charge(by_loss));
    rough = false;
  }
  double level() const { return most(objective() + at_zero, 2.3e-308); }
  double mean_dual(const double *v) {  // (1/n) sum_i q_i (loss*(v_i) - v_i offset_i)
    f.loss.duals(f.p0, f.p1, v, f.y, n, room);
    for (idx i = 0; i < n; ++i) room[i] -= v[i] * f.offset[i];
    return f.mean(room);
  }
  double mean_square(const double *v) {
    for (idx i = 0; i < n; ++i) room[i] = v[i] * v[i];
    return sqrt(f.mean(room));
  }

  // A bound on |<r, x>| over all x with F(x) <= F(w), for any |r| <= rho.
  double charge(const Split &split) {
    Buffer<double> rows(m), c_free(p);
    split.rows(rho, rows);
    split.free(rho, c_free);
    double total = held.cost(rows, level());
    if (split.n_free == 0 || !(total < INFINITY)) return total;
    return total + along_free(split, c_free, objective() + total);
  }

  // Derivatives moved by theta along whitened free directions tilt F by theta in each of them.
  double along_free(const Split &split, const double *c_free, double high) {
    idx k = split.n_free;
    Buffer<double> M(k * n), Hf(k * k), T(k * k), curve(n), size(n);
    for (idx a = 0; a < k; ++a) f.predict(split.N + a * p, M + a * n);
    f.loss.curvatures(f.p0, f.p1, z, f.y, n, curve);
    double length = sqrt(level()), theta = 0, worst = 0;
    for (int trial = 0; trial < 3; ++trial) {
      for (idx i = 0; i < n; ++i) room[i] = f.q[i] * curve[i] / (double)n;
      weighted_gram(M, k, n, room, Hf);
      double scale = 0;
      for (idx a = 0; a < k; ++a) scale = most(scale, Hf[a * k + a]);
      Buffer<double> before(k);
      for (idx a = 0; a < k; ++a) before[a] = Hf[a * k + a];
      if (!factorize(Hf, k)) return INFINITY;
      for (idx a = 0; a < k; ++a)
        if (!(Hf[a * k + a] * Hf[a * k + a] > 1e-12 * before[a])) return INFINITY;
      for (idx l = 0; l < k; ++l) {  // row l of T is L^-T e_l: column l of the whitening matrix
        clear(T + l * k, k);
        T[l * k + l] = 1;
        solve_upper(Hf, k, T + l * k);
      }
      largest_entries(T, k, M, n, size);
      for (idx i = 0; i < n; ++i) size[i] *= fabs(curve[i]);
      double margin = 1;
      bool narrow = false;
      for (idx i = 0; i < n; ++i) {
        if (size[i] == 0 || f.q[i] == 0) continue;
        double reach = length * size[i];
        double own = least(least(1.0, (f.high[i] - dual_u[i]) / reach), (dual_u[i] - f.low[i]) / reach);
        if (own < 1e-3 && trial < 2) curve[i] = 0, narrow = true;  // these stay where they are
        else margin = least(margin, own);
      }
      if (narrow) continue;
      theta = 0.5 * length * margin;
      break;
    }
    if (!(theta > 0)) return INFINITY;
    for (idx l = 0; l < k; ++l)
      for (idx a = 0; a < k; ++a) worst += c_free[a] * fabs(T[l * k + a]);
    for (idx i = 0; i < n; ++i) size[i] *= theta;
    double rms = mean_square(size);
    Buffer<double> tilt(p), rows(m);
    for (idx j = 0; j < p; ++j) tilt[j] = f.energy[j] * rms;
    split.rows(tilt, rows);
    double low = -largest_dual(size) - conjugate;
    double left = high - low + held.cost(rows, level());
    if (!(left < INFINITY) || !(0.5 * theta > worst)) return INFINITY;
    return worst * most(left, 0.0) / (0.5 * theta - worst);
  }
  double largest_dual(const double *size) {  // a convex function is largest at an end
    Buffer<double> one(n), two(n), shifted(n);
    for (idx i = 0; i < n; ++i) shifted[i] = clip(dual_u[i] - size[i], f.low[i], f.high[i]);
    f.loss.duals(f.p0, f.p1, shifted, f.y, n, one);
    for (idx i = 0; i < n; ++i) shifted[i] = clip(dual_u[i] + size[i], f.low[i], f.high[i]);
    f.loss.duals(f.p0, f.p1, shifted, f.y, n, two);
    for (idx i = 0; i < n; ++i)
      one[i] = most(one[i], two[i]) - dual_u[i] * f.offset[i] + size[i] * fabs(f.offset[i]);
    return f.mean(one);
  }
};

template <class T> SmallFound small_route(const SmallRoute &s, const Data<T> &data) {
  Route route(s, data);
  route.run();
  copy(route.z.at, route.n, s.z);
  copy(route.u.at, route.n, s.u);
  copy(route.g.at, route.p, s.gradient);
  return {route.value, route.penalty, route.bound, route.inner.penalty, route.steps, route.passes,
          route.exact};
}

}  // namespace
}  // namespace VARIANT
