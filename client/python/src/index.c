/* Indexing: x[...] and x[...] = value.
 *
 * A key is walked from left to right over one view: integers, slices, None and Ellipsis make the next view; index
 * tensors and masks are collected, and applied to the last one together. So a write goes through the same view as a
 * read. An integer may be a tensor without dimensions: x[i] is a view then too, for which the value of i is waited. */
#include "client/python/src/py.h"

#include "proto/ops/opid.h"

enum { MOST = TD_MAX_DIMS + 1 };

typedef struct walk {
    const char *where;
    PyObject *base; /* the object that is indexed */
    td_array *view;
    td_array *index[MOST]; /* NULL: the whole dimension */
    td_array *made[MOST];  /* those of them that were made here */
    int n, nmade, dim;
    bool advanced;
} walk;

/* The next view; the one before is released. */
static bool go_on(walk *w, td_array *next)
{
    td_release(w->view);
    w->view = next;
    return next || tdpy_fail();
}

static void end(walk *w)
{
    for (int i = 0; i < w->nmade; i++) td_release(w->made[i]);
    td_release(w->view);
}

/* One more dimension is dealt with. */
static bool push(walk *w, td_array *index)
{
    if (w->n == MOST) return tdpy_raise(TD_E_INDEX, "too many indices for a tensor");
    w->index[w->n++] = index;
    w->advanced = w->advanced || index;
    return true;
}

static bool keep(walk *w, td_array *made)
{
    if (!made) return tdpy_fail();
    if (w->nmade == MOST) {
        td_release(made);
        return tdpy_raise(TD_E_INDEX, "too many indices for a tensor");
    }
    w->made[w->nmade++] = made;
    return true;
}

/* ---- the parts of a key ------------------------------------------------------------------------------------------ */

/* With the number that a trace follows. */
static td_array *select_followed(const walk *w, td_arg place)
{
    td_attrs attrs;
    const td_op *op = td_op_by_id(TD_OP_SELECT);
    td_arg in = td_arg_array(w->view);
    td_array *made;
    td_attrs_init(&attrs);
    bool given = td_give_int(&attrs, op, w->dim) && td_give_number(&attrs, op, place);
    return given && !td_run(NULL, w->where, op, 0, 1, &in, &attrs, 1, &made, NULL) ? made : NULL;
}

static bool at_place(walk *w, td_arg place)
{
    int64_t i = place.i;
    int all = td_ndim(tdpy_array(w->base)), rest = td_ndim(w->view) - w->dim;
    if (all == 0 && rest == 0)
        return tdpy_raise(TD_E_INDEX, "invalid index of a 0-dim tensor: item() has its number, x[()] the tensor");
    if (rest <= 0) return tdpy_raise(TD_E_INDEX, "too many indices for a tensor of dimension %d", all);
    int64_t size = td_size(w->view, w->dim);
    if (i < -size || i >= size)
        return tdpy_raise(TD_E_INDEX, "index %lld is out of bounds for dimension %d with size %lld", (long long)i,
                          all - rest, (long long)size);
    return go_on(w, place.im != 0 ? select_followed(w, place) : td_at_select(w->where, w->view, w->dim, i));
}

static bool by_int(walk *w, PyObject *key)
{
    int64_t i;
    td_arg place;
    int follows = td_is_tracing() ? tdpy_follow_int(key, &place) : 0;
    if (follows) return follows > 0 && at_place(w, place);
    return tdpy_as_int(key, &i, "index", "key") && at_place(w, td_arg_int(i));
}

/* One end of a slice, or its step, where a trace may follow it. */
static bool follow_end(PyObject *key, const char *name, td_arg *end)
{
    PyObject *o = PyObject_GetAttrString(key, name);
    td_arg a;
    int follows = o && o != Py_None ? tdpy_follow_int(o, &a) : 0;
    Py_XDECREF(o);
    if (follows > 0) *end = a;
    return o && follows >= 0;
}

/* The ends and the step of a slice while a trace is on: a followed one has its name, and is not asked for as an int of
 * Python. */
