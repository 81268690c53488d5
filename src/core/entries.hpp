// Loops over entries, a prediction or derivative with its target each, of losses known by their structs:
// values, second derivatives, and everything that certificates ask of the conjugate.
#pragma once
#include "losses.hpp"

namespace VARIANT {
namespace {

template <class L>
NOINLINE void curvatures(double p0, double p1, const double *RESTRICT z, const double *RESTRICT y,
                         idx n, double *RESTRICT out) {
  for (idx i = 0; i < n; ++i) out[i] = L::curvature(p0, p1, z[i], y[i]);
}
template <class L>
NOINLINE void duals(double p0, double p1, const double *RESTRICT u, const double *RESTRICT y, idx n,
                    double *RESTRICT out) {
  for (idx i = 0; i < n; ++i) out[i] = L::dual(p0, p1, u[i], y[i]);
}
template <class L>
void ranges(double p0, double p1, const double *y, idx n, double *low, double *high) {
  for (idx i = 0; i < n; ++i) {
    Range range = L::range(p0, p1, y[i]);
    low[i] = range.low;
    high[i] = range.high;
  }
}
// loss*(u), infinite where u is beyond its interval by more than `guard` times the size of the ends.
template <class L> INLINE double conjugate_at(double p0, double p1, double u, double y, double guard) {
  Range r = L::range(p0, p1, y);
  double low = fabs(r.low), high = fabs(r.high);
  low = low < INFINITY ? low : 0.0;
  high = high < INFINITY ? high : 0.0;
  double slack = guard * most(low, high);
  double inside = L::dual(p0, p1, clip(u, r.low, r.high), y);
  inside = u < r.low - slack || u > r.high + slack ? INFINITY : inside;
  return u == u ? inside : u;
}
template <class L>
NOINLINE void conjugates(double p0, double p1, const double *RESTRICT u, const double *RESTRICT y,
                         idx n, double guard, double *RESTRICT out) {
  for (idx i = 0; i < n; ++i) out[i] = conjugate_at<L>(p0, p1, u[i], y[i], guard);
}
// The largest conjugate over u - size <= v <= u + size: a convex function is largest at an end.
template <class L>
NOINLINE void largest(double p0, double p1, const double *RESTRICT u, const double *RESTRICT size,
                      const double *RESTRICT y, idx n, double guard, double *RESTRICT out) {
  for (idx i = 0; i < n; ++i) {
    double a = conjugate_at<L>(p0, p1, u[i] - size[i], y[i], guard);
    double b = conjugate_at<L>(p0, p1, u[i] + size[i], y[i], guard);
    out[i] = a >= b || a != a ? a : b;
  }
}
// The largest t in [0, 1] that keeps u + t du in the interval, rounded down.
template <class L>
NOINLINE void rooms(double p0, double p1, const double *RESTRICT u, const double *RESTRICT du,
                    const double *RESTRICT y, idx n, double *RESTRICT out) {
  const double below_one = 1.0 - 4.0 * 0x1p-52;
  for (idx i = 0; i < n; ++i) {
    Range r = L::range(p0, p1, y[i]);
    double edge = du[i] > 0 ? r.high : r.low, t = (edge - u[i]) / du[i];
    t = du[i] == 0 ? 1.0 : t;
    out[i] = t < 1.0 ? most(t, 0.0) * below_one : 1.0;
  }
}
const EntryLoops &entry_loops(int code) {
#define LOOPS(name, L)                                                                       \
  {values<L, double>, curvatures<L>, duals<L>, ranges<L>, conjugates<L>, largest<L>, rooms<L>, \
   L::cap, L::quadratic, L::kinked},
  static const EntryLoops made[] = {LOSSES(LOOPS)};
#undef LOOPS
  return made[code];  // unknown names were refused when the view was made
}

}  // namespace
}  // namespace VARIANT
