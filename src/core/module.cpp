// The Python module: views are made once, loops are called with views and named tuples of arrays.
#include "border.hpp"

#include <chrono>
#include <cstring>
#include <new>
#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace base {
extern const Variant table;
extern const SmallKernels small;
}
#ifdef HAVE_AVX2
namespace avx2 {
extern const Variant table;
extern const SmallKernels small;
}
#endif

void no_memory() { throw std::bad_alloc(); }

namespace {

const Variant *active = &base::table;
const SmallKernels *active_small = &base::small;

}  // namespace

int loss_code(const Text &name) { return active->loss_code(name.c_str()); }
idx n_terms() { return active->n_terms; }

namespace {

bool has_avx2() {
#if !defined(HAVE_AVX2)
  return false;
#elif defined(_MSC_VER) && !defined(__clang__)
  int r[4];
  __cpuid(r, 1);
  bool saved = (r[2] & (1 << 27)) && (r[2] & (1 << 28)) && (_xgetbv(0) & 6) == 6;
  __cpuidex(r, 7, 0);
  return saved && (r[1] & (1 << 5));
#else
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2");
#endif
}

std::vector<const char *> variants() {
  std::vector<const char *> names = {"base"};
  if (has_avx2()) names.push_back("avx2");
  return names;
}

void use(const Text &name) {
  if (name == "base") {
    active = &base::table, active_small = &base::small;
    return;
  }
#ifdef HAVE_AVX2
  if (name == "avx2" && has_avx2()) {
    active = &avx2::table, active_small = &avx2::small;
    return;
  }
#endif
  refuse("the variant " + name + " is not available on this processor");
}

template <class T> const Kernels<T> &kernels() {
  if constexpr (std::is_same_v<T, double>) return active->wide;
  else return active->narrow;
}

typedef nb::gil_scoped_release Released;

// Call with the struct inside a view, and its float type.
template <template <class> class Struct, class F> auto with(const View<Struct> &view, F call) {
  if (auto *wide = std::get_if<Struct<double>>(&view.of)) return call(*wide, double());
  return call(std::get<Struct<float>>(view.of), float());
}

// ---------------------------------------------------------------- passes

template <class T> void check_single(const Data<T> &f) {
  if (f.outputs != 1 || f.weight_columns > 1 || f.loss == MULTINOMIAL)
    refuse("full passes are for one output");
}

template <class T> void check_weighted(const Data<T> &f, bool weighted) {
  if (weighted && !f.weight) refuse("the rows have no weights");
}

double full_pass(const View<Data> &view, idx lo, idx hi, nb::handle x, nb::handle z, nb::handle u,
                 nb::handle gradient) {
  return with(view, [&](const auto &f, auto type) {
    typedef decltype(type) T;
    check_single(f);
    check_range(lo, hi, f.n);
    idx d = f.d + f.intercept;
    const T *x_ = block<const T>(x, "x", d, 1);
    T *z_ = block<T>(z, "z", hi - lo, 1), *u_ = block<T>(u, "u", hi - lo, 1);
    T *g_ = block<T>(gradient, "gradient", d, 1);
    Released released;
    return kernels<T>().full_pass(f, lo, hi, x_, z_, u_, g_);
  });
}

void gram_pass(const View<Data> &view, idx lo, idx hi, nb::handle v, bool weighted, nb::handle z,
               nb::handle out) {
  with(view, [&](const auto &f, auto type) {
    typedef decltype(type) T;
    check_single(f);
    check_weighted(f, weighted);
    check_range(lo, hi, f.n);
    idx d = f.d + f.intercept;
    const T *v_ = block<const T>(v, "v", d, 1);
    T *z_ = block<T>(z, "z", hi - lo, 1), *out_ = block<T>(out, "out", d, 1);
    Released released;
    kernels<T>().gram_pass(f, lo, hi, v_, weighted, z_, out_);
  });
}

void column_energies(const View<Data> &view, idx n_runs, bool weighted, nb::handle mean,
                     nb::handle largest) {
  with(view, [&](const auto &f, auto type) {
    typedef decltype(type) T;
    check_weighted(f, weighted);
    if (n_runs < 1 || n_runs > f.n) refuse("n_runs is not within 1..rows");
    idx d = f.d + f.intercept;
    double *mean_ = block<double>(mean, "mean", d, 1), *top = block<double>(largest, "largest", d, 1);
    Released released;
    kernels<T>().column_energies(f, n_runs, weighted, mean_, top);
  });
}

void row_scores(const View<Data> &view, bool weighted, nb::handle inverse_energy, nb::handle out) {
  with(view, [&](const auto &f, auto type) {
    typedef decltype(type) T;
    check_weighted(f, weighted);
    const double *energy = block<const double>(inverse_energy, "inverse_energy", f.d + f.intercept, 1);
    double *out_ = block<double>(out, "out", f.n, 1);
    Released released;
    kernels<T>().row_scores(f, weighted, energy, out_);
  });
}

// Call with a float type, that of an array.
template <class F> void by_type(nb::handle value, const char *name, F call) {
  if (is_double(value, name)) call(double());
  else call(float());
}

struct Matrix2 {
  idx rows, columns;
};
template <class T> Matrix2 shape_of(const Array<T> &a, const char *name) {
  if (a.ndim() != 2) refuse(Text(name) + ": expected two dimensions");
  return {(idx)a.shape(0), (idx)a.shape(1)};
}

void count_nonzeros(nb::handle X, nb::handle counts) {
  by_type(X, "X", [&](auto type) {
    typedef decltype(type) T;
    Array<const T> a = array_of<const T>(X, "X");
    Matrix2 s = shape_of(a, "X");
    idx *counts_ = block<idx>(counts, "counts", s.rows, 1);
    Released released;
    kernels<T>().count_nonzeros(a.data(), s.rows, s.columns, counts_);
  });
}

// `counts` as written by count_nonzeros: the room that indices and data must have, and one more
void gather_nonzeros(nb::handle X, nb::handle counts, nb::handle indices, nb::handle data) {
  by_type(X, "X", [&](auto type) {
    typedef decltype(type) T;
    Array<const T> a = array_of<const T>(X, "X");
    Matrix2 s = shape_of(a, "X");
    const idx *counts_ = block<const idx>(counts, "counts", s.rows, 1);
    idx room = 1;
    for (idx i = 0; i < s.rows; ++i) room += counts_[i];
    bool wide = nb::cast<idx>(nb::getattr(indices, "itemsize")) == 8;
    void *indices_ = wide ? (void *)block<int64_t>(indices, "indices", room, 1)
                          : (void *)block<int32_t>(indices, "indices", room, 1);
    T *data_ = block<T>(data, "data", room, 1);
    Released released;
    kernels<T>().gather_nonzeros(a.data(), s.rows, s.columns, wide, indices_, data_);
  });
}

void column_squares(nb::handle X, nb::handle out) {
  by_type(X, "X", [&](auto type) {
    typedef decltype(type) T;
    Array<const T> a = array_of<const T>(X, "X");
    Matrix2 s = shape_of(a, "X");
    double *out_ = block<double>(out, "out", s.columns, 1);
    Released released;
    kernels<T>().column_squares(a.data(), s.rows, s.columns, out_);
  });
}

Column read_column(nb::handle value, idx n) {
  nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> a;
  if (!nb::try_cast(value, a, false) || a.ndim() != 1 || (idx)a.shape(0) != n)
    refuse("columns: expected contiguous arrays of " + std::to_string(n) + " numbers");
  const nb::dlpack::dtype kinds[] = {
      nb::dtype<float>(),    nb::dtype<double>(),   nb::dtype<int8_t>(),  nb::dtype<int16_t>(),
      nb::dtype<int32_t>(),  nb::dtype<int64_t>(),  nb::dtype<uint8_t>(), nb::dtype<uint16_t>(),
      nb::dtype<uint32_t>(), nb::dtype<uint64_t>(),
  };
  for (int kind = COLUMN_F4; kind <= COLUMN_U8; ++kind)
    if (a.dtype() == kinds[kind]) return {a.data(), (ColumnKind)kind};
  refuse("columns: expected real numbers of 32 or 64 bits, or whole numbers");
}

// `columns` are written into the columns of `out` from number `first` on
void beside(nb::list columns, nb::handle out, idx first) {
  by_type(out, "out", [&](auto type) {
    typedef decltype(type) T;
    Array<T> made = array_of<T>(out, "out");
    Matrix2 s = shape_of(made, "out");
    idx d = (idx)nb::len(columns);
    check_range(first, first + d, s.columns);
    std::vector<Column> read;
    for (nb::handle each : columns) read.push_back(read_column(each, s.rows));
    Released released;
    kernels<T>().beside(read.data(), d, s.rows, made.data() + first, s.columns);
  });
}

// `rows` has the fields of the rows of a view
void sparse_gram(nb::handle rows, nb::handle numbers, idx first, idx last, nb::handle out) {
  Fields v{rows};
  by_type(v["data"], "data", [&](auto type) {
    typedef decltype(type) T;
    Data<T> f = {};
    read_rows(v, f);
    Matrix2 s = shape_of(array_of<double>(out, "out"), "out");
    if (!f.sparse || s.rows != s.columns || s.columns < f.d) refuse("out does not fit the rows");
    f.outputs = s.columns;
    check_range(first, last, f.d);
    const double *numbers_ = block<const double>(numbers, "numbers", f.n, 1);
    double *out_ = block<double>(out, "out", s.rows, s.columns);
    Released released;
    kernels<T>().sparse_gram(f, numbers_, first, last, out_);
  });
}

// `rows` has the fields of the rows of a view
void compensated_adjoint(nb::handle rows, nb::handle v, nb::handle high, nb::handle low) {
  Fields fields{rows};
  nb::handle numbers = fields.flag("is_sparse") ? fields["data"] : fields["X"];
  by_type(numbers, "rows", [&](auto type) {
    typedef decltype(type) T;
    Data<T> f = {};
    read_rows(fields, f);
    const double *v_ = block<const double>(v, "v", f.n, 1);
    double *high_ = block<double>(high, "high", f.d, 1), *low_ = block<double>(low, "low", f.d, 1);
    Released released;
    kernels<T>().compensated_adjoint(f, v_, high_, low_);
  });
}

// ---------------------------------------------------------------- pieces, for tests and callers

template <class T> Sample<T> read_sample(nb::handle from, idx n, idx lowest = 0) {
  Fields v{from};
  Array<const idx> a = array_of<const idx>(v["batches"], "batches");
  if (a.ndim() != 1 && a.ndim() != 2) refuse("batches: expected one or two dimensions");
  Sample<T> s;
  s.batches = a.data();
  s.steps = (idx)a.shape(0);
  s.per_batch = a.ndim() == 2 ? (idx)a.shape(1) : 1;
  s.n_runs = v.whole("n_runs");
  s.row_weight = (T)v.number("row_weight");
  if (s.n_runs < 1 || s.n_runs > n) refuse("n_runs is not within 1..rows");
  if (s.steps > 0 && s.per_batch < 1) refuse("batches are empty");
  for (idx k = 0; k < s.steps * s.per_batch; ++k)
    if (s.batches[k] < lowest || s.batches[k] >= s.n_runs)
      refuse("a batch names a run outside 0..n_runs - 1");
  return s;
}

void batch_gradient(const View<Data> &view, nb::handle sample, nb::handle x, nb::handle old,
                    bool renew, nb::handle out) {
  with(view, [&](const auto &f, auto type) {
    typedef decltype(type) T;
    Sample<T> s = read_sample<T>(sample, f.n);
    idx C = f.outputs, d = f.d + f.intercept;
    if (s.steps != 1 || (renew && old.is_none())) refuse("expected one batch, and a table to renew");
    const T *x_ = block<const T>(x, "x", d, C);
    T *old_ = optional<T>(old, "old", f.n, C), *out_ = block<T>(out, "out", d, C);
    Released released;
    kernels<T>().batch_gradient(f, s, x_, old_, renew, out_);
  });
}

void data_step(const View<Data> &view, idx which, idx n_blocks, nb::handle x, double sigma,
               nb::handle derivatives, nb::handle out) {
  with(view, [&](const auto &f, auto type) {
    typedef decltype(type) T;
    idx C = f.outputs, d = f.d + f.intercept;
    if (n_blocks < 1 || n_blocks > f.n || which < 0 || which >= n_blocks)
      refuse("the block is not within 0..n_blocks - 1");
    const T *x_ = block<const T>(x, "x", d, C);
    T *derivatives_ = block<T>(derivatives, "derivatives", f.n, C), *out_ = block<T>(out, "out", d, C);
    Released released;
    kernels<T>().data_step(f, which, n_blocks, x_, (T)sigma, derivatives_, out_);
  });
}

idx outputs_of(nb::handle array) {
  nb::object shape = nb::getattr(array, "shape");
  return nb::len(shape) > 1 ? nb::cast<idx>(shape[1]) : 1;
}

void prox(const View<Penalty> &view, nb::handle v, double step, nb::handle out) {
  with(view, [&](const auto &h, auto type) {
    typedef decltype(type) T;
    idx C = outputs_of(v);
    check_fit(h, h.rows, C, "the penalty");
    const T *v_ = block<const T>(v, "v", h.rows, C);
    T *out_ = block<T>(out, "out", h.rows, C);
    if (out_ == v_) refuse("v and out are the same array");
    Released released;
    kernels<T>().prox(h, C, v_, (T)step, out_);
  });
}

void multiply(const View<Operator> &view, bool transposed, nb::handle x, nb::handle out) {
  with(view, [&](const auto &A, auto type) {
    typedef decltype(type) T;
    idx C = outputs_of(x);
    const T *x_ = block<const T>(x, "x", transposed ? A.rows : A.columns, C);
    T *out_ = block<T>(out, "out", transposed ? A.columns : A.rows, C);
    if (out_ == x_ && A.rows) refuse("x and out are the same array");
    Released released;
    kernels<T>().multiply(A, C, transposed, x_, out_);
  });
}

void fuse_columns(nb::handle v, double threshold, nb::handle out) {
  by_type(v, "v", [&](auto type) {
    typedef decltype(type) T;
    idx C = outputs_of(v);
    Array<const T> a = array_of<const T>(v, "v");
    idx rows = (idx)a.shape(0);
    const T *v_ = block<const T>(v, "v", rows, C);
    T *out_ = block<T>(out, "out", rows, C);
    if (out_ == v_ && rows) refuse("v and out are the same array");
    Released released;
    kernels<T>().fuse_columns(v_, rows, C, threshold, out_);
  });
}

// ---------------------------------------------------------------- entries of a loss

struct LossOfEntries {
  const EntryLoops &loops;
  double p0, p1;
};

LossOfEntries read_loss(nb::handle kernel) {
  nb::object name = kernel[0], p0 = kernel[1], p1 = kernel[2];
  Text text = nb::cast<Text>(name);
  int code = loss_code(text);
  if (code < 0) refuse("no loops over entries of the loss " + text);
  return {active_small->entries(code), nb::cast<double>(p0), nb::cast<double>(p1)};
}

void loss_curvatures(nb::handle kernel, nb::handle z, nb::handle y, nb::handle out) {
  LossOfEntries loss = read_loss(kernel);
  idx n = (idx)array_of<const double>(y, "y").size();
  const double *z_ = block<const double>(z, "z", n, 1), *y_ = block<const double>(y, "y", n, 1);
  double *out_ = block<double>(out, "out", n, 1);
  Released released;
  loss.loops.curvatures(loss.p0, loss.p1, z_, y_, n, out_);
}

void loss_conjugates(nb::handle kernel, nb::handle u, nb::handle y, double guard, nb::handle out) {
  LossOfEntries loss = read_loss(kernel);
  idx n = (idx)array_of<const double>(y, "y").size();
  const double *u_ = block<const double>(u, "u", n, 1), *y_ = block<const double>(y, "y", n, 1);
  double *out_ = block<double>(out, "out", n, 1);
  Released released;
  loss.loops.conjugates(loss.p0, loss.p1, u_, y_, n, guard, out_);
}

void loss_largest_conjugates(nb::handle kernel, nb::handle u, nb::handle size, nb::handle y,
                             double guard, nb::handle out) {
  LossOfEntries loss = read_loss(kernel);
  idx n = (idx)array_of<const double>(y, "y").size();
  const double *u_ = block<const double>(u, "u", n, 1), *y_ = block<const double>(y, "y", n, 1);
  const double *size_ = block<const double>(size, "size", n, 1);
  double *out_ = block<double>(out, "out", n, 1);
  Released released;
  loss.loops.largest(loss.p0, loss.p1, u_, size_, y_, n, guard, out_);
}

void loss_rooms(nb::handle kernel, nb::handle u, nb::handle du, nb::handle y, nb::handle out) {
  LossOfEntries loss = read_loss(kernel);
  idx n = (idx)array_of<const double>(y, "y").size();
  const double *u_ = block<const double>(u, "u", n, 1), *y_ = block<const double>(y, "y", n, 1);
  const double *du_ = block<const double>(du, "du", n, 1);
  double *out_ = block<double>(out, "out", n, 1);
  Released released;
  loss.loops.rooms(loss.p0, loss.p1, u_, du_, y_, n, out_);
}

// ---------------------------------------------------------------- coordinates of a model

// Returns the last sweep's largest change of a derivative, and the number of sweeps.
nb::tuple coordinate_sweeps(nb::handle given) {
  Fields v{given};
  Coordinates k;
  k.outputs = v.size("starts") - 1;
  idx count = v.size("w"), entries = v.size("indices"), columns = v.size("indptr") - 1;
  if (k.outputs < 1 || columns < 0) refuse("starts or indptr is empty");
  k.indptr = v.array<const idx>("indptr", columns + 1);
  k.indices = v.array<const int32_t>("indices", entries);
  k.data = v.array<const double>("data", entries);
  k.starts = v.array<const idx>("starts", k.outputs + 1);
  k.columns = v.array<const idx>("columns", count);
  bool good = k.starts[0] == 0 && k.starts[k.outputs] == count;
  for (idx c = 0; c < k.outputs; ++c) good &= k.starts[c] <= k.starts[c + 1];
  for (idx a = 0; a < count; ++a) good &= k.columns[a] >= 0 && k.columns[a] < columns;
  if (!good) refuse("starts or columns are out of range");
  k.n = v.size("c") / k.outputs;
  check_csr(k.indptr, columns, k.indices, entries, k.n, "columns");
  k.c = v.array<const double>("c", k.outputs, k.n);
  k.s = v.maybe<const double>("s", k.outputs, k.n);
  const double **of[] = {&k.gradient, &k.bend, &k.l1, &k.l2, &k.lo, &k.hi};
  const char *names[] = {"gradient", "bend", "l1", "l2", "lo", "hi"};
  for (int t = 0; t < 6; ++t) *of[t] = v.array<const double>(names[t], count);
  k.w = v.array<double>("w", count);
  k.tol = v.number("tol");
  k.most = v.whole("most"), k.inner = v.whole("inner");
  Swept found;
  {
    Released released;
    found = active->coordinate_sweeps(k);
  }
  return nb::make_tuple(found.worst, found.sweeps, found.square);
}

// ---------------------------------------------------------------- the small problem

template <class S> void read_small(const Fields &v, S &s) {
  const View<Operator> &op = nb::cast<const View<Operator> &>(nb::getattr(v["S"], "native"));
  const View<Penalty> &h = nb::cast<const View<Penalty> &>(nb::getattr(v["h"], "native"));
  s.S = op.as<double>("S");
  s.h = h.as<double>("h");
}

nb::tuple splitting(nb::handle from) {
  Fields v{from};
  Small s;
  read_small(v, s);
  idx d = s.S.columns, rows = s.S.rows, C = s.outputs = outputs_of(v["w"]);
  if (s.S.kind == NOTHING) refuse("S: expected an operator");
  check_fit(s.h, rows, C, "h");
  s.inverse = v.array<const double>("inverse", d, d);
  s.a = v.array<const double>("a", d, C);
  s.b = v.array<const double>("b", rows, C);
  s.w = v.array<double>("w", d, C);
  s.z = v.array<double>("z", rows, C);
  s.dual = v.array<double>("dual", rows, C);
  s.penalty = v.number("penalty");
  s.relax = v.number("relax");
  s.tol = v.number("tol");
  s.length = v.number("length");
  s.force = v.number("force");
  s.max_iter = v.whole("max_iter");
  s.every = v.whole("every");
  if (s.every < 1) refuse("every is not at least 1");
  Found found;
  {
    Released released;
    found = active->splitting(s);
  }
  return nb::make_tuple(found.iterations, found.primal, found.stationary);
}

void consensus(nb::handle from) {
  Fields v{from};
  Consensus c = {};
  nb::object W = v["W"], h = v["h"];
  c.outputs = outputs_of(W);
  c.rows = nb::cast<idx>(nb::getattr(W, "shape")[0]);
  c.penalties = h.is_none() ? 1 : 2;
  if (!h.is_none()) {
    c.h = nb::cast<const View<Penalty> &>(nb::getattr(h, "native")).as<double>("h");
    check_fit(c.h, c.rows, c.outputs, "h");
  }
  c.inverse = v.array<const double>("inverse", c.rows, c.rows);
  c.linear = v.array<const double>("linear", c.rows, c.outputs);
  c.W = v.array<double>("W", c.rows, c.outputs);
  c.Z = v.array<double>("Z", c.penalties, c.rows * c.outputs);
  c.v = v.array<double>("v", c.penalties, c.rows * c.outputs);
  c.before = v.array<double>("before", c.penalties, c.rows * c.outputs);
  c.alpha = v.number("alpha"), c.rho = v.number("rho"), c.relax = v.number("relax");
  c.steps = v.whole("steps");
  Released released;
  active->consensus(c);
}

void check_simple(const Penalty<double> &h) {
  for (idx t = 0; t < h.n_terms; ++t)
    if (h.kinds[t] >= N_SIMPLE) refuse("h: a term has no diagonal derivative");
}

void augmented(nb::handle from) {
  Fields v{from};
  Augmented s;
  read_small(v, s);
  idx d = s.S.columns, rows = s.S.rows, C = s.outputs = outputs_of(v["w"]);
  if (s.S.kind == NOTHING) refuse("S: expected an operator");
  check_fit(s.h, rows, C, "h");
  check_simple(s.h);
  s.b = v.array<const double>("b", rows, C);
  s.dual = v.array<const double>("dual", rows, C);
  s.w = v.array<const double>("w", d, C);
  s.penalty = v.number("penalty");
  s.shifted = v.array<double>("shifted", rows, C);
  s.z = v.array<double>("z", rows, C);
  s.new_dual = v.array<double>("new_dual", rows, C);
  s.weight = v.array<double>("weight", rows, C);
  Released released;
  active->augmented(s);
}

void newton_matrix(nb::handle H, const View<Operator> &S, const View<Penalty> &h,
                   nb::handle shifted, nb::handle weight, nb::handle out) {
  NewtonMatrix s;
  s.S = S.as<double>("S");
  s.h = h.as<double>("h");
  s.d = s.S.columns;
  if (s.S.kind != SPARSE || s.h.rows != s.S.rows) refuse("S: expected a matrix that fits h");
  s.H = block<const double>(H, "H", s.d, s.d);
  s.shifted = block<const double>(shifted, "shifted", s.S.rows, 1);
  s.weight = block<const double>(weight, "weight", s.S.rows, 1);
  s.out = block<double>(out, "out", s.d, s.d);
  Released released;
  active->newton_matrix(s);
}

nb::tuple small_route(nb::handle from) {
  Fields v{from};
  const View<Data> &f = nb::cast<const View<Data> &>(nb::getattr(v["f"], "native"));
  const View<Penalty> &h = nb::cast<const View<Penalty> &>(nb::getattr(v["h"], "native"));
  SmallRoute s;
  s.h = h.as<double>("h");
  check_simple(s.h);
  SmallFound found;
  with(f, [&](const auto &data, auto type) {
    typedef decltype(type) T;
    check_single(data);
    idx entries = v.size("data");
    s.rows = s.h.rows, s.columns = data.d + data.intercept;
    s.indptr = v.array<const int32_t>("indptr", s.rows + 1);
    s.indices = v.array<const int32_t>("indices", entries);
    s.data = v.array<const double>("data", entries);
    check_csr(s.indptr, s.rows, s.indices, entries, s.columns, "S");
    check_fit(s.h, s.rows, 1, "h");
    s.w = v.array<double>("w", s.columns);
    s.dual = v.array<double>("dual", s.rows);
    s.z = v.array<double>("z", data.n), s.u = v.array<double>("u", data.n);
    s.gradient = v.array<double>("gradient", s.columns);
    s.gram = v.maybe<double>("gram", s.columns, s.columns);
    s.gram_known = v.flag("gram_known");
    s.first = v.whole("first");
    check_range(s.first, s.rows, s.rows);
    Released released;
    if constexpr (std::is_same_v<T, double>) found = active_small->wide(s, data);
    else found = active_small->narrow(s, data);
  });
  return nb::make_tuple(found.value, found.penalty, found.bound, found.inner_penalty, found.steps,
                        found.passes, found.exact);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

nb::tuple few_columns(nb::handle from) {
  Fields v{from};
  const View<Data> &f = nb::cast<const View<Data> &>(nb::getattr(v["f"], "native"));
  ColumnsFound found;
  with(f, [&](const auto &data, auto type) {
    typedef decltype(type) T;
    check_single(data);
    idx p = data.d + data.intercept;
    ColumnsRoute s;
    s.l1 = v.array<const double>("l1", p), s.l2 = v.array<const double>("l2", p);
    s.lo = v.array<const double>("lo", p), s.hi = v.array<const double>("hi", p);
    s.w = v.array<double>("w", p), s.gradient = v.array<double>("gradient", p);
    s.z = v.array<double>("z", data.n), s.u = v.array<double>("u", data.n);
    s.first = v.whole("first"), s.most = v.whole("most");
    if (s.first < 1 || s.most < 1) refuse("first or most is not at least 1");
    s.work = v.number("work"), s.seconds = v.number("seconds"), s.now = now;
    Released released;
    if constexpr (std::is_same_v<T, double>) found = active_small->wide_columns(s, data);
    else found = active_small->narrow_columns(s, data);
  });
  return nb::make_tuple(found.value, found.penalty, found.bound, found.steps, found.passes,
                        found.columns, found.late, found.rests);
}

// ---------------------------------------------------------------- methods

// The arrays of a state by the block they belong to.
template <class T> struct State : Fields {
  const Problem<T> &p;
  idx C;
  State(nb::handle from, const Problem<T> &p) : Fields{from}, p(p), C(p.f.outputs) {}
  T *one(const char *name) const { return this->template array<T>(name, p.size1 / C, C); }
  T *two(const char *name) const { return this->template array<T>(name, p.size2 / C, C); }
  T *dual(const char *name) const { return this->template array<T>(name, p.size / C, C); }
  T *derivatives(const char *name) const { return this->template array<T>(name, p.f.n, C); }
  const T *vector(const char *name, idx n) const { return this->template array<const T>(name, n); }
  T *maybe_two(const char *name) const { return this->template maybe<T>(name, p.size2 / C, C); }
  const T *square(const char *name) const {
    return this->template maybe<const T>(name, p.size2 / C, p.size2 / C);
  }
  T real(const char *name) const { return (T)number(name); }
};

// Derivatives may be absent: then they are computed again at the point.
template <class T> Anchor<T> read_anchor(nb::handle from, const Problem<T> &p, bool point) {
  Fields v{from};
  idx C = p.f.outputs, d = p.size2 / C;
  Anchor<T> a;
  a.derivatives = v.maybe<const T>("derivatives", p.f.n, C);
  a.gradient = v.array<const T>("gradient", d, C);
  a.point = point || !a.derivatives ? v.array<const T>("point", d, C) : nullptr;
  return a;
}

template <class T> Blocks<T> read_blocks(const State<T> &v) {
  return {v.real("beta"), v.real("step1"),   v.real("step2"),  v.one("x1"),
          v.two("x2"),    v.dual("dual"), v.one("total1"), v.two("total2")};
}

typedef View<Problem> Whole;

void acc_sadmm(const Whole &view, nb::handle sample, nb::handle anchor, nb::handle state) {
  with(view, [&](const auto &p, auto type) {
    typedef decltype(type) T;
    State<T> v(state, p);
    Sample<T> runs = read_sample<T>(sample, p.f.n);
    Anchor<T> at = read_anchor(anchor, p, false);
    AccSADMM<T> s;
    s.beta = v.real("beta"), s.momentum = v.real("momentum"), s.anchor = v.real("anchor");
    s.step1 = v.real("step1"), s.step2 = v.real("step2");
    s.inverse = v.square("inverse");
    s.at_snapshot = v.template array<const T>("at_snapshot", p.size / v.C, v.C);
    s.x1 = v.one("x1"), s.x2 = v.two("x2"), s.y1 = v.one("y1"), s.y2 = v.two("y2");
    s.before1 = v.one("before1"), s.before2 = v.two("before2");
    s.total1 = v.one("total1"), s.total2 = v.two("total2");
    s.dual = v.dual("dual"), s.ahead = v.dual("ahead");
    Released released;
    kernels<T>().acc_sadmm(p, runs, at, s);
  });
}

void svrg_admm(const Whole &view, nb::handle sample, nb::handle anchor, double mix,
               nb::handle state) {
  with(view, [&](const auto &p, auto type) {
    typedef decltype(type) T;
    Sample<T> runs = read_sample<T>(sample, p.f.n);
    Anchor<T> at = read_anchor(anchor, p, true);
    Blocks<T> s = read_blocks(State<T>(state, p));
    Released released;
    kernels<T>().svrg_admm(p, runs, at, (T)mix, s);
  });
}

void sag_admm(const Whole &view, nb::handle sample, nb::handle table, nb::handle state) {
  with(view, [&](const auto &p, auto type) {
    typedef decltype(type) T;
    State<T> v(table, p);
    Sample<T> runs = read_sample<T>(sample, p.f.n);
    Table<T> t;
    t.share = v.real("share"), t.curvature = v.real("curvature");
    t.derivatives = v.derivatives("derivatives"), t.gradient = v.two("gradient");
    t.points = v.template maybe<T>("points", p.f.n, p.size2);
    t.mean_point = v.maybe_two("mean_point");
    if (t.points && !t.mean_point) refuse("points without their mean");
    Blocks<T> s = read_blocks(State<T>(state, p));
    Released released;
    kernels<T>().sag_admm(p, runs, t, s);
  });
}

void stoc_admm(const Whole &view, nb::handle sample, nb::handle state) {
  with(view, [&](const auto &p, auto type) {
    typedef decltype(type) T;
    State<T> v(state, p);
    Sample<T> runs = read_sample<T>(sample, p.f.n);
    Plain<T> s;
    s.beta = v.real("beta"), s.step1 = v.real("step1");
    s.accelerated = v.flag("accelerated"), s.averaged = v.flag("averaged");
    s.steps = v.vector("steps", runs.steps), s.weights = v.vector("weights", runs.steps);
    s.shares = v.vector("shares", runs.steps);
    s.rotation = v.square("rotation"), s.turned = v.square("turned");
    s.spectrum = v.template maybe<const T>("spectrum", p.size2 / v.C);
    s.x1 = v.one("x1"), s.x2 = v.two("x2"), s.dual = v.dual("dual");
    s.mean1 = v.one("mean1"), s.mean2 = v.two("mean2");
    s.origin = v.maybe_two("origin"), s.mean_gradient = v.maybe_two("mean_gradient");
    s.mean_augmented = v.template maybe<T>("mean_augmented", p.size / v.C, v.C);
    if (s.rotation && !(s.turned && s.spectrum)) refuse("rotation without its spectrum");
    if (s.averaged && !(s.origin && s.mean_gradient && s.mean_augmented)) refuse("no means are given");
    Released released;
    kernels<T>().stoc_admm(p, runs, s);
  });
}

void sdca_admm(const Whole &view, nb::handle sample, nb::handle state) {
  with(view, [&](const auto &p, auto type) {
    typedef decltype(type) T;
    State<T> v(state, p);
    Sample<T> blocks = read_sample<T>(sample, p.f.n);
    if (blocks.per_batch != 1) refuse("one block per step is expected");
    SDCA<T> s;
    s.scale = v.real("scale"), s.sigma = v.real("sigma"), s.tight = v.real("tight");
    s.has_h2 = v.flag("has_h2");
    s.lengths = v.vector("lengths", blocks.n_runs);
    s.x1 = v.one("x1"), s.x2 = v.two("x2"), s.dual = v.dual("dual"), s.dual2 = v.two("dual2");
    s.residual = v.two("residual"), s.derivatives = v.derivatives("derivatives");
    Released released;
    kernels<T>().sdca_admm(p, blocks, s);
  });
}

void spdhg(const Whole &view, nb::handle sample, nb::handle state) {
  with(view, [&](const auto &p, auto type) {
    typedef decltype(type) T;
    State<T> v(state, p);
    Sample<T> picks = read_sample<T>(sample, p.f.n, -1);
    if (picks.per_batch != 1) refuse("one block per step is expected");
    SPDHG<T> s;
    s.share = v.real("share"), s.tau = v.real("tau"), s.sigma = v.real("sigma");
    s.tight = v.real("tight");
    s.sigmas = v.vector("sigmas", picks.n_runs);
    s.x1 = v.one("x1"), s.x2 = v.two("x2"), s.dual = v.dual("dual"), s.pull = v.two("pull");
    s.ahead = v.two("ahead"), s.derivatives = v.derivatives("derivatives");
    s.total1 = v.one("total1"), s.total2 = v.two("total2");
    Released released;
    kernels<T>().spdhg(p, picks, s);
  });
}

void vr_pddy(const Whole &view, nb::handle sample, nb::handle anchor, nb::handle state) {
  with(view, [&](const auto &p, auto type) {
    typedef decltype(type) T;
    State<T> v(state, p);
    Sample<T> runs = read_sample<T>(sample, p.f.n);
    Anchor<T> at = read_anchor(anchor, p, false);
    PDDY<T> s;
    s.step = v.real("step"), s.sigma = v.real("sigma"), s.tight = v.real("tight");
    s.x1 = v.one("x1"), s.x2 = v.two("x2"), s.lead = v.two("lead"), s.dual = v.dual("dual");
    s.total1 = v.one("total1"), s.total2 = v.two("total2");
    Released released;
    kernels<T>().vr_pddy(p, runs, at, s);
  });
}

void katyusha(const Whole &view, nb::handle sample, nb::handle anchor, nb::handle state) {
  with(view, [&](const auto &p, auto type) {
    typedef decltype(type) T;
    State<T> v(state, p);
    Sample<T> runs = read_sample<T>(sample, p.f.n);
    Anchor<T> at = read_anchor(anchor, p, true);
    Katyusha<T> s;
    s.momentum = v.real("momentum"), s.anchor = v.real("anchor"), s.length = v.real("length");
    s.weights = v.vector("weights", runs.steps);
    s.y = v.two("y"), s.z = v.two("z"), s.mean = v.two("mean");
    Released released;
    kernels<T>().katyusha(p, runs, at, s);
  });
}

template <template <class> class Struct, class Read>
void define_view(nb::module_ &m, const char *name, const char *typed, Read read) {
  nb::class_<View<Struct>>(m, name).def(
      "__init__", [typed, read](View<Struct> *self, nb::object from) {
        bool wide = is_double(nb::getattr(from, typed), typed);
        new (self) View<Struct>(make_view<Struct>(from, wide, read));
      });
}

}  // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // views that live until the interpreter ends are no leak
  use(variants().back());
  m.attr("sources") = SOURCES;
  m.def("variants", [] {
    nb::list names;
    for (const char *name : variants()) names.append(name);
    return names;
  });
  m.def("use", &use);
  define_view<Data>(m, "Data", "y", [](const Fields &v, auto t) { return read_data<decltype(t)>(v); });
  define_view<Penalty>(m, "Penalty", "l1",
                       [](const Fields &v, auto t) { return read_penalty<decltype(t)>(v); });
  define_view<Operator>(m, "Operator", "data",
                        [](const Fields &v, auto t) { return read_operator<decltype(t)>(v); });
  define_view<Problem>(m, "Problem", "b",
                       [](const Fields &v, auto t) { return read_problem<decltype(t)>(v); });
  m.def("full_pass", &full_pass);
  m.def("gram_pass", &gram_pass);
  m.def("column_energies", &column_energies);
  m.def("row_scores", &row_scores);
  m.def("count_nonzeros", &count_nonzeros);
  m.def("gather_nonzeros", &gather_nonzeros);
  m.def("column_squares", &column_squares);
  m.def("beside", &beside);
  m.def("sparse_gram", &sparse_gram);
  m.def("compensated_adjoint", &compensated_adjoint);
  m.def("batch_gradient", &batch_gradient, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
        nb::arg(), nb::arg());
  m.def("data_step", &data_step);
  m.def("prox", &prox);
  m.def("multiply", &multiply);
  m.def("fuse_columns", &fuse_columns);
  m.def("coordinate_sweeps", &coordinate_sweeps);
  m.def("splitting", &splitting);
  m.def("augmented", &augmented);
  m.def("consensus", &consensus);
  m.def("newton_matrix", &newton_matrix);
  m.def("loss_curvatures", &loss_curvatures);
  m.def("loss_conjugates", &loss_conjugates);
  m.def("loss_largest_conjugates", &loss_largest_conjugates);
  m.def("loss_rooms", &loss_rooms);
  m.def("small_route", &small_route);
  m.def("few_columns", &few_columns);
  m.def("acc_sadmm", &acc_sadmm);
  m.def("svrg_admm", &svrg_admm);
  m.def("sag_admm", &sag_admm);
  m.def("stoc_admm", &stoc_admm);
  m.def("sdca_admm", &sdca_admm);
  m.def("spdhg", &spdhg);
  m.def("vr_pddy", &vr_pddy);
  m.def("katyusha", &katyusha);
}
