// Vectors of 32 bytes and sums in fixed lanes: the same bits on every processor.
//
// A sum over n numbers has 2 * N lanes of its own whatever the processor's registers are, so that
// an SSE2, an AVX2 and a NEON machine add in the same order. Nothing of the C++ library is used in
// the variants: an inline function of it, compiled for AVX2, could be the copy that the linker
// keeps for every machine.
#pragma once
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "views.hpp"

#if defined(__GNUC__)
#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))
#define RESTRICT __restrict__
#define FETCH(address) __builtin_prefetch(address, 0, 2)
#define UNROLL _Pragma("GCC unroll 8")
#else
#define NOINLINE __declspec(noinline)
#define INLINE __forceinline
#define RESTRICT __restrict
#define FETCH(address) ((void)(address))
#define UNROLL
#endif

namespace VARIANT {
namespace {

template <class T> INLINE T least(T a, T b) { return b < a ? b : a; }
template <class T> INLINE T most(T a, T b) { return a < b ? b : a; }
// unlike fmin and fmax, comparisons without a rule for NaN vectorize
template <class T> INLINE T clip(T a, T lo, T hi) {
  a = a < lo ? lo : a;
  return a > hi ? hi : a;
}

// Memory of one call, zero unless told otherwise.
template <class T> struct Buffer {
  T *at;
  explicit Buffer(idx size, bool zero = true) {
    size_t count = size > 0 ? (size_t)size : 1;
    at = (T *)(zero ? calloc(count, sizeof(T)) : malloc(count * sizeof(T)));
    if (!at) no_memory();
  }
  ~Buffer() { free(at); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  operator T *() const { return at; }
};

template <class T> constexpr int lanes() { return 32 / (int)sizeof(T); }

#if defined(__GNUC__)
template <class T> struct Vectors;
template <> struct Vectors<double> { typedef double V __attribute__((vector_size(32))); };
template <> struct Vectors<float> { typedef float V __attribute__((vector_size(32))); };
template <class T> using Vec = typename Vectors<T>::V;
INLINE Vec<double> spread(double a) { return Vec<double>{a, a, a, a}; }
INLINE Vec<float> spread(float a) { return Vec<float>{a, a, a, a, a, a, a, a}; }
template <class V> INLINE auto at(const V &v, int lane) { return v[lane]; }
#else
template <class T> struct Vec {
  T part[32 / sizeof(T)];
  Vec &operator+=(const Vec &b) {
    for (int l = 0; l < lanes<T>(); ++l) part[l] += b.part[l];
    return *this;
  }
};
template <class T> INLINE Vec<T> operator+(Vec<T> a, const Vec<T> &b) { return a += b; }
template <class T> INLINE Vec<T> operator*(Vec<T> a, const Vec<T> &b) {
  for (int l = 0; l < lanes<T>(); ++l) a.part[l] *= b.part[l];
  return a;
}
template <class T> INLINE Vec<T> spread(T a) {
  Vec<T> v;
  for (int l = 0; l < lanes<T>(); ++l) v.part[l] = a;
  return v;
}
template <class T> INLINE T at(const Vec<T> &v, int lane) { return v.part[lane]; }
#endif

template <class T> INLINE Vec<T> load(const T *a) {
  Vec<T> v;
  memcpy(&v, a, sizeof v);
  return v;
}
INLINE Vec<double> widened(const double *a) { return load(a); }
INLINE Vec<double> widened(const float *a) {
  return Vec<double>{(double)a[0], (double)a[1], (double)a[2], (double)a[3]};
}
template <class T> INLINE void store(T *a, const Vec<T> &v) { memcpy(a, &v, sizeof v); }
INLINE double total(const Vec<double> &v) { return (at(v, 0) + at(v, 2)) + (at(v, 1) + at(v, 3)); }
INLINE float total(const Vec<float> &v) {
  return ((at(v, 0) + at(v, 4)) + (at(v, 2) + at(v, 6))) +
         ((at(v, 1) + at(v, 5)) + (at(v, 3) + at(v, 7)));
}

// The lanes of one dot product; no arrays of these, which compilers keep in memory.
template <class T> struct Sum {
  Vec<T> even, odd;
  INLINE Sum() : even(spread(T(0))), odd(spread(T(0))) {}
  INLINE void two(const T *a, const Vec<T> &v, const Vec<T> &w) {
    even += load(a) * v;
    odd += load(a + lanes<T>()) * w;
  }
  INLINE void one(const T *a, const Vec<T> &v) { even += load(a) * v; }
  INLINE T close(const T *a, const T *x, idx j, idx d) const {
    T sum = total(even + odd);
    for (; j < d; ++j) sum += a[j] * x[j];
    return sum;
  }
};

// sum_j a_j x_j
template <class T> INLINE void dot(const T *a, idx d, const T *x, T *z) {
  constexpr int N = lanes<T>();
  Sum<T> p;
  idx j = 0;
  for (; j + 2 * N <= d; j += 2 * N) p.two(a + j, load(x + j), load(x + j + N));
  if (j + N <= d) {
    p.one(a + j, load(x + j));
    j += N;
  }
  z[0] = p.close(a, x, j, d);
}
// The same for two rows and for four; every row has the bits that it has alone.
template <class T> INLINE void dot2(const T *a, idx d, const T *x, T *z) {
  constexpr int N = lanes<T>();
  const T *b = a + d;
  Sum<T> p, q;
  idx j = 0;
  for (; j + 2 * N <= d; j += 2 * N) {
    Vec<T> v = load(x + j), w = load(x + j + N);
    p.two(a + j, v, w), q.two(b + j, v, w);
  }
  if (j + N <= d) {
    Vec<T> v = load(x + j);
    p.one(a + j, v), q.one(b + j, v);
    j += N;
  }
  z[0] = p.close(a, x, j, d), z[1] = q.close(b, x, j, d);
}
template <class T> INLINE void dot4(const T *a, idx d, const T *x, T *z) {
  constexpr int N = lanes<T>();
  const T *b = a + d, *c = b + d, *e = c + d;
  Sum<T> p, q, r, s;
  idx j = 0;
  for (; j + 2 * N <= d; j += 2 * N) {
    Vec<T> v = load(x + j), w = load(x + j + N);
    p.two(a + j, v, w), q.two(b + j, v, w), r.two(c + j, v, w), s.two(e + j, v, w);
  }
  if (j + N <= d) {
    Vec<T> v = load(x + j);
    p.one(a + j, v), q.one(b + j, v), r.one(c + j, v), s.one(e + j, v);
    j += N;
  }
  z[0] = p.close(a, x, j, d), z[1] = q.close(b, x, j, d);
  z[2] = r.close(c, x, j, d), z[3] = s.close(e, x, j, d);
}

// out += s a
template <class T> INLINE void add(T s, const T *RESTRICT a, T *RESTRICT out, idx d) {
  for (idx j = 0; j < d; ++j) out[j] += s * a[j];
}
// out += s_0 a_0 + ... + s_3 a_3, rows of a
template <class T> INLINE void add4(const T *s, const T *RESTRICT a, T *RESTRICT out, idx d) {
  const T *b = a + d, *c = b + d, *e = c + d;
  const T p = s[0], q = s[1], r = s[2], t = s[3];
  for (idx j = 0; j < d; ++j) out[j] += (p * a[j] + q * b[j]) + (r * c[j] + t * e[j]);
}

// the same for eight rows, so that out is read and written half as often
template <class T> INLINE void add8(const T *s, const T *RESTRICT a, T *RESTRICT out, idx d) {
  const T *b = a + d, *c = b + d, *e = c + d, *f = e + d, *g = f + d, *h = g + d, *k = h + d;
  const T p = s[0], q = s[1], r = s[2], t = s[3], u = s[4], v = s[5], w = s[6], x = s[7];
  for (idx j = 0; j < d; ++j)
    out[j] += ((p * a[j] + q * b[j]) + (r * c[j] + t * e[j])) +
              ((u * f[j] + v * g[j]) + (w * h[j] + x * k[j]));
}

}  // namespace
}  // namespace VARIANT
