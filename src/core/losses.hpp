// Losses of one prediction z with target y: derivative, value with derivative, step of the dual variable,
// second derivative and conjugate.
//
// A loss is a struct with seven functions, in double whatever the data's type, and a line in LOSSES.
// The functions are made into loops over a few predictions, which vectorize.
#pragma once
#include <string.h>

#include "math.hpp"

namespace VARIANT {
namespace {

// The name that the loss has in Python, and its struct.
#define LOSSES(EACH)                  \
  EACH("squared", Squared)            \
  EACH("logistic", Logistic)          \
  EACH("huber", Huber)                \
  EACH("squared_hinge", SquaredHinge) \
  EACH("poisson", Poisson)            \
  EACH("gamma", Gamma)                \
  EACH("quantile", Quantile)          \
  EACH("tweedie", Tweedie)            \
  EACH("negative_binomial", NegativeBinomial)

const int MAX_NEWTON = 100;

// `conjugate` returns prox_{step loss*}(u + step z), the new derivative of a row whose derivative is u; `dual`
// is loss*(u) for derivatives in `range`.

struct Range {
  double low, high;
};
INLINE double times_log(double p) {  // 0 below the normal numbers
  return (p < 1e-300 ? 0.0 : p) * log_positive(p < 1e-300 ? 1.0 : p);
}

struct Smooth {  // what most losses are: not quadratic, and without a jump of the curvature
  static constexpr bool quadratic = false, kinked = false;
};
struct Kinked {
  static constexpr bool quadratic = false, kinked = true;
};

struct Squared {  // p0 = second derivative
  static constexpr bool quadratic = true, kinked = false;
  static double cap(double p0, double) { return p0; }  // of the second derivative
  static INLINE double derivative(double p0, double, double z, double y) { return p0 * (z - y); }
  static INLINE double value(double p0, double, double z, double y, double &u) {
    u = p0 * (z - y);
    return 0.5 * p0 * (z - y) * (z - y);
  }
  static INLINE double conjugate(double p0, double, double u, double z, double step, double y) {
    return (u + step * (z - y)) / (1 + step / p0);
  }
  static INLINE double curvature(double p0, double, double, double) { return p0; }
  static INLINE double dual(double p0, double, double u, double y) { return u * (y + u / (2 * p0)); }
  static INLINE Range range(double, double, double) { return {-INFINITY, INFINITY}; }
};

struct Logistic : Smooth {
  static double cap(double, double) { return 0.25; }
  static INLINE double derivative(double, double, double z, double y) {
    double m = y * z, e = exp_negative(-fabs(m));  // e in (0, 1]: neither side overflows
    return -y * (m > 0 ? e : 1.0) / (1 + e);
  }
  static INLINE double value(double, double, double z, double y, double &u) {
    double m = y * z, e = exp_negative(-fabs(m)), one = 1 + e, two = 2 + e;
    double both = 1 / (one * two);  // one division for the derivative and the logarithm
    u = -y * (m > 0 ? e : 1.0) * (two * both);
    return log1p_from(e * (one * both)) + (m > 0 ? 0.0 : -m);
  }
  // Solve step m + p(m) = p + step m_z for the margin m, p(m) = 1 / (1 + exp(-m)), u = -y p. The
  // function is convex left of 0 and concave right of it, so Newton's method kept on the root's
  // side of 0 is monotone after its first step, and its error is at most half the squared step.
  static INLINE double conjugate(double, double, double u, double z, double step, double y) {
    double margin = -y * z, target = step * margin - y * u;
    bool right = target > 0.5;
    double m = right ? most(margin, 0.0) : least(margin, 0.0), p = 0.5;
    for (int k = 0; k < MAX_NEWTON; ++k) {
      double e = exp_negative(-fabs(m));
      p = (m > 0 ? 1.0 : e) / (1 + e);
      double curve = p * (1 - p), now = m + (target - step * m - p) / (step + curve);
      now = right ? most(now, 0.0) : least(now, 0.0);
      double move = now - m;
      m = now;
      if (fabs(move) <= 1e-6 * (1 + fabs(m))) {
        p += curve * move;
        break;
      }
    }
    return -y * p;
  }
  static INLINE double curvature(double, double, double z, double) {
    double e = exp_negative(-fabs(z)), p = e / (1 + e);  // the smaller probability
    return p * (1 - p);
  }
  static INLINE double dual(double, double, double u, double y) {
    double p = clip(-u * y, 0.0, 1.0);
    return times_log(p) + times_log(1 - p);
  }
  static INLINE Range range(double, double, double y) { return {least(-y, 0.0), most(-y, 0.0)}; }
};

struct Huber : Kinked {  // p0 = delta
  static double cap(double, double) { return 1; }
  static INLINE double derivative(double p0, double, double z, double y) { return clip(z - y, -p0, p0); }
  static INLINE double value(double p0, double p1, double z, double y, double &u) {
    u = derivative(p0, p1, z, y);
    return u * (z - y) - 0.5 * u * u;
  }
  static INLINE double conjugate(double p0, double, double u, double z, double step, double y) {
    return clip((u + step * (z - y)) / (1 + step), -p0, p0);
  }
  static INLINE double curvature(double p0, double, double z, double y) {
    return fabs(z - y) <= p0 ? 1.0 : 0.0;
  }
  static INLINE double dual(double, double, double u, double y) { return u * (y + 0.5 * u); }
  static INLINE Range range(double p0, double, double) { return {-p0, p0}; }
};

struct SquaredHinge : Kinked {  // p0 = second derivative on the active side
  static double cap(double p0, double) { return p0; }
  static INLINE double derivative(double p0, double, double z, double y) {
    return -p0 * y * most(1 - y * z, 0.0);
  }
  static INLINE double value(double p0, double p1, double z, double y, double &u) {
    u = derivative(p0, p1, z, y);
    return 0.5 * u * u / p0;
  }
  static INLINE double conjugate(double p0, double, double u, double z, double step, double y) {
    double now = (u + step * (z - y)) / (1 + step / p0);
    return y > 0 ? least(now, 0.0) : most(now, 0.0);
  }
  static INLINE double curvature(double p0, double, double z, double y) {
    return 1 - y * z >= 0 ? p0 : 0.0;
  }
  static INLINE double dual(double p0, double, double u, double y) { return u * (y + u / (2 * p0)); }
  static INLINE Range range(double, double, double y) {
    return {y > 0 ? -INFINITY : 0.0, y > 0 ? 0.0 : INFINITY};
  }
};

struct Poisson : Smooth {  // continued with its curvature at p0 beyond it
  static double cap(double p0, double) { return exp_any(p0); }
  static INLINE double derivative(double p0, double, double z, double y) {
    double inner = z <= p0 ? z : p0;
    return exp_any(inner) * (1 + (z - inner)) - y;
  }
  static INLINE double value(double p0, double, double z, double y, double &u) {
    double inner = z <= p0 ? z : p0, past = z - inner, rate = exp_any(inner);
    u = rate * (1 + past) - y;
    return rate * (1 + past + 0.5 * past * past) - y * z;
  }
  // Solve step m + derivative(m) = u + step z; the left side is convex and increasing in m.
  static INLINE double conjugate(double p0, double, double u, double z, double step, double y) {
    double target = u + step * z, m = z;
    for (int k = 0; k < MAX_NEWTON; ++k) {
      double inner = least(m, p0), rate = exp_any(inner);
      double move = (target + y - step * m - rate * (1 + m - inner)) / (step + rate);
      m += move;
      if (fabs(move) <= 1e-14 * (1 + fabs(m))) break;
    }
    double inner = least(m, p0);
    return exp_any(inner) * (1 + m - inner) - y;
  }
  static INLINE double curvature(double p0, double, double z, double) {
    return exp_any(least(z, p0));
  }
  static INLINE double dual(double p0, double, double u, double y) {
    double top = exp_any(p0), rate = most(u + y, 0.0), inner = least(rate, top);
    double past = rate / top - inner / top;
    return times_log(inner) - inner + (past > 0 ? p0 * (rate - inner) + 0.5 * top * past * past : 0.0);
  }
  static INLINE Range range(double, double, double y) { return {-y, INFINITY}; }
};

struct Gamma : Smooth {  // p0 = log of the largest ratio y / mean, beyond which a parabola goes on
  static double cap(double p0, double) { return exp_any(p0); }
  static INLINE double derivative(double p0, double, double z, double y) {
    double excess = log_positive(y) - z, inner = least(excess, p0);
    return 1 - exp_any(inner) * (1 + (excess - inner));
  }
  static INLINE double value(double p0, double, double z, double y, double &u) {
    double excess = log_positive(y) - z, inner = least(excess, p0), past = excess - inner;
    double ratio = exp_any(inner);
    u = 1 - ratio * (1 + past);
    return z + ratio * (1 + past + 0.5 * past * past);
  }
  // Solve step m + derivative(m) = u + step z; the left side is concave and increasing in m.
  static INLINE double conjugate(double p0, double, double u, double z, double step, double y) {
    double target = u + step * z, middle = log_positive(y), m = z, inner = 0;
    for (int k = 0; k < MAX_NEWTON; ++k) {
      inner = least(middle - m, p0);
      double ratio = exp_any(inner);
      double move = (target - 1 - step * m + ratio * (1 + (middle - m) - inner)) / (step + ratio);
      m += move;
      if (fabs(move) <= 1e-14 * (1 + fabs(m))) break;
    }
    inner = least(middle - m, p0);
    return 1 - exp_any(inner) * (1 + (middle - m) - inner);
  }
  static INLINE double curvature(double p0, double, double z, double y) {
    return exp_any(least(log_positive(y) - z, p0));
  }
  static INLINE double dual(double p0, double, double u, double y) {
    double top = exp_any(p0), ratio = most(1 - u, 0.0), inner = least(ratio, top);
    double past = ratio / top - inner / top;
    return times_log(inner) - inner - ratio * log_positive(y) +
           (past > 0 ? p0 * (ratio - inner) + 0.5 * top * past * past : 0.0);
  }
  static INLINE Range range(double, double, double) { return {-INFINITY, 1}; }
};

struct Quantile : Kinked {  // p0 = level, p1 = smoothing width
  static double cap(double, double p1) { return 1 / p1; }
  static INLINE double derivative(double p0, double p1, double z, double y) {
    return clip((z - y) / p1, -p0, 1 - p0);
  }
  static INLINE double value(double p0, double p1, double z, double y, double &u) {
    u = derivative(p0, p1, z, y);
    return u * (z - y) - 0.5 * p1 * u * u;
  }
  static INLINE double conjugate(double p0, double p1, double u, double z, double step, double y) {
    return clip((u + step * (z - y)) / (1 + step * p1), -p0, 1 - p0);
  }
  static INLINE double curvature(double p0, double p1, double z, double y) {
    double line = (z - y) / p1;
    return line >= -p0 && line <= 1 - p0 ? 1 / p1 : 0.0;
  }
  static INLINE double dual(double, double p1, double u, double y) { return u * (y + 0.5 * p1 * u); }
  static INLINE Range range(double p0, double, double) { return {-p0, 1 - p0}; }
};

struct Tweedie : Smooth {  // p0 = power p, p1 = log of the largest part of a derivative inside the range
  struct Parts {
    double up, down, past;  // exp(q z) and y exp(-r z) inside the range, and how far z is beyond
  };
  static INLINE double log_of(double y) { return y > 0 ? log_positive(most(y, 1e-300)) : -1e300; }
  static INLINE Parts parts(double p0, double p1, double z, double y) {
    double q = 2 - p0, r = p0 - 1, low = (log_of(y) - p1) / r, high = p1 / q;
    double inner = least(most(z, low), high);
    return {exp_any(q * inner), y > 0 ? y * exp_any(-r * inner) : 0.0, z - inner};
  }
  static double cap(double, double p1) { return exp_any(p1); }
  static INLINE double derivative(double p0, double p1, double z, double y) {
    Parts a = parts(p0, p1, z, y);
    return a.up - a.down + ((2 - p0) * a.up + (p0 - 1) * a.down) * a.past;
  }
  static INLINE double value(double p0, double p1, double z, double y, double &u) {
    double q = 2 - p0, r = p0 - 1;
    Parts a = parts(p0, p1, z, y);
    double bend = (q * a.up + r * a.down) * a.past;
    u = a.up - a.down + bend;
    return a.up / q + a.down / r + (a.up - a.down + 0.5 * bend) * a.past;
  }
  // Solve step m + derivative(m) = u + step z between z and the point where the line alone would be:
  // Newton's method where it stays inside and halves the residual, bisection elsewhere.
  static INLINE double conjugate(double p0, double p1, double u, double z, double step, double y) {
    double target = u + step * z, m = z, residual = derivative(p0, p1, z, y) - u;
    double low = least(z, z - residual / step), high = most(z, z - residual / step);
    for (int k = 0; k < MAX_NEWTON; ++k) {
      low = residual < 0 ? m : low;
      high = residual > 0 ? m : high;
      double now = m - residual / (step + curvature(p0, p1, m, y));
      now = now >= low && now <= high ? now : 0.5 * (low + high);
      double after = step * now + derivative(p0, p1, now, y) - target;
      if (fabs(after) > 0.5 * fabs(residual)) {
        low = after < 0 ? now : low;
        high = after > 0 ? now : high;
        now = after != 0 ? 0.5 * (low + high) : now;
        after = step * now + derivative(p0, p1, now, y) - target;
      }
      double move = now - m;
      m = now;
      residual = after;
      if (fabs(move) <= 1e-14 * (1 + fabs(m))) break;
    }
    return derivative(p0, p1, m, y);
  }
  static INLINE double curvature(double p0, double p1, double z, double y) {
    Parts a = parts(p0, p1, z, y);
    return (2 - p0) * a.up + (p0 - 1) * a.down;
  }
  // The log of the larger part is that of the sum of the smaller one and |u|; the difference is
  // concave in z, and Newton's method monotone from the side where it is negative.
  static INLINE double dual(double p0, double p1, double u, double y) {
    double q = 2 - p0, r = p0 - 1, log_y = log_of(y), size = most(fabs(u), 1e-300);
    if (y <= 0 && u <= 0) return 0.0;
    double log_size = log_positive(size);
    bool rising = u >= 0;
    double z = rising ? most(log_size / q, log_y) : least((log_y - log_size) / r, log_y);
    for (int k = 0; k < MAX_NEWTON && y > 0; ++k) {
      double small = rising ? y * exp_any(-r * z) : exp_any(q * z);
      double large = rising ? q * z : log_y - r * z, sum = small + size;
      double change = rising ? q + r * small / sum : -r - q * small / sum;
      double move = (log_positive(sum) - large) / change;
      z += move;
      if (fabs(move) <= 1e-15 * (1 + fabs(z))) break;
    }
    double low = (log_y - p1) / r, high = p1 / q, back;
    if (z <= low || z >= high) {
      z = z <= low ? low : high;
      Parts a = parts(p0, p1, z, y);
      z += (u - a.up + a.down) / (q * a.up + r * a.down);
    }
    return u * z - value(p0, p1, z, y, back);
  }
  static INLINE Range range(double, double, double y) { return {y > 0 ? -INFINITY : 0.0, INFINITY}; }
};

// A logistic loss of weight k = y + 1 / theta at m = z + log(theta).
struct NegativeBinomial : Smooth {  // p0 = theta, p1 = largest target
  static double cap(double p0, double p1) { return 0.25 * (p1 + 1 / p0); }
  static INLINE double derivative(double p0, double, double z, double y) {
    double m = z + log_positive(p0), e = exp_negative(-fabs(m)), far = e / (1 + e), near = 1 / (1 + e);
    return (m > 0 ? near : far) / p0 - y * (m > 0 ? far : near);
  }
  static INLINE double value(double p0, double p1, double z, double y, double &u) {
    double m = z + log_positive(p0), e = exp_negative(-fabs(m));
    u = derivative(p0, p1, z, y);
    return (y + 1 / p0) * (log1p_from(e / (2 + e)) + (m > 0 ? m : 0.0)) - y * z;
  }
  // Solve step m + k p(m) = u + y + step z; as for the logistic loss, Newton's method kept on the
  // root's side of p = 1/2 is monotone after its first step.
  static INLINE double conjugate(double p0, double p1, double u, double z, double step, double y) {
    double shift = log_positive(p0), k = y + 1 / p0, target = (u + y + step * (z + shift)) / k;
    double rate = step / k, start = z + shift;
    bool right = target > 0.5;
    double m = right ? most(start, 0.0) : least(start, 0.0);
    for (int i = 0; i < MAX_NEWTON; ++i) {
      double e = exp_negative(-fabs(m)), p = (m > 0 ? 1.0 : e) / (1 + e);
      double now = m + (target - rate * m - p) / (rate + p * (1 - p));
      now = right ? most(now, 0.0) : least(now, 0.0);
      double move = now - m;
      m = now;
      if (fabs(move) <= 1e-14 * (1 + fabs(m))) break;
    }
    return derivative(p0, p1, m - shift, y);
  }
  static INLINE double curvature(double p0, double, double z, double y) {
    double e = exp_negative(-fabs(z + log_positive(p0))), p = e / (1 + e);
    return (y + 1 / p0) * p * (1 - p);
  }
  static INLINE double dual(double p0, double, double u, double y) {
    double k = y + 1 / p0, up = most(u + y, 0.0), down = most(1 / p0 - u, 0.0);
    return k * (times_log(up / k) + times_log(down / k)) - up * log_positive(p0);
  }
  static INLINE Range range(double p0, double, double y) { return {-y, 1 / p0}; }
};

// ---------------------------------------------------------------- loops over a few predictions

template <class T> struct LossLoops {
  void (*derivatives)(double p0, double p1, const T *z, const T *y, idx n, T *u);
  void (*values)(double p0, double p1, const T *z, const T *y, idx n, T *u, double *out);
  // u becomes the new derivative and z its change
  void (*conjugate)(double p0, double p1, const double *step, const T *y, idx n, T *u, T *z);
};

template <class L, class T>
NOINLINE void derivatives(double p0, double p1, const T *RESTRICT z, const T *RESTRICT y, idx n,
                     T *RESTRICT u) {
  for (idx i = 0; i < n; ++i) u[i] = (T)L::derivative(p0, p1, (double)z[i], (double)y[i]);
}
template <class L, class T>
NOINLINE void values(double p0, double p1, const T *RESTRICT z, const T *RESTRICT y, idx n,
                     T *RESTRICT u, double *RESTRICT out) {
  for (idx i = 0; i < n; ++i) {
    double back;
    out[i] = L::value(p0, p1, (double)z[i], (double)y[i], back);
    u[i] = (T)back;
  }
}
template <class L, class T>
NOINLINE void conjugate(double p0, double p1, const double *RESTRICT step, const T *RESTRICT y,
                        idx n, T *RESTRICT u, T *RESTRICT z) {
  for (idx i = 0; i < n; ++i) {
    T now = (T)L::conjugate(p0, p1, (double)u[i], (double)z[i], step[i], (double)y[i]);
    z[i] = now - u[i];
    u[i] = now;
  }
}
template <class T> const LossLoops<T> &loss_of(int code) {
#define LOOPS(name, L) {derivatives<L, T>, values<L, T>, conjugate<L, T>},
  static const LossLoops<T> made[] = {LOSSES(LOOPS)};
#undef LOOPS
  return made[code];  // unknown names were refused when the view was made
}
inline int loss_code(const char *name) {
#define NAME(name, L) name,
  static const char *const names[] = {LOSSES(NAME)};
#undef NAME
  int code = 0;
  for (const char *known : names) {
    if (strcmp(known, name) == 0) return code;
    ++code;
  }
  return strcmp(name, "multinomial") == 0 ? MULTINOMIAL : UNKNOWN;
}

// ---------------------------------------------------------------- softmax: the outputs of a row

template <class T> void softmax(const T *m, idx C, double *p) {
  double top = (double)m[0], sum = 0;
  for (idx c = 1; c < C; ++c) top = most(top, (double)m[c]);
  for (idx c = 0; c < C; ++c) p[c] = exp_negative((double)m[c] - top);
  for (idx c = 0; c < C; ++c) sum += p[c];
  for (idx c = 0; c < C; ++c) p[c] /= sum;
}

template <class T> void softmax_derivative(const T *z, idx label, idx C, double *p, T *u) {
  softmax(z, C, p);
  p[label] -= 1;
  for (idx c = 0; c < C; ++c) u[c] = (T)p[c];
}

// Step the derivatives u of a row at predictions z; z becomes their change. Newton's method for
// softmax(m) - e_label + step m = u + step z, whose matrix is diagonal plus rank one, damped by the
// range of the move, which bounds how fast the curvature changes. `room` holds 4 C numbers.
template <class T>
void softmax_conjugate(T *u, T *z, idx label, double step, idx C, double *room) {
  double *m = room, *p = m + C, *target = p + C, *move = target + C;
  for (idx c = 0; c < C; ++c) {
    m[c] = (double)z[c];
    target[c] = (double)u[c] + step * m[c] + (c == label ? 1.0 : 0.0);
  }
  softmax(m, C, p);
  for (int k = 0; k < MAX_NEWTON; ++k) {
    double derivative = 0, space = 0, low = INFINITY, high = -INFINITY;
    for (idx c = 0; c < C; ++c) {
      move[c] = (target[c] - step * m[c] - p[c]) / (p[c] + step);
      derivative += p[c] * move[c];
      space += p[c] * step / (p[c] + step);
    }
    for (idx c = 0; c < C; ++c) {
      move[c] += p[c] / (p[c] + step) * derivative / space;
      low = least(low, move[c]);
      high = most(high, move[c]);
    }
    double length = high - low;
    double damp = length > 1e-3 ? log_positive(1 + length) / length : 1 - length / 2;
    for (idx c = 0; c < C; ++c) m[c] += damp * move[c];
    softmax(m, C, p);
    if (length <= 1e-6) break;
  }
  for (idx c = 0; c < C; ++c) {
    double now = p[c] - (c == label ? 1.0 : 0.0);
    z[c] = (T)(now - (double)u[c]);
    u[c] = (T)now;
  }
}

}  // namespace
}  // namespace VARIANT
