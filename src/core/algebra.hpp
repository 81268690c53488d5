// Products with operators and small dense matrices; blocks are (rows, outputs).
#pragma once
#include "lanes.hpp"

namespace VARIANT {
namespace {

template <class T> INLINE void copy(const T *from, idx n, T *to) {
  if (n > 0) memcpy(to, from, (size_t)n * sizeof(T));
}
template <class T> INLINE void clear(T *out, idx n) {
  if (n > 0) memset(out, 0, (size_t)n * sizeof(T));
}

// ---------------------------------------------------------------- dense rows times one vector

#if defined(__AVX2__)
const int TOGETHER = 4;  // rows; bits do not depend on it
#else
const int TOGETHER = 2;  // registers are half as wide
#endif

// Asks for some rows ahead of time.
template <class T> INLINE void fetch(const T *rows, idx size) {
  for (idx j = 0; j < size; j += 64 / (idx)sizeof(T)) FETCH(rows + j);
}
// Rows X[0..n) times x. Rows `jump` further are asked for, here and in `back`, so that memory works
// all the time.
template <class T> void forward(const T *X, idx n, idx d, const T *x, T *z, idx jump) {
  idx i = 0;
  for (; i + TOGETHER <= n; i += TOGETHER) {
    const T *row = X + i * d;
    if (jump) fetch(row + jump * d, TOGETHER * d);
    if (TOGETHER == 4) dot4(row, d, x, z + i);
    else dot2(row, d, x, z + i);
  }
  for (; i < n; ++i) {
    const T *row = X + i * d;
    if (jump) fetch(row + jump * d, d);
    dot(row, d, x, z + i);
  }
}
// out += sum_i u_i X[i]
template <class T> void back(const T *X, idx n, idx d, const T *u, T *out, idx jump) {
  idx i = 0;
  for (; i + 8 <= n; i += 8) {
    if (jump) fetch(X + (i + jump) * d, 8 * d);
    add8(u + i, X + i * d, out, d);
  }
  for (; i + 4 <= n; i += 4) {
    if (jump) fetch(X + (i + jump) * d, 4 * d);
    add4(u + i, X + i * d, out, d);
  }
  for (; i < n; ++i) {
    if (jump) fetch(X + (i + jump) * d, d);
    add(u[i], X + i * d, out, d);
  }
}

// ---------------------------------------------------------------- dense rows times several vectors
// Their number C is rounded up to whole vectors, P of them, so that no loop has an odd end.

template <class T> constexpr idx padded(idx C) { return (C + lanes<T>() - 1) / lanes<T>() * lanes<T>(); }

template <class T> void pad(const T *x, idx rows, idx C, T *out) {
  idx P = padded<T>(C);
  for (idx j = 0; j < rows; ++j)
    for (idx c = 0; c < C; ++c) out[j * P + c] = x[j * C + c];
}
template <class T> void unpad(const T *x, idx rows, idx C, T *out) {
  idx P = padded<T>(C);
  for (idx j = 0; j < rows; ++j)
    for (idx c = 0; c < C; ++c) out[j * C + c] = x[j * P + c];
}

template <int R, int W, class T>
INLINE void tile(const T *X, idx d, const T *x, idx P, T *z) {
  constexpr int N = lanes<T>();
  Vec<T> sum[R][W];
  UNROLL
  for (int k = 0; k < R * W; ++k) sum[k / W][k % W] = spread(T(0));
  for (idx j = 0; j < d; ++j) {
    Vec<T> v[W];
    UNROLL
    for (int w = 0; w < W; ++w) v[w] = load(x + j * P + w * N);
    UNROLL
    for (int r = 0; r < R; ++r) {
      Vec<T> a = spread(X[r * d + j]);
      UNROLL
      for (int w = 0; w < W; ++w) sum[r][w] += a * v[w];
    }
  }
  UNROLL
  for (int r = 0; r < R; ++r)
    UNROLL
    for (int w = 0; w < W; ++w) store<T>(z + r * P + w * N, sum[r][w]);
}
template <int W, class T> void forward_tiles(const T *X, idx n, idx d, const T *x, idx P, T *z) {
  constexpr int R = W == 1 ? 4 : 2 * (3 - W) + 2;  // 4, 4, 2 rows for 1, 2, 3 vectors
  idx i = 0;
  for (; i + R <= n; i += R) tile<R, W>(X + i * d, d, x, P, z + i * P);
  for (; i < n; ++i) tile<1, W>(X + i * d, d, x, P, z + i * P);
}
// z (n x P) = X x, with x padded to P columns
template <class T> void forward_wide(const T *X, idx n, idx d, const T *x, idx P, T *z) {
  constexpr int N = lanes<T>();
  for (idx at = 0; at < P;) {
    idx left = (P - at) / N;
    if (left >= 5 || left == 3) forward_tiles<3>(X, n, d, x + at, P, z + at), at += 3 * N;
    else if (left >= 2) forward_tiles<2>(X, n, d, x + at, P, z + at), at += 2 * N;
    else forward_tiles<1>(X, n, d, x + at, P, z + at), at += N;
  }
}
// out (d x P) += X' u, with u (n x P)
template <class T> void back_wide(const T *X, idx n, idx d, const T *u, idx P, T *RESTRICT out) {
  constexpr int N = lanes<T>();
  for (idx at = 0; at < P; at += N) {
    idx i = 0;
    for (; i + 4 <= n; i += 4) {
      const T *a = X + i * d;
      Vec<T> p = load(u + i * P + at), q = load(u + (i + 1) * P + at);
      Vec<T> r = load(u + (i + 2) * P + at), t = load(u + (i + 3) * P + at);
      for (idx j = 0; j < d; ++j) {
        Vec<T> sum = (spread(a[j]) * p + spread(a[d + j]) * q) +
                     (spread(a[2 * d + j]) * r + spread(a[3 * d + j]) * t);
        T *to = out + j * P + at;
        store<T>(to, load(to) + sum);
      }
    }
    for (; i < n; ++i) {
      Vec<T> p = load(u + i * P + at);
      for (idx j = 0; j < d; ++j) {
        T *to = out + j * P + at;
        store<T>(to, load(to) + spread(X[i * d + j]) * p);
      }
    }
  }
}

// A square matrix times a block; room is made once.
template <class T> struct Matrix {
  const T *at;
  idx d, C, P;
  Buffer<T> in, out;
  Matrix(const T *at, idx d, idx C)
      : at(at), d(d), C(C), P(padded<T>(C)), in(at && C > 1 ? d * P : 0), out(at && C > 1 ? d * P : 0) {}
  void times(const T *x, T *y) const {
    if (C == 1) return forward(at, d, d, x, y, 0);
    pad(x, d, C, in.at);
    forward_wide(at, d, d, in.at, P, out.at);
    unpad(out.at, d, C, y);
  }
};

// ---------------------------------------------------------------- operators

template <class T>
void csr_product(const int32_t *indptr, const int32_t *indices, const T *data, idx rows, idx C,
                 const T *RESTRICT x, T *RESTRICT out) {
  if (C == 1) {
    for (idx i = 0; i < rows; ++i) {
      T sum = 0;
      for (idx k = indptr[i], end = indptr[i + 1]; k < end; ++k)
        sum += data[k] * x[(uint32_t)indices[k]];  // checked: not negative
      out[i] = sum;
    }
    return;
  }
  for (idx i = 0; i < rows; ++i) {
    T *to = out + i * C;
    for (idx c = 0; c < C; ++c) to[c] = 0;
    for (int32_t k = indptr[i]; k < indptr[i + 1]; ++k) add(data[k], x + (idx)indices[k] * C, to, C);
  }
}

template <class T> void multiply(const Operator<T> &A, idx C, const T *x, T *out) {
  if (A.kind == SCALED_IDENTITY)
    for (idx j = 0; j < A.rows * C; ++j) out[j] = A.scale * x[j];
  else if (A.kind == SPARSE) csr_product(A.indptr, A.indices, A.data, A.rows, C, x, out);
}
template <class T> void multiply_transposed(const Operator<T> &A, idx C, const T *u, T *out) {
  if (A.kind == SCALED_IDENTITY)
    for (idx j = 0; j < A.columns * C; ++j) out[j] = A.scale * u[j];
  else if (A.kind == SPARSE) csr_product(A.t_indptr, A.t_indices, A.t_data, A.columns, C, u, out);
  else clear(out, A.columns * C);
}

}  // namespace
}  // namespace VARIANT