static bool unpack_followed(PyObject *key, td_arg *start, td_arg *stop, td_arg *step)
{
    static const char *const names[] = {"start", "stop", "step"};
    td_arg *ends[] = {start, stop, step};
    PyObject *plain[3];
    int n = 0;
    Py_ssize_t at[3];
    for (; n < 3; n++) {
        *ends[n] = td_none();
        if (!follow_end(key, names[n], ends[n])) break;
        plain[n] =
            ends[n]->kind == TD_ARG_NONE ? PyObject_GetAttrString(key, names[n]) : PyLong_FromLongLong(ends[n]->i);
        if (!plain[n]) break;
    }
    PyObject *slice = n == 3 ? PySlice_New(plain[0], plain[1], plain[2]) : NULL;
    bool good = slice && !PySlice_Unpack(slice, &at[0], &at[1], &at[2]);
    for (int k = 0; k < n; k++) Py_DECREF(plain[k]);
    Py_XDECREF(slice);
    for (int k = 0; good && k < 3; k++)
        if (ends[k]->kind == TD_ARG_NONE) *ends[k] = td_arg_int(at[k]);
    return good;
}

static bool unpack(PyObject *key, td_arg *start, td_arg *stop, td_arg *step)
{
    Py_ssize_t from, to, by;
    if (td_is_tracing()) return unpack_followed(key, start, stop, step);
    if (PySlice_Unpack(key, &from, &to, &by)) return false;
    *start = td_arg_int(from), *stop = td_arg_int(to), *step = td_arg_int(by);
    return true;
}

static td_array *slice_followed(const walk *w, td_arg start, td_arg stop, td_arg step)
{
    td_attrs attrs;
    const td_op *op = td_op_by_id(TD_OP_SLICE);
    td_arg in = td_arg_array(w->view);
    td_array *made;
    td_attrs_init(&attrs);
    bool given = td_give_int(&attrs, op, w->dim) && td_give_number(&attrs, op, start) &&
                 td_give_number(&attrs, op, stop) && td_give_number(&attrs, op, step);
    return given && !td_run(NULL, w->where, op, 0, 1, &in, &attrs, 1, &made, NULL) ? made : NULL;
}

static bool by_slice(walk *w, PyObject *key)
{
    td_arg start, stop, step;
    if (!unpack(key, &start, &stop, &step)) return false;
    if (step.i < 1)
        return tdpy_raise(TD_E_INVALID, "a slice's step must be greater than zero; use flip() to go backwards");
    if (w->dim >= td_ndim(w->view))
        return tdpy_raise(TD_E_INDEX, "too many indices for a tensor of dimension %d", td_ndim(tdpy_array(w->base)));
    bool whole = start.i == 0 && stop.i == PY_SSIZE_T_MAX && step.i == 1;
    if (whole && start.im == 0 && step.im == 0) return w->dim++, push(w, NULL);
    td_array *part = step.im != 0 ? slice_followed(w, start, stop, step)
                                  : td_at_slice(w->where, w->view, w->dim, start, stop, step.i);
    if (!go_on(w, part)) return false;
    w->dim++;
    return push(w, NULL);
}

static bool by_none(walk *w)
{
    if (!go_on(w, td_at_unsqueeze(w->where, w->view, w->dim))) return false;
    w->dim++;
    return push(w, NULL);
}

/* Made where the indexed tensor lies. */
static td_array *full_there(const walk *w, td_ints shape, td_arg value, td_dtype dtype)
{
    int before = td_set_device(td_device_of(w->view));
    td_array *made = td_at_full(w->where, td_client_of(w->view), shape, value, dtype);
    td_set_device(before);
    return made;
}

/* x[True] is x[None] with a mask of one element. */
static bool by_bool(walk *w, bool yes)
{
    if (!go_on(w, td_at_unsqueeze(w->where, w->view, w->dim))) return false;
    if (!keep(w, full_there(w, td_dims(1), td_arg_bool(yes), TD_BOOL))) return false;
    w->dim++;
    return push(w, w->made[w->nmade - 1]);
}

static bool fits_mask(const walk *w, td_array *mask)
{
    for (int k = 0; k < td_ndim(mask); k++)
        if (td_shape(mask)[k] != td_shape(w->view)[w->dim + k])
            return tdpy_raise(TD_E_INDEX,
                              "the mask has size %lld at dimension %d, but the tensor has %lld at dimension %d",
                              (long long)td_shape(mask)[k], k, (long long)td_shape(w->view)[w->dim + k], w->dim + k);
    return true;
}

