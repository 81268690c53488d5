// Full passes over the rows of a single-output model: each row is read once.
//
// Sums over a chunk of rows are kept in the data's type; the caller adds chunks up in double.
#pragma once
#include "rows.hpp"

namespace VARIANT {
namespace {

// The sum of the losses of n rows; u are their derivatives, qu the same times the sample weights.
template <class T> double sum_losses(const Data<T> &f, idx at, idx n, const T *z, T *u, T *qu) {
  const LossLoops<T> &loss = loss_of<T>(f.loss);
  double few[MOST_ROWS];
  loss.values(f.p0, f.p1, z, f.y + at, n, u, few);
  if (f.weight)
    for (idx i = 0; i < n; ++i) {
      few[i] *= (double)f.weight[at + i];
      qu[i] = u[i] * f.weight[at + i];
    }
  // in lanes: a chain of single sums would take longer than the losses
  Vec<double> lanes_of = spread(0.0);
  idx i = 0;
  for (; i + 4 <= n; i += 4) lanes_of += load(few + i);
  double sum = total(lanes_of);
  for (; i < n; ++i) sum += few[i];
  return sum;
}

// Predictions z and derivatives u (without sample weights) of rows lo..hi, added to the gradient;
// returns the sum of losses. Forward and back go over a few rows at a time, so that the second
// finds them in the cache.
template <class T>
double full_pass(const Data<T> &f, idx lo, idx hi, const T *x, T *z, T *u, T *gradient) {
  return with_rows(f, [&](auto rows) {
    double sum = 0;
    T weighted[MOST_ROWS], all = 0;
    const idx few = rows.few_of_all(), d = f.d;
    for (idx start = lo; start < hi; start += few) {
      idx m = least(few, hi - start);
      T *z_ = z + (start - lo), *u_ = u + (start - lo), *qu = f.weight ? weighted : u_;
      rows.predict_in_turn(start, start + m, x, z_);
      if (f.intercept)
        for (idx i = 0; i < m; ++i) z_[i] += x[d];
      if (f.offset)
        for (idx i = 0; i < m; ++i) z_[i] += f.offset[start + i];
      sum += sum_losses(f, start, m, z_, u_, qu);
      rows.pull_back(start, start + m, qu, gradient);
      if (f.intercept)
        for (idx i = 0; i < m; ++i) all += qu[i];
    }
    if (f.intercept) gradient[d] += all;
    return sum;
  });
}

// out += sum_i q_i (a_i'v) a_i over rows lo..hi; z is room for one number per row of them
template <class T>
void gram_pass(const Data<T> &f, idx lo, idx hi, const T *v, bool weighted, T *z, T *out) {
  with_rows(f, [&](auto rows) {
    const idx few = rows.few_of_all(), d = f.d;
    for (idx start = lo; start < hi; start += few) {
      idx stop = least(start + few, hi);
      T *z_ = z + (start - lo);
      rows.predict_in_turn(start, stop, v, z_);
      if (f.intercept)
        for (idx i = start; i < stop; ++i) z_[i - start] += v[d];
      if (weighted)
        for (idx i = start; i < stop; ++i) z_[i - start] *= f.weight[i];
      rows.pull_back(start, stop, z_, out);
    }
    if (f.intercept) {
      T all = 0;
      for (idx i = lo; i < hi; ++i) all += z[i - lo];
      out[d] += all;
    }
    return 0;
  });
}

template <class T> INLINE double square(T a) { return (double)a * (double)a; }
// out += q a^2, one row
template <class T>
NOINLINE void add_squares1(double q, const T *RESTRICT a, double *RESTRICT out, idx d) {
  for (idx j = 0; j < d; ++j) out[j] += q * square(a[j]);
}
// out_j += sum_i q_i a_ij^2 over rows lo..hi, one after the other as in a pass; without weights
// q_i = 1
template <class T>
void add_squares(const Dense<T> &rows, idx lo, idx hi, const T *weight, idx W, double *RESTRICT out) {
  for (idx i = lo; i < hi; ++i)
    add_squares1(weight ? (double)weight[i * W] : 1.0, rows.X + i * rows.d, out, rows.d);
}
// Without weights rows do not matter: one loop over all entries, whose length nobody has to guess.
template <class T, class I>
void add_squares(const Csr<T, I> &rows, idx lo, idx hi, const T *weight, idx W, double *RESTRICT out) {
  idx k = (idx)rows.indptr[lo], end = (idx)rows.indptr[hi];
  auto one = [&](idx m) { out[rows.indices[m]] += square(rows.data[m]); };
  if (weight) {
    for (idx i = lo; i < hi; ++i) {
      const double q = (double)weight[i * W];
      for (idx stop = (idx)rows.indptr[i + 1]; k < stop; ++k)
        out[rows.indices[k]] += q * square(rows.data[k]);
    }
    return;
  }
  for (; k + 4 <= end; k += 4) {
    idx next = least(k + AHEAD_ENTRIES, end);
    FETCH(rows.data + next);
    FETCH(rows.indices + next);
    one(k), one(k + 1), one(k + 2), one(k + 3);
  }
  for (; k < end; ++k) one(k);
}

// out_j += sum_i a_ij^2 over all rows
template <class T> void column_squares(const T *X, idx n, idx d, double *out) {
  add_squares(Dense<T>(X, n, d), 0, n, (const T *)nullptr, 1, out);
}

// The mean square of each column, and the largest mean square over one run of rows.
template <class T>
void column_energies(const Data<T> &f, idx n_runs, bool weighted, double *mean, double *largest) {
  with_rows(f, [&](auto rows) {
    idx n = f.n, d = f.d + f.intercept;
    Buffer<double> memory(d);
    double *RESTRICT part = memory.at;
    for (idx r = 0; r < n_runs; ++r) {
      idx lo = r * n / n_runs, hi = (r + 1) * n / n_runs;
      clear(part, d);
      const T *weight = weighted ? f.weight : nullptr;
      add_squares(rows, lo, hi, weight, f.weight_columns, part);
      if (f.intercept)
        for (idx i = lo; i < hi; ++i) part[d - 1] += weight ? (double)weight[i * f.weight_columns] : 1.0;
      for (idx j = 0; j < d; ++j) {
        mean[j] += part[j] / (double)n;
        largest[j] = most(largest[j], part[j] / (double)(hi - lo));
      }
    }
    return 0;
  });
}

template <class T> double score(const Dense<T> &rows, idx i, const double *inverse_energy) {
  const T *a = rows.X + i * rows.d;
  Vec<double> even = spread(0.0), odd = even;
  double rest = 0;
  idx j = 0;
  for (; j + 8 <= rows.d; j += 8) {
    Vec<double> v = widened(a + j), w = widened(a + j + 4);
    even += v * v * load(inverse_energy + j);
    odd += w * w * load(inverse_energy + j + 4);
  }
  for (; j < rows.d; ++j) rest += (double)a[j] * (double)a[j] * inverse_energy[j];
  return total(even + odd) + rest;
}
// Eight entries at a time, the last of them with zeros for what belongs to the next row: rows are
// short, and a loop over what is left would be guessed wrong in most of them.
const double KEPT[16] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};
template <class T, class I>
double score(const Csr<T, I> &rows, idx i, const double *inverse_energy) {
  Vec<double> even = spread(0.0), odd = even;
  auto picked = [&](const I *j) {
    const double *w = inverse_energy;
    return Vec<double>{w[j[0]], w[j[1]], w[j[2]], w[j[3]]};
  };
  auto eight = [&](Vec<double> v, Vec<double> w, const I *j) {
    even += v * v * picked(j);
    odd += w * w * picked(j + 4);
  };
  idx k = (idx)rows.indptr[i], end = (idx)rows.indptr[i + 1];
  const T *a = rows.data;
  for (; k + 8 <= end; k += 8) eight(widened(a + k), widened(a + k + 4), rows.indices + k);
  if (k + 8 <= rows.entries) {
    const double *kept = KEPT + 8 - (end - k);
    eight(widened(a + k) * load(kept), widened(a + k + 4) * load(kept + 4), rows.indices + k);
  } else if (k < end) {  // there is no next row
    T last[8] = {};
    I columns[8] = {};
    for (idx m = k; m < end; ++m) last[m - k] = a[m], columns[m - k] = rows.indices[m];
    eight(widened(last), widened(last + 4), columns);
  }
  return total(even + odd);
}
// sum_j x_ij^2 / energy_j of each row: how much a row matters to rare columns
template <class T>
void row_scores(const Data<T> &f, bool weighted, const double *inverse_energy, double *out) {
  with_rows(f, [&](auto rows) {
    for (idx i = 0; i < f.n; ++i) {
      double sum = score(rows, i, inverse_energy) + (f.intercept ? inverse_energy[f.d] : 0.0);
      out[i] = weighted ? sum * (double)f.weight[i * f.weight_columns] : sum;
    }
    return 0;
  });
}

template <class T> void count_nonzeros(const T *X, idx n, idx d, idx *counts) {
  for (idx i = 0; i < n; ++i) {
    idx sum = 0;
    for (idx j = 0; j < d; ++j) sum += X[i * d + j] != 0;
    counts[i] = sum;
  }
}

// Whether some of eight numbers are not zero: their bits, without the signs.
template <class Bits, class T> INLINE bool any_of_eight(const T *a) {
  Bits all = 0;
  for (idx m = 0; m < 8; ++m) {
    Bits one;
    memcpy(&one, a + m, sizeof one);
    all |= one;
  }
  return (Bits)(all << 1) != 0;
}
INLINE bool some_of_eight(const double *a) { return any_of_eight<uint64_t>(a); }
INLINE bool some_of_eight(const float *a) { return any_of_eight<uint32_t>(a); }

// Columns and values of the numbers other than zero, row by row. Most are zeros, so eight at a time
// are passed over; of others every number is written and zeros are written over, which needs one
// place more at the end.
template <class T, class I> void gather(const T *X, idx n, idx d, I *indices, T *data) {
  idx k = 0;
  for (idx i = 0; i < n; ++i) {
    const T *a = X + i * d;
    auto keep = [&](idx j) {
      indices[k] = (I)j;
      data[k] = a[j];
      k += a[j] != 0;
    };
    idx j = 0;
    for (; j + 8 <= d; j += 8)
      if (some_of_eight(a + j))
        for (idx m = j; m < j + 8; ++m) keep(m);
    for (; j < d; ++j) keep(j);
  }
}
template <class T>
void gather_nonzeros(const T *X, idx n, idx d, bool wide, void *indices, T *data) {
  if (wide) gather(X, n, d, (int64_t *)indices, data);
  else gather(X, n, d, (int32_t *)indices, data);
}

// Rows first..last of sum_i numbers_i a_i a_i' added to the lower triangle of out (columns of f).
template <class T, class I>
void gram_rows(const Csr<T, I> &a, const double *numbers, idx first, idx last, idx d, double *out) {
  for (idx i = 0; i < a.n; ++i)
    for (idx k = (idx)a.indptr[i], end = (idx)a.indptr[i + 1]; k < end; ++k) {
      idx row = (idx)a.indices[k];
      if (row < first || row >= last) continue;
      double value = numbers[i] * (double)a.data[k], *to = out + row * d;
      for (idx m = (idx)a.indptr[i]; m < end; ++m)
        if ((idx)a.indices[m] <= row) to[a.indices[m]] += value * (double)a.data[m];
    }
}
template <class T>
void sparse_gram(const Data<T> &f, const double *numbers, idx first, idx last, double *out) {
  idx d = f.outputs;  // columns of out, which may have a border for the intercept
  if (f.wide) gram_rows(Csr<T, uint64_t>(f), numbers, first, last, d, out);
  else gram_rows(Csr<T, uint32_t>(f), numbers, first, last, d, out);
}

// (high, low) += sum_i v_i a_i as if in twice the precision: errors of products and of sums are
// computed without rounding (Dekker 1971, Knuth) and added up apart (Dot2 of Ogita, Rump and Oishi
// 2005). Entries of `high` must not be reassociated or contracted, which the build rules out.
struct Half {  // a number in two parts of 26 bits, whose products are exact
  double high, low;
  explicit Half(double x) {
    double c = 134217729.0 * x;  // 2^27 + 1
    high = c - (c - x);
    low = x - high;
  }
};
INLINE void add_exactly(double a, double b, Half half, double &high, double &low) {
  Half other(a);
  double product = a * b, sum = high + product, taken = sum - high;
  double rest = other.low * half.low -
                (((product - other.high * half.high) - other.low * half.high) - other.high * half.low);
  low += rest + ((high - (sum - taken)) + (product - taken));
  high = sum;
}
template <class T, class I>
void add_rows_exactly(const Csr<T, I> &a, const double *v, double *high, double *low) {
  for (idx i = 0; i < a.n; ++i) {
    Half half(v[i]);
    for (idx k = (idx)a.indptr[i], end = (idx)a.indptr[i + 1]; k < end; ++k) {
      idx j = (idx)a.indices[k];
      add_exactly((double)a.data[k], v[i], half, high[j], low[j]);
    }
  }
}
template <class T>
void add_rows_exactly(const Dense<T> &a, const double *v, double *RESTRICT high,
                      double *RESTRICT low) {
  for (idx i = 0; i < a.n; ++i) {
    Half half(v[i]);
    const T *row = a.X + i * a.d;
    for (idx j = 0; j < a.d; ++j) add_exactly((double)row[j], v[i], half, high[j], low[j]);
  }
}
template <class T>
void compensated_adjoint(const Data<T> &f, const double *v, double *high, double *low) {
  with_rows(f, [&](const auto &rows) { add_rows_exactly(rows, v, high, low); });
}

}  // namespace
}  // namespace VARIANT
