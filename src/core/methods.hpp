// The inner loops of the methods, step by step the reference loops of solvers/*.py; all in place.
#pragma once
#include "blocks.hpp"
#include "rows.hpp"

namespace VARIANT {
namespace {

// Products with A1 and A2 are kept for x and for the extrapolated point y, which is a combination
// of two x's. `dual` holds lambda-tilde on entry and lambda of the last step on exit, `ahead`
// receives lambda-tilde after the last step.
template <class T>
void acc_sadmm(const Problem<T> &p, const Sample<T> &sample, const Anchor<T> &anchor,
               const AccSADMM<T> &s) {
  idx C = p.f.outputs, m = p.size, n1 = p.size1, n2 = p.size2;
  Gradients<T> gradients(p.f, sample, !anchor.derivatives);
  Matrix<T> inverse(s.inverse, p.f.d + p.f.intercept, C);
  Buffer<T> a1x(m), a2x(m), a1y(m), a2y(m), a1n(m), a2n(m), augmented(m);
  Buffer<T> new1(n1), back1(n1), new2(n2), back2(n2), change(n2);
  const T beta = s.beta, pull = beta / s.momentum, lead = 1 - s.momentum - s.anchor;
  const T correct = beta * s.anchor / s.momentum;
  multiply(p.A1, C, s.x1, a1x.at);
  multiply(p.A2, C, s.x2, a2x.at);
  multiply(p.A1, C, s.y1, a1y.at);
  multiply(p.A2, C, s.y2, a2y.at);
  copy(s.dual, m, s.ahead);
  for (idx k = 0; k < sample.steps; ++k) {
    for (idx j = 0; j < m; ++j) {
      s.dual[j] = s.ahead[j] + correct * (a1x[j] + a2x[j] - s.at_snapshot[j]);
      augmented[j] = s.dual[j] + pull * (a1y[j] + a2y[j] - p.b[j]);
    }
    if (n1 > 0) {
      multiply_transposed(p.A1, C, augmented.at, back1.at);
      for (idx j = 0; j < n1; ++j) back1[j] = s.y1[j] - s.step1 * back1[j];
      prox(p.h1, C, back1.at, s.step1, new1.at);
      multiply(p.A1, C, new1.at, a1n.at);
    }
    gradients.take(k, s.y2, derivatives_of(anchor), sample.row_weight, change.at);
    for (idx j = 0; j < m; ++j) augmented[j] = s.dual[j] + pull * (a1n[j] + a2y[j] - p.b[j]);
    multiply_transposed(p.A2, C, augmented.at, back2.at);
    for (idx j = 0; j < n2; ++j) back2[j] += anchor.gradient[j] + change[j];
    if (s.inverse) {
      inverse.times(back2.at, change.at);
      for (idx j = 0; j < n2; ++j) new2[j] = s.y2[j] - change[j];
    } else {
      for (idx j = 0; j < n2; ++j) back2[j] = s.y2[j] - s.step2 * back2[j];
      prox(p.h2, C, back2.at, s.step2, new2.at);
    }
    multiply(p.A2, C, new2.at, a2n.at);
    for (idx j = 0; j < m; ++j) {
      s.ahead[j] = s.dual[j] + beta * (a1n[j] + a2n[j] - p.b[j]);
      a1y[j] = a1n[j] + lead * (a1n[j] - a1x[j]);
      a2y[j] = a2n[j] + lead * (a2n[j] - a2x[j]);
      a1x[j] = a1n[j];
      a2x[j] = a2n[j];
    }
    T keep = k < sample.steps - 1 ? T(1) : T(0);
    auto shift = [&](const T *now, idx n, T *x, T *y, T *before, T *total) {
      for (idx j = 0; j < n; ++j) {
        T moved = now[j], was = x[j];
        y[j] = moved + lead * (moved - was);
        before[j] = was;
        x[j] = moved;
        total[j] += keep * moved;
      }
    };
    shift(new1.at, n1, s.x1, s.y1, s.before1, s.total1);
    shift(new2.at, n2, s.x2, s.y2, s.before2, s.total2);
  }
}

// What SVRG-, ASVRG-, SAG- and the plain methods share beside their gradients.
template <class T> struct Steps {
  const Problem<T> &p;
  T beta;
  Buffer<T> augmented, a1x, a2x, back1, back2;
  Steps(const Problem<T> &p, T beta, const T *x1, const T *x2)
      : p(p), beta(beta), augmented(p.size), a1x(p.size), a2x(p.size), back1(p.size1), back2(p.size2) {
    multiply(p.A1, p.f.outputs, x1, a1x.at);
    multiply(p.A2, p.f.outputs, x2, a2x.at);
  }
  void measure(const T *dual) { set_augmented(p, dual, beta, a1x.at, a2x.at, augmented.at); }
  void lift(T *dual) { set_augmented(p, dual, beta, a1x.at, a2x.at, dual); }
  void first(T step, T *x1) { move_x1(p, augmented.at, step, x1, a1x.at, back1.at); }
  void second(const T *pull, const T *gradient, T step, const T *center, T *x2) {
    move_x2(p, pull, gradient, step, center, x2, a2x.at, back2.at);
  }
};

// SVRG-ADMM (mix = 1) and ASVRG-ADMM: the gradient is taken at mix x2 + (1 - mix) snapshot.
template <class T>
void svrg_admm(const Problem<T> &p, const Sample<T> &sample, const Anchor<T> &anchor, T mix,
               const Blocks<T> &s) {
  Gradients<T> gradients(p.f, sample, !anchor.derivatives);
  Steps<T> steps(p, s.beta, s.x1, s.x2);
  Buffer<T> gradient(p.size2), point(p.size2);
  for (idx k = 0; k < sample.steps; ++k) {
    steps.measure(s.dual);
    steps.first(s.step1, s.x1);
    blend(mix, s.x2, anchor.point, p.size2, point.at);
    gradients.take(k, point.at, derivatives_of(anchor), sample.row_weight, gradient.at);
    add_to(anchor.gradient, p.size2, gradient.at);
    steps.measure(s.dual);
    steps.second(steps.augmented.at, gradient.at, s.step2, s.x2, s.x2);
    steps.lift(s.dual);
    add_to(s.x1, p.size1, s.total1);
    add_to(s.x2, p.size2, s.total2);
  }
}

// Set the points of the rows of a batch to x, and keep the mean of all points.
template <class T>
void remember(const Sample<T> &sample, idx k, idx n, const T *x, idx size, const Table<T> &table) {
  const idx *runs = sample.batches + k * sample.per_batch;
  for (idx r = 0; r < sample.per_batch; ++r) {
    idx lo, hi;
    run_of(runs[r], n, sample.n_runs, lo, hi);
    for (idx i = lo; i < hi; ++i) {
      T *point = table.points + i * size;
      for (idx j = 0; j < size; ++j) {
        table.mean_point[j] += table.share * (x[j] - point[j]);
        point[j] = x[j];
      }
    }
  }
}

// SAG-ADMM; with points, x2 steps start between x2 and the mean point.
template <class T>
void sag_admm(const Problem<T> &p, const Sample<T> &sample, const Table<T> &table,
              const Blocks<T> &s) {
  Gradients<T> gradients(p.f, sample);
  Steps<T> steps(p, s.beta, s.x1, s.x2);
  Buffer<T> change(p.size2), center(p.size2);
  for (idx k = 0; k < sample.steps; ++k) {
    steps.measure(s.dual);
    steps.first(s.step1, s.x1);
    gradients.take(k, s.x2, {table.derivatives, table.derivatives, nullptr}, table.share, change.at);
    add_to(change.at, p.size2, table.gradient);
    if (table.points) remember(sample, k, p.f.n, s.x2, p.size2, table);
    for (idx j = 0; j < p.size2; ++j) {
      center[j] = s.x2[j];
      if (table.points) center[j] += table.curvature * s.step2 * (table.mean_point[j] - s.x2[j]);
    }
    steps.measure(s.dual);
    steps.second(steps.augmented.at, table.gradient, s.step2, center.at, s.x2);
    steps.lift(s.dual);
    add_to(s.x1, p.size1, s.total1);
    add_to(s.x2, p.size2, s.total2);
  }
}

// STOC-, OPG-, RDA-ADMM and OPT-SADMM take the same steps: a batch's gradient, x2, x1, multiplier,
// average. They differ in the point of the gradient (`accelerated`), in what moves x2 (the present
// gradient and augmented, or with `averaged` the means of all past ones, from the start `origin`), and
// in numbers that are given per step. A `rotation` makes the x2 step exact in the constraint: its
// columns are the eigenvectors of A2'A2, `spectrum` the eigenvalues.
template <class T>
void stoc_admm(const Problem<T> &p, const Sample<T> &sample, const Plain<T> &s) {
  idx C = p.f.outputs, d = p.f.d + p.f.intercept;
  Gradients<T> gradients(p.f, sample);
  Steps<T> steps(p, s.beta, s.x1, s.x2);
  Matrix<T> rotation(s.rotation, d, C), turned(s.turned, d, C);
  Buffer<T> gradient(p.size2), point(p.size2);
  for (idx k = 0; k < sample.steps; ++k) {
    T share = s.shares[k];
    blend(s.accelerated ? share : T(1), s.x2, s.mean2, p.size2, point.at);
    gradients.take(k, point.at, {nullptr, nullptr, nullptr}, sample.row_weight, gradient.at);
    steps.measure(s.dual);
    if (s.averaged) {
      approach(gradient.at, p.size2, share, s.mean_gradient);
      approach(steps.augmented.at, p.size, share, s.mean_augmented);
    }
    if (s.rotation) {
      T *back = steps.back2.at;
      multiply_transposed(p.A2, C, steps.augmented.at, back);
      add_to(gradient.at, p.size2, back);
      turned.times(back, point.at);
      for (idx j = 0; j < d; ++j)
        for (idx c = 0; c < C; ++c) point[j * C + c] /= s.weights[k] + s.beta * s.spectrum[j];
      rotation.times(point.at, back);
      for (idx j = 0; j < p.size2; ++j) s.x2[j] -= back[j];
      multiply(p.A2, C, s.x2, steps.a2x.at);
    } else if (s.averaged) {
      steps.second(s.mean_augmented, s.mean_gradient, s.steps[k], s.origin, s.x2);
    } else {
      steps.second(steps.augmented.at, gradient.at, s.steps[k], s.x2, s.x2);
    }
    steps.measure(s.dual);
    steps.first(s.step1, s.x1);
    steps.lift(s.dual);
    approach(s.x1, p.size1, share, s.mean1);
    approach(s.x2, p.size2, share, s.mean2);
  }
}

template <class T> void sdca_admm(const Problem<T> &p, const Sample<T> &sample, const SDCA<T> &s) {
  idx n2 = p.size2, C = p.f.outputs, steps = sample.steps;
  const idx *blocks = sample.batches;
  DualRows<T> rows(p.f, sample.n_runs);
  DualStep<T> structure(p, s.sigma, s.tight);
  Buffer<T> at(n2), before(n2), change(n2), moved(n2);
  const T share = T(1 - 1 / (double)sample.n_runs);
  for (idx k = 0; k < steps; ++k) {
    copy(s.residual, n2, before.at);
    for (idx j = 0; j < n2; ++j) at[j] = s.x2[j] - s.scale * before[j];
    if (p.size > 0) {
      structure.take(at.at, s.dual, s.x1, change.at);
      add_to(change.at, n2, s.residual);
    }
    if (s.has_h2) {
      for (idx j = 0; j < n2; ++j) change[j] = at[j] + s.dual2[j] / s.sigma;
      prox(p.h2, C, change.at, 1 / s.sigma, moved.at);
      for (idx j = 0; j < n2; ++j) {
        T now = s.sigma * (change[j] - moved[j]);
        s.residual[j] += now - s.dual2[j];
        s.dual2[j] = now;
      }
    }
    for (idx j = 0; j < n2; ++j) at[j] = s.x2[j] - s.scale * s.residual[j];
    idx block = blocks[k], following = blocks[k + 1 < steps ? k + 1 : k];
    rows.step(block, following, at.at, s.lengths[block], s.derivatives, change.at);
    for (idx j = 0; j < n2; ++j) {
      s.residual[j] += change[j];
      s.x2[j] -= s.scale * (s.residual[j] - share * before[j]);
    }
  }
}

// A pick below zero is the structure.
template <class T> void spdhg(const Problem<T> &p, const Sample<T> &sample, const SPDHG<T> &s) {
  idx n2 = p.size2, C = p.f.outputs, steps = sample.steps;
  const idx *picks = sample.batches;
  DualRows<T> rows(p.f, sample.n_runs);
  DualStep<T> structure(p, s.sigma, s.tight);
  Buffer<T> change(n2);
  for (idx k = 0; k < steps; ++k) {
    for (idx j = 0; j < n2; ++j) change[j] = s.x2[j] - s.tau * s.ahead[j];
    prox(p.h2, C, change.at, s.tau, s.x2);
    T chance;
    if (picks[k] < 0) {
      structure.take(s.x2, s.dual, s.x1, change.at);
      chance = s.share;
    } else {
      idx later = k + 1;
      while (later < steps && picks[later] < 0) ++later;
      rows.step(picks[k], picks[later < steps ? later : k], s.x2, s.sigmas[picks[k]], s.derivatives,
                change.at);
      chance = (1 - s.share) / (T)sample.n_runs;
    }
    for (idx j = 0; j < n2; ++j) {
      s.pull[j] += change[j];
      s.ahead[j] = s.pull[j] + change[j] / chance;
    }
    add_to(s.x2, n2, s.total2);
    add_to(s.x1, p.size1, s.total1);
  }
}

template <class T>
void vr_pddy(const Problem<T> &p, const Sample<T> &sample, const Anchor<T> &anchor,
             const PDDY<T> &s) {
  idx n2 = p.size2, C = p.f.outputs;
  Gradients<T> gradients(p.f, sample, !anchor.derivatives);
  DualStep<T> structure(p, s.sigma, s.tight);
  Buffer<T> change(n2), back(n2), target(n2);
  multiply_transposed(p.A2, C, s.dual, back.at);
  for (idx k = 0; k < sample.steps; ++k) {
    prox(p.h2, C, s.lead, s.step, s.x2);
    gradients.take(k, s.x2, derivatives_of(anchor), sample.row_weight, change.at);
    for (idx j = 0; j < n2; ++j) {
      change[j] += anchor.gradient[j];
      target[j] = 2 * s.x2[j] - s.lead[j] - s.step * (change[j] + back[j]);
    }
    structure.take(target.at, s.dual, s.x1);
    multiply_transposed(p.A2, C, s.dual, back.at);
    for (idx j = 0; j < n2; ++j) s.lead[j] = s.x2[j] - s.step * (change[j] + back[j]);
    add_to(s.x2, n2, s.total2);
    add_to(s.x1, p.size1, s.total1);
  }
}

// y, z, and the weighted sum of the y in `mean`.
template <class T>
void katyusha(const Problem<T> &p, const Sample<T> &sample, const Anchor<T> &anchor,
              const Katyusha<T> &s) {
  idx n = p.size2, C = p.f.outputs;
  Gradients<T> gradients(p.f, sample, !anchor.derivatives);
  Buffer<T> middle(n), change(n), moved(n);
  const T rest = 1 - s.momentum - s.anchor;
  for (idx k = 0; k < sample.steps; ++k) {
    for (idx j = 0; j < n; ++j)
      middle[j] = s.momentum * s.z[j] + s.anchor * anchor.point[j] + rest * s.y[j];
    gradients.take(k, middle.at, derivatives_of(anchor), sample.row_weight, change.at);
    for (idx j = 0; j < n; ++j) change[j] = s.z[j] - s.length * (anchor.gradient[j] + change[j]);
    prox(p.h2, C, change.at, s.length, moved.at);
    for (idx j = 0; j < n; ++j) {
      s.y[j] = middle[j] + s.momentum * (moved[j] - s.z[j]);
      s.z[j] = moved[j];
      s.mean[j] += s.weights[k] * s.y[j];
    }
  }
}

}  // namespace
}  // namespace VARIANT
