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

// exp(r) for |r| <= log(2) / 2: its series in pairs, which is a short chain of operations
INLINE double exp_series(double r) {
  double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
  double a = 1 + r, b = 1.0 / 2 + r * (1.0 / 6), c = 1.0 / 24 + r * (1.0 / 120);
  double d = 1.0 / 720 + r * (1.0 / 5040), e = 1.0 / 40320 + r * (1.0 / 362880);
  double f = 1.0 / 3628800 + r * (1.0 / 39916800), g = 1.0 / 479001600 + r * (1.0 / 6227020800);
  return a + (r2 * b + (r4 * (c + r2 * d) + r8 * (e + r2 * f + r4 * g)));
}

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

INLINE double log1p_unit(double e) {  // 0 <= e <= 1: 2 artanh(e / (2 + e))
  double s = e / (2 + e), q = s * s, q2 = q * q, q4 = q2 * q2, q8 = q4 * q4;
  double a = 1.0 / 3 + q * (1.0 / 5), b = 1.0 / 7 + q * (1.0 / 9);
  double c = 1.0 / 11 + q * (1.0 / 13), d = 1.0 / 15 + q * (1.0 / 17);
  double f = 1.0 / 19 + q * (1.0 / 21), g = 1.0 / 23 + q * (1.0 / 25);
  double h = 1.0 / 27 + q * (1.0 / 29), i = 1.0 / 31 + q * (1.0 / 33);
  double p = ((a + q2 * b) + q4 * (c + q2 * d)) + q8 * ((f + q2 * g) + q4 * (h + q2 * i));
  return 2 * s + 2 * s * (p * q);
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
