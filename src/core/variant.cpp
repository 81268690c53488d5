// All kernels for one instruction set; compiled once for each, VARIANT being its name.
#include "columns.hpp"
#include "coordinates.hpp"
#include "low_rank.hpp"
#include "methods.hpp"
#include "passes.hpp"
#include "quadratic.hpp"

namespace VARIANT {
namespace {

template <class T> void product(const Operator<T> &A, idx C, bool transposed, const T *x, T *out) {
  if (transposed) multiply_transposed(A, C, x, out);
  else multiply(A, C, x, out);
}

template <class T> constexpr Kernels<T> kernels() {
  return {
      full_pass<T>, gram_pass<T>, column_energies<T>, row_scores<T>, count_nonzeros<T>,
      gather_nonzeros<T>, column_squares<T>, beside<T>, sparse_gram<T>,
      compensated_adjoint<T>, batch_gradient<T>, data_step<T>, prox<T>, product<T>, fuse_columns<T>, acc_sadmm<T>, svrg_admm<T>, sag_admm<T>,
      stoc_admm<T>, sdca_admm<T>, spdhg<T>, vr_pddy<T>, katyusha<T>,
  };
}

}  // namespace

extern const Variant table;
const Variant table = {
    loss_code, N_TERMS, kernels<float>(), kernels<double>(), splitting, augmented, newton_matrix,
    coordinate_sweeps, consensus,
};

}  // namespace VARIANT