/* The mask as the next index; without dimensions it is one more dimension of size 1 or 0. */
static bool by_mask(walk *w, td_array *mask)
{
    int ndim = td_ndim(mask);
    if (w->dim + ndim > td_ndim(w->view))
        return tdpy_raise(TD_E_INDEX, "too many indices for a tensor of dimension %d", td_ndim(tdpy_array(w->base)));
    if (!fits_mask(w, mask)) return false;
    if (ndim == 0) {
        if (!go_on(w, td_at_unsqueeze(w->where, w->view, w->dim)) || !keep(w, td_at_unsqueeze(w->where, mask, 0)))
            return false;
        mask = w->made[w->nmade - 1];
        ndim = 1;
    }
    w->dim += ndim;
    return push(w, mask);
}

/* As in PyTorch, a tensor of uint8 is a mask from the time when there was no bool. */
static bool by_bytes(walk *w, td_array *mask)
{
    if (td_ndim(mask) > 0 && PyErr_WarnEx(PyExc_UserWarning,
                                          "indexing with dtype tensord.uint8 is deprecated, as it is taken for a mask: "
                                          "use a mask of dtype tensord.bool, or indices of dtype tensord.int64",
                                          1))
        return false;
    return keep(w, td_at_to(w->where, mask, TD_BOOL)) && by_mask(w, w->made[w->nmade - 1]);
}

/* The number that an index without dimensions holds, which is waited for. */
static int place_in(td_array *index, td_arg *place)
{
    td_scalar s;
    if (td_is_tracing()) return td_trace_item(index, place);
    int rc = td_item(index, &s);
    *place = td_arg_int(s.i);
    return rc;
}

static bool by_array(walk *w, td_array *index)
{
    td_dtype dtype = td_dtype_of(index);
    if (dtype == TD_DTYPE_NONE) return tdpy_fail();
    if (!td_dtype_is_integral(dtype))
        return tdpy_raise(TD_E_INDEX, "tensors used as indices must be int64, int32 or bool, not %s",
                          td_dtype_name(dtype));
    if (dtype == TD_BOOL) return by_mask(w, index);
    if (dtype == TD_UINT8) return by_bytes(w, index);
    td_arg place;
    if (td_ndim(index) == 0)
        return !place_in(index, &place) && !PyErr_Occurred() ? at_place(w, place) : tdpy_fail() != NULL;
    if (w->dim >= td_ndim(w->view))
        return tdpy_raise(TD_E_INDEX, "too many indices for a tensor of dimension %d", td_ndim(tdpy_array(w->base)));
    if (dtype != TD_INT64 && dtype != TD_INT32) {
        if (!keep(w, td_at_to(w->where, index, TD_INT64))) return false;
        index = w->made[w->nmade - 1];
    }
    w->dim++;
    return push(w, index);
}

/* A list, an array of NumPy, ... */
static bool by_data(walk *w, PyObject *key)
{
    td_array *a = tdpy_from_data(key, TD_DTYPE_NONE, td_device_of(w->view));
    if (!a) return tdpy_fail();
    if (!keep(w, a)) return false;
    if (td_numel(a) == 0 && td_dtype_is_float(td_dtype_of(a)) && !keep(w, td_at_to(w->where, a, TD_INT64)))
        return false;
    return by_array(w, w->made[w->nmade - 1]);
}

static bool by_ellipsis(walk *w, int rest)
{
    int skip = td_ndim(w->view) - w->dim - rest;
    for (; skip > 0; skip--, w->dim++)
        if (!push(w, NULL)) return false;
    return true;
}

/* Dimensions that a part of a key takes. */
static int takes(PyObject *key)
{
    if (key == Py_None || key == Py_Ellipsis || PyBool_Check(key)) return 0;
    if (!tdpy_is_tensor(key)) return 1;
    td_dtype dtype = td_dtype_of(tdpy_array(key));
    return dtype == TD_BOOL || dtype == TD_UINT8 ? td_ndim(tdpy_array(key)) : 1;
}

static bool step(walk *w, PyObject *key, PyObject *all, Py_ssize_t at)
{
    if (key == Py_Ellipsis) {
        int rest = 0;
        for (Py_ssize_t i = at + 1; i < PyTuple_Size(all); i++) rest += takes(PyTuple_GetItem(all, i));
        return by_ellipsis(w, rest);
    }
    if (PySlice_Check(key)) return by_slice(w, key);
    if (key == Py_None) return by_none(w);
    if (PyBool_Check(key)) return by_bool(w, key == Py_True);
    if (tdpy_is_tensor(key)) return by_array(w, tdpy_array(key));
    if (PyLong_Check(key)) return by_int(w, key);
    if (tdpy_is_foreign(key)) return by_data(w, key);
    bool whole = PyIndex_Check(key) && !PySequence_Check(key);
    if (whole) return by_int(w, key);
    if (PySequence_Check(key) && !PyUnicode_Check(key)) return by_data(w, key);
    return tdpy_raise(TD_E_INDEX,
                      "a tensor is indexed by integers, slices (`:`), Ellipsis (`...`), None, and tensors or lists "
                      "of integers or bools, not by %.100s",
                      tdpy_a_type(key));
}

