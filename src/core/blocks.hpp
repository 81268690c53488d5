// The block steps of ADMM and of primal-dual methods; solvers/_steps.py and solvers/_primal_dual.py
// say the same in words. `a1x` and `a2x` are the products A1 x1 and A2 x2, kept beside the blocks so
// that a step costs one product with each operator and one with each transpose.
#pragma once
#include "prox.hpp"

namespace VARIANT {
namespace {

// augmented = dual + beta (A1 x1 + A2 x2 - b); augmented may be the multiplier itself
template <class T>
INLINE void set_augmented(const Problem<T> &p, const T *dual, T beta, const T *a1x, const T *a2x,
                      T *augmented) {
  for (idx j = 0; j < p.size; ++j) augmented[j] = dual[j] + beta * (a1x[j] + a2x[j] - p.b[j]);
}

template <class T>
void move_x1(const Problem<T> &p, const T *augmented, T step, T *x1, T *a1x, T *back) {
  if (p.size1 == 0) return;
  idx C = p.f.outputs;
  multiply_transposed(p.A1, C, augmented, back);
  for (idx j = 0; j < p.size1; ++j) back[j] = x1[j] - step * back[j];
  prox(p.h1, C, back, step, x1);
  multiply(p.A1, C, x1, a1x);
}

// The x2 step from `center`, which may be x2 itself.
template <class T>
void move_x2(const Problem<T> &p, const T *augmented, const T *gradient, T step, const T *center, T *x2,
             T *a2x, T *back) {
  idx C = p.f.outputs;
  multiply_transposed(p.A2, C, augmented, back);
  for (idx j = 0; j < p.size2; ++j) back[j] = center[j] - step * (gradient[j] + back[j]);
  prox(p.h2, C, back, step, x2);
  multiply(p.A2, C, x2, a2x);
}

template <class T> INLINE void approach(const T *x, idx n, T share, T *mean) {
  for (idx j = 0; j < n; ++j) mean[j] += share * (x[j] - mean[j]);
}
template <class T> INLINE void add_to(const T *x, idx n, T *sum) {
  for (idx j = 0; j < n; ++j) sum[j] += x[j];
}
template <class T> INLINE void blend(T share, const T *x, const T *y, idx n, T *out) {
  for (idx j = 0; j < n; ++j) out[j] = share * x[j] + (1 - share) * y[j];
}

// The step of the multiplier in primal-dual methods.
template <class T> struct DualStep {
  const Problem<T> &p;
  T sigma, tight;  // tight is s of A1' A1 = s I
  Buffer<T> rest, augmented, a1, back, old;
  DualStep(const Problem<T> &p, T sigma, T tight)
      : p(p), sigma(sigma), tight(tight), rest(p.size), augmented(p.size), a1(p.size), back(p.size1),
        old(p.size) {}
  // prox_{sigma H*}(dual + sigma A2 x2) into dual, the x1 that belongs to it into x1
  void take(const T *x2, T *dual, T *x1) {
    if (p.size == 0) return;
    idx C = p.f.outputs;
    multiply(p.A2, C, x2, rest.at);
    for (idx j = 0; j < p.size; ++j) {
      rest[j] -= p.b[j];
      augmented[j] = rest[j] + dual[j] / sigma;
    }
    multiply_transposed(p.A1, C, augmented.at, back.at);
    for (idx j = 0; j < p.size1; ++j) back[j] /= -tight;
    prox(p.h1, C, back.at, 1 / (sigma * tight), x1);
    multiply(p.A1, C, x1, a1.at);
    for (idx j = 0; j < p.size; ++j) dual[j] += sigma * (a1[j] + rest[j]);
  }
  // the same, and A2' times the change of the multiplier
  void take(const T *x2, T *dual, T *x1, T *change) {
    copy(dual, p.size, old.at);
    take(x2, dual, x1);
    for (idx j = 0; j < p.size; ++j) old[j] = dual[j] - old[j];
    multiply_transposed(p.A2, p.f.outputs, old.at, change);
  }
};

}  // namespace
}  // namespace VARIANT
