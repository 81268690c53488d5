// What compiled loops see: plain structs of pointers and numbers, checked once in module.cpp.
//
// Blocks are (rows, outputs), row-major, of the data's float type T. No functions here: this file
// is shared by code compiled for different processors.
#pragma once
#include <cstdint>

typedef int64_t idx;

// Codes of losses that are not in the list of losses.hpp.
const int MULTINOMIAL = -1, UNKNOWN = -2;
// Penalty terms that Newton's steps of the small quadratic problem know; prox.hpp has all. The
// same integers stand in base/terms.py.
enum Term { ELEMENTWISE, GROUP_NORMS, N_SIMPLE };
// The same integers stand in kernels/codes.py.
enum Kind { NOTHING, SCALED_IDENTITY, SPARSE, N_KINDS };

// Rows, targets and loss. Absent weights and offsets are null.
template <class T> struct Data {
  idx n, d;        // rows, columns without the intercept
  idx outputs;     // columns of the variable
  bool sparse, wide;  // CSR; its indices have 64 bits
  const T *X;
  const void *indptr, *indices;
  const T *data;
  idx entries;     // numbers in X or data
  const T *y, *weight, *offset;
  idx y_columns, weight_columns;
  bool intercept;
  int loss;        // place in the list of losses.hpp, or MULTINOMIAL
  double p0, p1;
};

// Terms on consecutive rows; the numbers of elementwise ones are per row or per entry.
template <class T> struct Penalty {
  idx rows, n_terms, numbers;  // numbers: rows, or entries
  const idx *kinds, *starts, *first_group, *group_starts, *group_stops;
  const T *l1, *l2, *lo, *hi, *group_weights, *variation;
  bool per_entry;
};

// A scaled identity, or a matrix and its transpose in CSR form.
template <class T> struct Operator {
  int kind;
  idx rows, columns;
  T scale;
  const int32_t *indptr, *indices, *t_indptr, *t_indices;
  const T *data, *t_data;
};

// min f(x2) + h1(x1) + h2(x2) subject to A1 x1 + A2 x2 = b.
template <class T> struct Problem {
  Data<T> f;
  Penalty<T> h1, h2;
  Operator<T> A1, A2;
  const T *b;
  idx size1, size2, size;  // numbers in x1, x2 and the multiplier
};

// One column of a table, as it is stored.
enum ColumnKind {
  COLUMN_F4, COLUMN_F8, COLUMN_I1, COLUMN_I2, COLUMN_I4, COLUMN_I8, COLUMN_U1, COLUMN_U2, COLUMN_U4,
  COLUMN_U8
};
struct Column {
  const void *data;
  ColumnKind kind;
};

// Which rows a loop reads: step k draws the runs batches[k]; run r begins at row r n / n_runs.
// Blocks of dual methods are batches of one run; a pick below zero is the structure.
template <class T> struct Sample {
  const idx *batches;
  idx steps, per_batch, n_runs;
  T row_weight;
};

// A snapshot: derivative of every row (null: computed again at the point), full gradient, the point
// itself where the method uses it.
template <class T> struct Anchor {
  const T *derivatives, *gradient, *point;
};

struct Found {
  idx iterations;
  double primal, stationary;
};

// min 1/2 w'Hw - a'w + h(S w - b) by splitting; inverse = (H + penalty S'S)^-1.
struct Small {
  Operator<double> S;
  Penalty<double> h;
  idx outputs;
  const double *inverse, *a, *b;
  double *w, *z, *dual;
  double penalty, relax, tol, length, force;
  idx max_iter, every;
};

// The prox side of the augmented Lagrangian, and Newton's matrix.
struct Augmented {
  Operator<double> S;
  Penalty<double> h;
  idx outputs;
  const double *b, *dual;
  double penalty;
  const double *w;
  double *shifted, *z, *new_dual, *weight;
};
struct NewtonMatrix {
  Operator<double> S;
  Penalty<double> h;
  idx d;
  const double *H, *shifted, *weight;
  double *out;
};