static bool is_part(PyObject *key)
{
    return key == Py_None || key == Py_Ellipsis || PySlice_Check(key) || tdpy_is_tensor(key) || PySequence_Check(key);
}

/* A list with more in it than numbers stands for a tuple, as in PyTorch, which had it from an old NumPy. */
static bool stands_for_tuple(PyObject *key)
{
    enum { LONG = 32 }; /* such a list holds numbers */
    bool stands = false;
    if (!PyList_Check(key) || PyList_Size(key) >= LONG) return false;
    for (Py_ssize_t i = 0; i < PyList_Size(key) && !stands; i++) stands = is_part(PyList_GetItem(key, i));
    return stands;
}

static PyObject *parts_of(PyObject *key)
{
    if (PyTuple_Check(key)) return Py_NewRef(key);
    if (!stands_for_tuple(key)) return PyTuple_Pack(1, key);
    static const char told[] = "a list that indexes several dimensions is deprecated: use x[tuple(seq)] instead of "
                               "x[seq], or x[tensord.tensor(seq)] where it is one index";
    return PyErr_WarnEx(PyExc_UserWarning, told, 1) ? NULL : PyList_AsTuple(key);
}

static bool walk_key(walk *w, PyObject *self, PyObject *key)
{
    *w = (walk){.where = tdpy_site(), .base = self, .view = td_retain(tdpy_array(self))};
    if (td_ndim(w->view) < 0) return tdpy_fail();
    PyObject *all = parts_of(key);
    bool good = all;
    for (Py_ssize_t i = 0; good && i < PyTuple_Size(all); i++) good = step(w, PyTuple_GetItem(all, i), all, i);
    Py_XDECREF(all);
    while (w->n && !w->index[w->n - 1]) w->n--;
    return good;
}

/* ---- get --------------------------------------------------------------------------------------------------------- */

PyObject *tdpy_getitem(PyObject *self, PyObject *key)
{
    walk w;
    PyObject *result = NULL;
    if (walk_key(&w, self, key)) {
        if (w.advanced) result = tdpy_wrap_like(td_at_getitem(w.where, w.view, td_arrays_of(w.n, w.index)), self);
        else if (w.view == tdpy_array(self)) result = tdpy_wrap_view(td_alias(w.view), self);
        else result = tdpy_wrap_view(td_retain(w.view), self);
    }
    end(&w);
    return result;
}

PyObject *tdpy_sequence_item(PyObject *self, Py_ssize_t i)
{
    PyObject *key = PyLong_FromSsize_t(i);
    PyObject *result = key ? tdpy_getitem(self, key) : NULL;
    Py_XDECREF(key);
    return result;
}

Py_ssize_t tdpy_length(PyObject *self)
{
    int n = td_ndim(tdpy_array(self));
    if (td_is_tracing() && !tdpy_at_home()) td_trace_look(tdpy_array(self), "len()");
    if (n < 0) tdpy_fail();
    else if (n == 0) tdpy_raise(TD_E_TYPE, "len() of a 0-d tensor");
    return n > 0 ? (Py_ssize_t)td_size(tdpy_array(self), 0) : -1;
}

/* One op makes all rows, unless there are very many. */
PyObject *tdpy_iterate(PyObject *self)
{
    td_array *a = tdpy_array(self);
    if (td_is_tracing() && !tdpy_at_home()) td_trace_look(a, "iteration");
    if (td_ndim(a) < 0) return tdpy_fail();
    if (td_ndim(a) == 0) return tdpy_raise(TD_E_TYPE, "iteration over a 0-d tensor");
    if (td_size(a, 0) > 64) return PySeqIter_New(self);
    td_array *row[64];
    int n = td_at_unbind(tdpy_site(), a, 64, row, 0);
    if (n < 0) return tdpy_fail();
    PyObject *all = PyTuple_New(n), *iterator;
    for (int i = 0; i < n; i++) {
        PyObject *each = all ? tdpy_wrap_view(row[i], self) : NULL;
        if (!all) td_release(row[i]);
        else if (!each || PyTuple_SetItem(all, i, each)) Py_CLEAR(all);
    }
    iterator = all ? PyObject_GetIter(all) : NULL;
    Py_XDECREF(all);
    return iterator;
}

