// Columns of a table side by side: the rows that they make, in row-major order.
#pragma once
#include "lanes.hpp"

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLE
#endif
#endif

namespace VARIANT {
namespace {

// Rows that are written at a time: pieces of as many columns as a vector has lanes. What the next
// rows take of these columns is asked for meanwhile, because processors do not see as many streams
// as a table has columns.
const idx TILE_ROWS = 64;

#if defined(HAVE_SHUFFLE)
// Entries of a and b in turn: the first half of them, and the second.
INLINE void zip(Vec<float> a, Vec<float> b, Vec<float> &first, Vec<float> &second) {
  first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  second = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
INLINE void zip(Vec<double> a, Vec<double> b, Vec<double> &first, Vec<double> &second) {
  first = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  second = __builtin_shufflevector(a, b, 2, 6, 3, 7);
}
// A square of as many rows as a vector has lanes; zipping halves so often transposes it.
template <class T> INLINE void square_beside(const T *const *columns, idx at, T *out, idx width) {
  constexpr int N = lanes<T>();
  Vec<T> v[N], w[N];
  UNROLL for (int k = 0; k < N; ++k) v[k] = load(columns[k] + at);
  UNROLL for (int round = 1; round < N; round *= 2) {
    UNROLL for (int k = 0; k < N / 2; ++k) zip(v[k], v[k + N / 2], w[2 * k], w[2 * k + 1]);
    UNROLL for (int k = 0; k < N; ++k) v[k] = w[k];
  }
  UNROLL for (int k = 0; k < N; ++k) store(out + k * width, v[k]);
}
#endif

template <class T>
INLINE void tile_beside(const T *const *columns, idx count, idx m, T *out, idx width) {
  idx i = 0;
#if defined(HAVE_SHUFFLE)
  constexpr int N = lanes<T>();
  if (count == N)
    for (; i + N <= m; i += N) square_beside(columns, i, out + i * width, width);
#endif
  for (; i < m; ++i)
    for (idx k = 0; k < count; ++k) out[i * width + k] = columns[k][i];
}

template <class T, class S> INLINE void convert(const void *from, idx at, idx m, T *out) {
  const S *column = (const S *)from + at;
  for (idx i = 0; i < m; ++i) out[i] = (T)column[i];
}
template <class T> void convert(const Column &c, idx at, idx m, T *out) {
  switch (c.kind) {
    case COLUMN_F4: return convert<T, float>(c.data, at, m, out);
    case COLUMN_F8: return convert<T, double>(c.data, at, m, out);
    case COLUMN_I1: return convert<T, int8_t>(c.data, at, m, out);
    case COLUMN_I2: return convert<T, int16_t>(c.data, at, m, out);
    case COLUMN_I4: return convert<T, int32_t>(c.data, at, m, out);
    case COLUMN_I8: return convert<T, int64_t>(c.data, at, m, out);
    case COLUMN_U1: return convert<T, uint8_t>(c.data, at, m, out);
    case COLUMN_U2: return convert<T, uint16_t>(c.data, at, m, out);
    case COLUMN_U4: return convert<T, uint32_t>(c.data, at, m, out);
    default: return convert<T, uint64_t>(c.data, at, m, out);
  }
}

// Row i of `out`, rows being `width` numbers apart, gets entry i of each of d columns of n numbers.
template <class T> void beside(const Column *columns, idx d, idx n, T *out, idx width) {
  constexpr int N = lanes<T>();
  const ColumnKind same = sizeof(T) == 4 ? COLUMN_F4 : COLUMN_F8;
  T room[N * TILE_ROWS];
  const T *here[N];
  for (idx at = 0; at < n; at += TILE_ROWS) {
    idx m = least(TILE_ROWS, n - at);
    for (idx j = 0; j < d; j += N) {
      idx count = least<idx>(N, d - j);
      for (idx k = 0; k < count; ++k) {
        const Column &c = columns[j + k];
        if (c.kind == same) {
          here[k] = (const T *)c.data + at;
          if (at + 2 * TILE_ROWS <= n)
            for (idx i = m; i < 2 * m; i += 64 / (idx)sizeof(T)) FETCH(here[k] + i);
        } else {
          convert(c, at, m, room + k * TILE_ROWS);
          here[k] = room + k * TILE_ROWS;
        }
      }
      tile_beside(here, count, m, out + at * width + j, width);
    }
  }
}

}  // namespace
}  // namespace VARIANT
