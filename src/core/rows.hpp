// Reading rows: predictions of a few rows, their derivatives, the step back, while they are in the cache.
//
// `Dense` and `Csr` are the two kinds of rows. A batch is a list of runs; run r covers the rows
// r n / n_runs up to the start of run r + 1. The derivative of the snapshot is one stored number per row
// and output, so a variance-reduced gradient costs what a plain one does; where there is no memory
// for these, it is computed again at the snapshot's point while the rows are in the cache.
#pragma once
#include "algebra.hpp"
#include "losses.hpp"

namespace VARIANT {
namespace {

const idx MOST_ROWS = 64;       // at once
const idx FEW_BYTES = 16384;    // of rows at once: half of a first-level cache
const idx PASS_BYTES = 6144;    // in a pass over all rows: these, the next ones and the gradient fit
const idx AHEAD_ENTRIES = 256;  // of sparse rows: what memory brings while others are multiplied

template <class T> struct Dense {
  const T *X;
  idx n, d;
  explicit Dense(const Data<T> &f) : Dense(f.X, f.n, f.d) {}
  Dense(const T *X, idx n, idx d) : X(X), n(n), d(d) {}
  idx few() const { return clip(FEW_BYTES / (idx)sizeof(T) / most<idx>(d, 1), idx(1), MOST_ROWS); }
  // A pass over all rows: how many at once, and their products. Rows are read one after the other,
  // a stream that processors see and bring ahead of time themselves; four long ones together, for
  // which x is read from the second cache once.
  idx few_of_all() const {
    return clip<idx>(PASS_BYTES / (idx)sizeof(T) / most<idx>(d, 1) / 4 * 4, 4, MOST_ROWS);
  }
  void predict_in_turn(idx lo, idx hi, const T *x, T *z) const {
    if (d * (idx)sizeof(T) > FEW_BYTES) return predict(lo, hi, x, z, 0);
    for (idx i = lo; i < hi; ++i) dot(X + i * d, d, x, z + (i - lo));
  }
  // z = rows lo..hi times x; rows `jump` further are asked for ahead of time
  void predict(idx lo, idx hi, const T *x, T *z, idx jump) const {
    forward(X + lo * d, hi - lo, d, x, z, hi + jump <= n && lo + jump >= 0 ? jump : 0);
  }
  void pull_back(idx lo, idx hi, const T *u, T *out, idx jump = 0) const {
    back(X + lo * d, hi - lo, d, u, out, hi + jump <= n && lo + jump >= 0 ? jump : 0);
  }
  void predict_wide(idx lo, idx hi, const T *x, idx P, T *z) const {
    forward_wide(X + lo * d, hi - lo, d, x, P, z);
  }
  void pull_back_wide(idx lo, idx hi, const T *u, idx P, T *out) const {
    back_wide(X + lo * d, hi - lo, d, u, P, out);
  }
};

template <class T, class I> struct Csr {  // indices are checked: unsigned ones cost nothing to widen
  const I *indptr, *indices;
  const T *data;
  idx n, entries, mean_row;
  explicit Csr(const Data<T> &f)
      : indptr((const I *)f.indptr), indices((const I *)f.indices), data(f.data), n(f.n),
        entries(f.entries), mean_row(f.entries / most<idx>(f.n, 1)) {}
  idx few() const {
    return clip(FEW_BYTES / (idx)(sizeof(T) + sizeof(I)) / (mean_row + 1), idx(1), MOST_ROWS);
  }
  idx few_of_all() const { return few(); }
  void predict_in_turn(idx lo, idx hi, const T *x, T *z) const { predict(lo, hi, x, z, few()); }
  void predict(idx lo, idx hi, const T *x, T *z, idx jump) const {
    bool ahead = jump && hi + jump <= n && lo + jump >= 0;
    for (idx i = lo; i < hi; ++i) {
      if (ahead) {
        FETCH(data + indptr[i + jump]);
        FETCH(indices + indptr[i + jump]);
      }
      T even = 0, odd = 0;
      idx k = (idx)indptr[i], end = (idx)indptr[i + 1];
      for (; k + 2 <= end; k += 2) {
        even += data[k] * x[indices[k]];
        odd += data[k + 1] * x[indices[k + 1]];
      }
      if (k < end) even += data[k] * x[indices[k]];
      z[i - lo] = even + odd;
    }
  }
  void pull_back(idx lo, idx hi, const T *u, T *RESTRICT out, idx = 0) const {
    for (idx i = lo; i < hi; ++i) {
      T step = u[i - lo];
      for (idx k = (idx)indptr[i], end = (idx)indptr[i + 1]; k < end; ++k)
        out[indices[k]] += step * data[k];
    }
  }
  void predict_wide(idx lo, idx hi, const T *x, idx P, T *z) const {
    for (idx i = lo; i < hi; ++i) {
      T *to = z + (i - lo) * P;
      clear(to, P);
      for (I k = indptr[i]; k < indptr[i + 1]; ++k) accumulate(data[k], x + (idx)indices[k] * P, P, to);
    }
  }
  void pull_back_wide(idx lo, idx hi, const T *u, idx P, T *out) const {
    for (idx i = lo; i < hi; ++i)
      for (I k = indptr[i]; k < indptr[i + 1]; ++k)
        accumulate(data[k], u + (i - lo) * P, P, out + (idx)indices[k] * P);
  }
  static INLINE void accumulate(T value, const T *x, idx P, T *to) {
    Vec<T> a = spread(value);
    for (idx c = 0; c < P; c += lanes<T>()) store<T>(to + c, load(to + c) + a * load(x + c));
  }
};

// Call with the kind of rows that the data has.
template <class T, class F> INLINE auto with_rows(const Data<T> &f, F call) {
  if (!f.sparse) return call(Dense<T>(f));
  if (f.wide) return call(Csr<T, uint64_t>(f));
  return call(Csr<T, uint32_t>(f));
}

// ---------------------------------------------------------------- batches

// Derivatives to subtract: absent (all null), stored and read, stored and renewed, or those at a point.
template <class T> struct Derivatives {
  const T *old;
  T *renewed;
  const T *point;
};
template <class T> Derivatives<T> derivatives_of(const Anchor<T> &anchor) {
  return {anchor.derivatives, nullptr, anchor.derivatives ? nullptr : anchor.point};
}

INLINE void run_of(idx run, idx n, idx n_runs, idx &lo, idx &hi) {
  lo = n_runs == n ? run : run * n / n_runs;
  hi = n_runs == n ? run + 1 : (run + 1) * n / n_runs;
}

template <class T> INLINE void finish(const Derivatives<T> &kept, idx at, idx n, T scale, T *u) {
  if (kept.renewed) {
    for (idx i = 0; i < n; ++i) {
      T now = u[i];
      u[i] = scale * (now - kept.renewed[at + i]);
      kept.renewed[at + i] = now;
    }
  } else if (kept.old) {
    for (idx i = 0; i < n; ++i) u[i] = scale * (u[i] - kept.old[at + i]);
  } else {
    for (idx i = 0; i < n; ++i) u[i] = scale * u[i];
  }
}

// The predictions of row i, intercept and offset added.
template <class T> INLINE void shift_row(const Data<T> &f, idx i, T *z, const T *intercept) {
  idx C = f.outputs;
  if (f.intercept)
    for (idx c = 0; c < C; ++c) z[c] += intercept[c];
  if (f.offset)
    for (idx c = 0; c < C; ++c) z[c] += f.offset[i * C + c];
}
// The derivatives of row i at predictions z without intercept and offset.
template <class T>
void row_derivatives(const Data<T> &f, idx i, T *z, const T *intercept, double *room, T *u) {
  idx C = f.outputs;
  shift_row(f, i, z, intercept);
  if (f.loss == MULTINOMIAL) softmax_derivative(z, (idx)f.y[i * f.y_columns], C, room, u);
  else loss_of<T>(f.loss).derivatives(f.p0, f.p1, z, f.y + i * f.y_columns, C, u);
}
template <class T> INLINE void weigh(const Data<T> &f, idx i, T *u) {
  if (f.weight)
    for (idx c = 0; c < f.outputs; ++c)
      u[c] *= f.weight[i * f.weight_columns + (f.weight_columns > 1 ? c : 0)];
}

// How a loop takes gradients of batches; made once per call, with its room.
template <class T> struct Gradients {
  const Data<T> &f;
  const Sample<T> &sample;
  idx C, P;
  Buffer<T> x_wide, out_wide, z_wide, u_wide, point_wide, again_wide;
  Buffer<double> room;

  // `again` says that derivatives at a point are computed again
  Gradients(const Data<T> &f, const Sample<T> &sample, bool again = false)
      : f(f), sample(sample), C(f.outputs), P(C > 1 ? padded<T>(C) : 0),
        x_wide((f.d + 1) * P), out_wide((f.d + 1) * P), z_wide(MOST_ROWS * P), u_wide(MOST_ROWS * P),
        point_wide(again ? (f.d + 1) * P : 0), again_wide(again ? P : 0), room(4 * C) {}

  // scale * sum over the rows of batch k of (derivative_i(x) - old_i) a_i into out
  void take(idx k, const T *x, Derivatives<T> kept, T scale, T *out) {
    const idx *runs = sample.batches + k * sample.per_batch;
    idx following = sample.batches[(k + 1 < sample.steps ? k + 1 : k) * sample.per_batch];
    with_rows(f, [&](auto rows) {
      if (C > 1) several(rows, runs, x, kept, scale, out);
      else single(rows, runs, following, x, kept, scale, out);
      return 0;
    });
  }

  template <class R>
  void single(const R &rows, const idx *runs, idx following, const T *x, Derivatives<T> kept, T scale,
              T *out) {
    const LossLoops<T> &loss = loss_of<T>(f.loss);
    T z[MOST_ROWS], u[MOST_ROWS], before[MOST_ROWS];
    idx few = rows.few(), n = f.n, d = f.d, lo, hi, next, end;
    auto derivatives = [&](idx start, idx stop, const T *at, idx jump, T *to) {
      idx m = stop - start;
      rows.predict(start, stop, at, z, jump);
      if (f.intercept)
        for (idx i = 0; i < m; ++i) z[i] += at[d];
      if (f.offset)
        for (idx i = 0; i < m; ++i) z[i] += f.offset[start + i];
      loss.derivatives(f.p0, f.p1, z, f.y + start, m, to);
    };
    clear(out, d + f.intercept);
    for (idx r = 0; r < sample.per_batch; ++r) {
      run_of(runs[r], n, sample.n_runs, lo, hi);
      run_of(r + 1 < sample.per_batch ? runs[r + 1] : following, n, sample.n_runs, next, end);
      FETCH(f.y + next);
      if (kept.old) FETCH(kept.old + next);
      for (idx start = lo; start < hi; start += few) {
        idx stop = least(start + few, hi), m = stop - start;
        derivatives(start, stop, x, next - lo, u);
        if (kept.point) {
          derivatives(start, stop, kept.point, 0, before);
          for (idx i = 0; i < m; ++i) u[i] = scale * (u[i] - before[i]);
        } else finish(kept, start, m, scale, u);
        if (f.weight)
          for (idx i = 0; i < m; ++i) u[i] *= f.weight[start + i];
        rows.pull_back(start, stop, u, out, next - lo);
        if (f.intercept)
          for (idx i = 0; i < m; ++i) out[d] += u[i];
      }
    }
  }

  template <class R>
  void several(const R &rows, const idx *runs, const T *x, Derivatives<T> kept, T scale, T *out) {
    idx n = f.n, d = f.d, few = rows.few(), lo, hi;
    pad(x, d + f.intercept, C, x_wide.at);
    if (kept.point) pad(kept.point, d + f.intercept, C, point_wide.at);
    clear(out_wide.at, (d + f.intercept) * P);
    for (idx r = 0; r < sample.per_batch; ++r) {
      run_of(runs[r], n, sample.n_runs, lo, hi);
      for (idx start = lo; start < hi; start += few) {
        idx stop = least(start + few, hi);
        if (kept.point) {
          rows.predict_wide(start, stop, point_wide.at, P, z_wide.at);
          for (idx i = start; i < stop; ++i)
            row_derivatives(f, i, z_wide.at + (i - start) * P, point_wide.at + d * P, room.at,
                       u_wide.at + (i - start) * P);
        }
        rows.predict_wide(start, stop, x_wide.at, P, z_wide.at);
        for (idx i = start; i < stop; ++i) {
          T *u = u_wide.at + (i - start) * P, *z = z_wide.at + (i - start) * P;
          if (kept.point) {  // the old derivatives are in u
            row_derivatives(f, i, z, x_wide.at + d * P, room.at, again_wide.at);
            for (idx c = 0; c < C; ++c) u[c] = scale * (again_wide[c] - u[c]);
          } else {
            row_derivatives(f, i, z, x_wide.at + d * P, room.at, u);
            finish(kept, i * C, C, scale, u);
          }
          weigh(f, i, u);
          if (f.intercept) add(T(1), u, out_wide.at + d * P, C);
        }
        rows.pull_back_wide(start, stop, u_wide.at, P, out_wide.at);
      }
    }
    unpad(out_wide.at, d + f.intercept, C, out);
  }
};

template <class T>
void batch_gradient(const Data<T> &f, const Sample<T> &sample, const T *x, T *old, bool renew,
                    T *out) {
  Gradients<T> gradients(f, sample);
  gradients.take(0, x, {old, renew ? old : nullptr, nullptr}, sample.row_weight, out);
}

// ---------------------------------------------------------------- the dual variables of rows

const double SMALLEST_WEIGHT = 1e-12;

template <class T> struct DualRows {
  const Data<T> &f;
  idx n_blocks, C, P;
  Buffer<T> x_wide, out_wide, z_wide;
  Buffer<double> room;

  DualRows(const Data<T> &f, idx n_blocks)
      : f(f), n_blocks(n_blocks), C(f.outputs), P(C > 1 ? padded<T>(C) : 0),
        x_wide((f.d + 1) * P), out_wide((f.d + 1) * P), z_wide(MOST_ROWS * P), room(5 * C) {}

  // Step the derivatives of a block of rows at x, in place; out is the change of their gradient.
  void step(idx block, idx following, const T *x, T sigma, T *derivatives, T *out) {
    with_rows(f, [&](auto rows) {
      if (C > 1) several(rows, block, x, sigma, derivatives, out);
      else single(rows, block, following, x, sigma, derivatives, out);
      return 0;
    });
  }

  INLINE double length(T sigma, double weight) const {
    return (double)sigma * (double)f.n / most(weight, SMALLEST_WEIGHT);
  }

  template <class R>
  void single(const R &rows, idx block, idx following, const T *x, T sigma, T *derivatives, T *out) {
    const LossLoops<T> &loss = loss_of<T>(f.loss);
    T z[MOST_ROWS];
    double steps[MOST_ROWS];
    idx n = f.n, d = f.d, few = rows.few(), lo, hi, next, end;
    run_of(block, n, n_blocks, lo, hi);
    run_of(following, n, n_blocks, next, end);
    clear(out, d + f.intercept);
    FETCH(derivatives + next);
    FETCH(f.y + next);
    for (idx start = lo; start < hi; start += few) {
      idx stop = least(start + few, hi), m = stop - start;
      rows.predict(start, stop, x, z, next - lo);
      for (idx i = 0; i < m; ++i) {
        if (f.intercept) z[i] += x[d];
        if (f.offset) z[i] += f.offset[start + i];
        steps[i] = length(sigma, f.weight ? (double)f.weight[start + i] : 1.0);
      }
      loss.conjugate(f.p0, f.p1, steps, f.y + start, m, derivatives + start, z);
      for (idx i = 0; i < m; ++i)
        z[i] = (T)((f.weight ? (double)f.weight[start + i] : 1.0) / (double)n * (double)z[i]);
      rows.pull_back(start, stop, z, out, next - lo);
      if (f.intercept)
        for (idx i = 0; i < m; ++i) out[d] += z[i];
    }
  }

  template <class R> void several(const R &rows, idx block, const T *x, T sigma, T *derivatives, T *out) {
    idx n = f.n, d = f.d, few = rows.few(), lo, hi;
    run_of(block, n, n_blocks, lo, hi);
    pad(x, d + f.intercept, C, x_wide.at);
    clear(out_wide.at, (d + f.intercept) * P);
    for (idx start = lo; start < hi; start += few) {
      idx stop = least(start + few, hi);
      rows.predict_wide(start, stop, x_wide.at, P, z_wide.at);
      for (idx i = start; i < stop; ++i) {
        T *z = z_wide.at + (i - start) * P;
        shift_row(f, i, z, x_wide.at + d * P);
        one_row(i, sigma, derivatives + i * C, z);
        if (f.intercept) add(T(1), z, out_wide.at + d * P, C);
      }
      rows.pull_back_wide(start, stop, z_wide.at, P, out_wide.at);
    }
    unpad(out_wide.at, d + f.intercept, C, out);
  }

  // z holds the predictions of row i, and then the weighted change of its derivatives
  void one_row(idx i, T sigma, T *derivatives, T *z) {
    double *steps = room.at + 4 * C;
    idx W = f.weight_columns;
    for (idx c = 0; c < C; ++c)
      steps[c] = length(sigma, f.weight ? (double)f.weight[i * W + (W > 1 ? c : 0)] : 1.0);
    if (f.loss == MULTINOMIAL)
      softmax_conjugate(derivatives, z, (idx)f.y[i * f.y_columns], steps[0], C, room.at);
    else loss_of<T>(f.loss).conjugate(f.p0, f.p1, steps, f.y + i * f.y_columns, C, derivatives, z);
    for (idx c = 0; c < C; ++c) {
      double q = f.weight ? (double)f.weight[i * W + (W > 1 ? c : 0)] : 1.0;
      z[c] = (T)(q / (double)f.n * (double)z[c]);
    }
  }
};

template <class T>
void data_step(const Data<T> &f, idx block, idx n_blocks, const T *x, T sigma, T *derivatives, T *out) {
  DualRows<T>(f, n_blocks).step(block, block, x, sigma, derivatives, out);
}

}  // namespace
}  // namespace VARIANT
