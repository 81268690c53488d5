// exp and log by fixed sequences of operations: libraries choose theirs by the processor.
#pragma once
#include "lanes.hpp"

namespace VARIANT {
namespace {

const double LOG2E = 1.4426950408889634, LN2_HIGH = 0x1.62e42fefa0000p-1,
             LN2_LOW = 0x1.cf79abc9e3b39p-40, SHIFT = 0x1.8p52;

INLINE double power_of_two(double k) {  // a whole number in [-1022, 1023]
  double shifted = k + (SHIFT + 1023);
  uint64_t bits;
  memcpy(&bits, &shifted, 8);
  bits <<= 52;
  double result;
  memcpy(&result, &bits, 8);
  return result;
}

// c_0 + c_1 t + ... + c_9 t^9 in pairs, which is a short chain of operations
INLINE double polynomial(const double (&c)[10], double t) {
  double t2 = t * t, t4 = t2 * t2, t8 = t4 * t4;
  double low = (c[0] + t * c[1]) + t2 * (c[2] + t * c[3]);
  double high = (c[4] + t * c[5]) + t2 * (c[6] + t * c[7]);
  return (low + t4 * high) + t8 * (c[8] + t * c[9]);
}
// Nearly best approximations (at Chebyshev's points): of (exp(r) - 1 - r) / r^2 for |r| <=
// log(2) / 2 to 1.1e-16, and of (artanh(s) / s - 1) / s^2 in q = s^2 <= 1/9 to 4.6e-17. Both are
// multiplied by less than 1/8 of what they are added to.
const double EXP[10] = {
    0.5000000000000001,    0.16666666666666669,    0.04166666666662413,    0.008333333333330062,
    0.0013888888917213717, 0.00019841269863053618, 2.4801521295954376e-05, 2.7557268459997064e-06,
    2.7620088445409746e-07, 2.510038549551032e-08};
const double ARTANH[10] = {
    0.3333333333333333,  0.20000000000007292, 0.1428571428355438,  0.11111111358713932,
    0.09090894718066429, 0.07692785032479312, 0.06657072104827468, 0.06000536404795356,
    0.04400369243072337, 0.08082022805971766};

INLINE double exp_series(double r) { return 1 + (r + r * r * polynomial(EXP, r)); }

INLINE double exp_negative(double a) {  // a <= 0; below -708 as at -708
  a = a < -708.0 ? -708.0 : a;
  double k = (a * LOG2E + SHIFT) - SHIFT;
  double r = (a - k * LN2_HIGH) - k * LN2_LOW;
  return exp_series(r) * power_of_two(k);
}

INLINE double exp_any(double a) {  // 0 below -745, infinity above 709.78
  a = a < -746.0 ? -746.0 : a;
  a = a > 710.0 ? 710.0 : a;
  double k = (a * LOG2E + SHIFT) - SHIFT;
  double half = (k * 0.5 + SHIFT) - SHIFT;
  double r = (a - k * LN2_HIGH) - k * LN2_LOW;
  return exp_series(r) * power_of_two(half) * power_of_two(k - half);
}

INLINE double log1p_from(double s) {  // log(1 + e) = 2 artanh(s), s = e / (2 + e) <= 1/3
  double q = s * s;
  return 2 * s + 2 * s * (q * polynomial(ARTANH, q));
}

INLINE double log_positive(double a) {  // normal numbers
  uint64_t bits, exponent;
  memcpy(&bits, &a, 8);
  exponent = (bits >> 52) | 0x4330000000000000;  // added to 2^52, so that no conversion is needed
  bits = (bits & 0x000fffffffffffff) | 0x3ff0000000000000;
  double k;
  memcpy(&k, &exponent, 8);
  memcpy(&a, &bits, 8);  // in [1, 2)
  bool high = a > 1.4142135623730951;
  k = (k - (0x1p52 + 1023)) + (high ? 1.0 : 0.0);
  a *= high ? 0.5 : 1.0;
  double s = (a - 1) / (a + 1), q = s * s, p = 1.0 / 23;
  for (int m = 21; m >= 3; m -= 2) p = p * q + 1.0 / m;
  return k * LN2_HIGH + (k * LN2_LOW + (2 * s + 2 * s * (p * q)));
}

}  // namespace
}  // namespace VARIANT
