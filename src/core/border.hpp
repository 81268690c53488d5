// The border between Python and the kernels: every shape, type and index is checked here, once.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "views.hpp"

namespace nb = nanobind;

template <class T> using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
typedef std::string Text;

template <class T> const char *type_name() {
  typedef std::remove_const_t<T> U;
  if (std::is_same_v<U, double>) return "float64";
  if (std::is_same_v<U, float>) return "float32";
  return sizeof(U) == 8 ? "int64" : "int32";
}

// What the kernels know, in module.cpp.
int loss_code(const Text &name);
idx n_terms();

[[noreturn]] inline void refuse(const Text &message) { throw nb::value_error(message.c_str()); }

template <class T> Array<T> array_of(nb::handle value, const char *name) {
  Array<T> made;
  // numbers at odd addresses are undefined behaviour
  if (!nb::try_cast(value, made, false) || (uintptr_t)made.data() % alignof(T)) {
    Text how = std::is_const_v<T> ? "aligned, contiguous " : "writable, aligned, contiguous ";
    throw nb::type_error((Text(name) + ": expected a " + how + type_name<T>() + " array").c_str());
  }
  return made;
}

inline Text shape_text(size_t ndim, const int64_t *shape) {
  Text text = "(";
  for (size_t k = 0; k < ndim; ++k) text += (k ? ", " : "") + std::to_string(shape[k]);
  return text + ")";
}

// A (rows, columns) array, or a vector where there is one column.
template <class T> T *block(nb::handle value, const char *name, idx rows, idx columns) {
  Array<T> made = array_of<T>(value, name);
  if (made.ndim() == 0 || (idx)made.shape(0) != rows || (idx)made.size() != rows * columns)
    refuse(Text(name) + " has shape " + shape_text(made.ndim(), made.shape_ptr()) + ", expected (" +
           std::to_string(rows) + ", " + std::to_string(columns) + ")");
  return made.data();
}

// Null where the value is None.
template <class T> T *optional(nb::handle value, const char *name, idx rows, idx columns) {
  return value.is_none() ? nullptr : block<T>(value, name, rows, columns);
}

inline bool is_double(nb::handle value, const char *name) {
  Array<const double> wide;
  if (nb::try_cast(value, wide, false)) return true;
  array_of<const float>(value, name);
  return false;
}

template <class P, class I>
void check_csr(const P *indptr, idx rows, const I *indices, idx entries, idx columns,
               const char *name) {
  bool good = indptr[0] >= 0 && (idx)indptr[rows] <= entries;
  for (idx i = 0; i < rows; ++i) good &= indptr[i] <= indptr[i + 1];
  if (!good) refuse(Text(name) + ": the row pointers do not rise from 0 to the number of entries");
  I low = 0, high = 0;
  for (idx k = 0; k < entries; ++k) {
    low = indices[k] < low ? indices[k] : low;
    high = indices[k] > high ? indices[k] : high;
  }
  if (low < 0 || (entries > 0 && (idx)high >= columns))
    refuse(Text(name) + ": a column index is outside 0.." + std::to_string(columns - 1));
}

inline void check_range(idx lo, idx hi, idx n) {
  if (lo < 0 || lo > hi || hi > n)
    refuse("rows " + std::to_string(lo) + ".." + std::to_string(hi) + " are not within 0.." +
           std::to_string(n));
}

// The fields of a Python object by their names; those that are read may be kept alive.
struct Fields {
  nb::handle from;
  std::vector<nb::object> *kept = nullptr;
  nb::object operator[](const char *name) const {
    nb::object value = nb::getattr(from, name);
    if (kept) kept->push_back(value);
    return value;
  }
  double number(const char *name) const { return nb::cast<double>((*this)[name]); }
  idx whole(const char *name) const { return nb::cast<idx>((*this)[name]); }
  bool flag(const char *name) const { return nb::cast<bool>((*this)[name]); }
  template <class T> T *array(const char *name, idx rows, idx columns = 1) const {
    return block<T>((*this)[name], name, rows, columns);
  }
  template <class T> T *maybe(const char *name, idx rows, idx columns = 1) const {
    return optional<T>((*this)[name], name, rows, columns);
  }
  idx size(const char *name) const {
    nb::object value = (*this)[name];
    return nb::cast<idx>(nb::getattr(value, "size"));
  }
};

