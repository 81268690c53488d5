// A quadratic with a nuclear norm and at most one other penalty: the iteration of
// low_rank/splitting.py for matrices with a short side.
#pragma once
#include "prox.hpp"

namespace VARIANT {
namespace {

const int MAX_SWEEPS = 40;

// Jacobi's rotations: the diagonal of a symmetric matrix becomes its eigenvalues, the rows of Q its
// eigenvectors. What is left beside the diagonal is below rounding of the trace.
inline void eigenpairs(double *RESTRICT A, idx n, double *RESTRICT Q) {
  double trace = 0;
  for (idx i = 0; i < n; ++i) {
    trace += fabs(A[i * n + i]);
    for (idx j = 0; j < n; ++j) Q[i * n + j] = i == j ? 1.0 : 0.0;
  }
  bool turned = true;
  for (int sweep = 0; turned && sweep < MAX_SWEEPS; ++sweep) {
    turned = false;
    for (idx p = 0; p < n; ++p)
      for (idx q = p + 1; q < n; ++q) {
        double beside = A[p * n + q];
        if (fabs(beside) <= 1e-17 * trace) continue;
        turned = true;
        double ratio = (A[q * n + q] - A[p * n + p]) / (2 * beside);
        double t = (ratio < 0 ? -1.0 : 1.0) / (fabs(ratio) + sqrt(ratio * ratio + 1));
        double c = 1 / sqrt(t * t + 1), s = t * c;
        for (idx i = 0; i < n; ++i) {
          double a = A[i * n + p], b = A[i * n + q];
          A[i * n + p] = c * a - s * b, A[i * n + q] = s * a + c * b;
        }
        for (idx i = 0; i < n; ++i) {
          double a = A[p * n + i], b = A[q * n + i], u = Q[p * n + i], v = Q[q * n + i];
          A[p * n + i] = c * a - s * b, A[q * n + i] = s * a + c * b;
          Q[p * n + i] = c * u - s * v, Q[q * n + i] = s * u + c * v;
        }
        A[p * n + q] = A[q * n + p] = 0;
      }
  }
}

// The prox of a multiple of the nuclear norm of matrices of one shape, by eigenpairs of their
// smaller Gram matrix.
struct SingularValues {
  idx rows, columns, length, side;
  Buffer<double> turned, gram, vectors, factors, product;
  SingularValues(idx rows, idx columns)
      : rows(rows), columns(columns), length(most(rows, columns)), side(least(rows, columns)),
        turned(rows < columns ? 2 * length * side : 0), gram(side * side), vectors(side * side),
        factors(side * side), product(length * side) {}

  void soft(const double *V, double cut, double *Z) {
    if (rows >= columns) return tall(V, cut, Z);
    double *across = turned.at, *found = across + length * side;
    for (idx i = 0; i < rows; ++i)
      for (idx j = 0; j < columns; ++j) across[j * rows + i] = V[i * columns + j];
    tall(across, cut, found);
    for (idx i = 0; i < rows; ++i)
      for (idx j = 0; j < columns; ++j) Z[i * columns + j] = found[j * rows + i];
  }

  void tall(const double *RESTRICT V, double cut, double *RESTRICT Z) {
    idx s = side, rank = 0;
    double *RESTRICT G = gram.at, *RESTRICT Q = vectors.at, *RESTRICT F = factors.at;
    double *RESTRICT P = product.at;
    clear(G, s * s);
    for (idx i = 0; i < length; ++i)
      for (idx a = 0; a < s; ++a)
        for (idx b = 0; b < s; ++b) G[a * s + b] += V[i * s + a] * V[i * s + b];
    eigenpairs(G, s, Q);
    for (idx k = 0; k < s; ++k) {  // pairs above the threshold come first
      double square = G[k * s + k];
      if (!(square > cut * cut)) continue;
      double value = sqrt(square), share = (value - cut) / value;
      for (idx a = 0; a < s; ++a) {
        double q = Q[k * s + a];
        Q[rank * s + a] = q, F[rank * s + a] = q * share;
      }
      ++rank;
    }
    clear(Z, length * s);
    for (idx i = 0; i < length; ++i)
      for (idx k = 0; k < rank; ++k) {
        double sum = 0;
        for (idx a = 0; a < s; ++a) sum += V[i * s + a] * F[k * s + a];
        P[i * s + k] = sum;
      }
    for (idx i = 0; i < length; ++i)
      for (idx k = 0; k < rank; ++k)
        for (idx a = 0; a < s; ++a) Z[i * s + a] += P[i * s + k] * Q[k * s + a];
  }
};

// Z and v hold one block for each penalty; `before` gets the Z before the last step.
inline void consensus(const Consensus &c) {
  idx size = c.rows * c.outputs, both = c.penalties * size;
  SingularValues values(c.rows, c.outputs);
  Matrix<double> inverse(c.inverse, c.rows, c.outputs);
  Buffer<double> total(size);
  for (idx step = 0; step < c.steps; ++step) {
    if (step + 1 == c.steps) copy(c.Z, both, c.before);
    for (idx at = 0; at < both; at += size)
      for (idx j = 0; j < size; ++j) c.v[at + j] += c.relax * (c.W[j] - c.Z[at + j]);
    values.soft(c.v, c.alpha / c.rho, c.Z);
    if (c.penalties > 1) prox(c.h, c.outputs, c.v + size, 1 / c.rho, c.Z + size);
    for (idx j = 0; j < size; ++j) total[j] = c.linear[j] / c.rho;
    for (idx at = 0; at < both; at += size)
      for (idx j = 0; j < size; ++j) total[j] = total[j] + 2 * c.Z[at + j] - c.v[at + j];
    for (idx j = 0; j < size; ++j) total[j] *= c.rho;
    inverse.times(total.at, c.W);
  }
}

}  // namespace
}  // namespace VARIANT