// Steps of the splitting of a quadratic, a nuclear norm and one more penalty where there are two;
// inverse = (B + penalties rho)^-1.
struct Consensus {
  Penalty<double> h;
  idx rows, outputs, penalties, steps;
  double alpha, rho, relax;
  const double *inverse, *linear;
  double *W, *Z, *v, *before;
};

// Coordinate descent on a second-order model, see coordinates.hpp; coordinates of an output are
// consecutive, those of output c from starts[c] on.
struct Coordinates {
  idx n, outputs;
  const idx *indptr;  // of the columns
  const int32_t *indices;
  const double *data;
  const double *c, *s;  // (outputs, n); s may be null
  const idx *starts, *columns;
  const double *gradient, *bend, *l1, *l2, *lo, *hi;
  double *w;
  double tol;
  idx most, inner;
};
struct Swept {
  double worst, square;  // largest change in the last sweep over all; <step, H step>
  idx sweeps;
};

// A whole solve: S has `columns` = coefficients and intercept; w and the multiplier of S w are
// starts and answers, z and u the predictions and derivatives of the rows at w.
struct SmallRoute {
  idx rows, columns;
  const int32_t *indptr, *indices;
  const double *data;
  Penalty<double> h;
  double *w, *dual, *z, *u, *gradient;
  idx first;       // rows of the structure, before those of single coefficients
  double *gram;    // room for the Hessian of a quadratic loss, or null
  bool gram_known;
};
struct SmallFound {
  double value, penalty, bound;  // mean loss and penalties at w, a lower bound on the minimum
  double inner_penalty;
  idx steps, passes;
  bool exact;  // whether zeros and ties of w are exact
};
// A whole solve where every column is held by its own penalty; at most `most` columns are worked on,
// `first` at the beginning. Numbers per column, that of the intercept last.
struct ColumnsRoute {
  const double *l1, *l2, *lo, *hi;
  double *w, *z, *u, *gradient;
  idx first, most;
  double work, seconds;  // products and time after which it is left
  double (*now)();
};
struct ColumnsFound {
  double value, penalty, bound;  // as of the small route
  idx steps, passes, columns;
  bool late;   // whether it was left before its end
  bool rests;  // whether derivatives are held as far as rounding allows
};
// Loops of a loss over many entries, in double: see entries.hpp.
struct EntryLoops {
  void (*values)(double p0, double p1, const double *z, const double *y, idx n, double *u, double *out);
  void (*curvatures)(double p0, double p1, const double *z, const double *y, idx n, double *out);
  void (*duals)(double p0, double p1, const double *u, const double *y, idx n, double *out);
  void (*ranges)(double p0, double p1, const double *y, idx n, double *low, double *high);
  void (*conjugates)(double p0, double p1, const double *u, const double *y, idx n, double guard,
                     double *out);
  void (*largest)(double p0, double p1, const double *u, const double *size, const double *y, idx n,
                  double guard, double *out);
  void (*rooms)(double p0, double p1, const double *u, const double *du, const double *y, idx n,
                double *out);
  double (*cap)(double p0, double p1);
  bool quadratic, kinked;
};
struct SmallKernels {
  SmallFound (*narrow)(const SmallRoute &, const Data<float> &);
  SmallFound (*wide)(const SmallRoute &, const Data<double> &);
  ColumnsFound (*narrow_columns)(const ColumnsRoute &, const Data<float> &);
  ColumnsFound (*wide_columns)(const ColumnsRoute &, const Data<double> &);
  const EntryLoops &(*entries)(int loss);
};

// ---------------------------------------------------------------- state and numbers of the methods

