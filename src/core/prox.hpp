// Proximal steps of penalties given as consecutive terms.
//
// A term is a function, a name in `OtherTerm` and a line in `prox`.
#pragma once
#include "algebra.hpp"

namespace VARIANT {
namespace {

// The same integers stand in base/terms.py.
enum OtherTerm { TOTAL_VARIATION = N_SIMPLE, SPARSE_GROUP_NORMS, NUCLEAR_NORM, N_TERMS };

template <class T>
void prox_elementwise(const Penalty<T> &h, idx first, idx last, idx C, const T *RESTRICT v, T step,
                      T *RESTRICT out) {
  const T *RESTRICT l1 = h.l1, *RESTRICT l2 = h.l2, *RESTRICT lo = h.lo, *RESTRICT hi = h.hi;
  if (C == 1 || h.per_entry) {
    for (idx k = first * C; k < last * C; ++k) {
      T cut = step * l1[k], a = (v[k] - clip(v[k], -cut, cut)) / (1 + step * l2[k]);
      out[k] = clip(a, lo[k], hi[k]);
    }
    return;
  }
  for (idx j = first; j < last; ++j) {
    T cut = step * l1[j], shrink = 1 + step * l2[j], low = lo[j], high = hi[j];
    for (idx k = j * C; k < (j + 1) * C; ++k)
      out[k] = clip((v[k] - clip(v[k], -cut, cut)) / shrink, low, high);
  }
}

template <class T> double norm_of(const T *v, idx first, idx last) {
  double sum = 0;
  for (idx j = first; j < last; ++j) sum += (double)v[j] * (double)v[j];
  return sqrt(sum);
}

template <class T>
void prox_group_norms(const Penalty<T> &h, idx first, idx last, idx C, const T *v, T step, T *out) {
  for (idx g = first; g < last; ++g) {
    idx start = h.group_starts[g] * C, stop = h.group_stops[g] * C;
    double norm = norm_of(v, start, stop), cut = (double)(step * h.group_weights[g]);
    T keep = norm > cut ? (T)(1 - cut / norm) : T(0);
    for (idx j = start; j < stop; ++j) out[j] = keep * v[j];
  }
}

// Exact prox of total variation along a line, in linear time: Johnson's dynamic programming, told
// in kernels/tv.py. Sums of n terms: double whatever the type. `room` holds 8 n numbers.
template <class T>
void fuse(const T *v, idx n, idx stride, double t, T *out, double *room) {
  if (n == 0) return;
  if (n == 1 || t == 0) {
    for (idx j = 0; j < n; ++j) out[j * stride] = v[j * stride];
    return;
  }
  double *knots = room, *derivatives = knots + 2 * n, *offsets = derivatives + 2 * n;
  double *low = offsets + 2 * n, *high = low + n;
  double w = (double)v[0], derivative, offset;
  idx left = n - 1, right = n, first, last;
  low[0] = w - t;
  high[0] = w + t;
  knots[left] = low[0], derivatives[left] = 1, offsets[left] = t - w;
  knots[right] = high[0], derivatives[right] = -1, offsets[right] = t + w;
  // the derivative is -t left of all knots, +t right of them, plus the new entry's (b - v_j)
  for (idx j = 1; j < n - 1; ++j) {
    w = (double)v[j * stride];
    derivative = 1, offset = -t - w;
    for (first = left; first <= right && derivative * knots[first] + offset <= -t; ++first)
      derivative += derivatives[first], offset += offsets[first];
    low[j] = (-t - offset) / derivative;
    double derivative_low = derivative, offset_low = offset;
    derivative = 1, offset = t - w;
    for (last = right; last >= first && derivative * knots[last] + offset >= t; --last)
      derivative -= derivatives[last], offset -= offsets[last];
    high[j] = (t - offset) / derivative;
    left = first - 1;
    knots[left] = low[j], derivatives[left] = derivative_low, offsets[left] = offset_low + t;
    right = last + 1;
    knots[right] = high[j], derivatives[right] = -derivative, offsets[right] = t - offset;
  }
  derivative = 1, offset = -t - (double)v[(n - 1) * stride];
  for (first = left; first <= right && derivative * knots[first] + offset <= 0; ++first)
    derivative += derivatives[first], offset += offsets[first];
  double x = -offset / derivative;
  out[(n - 1) * stride] = (T)x;
  for (idx j = n - 2; j >= 0; --j) {
    x = least(most(x, low[j]), high[j]);
    out[j * stride] = (T)x;
  }
}
template <class T> void fuse_columns(const T *v, idx n, idx C, double threshold, T *out) {
  Buffer<double> room(8 * n, false);
  for (idx c = 0; c < C; ++c) fuse(v + c, n, C, threshold, out + c, room.at);
}

// One-sided Jacobi rotations: the rows of A become orthogonal, so that their lengths are its
// singular values, small ones as accurate as large ones; Q gets the rotations, A = Q (A before).
inline void make_orthogonal(double *RESTRICT A, idx side, idx length, double *RESTRICT Q) {
  for (idx p = 0; p < side; ++p)
    for (idx q = 0; q < side; ++q) Q[p * side + q] = p == q ? 1.0 : 0.0;
  const double rounding = 1e-15 * sqrt((double)length);
  bool turned = true;
  for (int sweep = 0; turned && sweep < 40; ++sweep) {
    turned = false;
    for (idx p = 0; p < side; ++p)
      for (idx q = p + 1; q < side; ++q) {
        double *RESTRICT a = A + p * length, *RESTRICT b = A + q * length;
        double aa = 0, bb = 0, ab = 0;
        for (idx i = 0; i < length; ++i) aa += a[i] * a[i], bb += b[i] * b[i], ab += a[i] * b[i];
        if (!(fabs(ab) > rounding * (sqrt(aa) * sqrt(bb)))) continue;
        turned = true;
        double ratio = (bb - aa) / (2 * ab);
        double t = (ratio < 0 ? -1.0 : 1.0) / (fabs(ratio) + sqrt(ratio * ratio + 1));
        double c = 1 / sqrt(t * t + 1), s = t * c;
        auto turn = [&](double *RESTRICT x, double *RESTRICT y, idx n) {
          for (idx i = 0; i < n; ++i) {
            double u = x[i], v = y[i];
            x[i] = c * u - s * v, y[i] = s * u + c * v;
          }
        };
        turn(a, b, length), turn(Q + p * side, Q + q * side, side);
      }
  }
}
// Soft thresholding of the singular values of a matrix, V = sum_k (row k of A) (row k of Q)' with
// the longer side in A.
template <class T>
void prox_nuclear_norm(idx rows, idx columns, const T *v, double cut, T *out) {
  bool tall = rows >= columns;
  idx side = tall ? columns : rows, length = tall ? rows : columns;
  idx across = tall ? 1 : columns, along = tall ? columns : 1;  // steps in v
  Buffer<double> A(side * length, false), Q(side * side, false), entries(side, false);
  for (idx p = 0; p < side; ++p)
    for (idx i = 0; i < length; ++i) A[p * length + i] = (double)v[p * across + i * along];
  make_orthogonal(A.at, side, length, Q.at);
  for (idx p = 0; p < side; ++p) {
    double value = norm_of(A.at, p * length, (p + 1) * length);
    double share = value > cut ? (value - cut) / value : 0.0;
    for (idx q = 0; q < side; ++q) Q[p * side + q] *= share;
  }
  for (idx i = 0; i < length; ++i) {
    clear(entries.at, side);
    for (idx p = 0; p < side; ++p)
      for (idx q = 0; q < side; ++q) entries[q] += A[p * length + i] * Q[p * side + q];
    for (idx q = 0; q < side; ++q) out[q * across + i * along] = (T)entries[q];
  }
}

// argmin_u h(u) + |u - v|^2 / (2 step) into out; v is not changed.
template <class T> void prox(const Penalty<T> &h, idx C, const T *v, T step, T *out) {
  if (h.n_terms == 0) copy(v, h.rows * C, out);
  for (idx t = 0; t < h.n_terms; ++t) {
    idx first = h.starts[t], last = h.starts[t + 1];
    if (h.kinds[t] == ELEMENTWISE) prox_elementwise(h, first, last, C, v, step, out);
    else if (h.kinds[t] == GROUP_NORMS)
      prox_group_norms(h, h.first_group[t], h.first_group[t + 1], C, v, step, out);
    else if (h.kinds[t] == SPARSE_GROUP_NORMS) {
      prox_elementwise(h, first, last, C, v, step, out);
      prox_group_norms(h, h.first_group[t], h.first_group[t + 1], C, out, step, out);
    } else if (h.kinds[t] == NUCLEAR_NORM) {  // a group is a row of the matrix
      idx rows = most(h.first_group[t + 1] - h.first_group[t], (idx)1);
      prox_nuclear_norm(rows, (last - first) * C / rows, v + first * C,
                        (double)(step * h.variation[t]), out + first * C);
    } else fuse_columns(v + first * C, last - first, C, (double)(step * h.variation[t]), out + first * C);
  }
}

}  // namespace
}  // namespace VARIANT