// ---------------------------------------------------------------- views

// A struct for one of the two float types and the Python objects whose arrays it points to.
template <template <class> class Struct> struct View {
  std::variant<Struct<float>, Struct<double>> of;
  std::vector<nb::object> kept;
  template <class T> const Struct<T> &as(const char *name) const {
    const Struct<T> *found = std::get_if<Struct<T>>(&of);
    if (!found) refuse(Text(name) + " is not of the float type " + type_name<T>());
    return *found;
  }
};

template <class T, class I> void read_csr(const Fields &v, Data<T> &f) {
  f.entries = v.size("data");
  const I *indptr = v.array<const I>("indptr", f.n + 1);
  const I *indices = v.array<const I>("indices", f.entries);
  f.data = v.array<const T>("data", f.entries);
  check_csr(indptr, f.n, indices, f.entries, f.d, "X");
  f.entries = (idx)indptr[f.n];
  f.indptr = indptr;
  f.indices = indices;
}

template <class T> void read_rows(const Fields &v, Data<T> &f) {
  f.n = v.whole("n_rows");
  f.d = v.whole("n_features");
  f.sparse = v.flag("is_sparse");
  if (!f.sparse) {
    f.X = v.array<const T>("X", f.n, f.d);
    f.entries = f.n * f.d;
    return;
  }
  f.wide = nb::cast<idx>(nb::getattr(v["indices"], "itemsize")) == 8;
  if (f.wide) read_csr<T, int64_t>(v, f);
  else read_csr<T, int32_t>(v, f);
}

template <class T> Data<T> read_data(const Fields &v) {
  Data<T> f = {};
  read_rows(v, f);
  f.outputs = v.whole("outputs");
  Text loss = nb::cast<Text>(v["loss"]);
  f.loss = loss_code(loss);
  f.p0 = v.number("p0");
  f.p1 = v.number("p1");
  f.intercept = v.flag("intercept");
  if (f.loss == UNKNOWN) refuse("unknown loss " + loss);
  bool labels = f.loss == MULTINOMIAL;
  if (f.outputs < (labels ? 2 : 1)) refuse("the loss needs more outputs");
  f.y_columns = labels ? 1 : f.outputs;
  f.y = v.array<const T>("y", f.n, f.y_columns);
  for (idx i = 0; labels && i < f.n; ++i)
    if (!(f.y[i] >= 0 && f.y[i] < (T)f.outputs)) refuse("a label is not within 0..outputs - 1");
  idx weights = v.size("weight"), offsets = v.size("offset");
  f.weight_columns = weights > f.n ? f.outputs : 1;
  if (weights) f.weight = v.array<const T>("weight", f.n, f.weight_columns);
  if (offsets) f.offset = v.array<const T>("offset", f.n, f.outputs);
  return f;
}

template <class T> Penalty<T> read_penalty(const Fields &v) {
  Penalty<T> h = {};
  h.rows = v.whole("n_rows");
  h.per_entry = v.flag("per_entry");
  h.n_terms = v.size("kinds");
  h.numbers = v.size("l1");
  idx numbers = h.numbers, groups = v.size("group_weights");
  if (h.per_entry ? (h.rows ? numbers % h.rows : numbers) != 0 : numbers != h.rows)
    refuse("the penalty's numbers do not fit its rows");
  h.kinds = v.array<const idx>("kinds", h.n_terms);
  h.starts = v.array<const idx>("starts", h.n_terms + 1);
  h.first_group = v.array<const idx>("first_group", h.n_terms + 1);
  h.group_starts = v.array<const idx>("group_starts", groups);
  h.group_stops = v.array<const idx>("group_stops", groups);
  h.group_weights = v.array<const T>("group_weights", groups);
  h.variation = v.array<const T>("variation", h.n_terms);
  const T **fields[] = {&h.l1, &h.l2, &h.lo, &h.hi};
  const char *names[] = {"l1", "l2", "lo", "hi"};
  for (int k = 0; k < 4; ++k) *fields[k] = v.array<const T>(names[k], numbers);
  bool good = h.starts[0] == 0 && h.first_group[0] == 0 && h.first_group[h.n_terms] == groups;
  good &= h.n_terms == 0 || h.starts[h.n_terms] == h.rows;
  for (idx t = 0; good && t < h.n_terms; ++t) {
    if (h.kinds[t] < 0 || h.kinds[t] >= n_terms())
      refuse("unknown penalty term " + std::to_string(h.kinds[t]));
    good = h.starts[t] <= h.starts[t + 1] && h.first_group[t] <= h.first_group[t + 1];
    for (idx g = h.first_group[t]; good && g < h.first_group[t + 1]; ++g)
      good = h.starts[t] <= h.group_starts[g] && h.group_starts[g] <= h.group_stops[g] &&
             h.group_stops[g] <= h.starts[t + 1];
  }
  if (!good) refuse("the penalty's terms and groups do not follow one another on its rows");
  return h;
}