template <class T> struct AccSADMM {
  T beta, momentum, anchor, step1, step2;
  const T *inverse, *at_snapshot;  // inverse: matrix of the x2 step, or null for a prox step
  T *x1, *x2, *y1, *y2, *before1, *before2, *total1, *total2, *dual, *ahead;
};
template <class T> struct Blocks {  // x, multiplier and sums of the variance-reduced methods
  T beta, step1, step2;
  T *x1, *x2, *dual, *total1, *total2;
};
template <class T> struct Table {  // of SAG-ADMM; points may be null
  T share, curvature;
  T *derivatives, *gradient, *points, *mean_point;
};
template <class T> struct Plain {  // STOC-, OPG-, RDA-ADMM and OPT-SADMM
  T beta, step1;
  bool accelerated, averaged;
  const T *steps, *weights, *shares, *rotation, *turned, *spectrum, *origin;
  T *x1, *x2, *dual, *mean1, *mean2, *mean_gradient, *mean_augmented;
};
template <class T> struct SDCA {
  T scale, sigma, tight;
  bool has_h2;
  const T *lengths;
  T *x1, *x2, *dual, *dual2, *residual, *derivatives;
};
template <class T> struct SPDHG {
  T share, tau, sigma, tight;
  const T *sigmas;
  T *x1, *x2, *dual, *pull, *ahead, *derivatives, *total1, *total2;
};
template <class T> struct PDDY {
  T step, sigma, tight;
  T *x1, *x2, *lead, *dual, *total1, *total2;
};
template <class T> struct Katyusha {
  T momentum, anchor, length;
  const T *weights;
  T *y, *z, *mean;
};

// ---------------------------------------------------------------- one table per variant and type

template <class T> struct Kernels {
  double (*full_pass)(const Data<T> &, idx lo, idx hi, const T *x, T *z, T *u, T *gradient);
  void (*gram_pass)(const Data<T> &, idx lo, idx hi, const T *v, bool weighted, T *z, T *out);
  void (*column_energies)(const Data<T> &, idx n_runs, bool weighted, double *mean, double *largest);
  void (*row_scores)(const Data<T> &, bool weighted, const double *inverse_energy, double *out);
  void (*count_nonzeros)(const T *X, idx n, idx d, idx *counts);
  void (*gather_nonzeros)(const T *X, idx n, idx d, bool wide, void *indices, T *data);
  void (*column_squares)(const T *X, idx n, idx d, double *out);
  void (*beside)(const Column *columns, idx d, idx n, T *out, idx width);
  void (*sparse_gram)(const Data<T> &, const double *numbers, idx first, idx last, double *out);
  void (*compensated_adjoint)(const Data<T> &, const double *v, double *high, double *low);
  void (*batch_gradient)(const Data<T> &, const Sample<T> &, const T *x, T *old, bool renew, T *out);
  void (*data_step)(const Data<T> &, idx block, idx n_blocks, const T *x, T sigma, T *derivatives, T *out);
  void (*prox)(const Penalty<T> &, idx outputs, const T *v, T step, T *out);
  void (*multiply)(const Operator<T> &, idx outputs, bool transposed, const T *x, T *out);
  void (*fuse_columns)(const T *v, idx rows, idx outputs, double threshold, T *out);
  void (*acc_sadmm)(const Problem<T> &, const Sample<T> &, const Anchor<T> &, const AccSADMM<T> &);
  void (*svrg_admm)(const Problem<T> &, const Sample<T> &, const Anchor<T> &, T mix, const Blocks<T> &);
  void (*sag_admm)(const Problem<T> &, const Sample<T> &, const Table<T> &, const Blocks<T> &);
  void (*stoc_admm)(const Problem<T> &, const Sample<T> &, const Plain<T> &);
  void (*sdca_admm)(const Problem<T> &, const Sample<T> &, const SDCA<T> &);
  void (*spdhg)(const Problem<T> &, const Sample<T> &, const SPDHG<T> &);
  void (*vr_pddy)(const Problem<T> &, const Sample<T> &, const Anchor<T> &, const PDDY<T> &);
  void (*katyusha)(const Problem<T> &, const Sample<T> &, const Anchor<T> &, const Katyusha<T> &);
};
struct Variant {
  int (*loss_code)(const char *name);  // UNKNOWN where the loss is
  idx n_terms;                         // kinds of penalty terms
  Kernels<float> narrow;
  Kernels<double> wide;
  Found (*splitting)(const Small &);
  void (*augmented)(const Augmented &);
  void (*newton_matrix)(const NewtonMatrix &);
  Swept (*coordinate_sweeps)(const Coordinates &);
  void (*consensus)(const Consensus &);
};

[[noreturn]] void no_memory();  // in module.cpp