int tdpy_contains(PyObject *self, PyObject *value)
{
    PyObject *same = tdpy_compare(self, value, Py_EQ);
    if (same == Py_NotImplemented)
        tdpy_raise(TD_E_TYPE, "`in` of a tensor is for numbers and tensors, not for %.100s", tdpy_a_type(value));
    bool usable = same && same != Py_NotImplemented;
    PyObject *any = usable ? tdpy_wrap(td_at_any(tdpy_site(), tdpy_array(same), td_no_dims(), false), true) : NULL;
    int truth = any ? tdpy_truth(any) : -1;
    Py_XDECREF(same);
    Py_XDECREF(any);
    return truth;
}

/* ---- set --------------------------------------------------------------------------------------------------------- */

/* The value as an array, converted to the dtype of what is written; a new reference. */
static td_array *value_array(const walk *w, PyObject *value, const td_arg *number)
{
    td_dtype dtype = td_dtype_of(w->view);
    if (number) return full_there(w, td_dims(), *number, dtype);
    if (tdpy_is_tensor(value)) return td_at_to(w->where, tdpy_array(value), dtype);
    td_array *a = tdpy_from_data(value, TD_DTYPE_NONE, td_device_of(w->view)),
             *b = a ? td_at_to(w->where, a, dtype) : NULL;
    td_release(a);
    return b;
}

/* Without its first dimensions, of any sizes of the others. */
static td_array *first_of(const walk *w, td_array *a, int drop)
{
    td_array *b = td_retain(a);
    for (; b && drop > 0; drop--) {
        td_array *next = td_at_select(w->where, b, 0, 0);
        td_release(b);
        b = next;
    }
    return b;
}

/* Leading dimensions of size 1 are no hindrance: x[0] = a row of shape (1, n). Takes `a` over. */
static td_array *without_leading(const walk *w, td_array *a, int room)
{
    int n = a ? td_ndim(a) : -1, drop = 0;
    while (n - drop > room && td_shape(a)[drop] == 1) drop++;
    if (n < 0 || !drop) return a;
    td_array *b =
        td_is_tracing() ? first_of(w, a, drop) : td_at_view(w->where, a, td_dims_of(n - drop, td_shape(a) + drop));
    td_release(a);
    return b;
}

static bool set_value(walk *w, PyObject *value)
{
    td_arg number;
    int is_number = tdpy_is_tensor(value) ? 0 : tdpy_is_followed(value) ? tdpy_follow(value, &number) : 0;
    if (!is_number && !tdpy_is_tensor(value)) is_number = tdpy_as_number(value, &number);
    if (is_number < 0 && td_dtype_of(w->view) == TD_UINT64 && tdpy_as_above(value, &number)) is_number = 1;
    if (is_number < 0) return false;
    if (is_number && !w->advanced) return td_at_fill_(w->where, w->view, number) == TD_OK || tdpy_fail();
    td_array *a = value_array(w, value, is_number ? &number : NULL);
    a = without_leading(w, a, w->advanced ? 0 : td_ndim(w->view));
    int rc = !a            ? -1
             : w->advanced ? td_at_setitem(w->where, w->view, td_arrays_of(w->n, w->index), a)
                           : td_at_copy_(w->where, w->view, a);
    td_release(a);
    return rc == TD_OK || tdpy_fail();
}

int tdpy_setitem(PyObject *self, PyObject *key, PyObject *value)
{
    walk w;
    if (!value) {
        tdpy_raise(TD_E_TYPE, "elements of a tensor cannot be deleted");
        return -1;
    }
    bool good = walk_key(&w, self, key) && tdpy_may_write(self, !w.advanced || w.view != tdpy_array(self)) &&
                set_value(&w, value) && !PyErr_Occurred();
    bool graph = tdpy_is_tensor(value) && !tdpy_is_plain(value) && td_grad_enabled();
    if (graph) tdpy_enter_graph(self);
    end(&w);
    return good ? 0 : -1;
}