template <class T> Operator<T> read_operator(const Fields &v) {
  Operator<T> A = {};
  A.kind = (int)v.whole("kind");
  A.scale = (T)v.number("scale");
  A.rows = v.whole("n_rows");
  A.columns = v.whole("n_columns");
  if (A.kind < 0 || A.kind >= N_KINDS) refuse("unknown operator " + std::to_string(A.kind));
  if (A.kind == SCALED_IDENTITY && A.rows != A.columns) refuse("an identity must be square");
  if (A.kind != SPARSE) return A;
  idx entries = v.size("data");
  A.indptr = v.array<const int32_t>("indptr", A.rows + 1);
  A.indices = v.array<const int32_t>("indices", entries);
  A.data = v.array<const T>("data", entries);
  A.t_indptr = v.array<const int32_t>("t_indptr", A.columns + 1);
  A.t_indices = v.array<const int32_t>("t_indices", entries);
  A.t_data = v.array<const T>("t_data", entries);
  check_csr(A.indptr, A.rows, A.indices, entries, A.columns, "operator");
  check_csr(A.t_indptr, A.columns, A.t_indices, entries, A.rows, "transposed operator");
  return A;
}

template <class T>
void check_fit(const Penalty<T> &h, idx rows, idx outputs, const char *name) {
  if (h.rows != rows || (h.per_entry && h.numbers != rows * outputs))
    refuse(Text(name) + " has " + std::to_string(h.rows) + " rows, expected " +
           std::to_string(rows) + " and one number per row or entry");
}

template <class T> Problem<T> read_problem(const Fields &v) {
  Problem<T> p;
  p.f = nb::cast<const View<Data> &>(nb::getattr(v["f"], "native")).template as<T>("f");
  auto part = [&](const char *name, auto &out) {
    typedef std::remove_reference_t<decltype(out)> S;
    if constexpr (std::is_same_v<S, Penalty<T>>)
      out = nb::cast<const View<Penalty> &>(nb::getattr(v[name], "native")).template as<T>(name);
    else out = nb::cast<const View<Operator> &>(nb::getattr(v[name], "native")).template as<T>(name);
  };
  part("h1", p.h1), part("h2", p.h2), part("A1", p.A1), part("A2", p.A2);
  idx C = p.f.outputs, d = p.f.d + p.f.intercept;
  idx rows = nb::cast<idx>(nb::getattr(v["b"], "shape")[0]);
  p.b = v.array<const T>("b", rows, C);
  if (p.A2.kind == NOTHING) p.A2.columns = d, p.A2.rows = rows;
  if (p.A1.kind == NOTHING) p.A1.rows = rows;
  if (p.A1.rows != rows || p.A2.rows != rows || p.A2.columns != d)
    refuse("the operators do not fit the variables and b");
  check_fit(p.h1, p.A1.columns, C, "h1");
  check_fit(p.h2, d, C, "h2");
  p.size = rows * C;
  p.size1 = p.A1.columns * C;
  p.size2 = d * C;
  return p;
}

template <template <class> class Struct, class Read>
View<Struct> make_view(nb::object from, bool wide, Read read) {
  View<Struct> made;
  Fields fields{from, &made.kept};
  if (wide) made.of = read(fields, double());
  else made.of = read(fields, float());
  return made;
}
