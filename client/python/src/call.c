/* Calls of the functions that the generator wrote rows for: arguments bound to parameters, converted, run, wrapped.
 *
 * One way for all of them, so that every function takes keywords, says the same words when an argument is wrong, and
 * costs tens of nanoseconds. What lists need is held until the call is over, since other threads may run in it. */
#include "client/python/src/py.h"

#include "proto/ops/opid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELD = 2, MOST_JOINED = 1 << 30 };

typedef struct binding {
    const tdpy_function *f;
    PyObject *slot[TDPY_MAX_ARGS]; /* borrowed; NULL: not given */
    PyObject *separate;            /* the integers that were given one by one */
    PyObject *out, *device, *requires_grad, *inplace, *format, *layout;
} binding;

typedef struct call {
    const tdpy_function *f;
    tdpy_value v[TDPY_MAX_ARGS];
    PyObject *held[HELD]; /* tuples that lists were taken from */
    td_array **arrays;    /* of the list */
    int nheld, nints, narrays;
    bool plain;     /* no input is part of a graph */
    unsigned above; /* a bit for each argument that is a number of 2^63 or more */
    unsigned stood; /* ... that is integers, of which a trace follows some */
    int64_t ints[TD_MAX_INTS];
} call;

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The function that the program called, while what it is made of runs in this thread; or NULL. */
static _Thread_local const char *asked;

const char *tdpy_asked(void)
{
    return asked;
}

/* It is `name`, unless another is already. Returns what it was, to be put back. */
static const char *ask_as(const char *name)
{
    const char *before = asked;
    if (!asked) asked = name;
    return before;
}

/* Errors name what the program called, not what that is made of. */
static const char *name_of(const tdpy_function *f)
{
    return asked ? asked : f->name;
}

/* ---- binding ----------------------------------------------------------------------------------------------------- */

static bool same(PyObject *key, PyObject *known)
{
    return known && (key == known || PyUnicode_Compare(key, known) == 0);
}

static int find_param(const tdpy_function *f, PyObject *key)
{
    for (int i = 0; i < f->nparams * 2; i++)
        if (key == f->keys[i]) return i / 2;
    for (int i = 0; i < f->nparams * 2; i++)
        if (same(key, f->keys[i])) return i / 2;
    return -1;
}

/* Keywords that are no parameters: out, and what creation takes. */
static bool bind_extra(binding *b, PyObject *key, PyObject *value)
{
    const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
    if (!name) return false;
    bool creation = b->f->flags & TDPY_CREATION, pinned;
    if (b->f->flags & TDPY_OUT && !strcmp(name, "out")) b->out = value == Py_None ? NULL : value;
    else if (creation && !strcmp(name, "device")) b->device = value;
    else if (creation && !strcmp(name, "requires_grad")) b->requires_grad = value;
    else if (creation && !strcmp(name, "layout")) b->layout = value;
    else if (creation && !strcmp(name, "pin_memory")) return tdpy_as_bool(value, &pinned, name_of(b->f), name);
    else if ((creation || b->f->flags & TDPY_LAID) && !strcmp(name, "memory_format")) b->format = value;
    else if (b->f->flags & TDPY_PLACED && !b->inplace && !strcmp(name, "inplace")) b->inplace = value;
    else {
        tdpy_raise(TD_E_TYPE, "%s() got an unexpected keyword argument '%s'", name_of(b->f), name);
        return false;
    }
    return true;
}

static bool bind_keywords(binding *b, PyObject *const *values, PyObject *names)
{
    Py_ssize_t n = PyTuple_Size(names);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *key = PyTuple_GetItem(names, i);
        int k = find_param(b->f, key);
        if (k < 0) {
            if (!bind_extra(b, key, values[i])) return false;
        } else if (b->slot[k]) {
            tdpy_raise(TD_E_TYPE, "%s() got multiple values for argument '%s'", name_of(b->f), b->f->params[k].name);
            return false;
        } else {
            b->slot[k] = values[i];
        }
    }
    return true;
}

/* x.reshape(2, 3): the integers from here on are one argument. */
static bool bind_separate(binding *b, int at, PyObject *const *args, Py_ssize_t n)
{
    b->separate = PyTuple_New(n);
    if (!b->separate) return false;
    for (Py_ssize_t i = 0; i < n; i++)
        if (PyTuple_SetItem(b->separate, i, Py_NewRef(args[i]))) return false;
    b->slot[at] = b->separate;
    return true;
}

static bool is_separate(const binding *b, int at, PyObject *const *args, Py_ssize_t n)
{
    if (at != b->f->varargs) return false;
    return n > 1 && !PyTuple_Check(args[0]) && !PyList_Check(args[0]);
}

/* add(x, 2, y) and addcmul(x, 2, y, z) are older forms of add(x, y, alpha=2) and addcmul(x, y, z, value=2). */
static bool is_weighed_before(const binding *b, Py_ssize_t places)
{
    int n = b->f->nparams, op = b->f->op;
    if (op != TD_OP_ADD && op != TD_OP_SUB && op != TD_OP_ADDCMUL && op != TD_OP_ADDCDIV) return false;
    return places == n && tdpy_is_tensor(b->slot[n - 1]) && !tdpy_is_tensor(b->slot[1]);
}

static bool warn_of_form(const binding *b)
{
    static bool told;
    if (told) return true;
    told = true;
    return !PyErr_WarnFormat(PyExc_UserWarning, 1,
                             "this form of %s() is deprecated: its numbers come behind the tensors, as %s=",
                             name_of(b->f), b->f->params[b->f->nparams - 1].name);
}

static bool weigh_behind(binding *b)
{
    int n = b->f->nparams;
    PyObject *weight = b->slot[1];
    memmove(b->slot + 1, b->slot + 2, (size_t)(n - 2) * sizeof *b->slot);
    b->slot[n - 1] = weight;
    return warn_of_form(b);
}

/* addmm(beta, input, alpha, mat1, mat2), alpha or not, and input.addmm(beta, alpha, mat1, mat2), are older forms of
 * addmm(input, mat1, mat2, beta=beta, alpha=alpha); so of its like. */
static bool is_scaled_before(const binding *b)
{
    const tdpy_param *p = b->f->params;
    if (b->f->nparams != 5 || strcmp(p[3].name, "beta") != 0 || strcmp(p[4].name, "alpha") != 0) return false;
    return tdpy_is_tensor(b->slot[0]) != tdpy_is_tensor(b->slot[1]);
}

static bool scale_behind(binding *b, int places)
{
    bool method = tdpy_is_tensor(b->slot[0]);
    PyObject *input = b->slot[!method], *beta = b->slot[method], *alpha = places == 5 ? b->slot[2] : NULL;
    PyObject *left = b->slot[places - 2], *right = b->slot[places - 1];
    memcpy(b->slot, (PyObject *[]){input, left, right, beta, alpha}, 5 * sizeof *b->slot);
    return warn_of_form(b);
}

static bool bind(binding *b, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    const tdpy_function *f = b->f;
    int at = 0;
    memset(b->slot, 0, f->nparams * sizeof b->slot[0]);
    b->separate = b->out = b->device = b->requires_grad = b->inplace = b->format = b->layout = NULL;
    if (self) b->slot[at++] = self;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (is_separate(b, at, args + i, n - i)) {
            if (!bind_separate(b, at, args + i, n - i)) return false;
            break;
        }
        if (at == f->positional && f->flags & TDPY_PLACED && i == n - 1) {
            b->inplace = args[i];
            break;
        }
        if (at == f->positional) {
            tdpy_raise(TD_E_TYPE, "%s() takes %d positional arguments but %zd were given", name_of(f),
                       (int)f->positional, n + (self != NULL));
            return false;
        }
        b->slot[at++] = args[i];
    }
    if (at >= 4 && is_scaled_before(b) && !scale_behind(b, at)) return false;
    if (names && !bind_keywords(b, args + n, names)) return false;
    if (f->nparams > 2 && b->slot[f->nparams - 1] && is_weighed_before(b, n + (self != NULL)) && !weigh_behind(b))
        return false;
    for (int i = 0; i < f->nparams; i++) {
        if (b->slot[i] || f->params[i].has_default || f->params[i].kind == TDPY_OPTIONAL) continue;
        if (i == f->varargs) continue; /* x.view(): no dimensions */
        tdpy_raise(TD_E_TYPE, "%s() missing required argument '%s' (pos %d)", name_of(f), f->params[i].name, i + 1);
        return false;
    }
    return true;
}

/* ---- converting -------------------------------------------------------------------------------------------------- */

static bool wrong(const call *c, int i, const char *expected, PyObject *got)
{
    const char *which = tdpy_is_foreign(got) ? " of another library; tensord.as_tensor() takes it in" : "";
    return tdpy_raise(TD_E_TYPE, "%s(): argument '%s' must be %s, not %.100s%s", name_of(c->f), c->f->params[i].name,
                      expected, tdpy_type_name(got), which);
}

static bool take_tensor(call *c, int i, PyObject *o)
{
    if (!tdpy_is_tensor(o)) return false;
    c->v[i].arg = td_arg_array(tdpy_array(o));
    c->plain = c->plain && tdpy_is_plain(o);
    return true;
}

/* Is it cat or stack, or made of them? Those take lists of any length. */
static bool joins(const tdpy_function *f)
{
    const td_op *op = &td_ops[f->op];
    return op->nparams == 1 && f->params[0].kind == TDPY_LIST && !op->outs[0].list;
}

static bool take_list(call *c, int i, PyObject *o)
{
    bool gaps = c->f->params[i].kind == TDPY_OPTIONAL_LIST;
    if (!PyTuple_Check(o) && !PyList_Check(o)) return wrong(c, i, "a tuple or list of tensors", o);
    PyObject *held = c->held[c->nheld++] = PySequence_Tuple(o);
    if (!held) return false;
    Py_ssize_t n = PyTuple_Size(held);
    if (n > (joins(c->f) ? MOST_JOINED : TD_MAX_LIST))
        return tdpy_raise(TD_E_INVALID, "%s(): %zd tensors are more than one call takes", name_of(c->f), n);
    c->arrays = malloc((size_t)(n + 1) * sizeof *c->arrays);
    if (!c->arrays) return PyErr_NoMemory() != NULL;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *each = PyTuple_GetItem(held, k);
        c->arrays[k] = NULL;
        if (gaps && each == Py_None) continue;
        if (!tdpy_is_tensor(each)) return wrong(c, i, "a tuple or list of tensors", each);
        c->arrays[k] = tdpy_array(each);
        c->plain = c->plain && tdpy_is_plain(each);
    }
    c->narrays = (int)n;
    c->v[i].list = td_arrays_of((int)n, c->arrays);
    return true;
}

static bool take_ints(call *c, int i, PyObject *o)
{
    int64_t *at = c->ints + c->nints;
    int room = TD_MAX_INTS - c->nints, n;
    if (td_is_tracing()) n = tdpy_follow_ints(o, at, room, name_of(c->f), c->f->params[i].name);
    else n = tdpy_as_ints(o, at, room, name_of(c->f), c->f->params[i].name);
    if (n < 0) return false;
    if (td_is_tracing()) c->stood |= 1u << i;
    c->nints += n;
    c->v[i].ints = td_dims_of(n, at);
    return true;
}

/* A tensor without dimensions where only a number will do: its value, unless gradients would be lost with it. */
static int number_of(PyObject *o, td_arg *out)
{
    if (!tdpy_is_tensor(o) || !tdpy_is_plain(o) || td_ndim(tdpy_array(o)) != 0) return tdpy_as_number(o, out);
    PyObject *value = tdpy_item(o, NULL);
    int rc = value ? tdpy_as_number(value, out) : -1;
    Py_XDECREF(value);
    return rc;
}

static bool take_number(call *c, int i, PyObject *o)
{
    bool graph = tdpy_is_tensor(o) && !tdpy_is_plain(o);
    int rc = td_is_tracing() && !graph ? tdpy_follow(o, &c->v[i].arg) : 0;
    if (!rc) rc = number_of(o, &c->v[i].arg);
    if (rc > 0) return true;
    if (rc < 0 && tdpy_as_above(o, &c->v[i].arg)) {
        c->above |= 1u << i;
        return true;
    }
    return rc < 0 ? false : wrong(c, i, c->f->params[i].kind == TDPY_NUMBER ? "Tensor or a number" : "a number", o);
}

static bool take_int(call *c, int i, PyObject *o)
{
    int64_t v;
    int follows = td_is_tracing() ? tdpy_follow_int(o, &c->v[i].arg) : 0;
    if (follows) return follows > 0;
    if (!tdpy_as_int(o, &v, name_of(c->f), c->f->params[i].name)) return false;
    c->v[i].arg = td_arg_int(v);
    return true;
}

static bool take_float(call *c, int i, PyObject *o)
{
    if (!take_number(c, i, o)) return false;
    td_arg *a = &c->v[i].arg;
    if (a->kind == TD_ARG_COMPLEX) return wrong(c, i, "a real number", o);
    double name = a->kind == TD_ARG_INT && a->im != 0 ? tdpy_float_of(a) : a->im;
    if (c->above >> i & 1) *a = td_arg_float((double)(uint64_t)a->i);
    else if (a->kind != TD_ARG_FLOAT) *a = td_arg_float((double)a->i);
    a->im = name;
    c->above &= ~(1u << i);
    return true;
}

static bool take_bool(call *c, int i, PyObject *o)
{
    bool yes = false;
    if (!tdpy_as_bool(o, &yes, name_of(c->f), c->f->params[i].name)) return false;
    c->v[i].arg = td_arg_bool(yes);
    return true;
}

/* One of a few words. */
static bool take_choice(call *c, int i, PyObject *o)
{
    const tdpy_param *p = &c->f->params[i];
    if (!PyUnicode_Check(o)) return wrong(c, i, "str", o);
    char said[96] = "";
    for (int k = 0; p->choices[k]; k++) {
        if (PyUnicode_CompareWithASCIIString(o, p->choices[k]) == 0) {
            c->v[i].arg = p->kind == TDPY_BOOL ? td_arg_bool(k) : td_arg_int(k);
            return true;
        }
        size_t at = strlen(said);
        snprintf(said + at, sizeof said - at, "%s'%s'", !k ? "" : p->choices[k + 1] ? ", " : " or ", p->choices[k]);
    }
    const char *text = PyUnicode_AsUTF8AndSize(o, NULL);
    return text && tdpy_raise(TD_E_INVALID, "%s(): %s must be %s, not '%.100s'", name_of(c->f), p->name, said, text);
}

static bool take_dtype(call *c, int i, PyObject *o)
{
    if (!tdpy_as_dtype(o, &c->v[i].dtype)) return false;
    c->v[i].arg.kind = c->v[i].dtype == TD_DTYPE_NONE ? TD_ARG_NONE : TD_ARG_INT;
    return true;
}

static bool take_text(call *c, int i, PyObject *o)
{
    if (!PyUnicode_Check(o)) return wrong(c, i, "str", o);
    Py_ssize_t n;
    const char *text = c->v[i].text = PyUnicode_AsUTF8AndSize(o, &n);
    if (text && (Py_ssize_t)strlen(text) != n)
        return tdpy_raise(TD_E_INVALID, "%s(): argument '%s' has a character 0", name_of(c->f), c->f->params[i].name);
    return text != NULL;
}

static void take_default(call *c, int i)
{
    const tdpy_param *p = &c->f->params[i];
    c->v[i].arg = p->kind == TDPY_OPTIONAL ? td_arg_array(NULL) : p->value;
    c->v[i].ints = p->kind == TDPY_INTS && !p->has_default ? td_dims_of(0, NULL) : p->ints;
    c->v[i].dtype = TD_DTYPE_NONE;
    c->v[i].text = NULL;
}

static bool take(call *c, int i, PyObject *o)
{
    const tdpy_param *p = &c->f->params[i];
    if (!o || (o == Py_None && p->optional)) {
        take_default(c, i);
        if (o && p->kind != TDPY_OPTIONAL) c->v[i].arg = td_none(), c->v[i].ints = td_no_dims();
        return true;
    }
    if (p->choices) return take_choice(c, i, o);
    switch ((tdpy_kind)p->kind) {
    case TDPY_TENSOR:
    case TDPY_OPTIONAL: return take_tensor(c, i, o) || wrong(c, i, "Tensor", o);
    case TDPY_NUMBER: return take_tensor(c, i, o) || take_number(c, i, o);
    case TDPY_LIST:
    case TDPY_OPTIONAL_LIST: return take_list(c, i, o);
    case TDPY_INT: return take_int(c, i, o);
    case TDPY_FLOAT: return take_float(c, i, o);
    case TDPY_BOOL: return take_bool(c, i, o);
    case TDPY_SCALAR: return take_number(c, i, o);
    case TDPY_DTYPE: return take_dtype(c, i, o);
    case TDPY_INTS: return take_ints(c, i, o);
    case TDPY_TEXT: return take_text(c, i, o);
    }
    return false;
}

/* Numbers of 2^63 and more came as they lie in a uint64: right beside one. Beside floats they are floats. */
static bool place_above(call *c)
{
    bool whole = false, real = false;
    for (int i = 0; i < c->f->nparams; i++) {
        td_dtype t = c->v[i].dtype;
        if (c->f->params[i].kind != TDPY_DTYPE) {
            const td_arg *a = &c->v[i].arg;
            bool tensor = c->f->params[i].kind <= TDPY_NUMBER && a->kind == TD_ARG_ARRAY && a->array;
            t = tensor ? td_dtype_of(a->array) : TD_DTYPE_NONE;
        }
        whole |= t == TD_UINT64;
        real |= td_dtype_is_inexact(t);
    }
    for (int i = 0; i < c->f->nparams && !whole; i++) {
        td_arg *a = &c->v[i].arg;
        if (!(c->above >> i & 1)) continue;
        if (!real) {
            PyErr_Format(PyExc_OverflowError,
                         "%s(): %llu is more than an int64 holds; beside a uint64 tensor, or with "
                         "dtype=tensord.uint64, it would do",
                         name_of(c->f), (unsigned long long)a->i);
            return false;
        }
        *a = td_arg_float((double)(uint64_t)a->i);
    }
    return true;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static bool give(td_attrs *attrs, const td_op *op, const tdpy_param *p, const tdpy_value *v)
{
    if (v->arg.kind == TD_ARG_NONE && p->optional && p->kind != TDPY_INTS && p->kind != TDPY_DTYPE)
        return td_give_number(attrs, op, td_none());
    switch ((tdpy_kind)p->kind) {
    case TDPY_INT:
        return p->optional || v->arg.im != 0 ? td_give_number(attrs, op, v->arg) : td_give_int(attrs, op, v->arg.i);
    case TDPY_FLOAT:
        return p->optional || v->arg.im != 0 ? td_give_number(attrs, op, v->arg) : td_give_float(attrs, op, v->arg.re);
    case TDPY_BOOL: return td_give_bool(attrs, op, v->arg.i);
    case TDPY_DTYPE: return td_give_dtype(attrs, op, v->dtype);
    case TDPY_INTS: return td_give_ints(attrs, op, v->ints);
    case TDPY_TEXT: return td_give_text(attrs, op, v->text);
    default: return td_give_number(attrs, op, v->arg);
    }
}

/* The tensors of a call in the order of the signature, and the rest as attributes. */
static bool pack(const call *c, const td_op *op, td_arg *in, int *nin, td_attrs *attrs)
{
    td_attrs_init(attrs);
    for (int i = 0; i < c->f->nparams; i++) {
        const tdpy_param *p = &c->f->params[i];
        if (p->kind <= TDPY_NUMBER) in[(*nin)++] = c->v[i].arg;
        else if (p->kind <= TDPY_OPTIONAL_LIST) {
            for (int k = 0; k < c->v[i].list.n; k++) in[(*nin)++] = td_arg_array(c->v[i].list.at[k]);
        } else if (!give(attrs, op, p, &c->v[i])) {
            return false;
        }
    }
    return true;
}

static PyObject *named_results(const tdpy_function *f, int n, td_array **made, bool plain);

static PyObject *list_results(int n, td_array **made, bool plain)
{
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *each = all ? tdpy_wrap(made[i], plain) : NULL;
        if (!all) td_release(made[i]);
        else if (!each || PyTuple_SetItem(all, i, each)) Py_CLEAR(all);
    }
    return all;
}

static PyObject *wrap_results(const call *c, int n, td_array **made)
{
    if (n != 1 && PyErr_Occurred()) { /* Ctrl-C while the op was sent; tdpy_wrap() looks itself */
        for (int i = 0; i < n; i++) td_release(made[i]);
        return NULL;
    }
    bool plain = c->plain || !td_grad_enabled();
    while (c->f->flags & TDPY_FIRST && n > 1) td_release(made[--n]);
    if (c->f->op && td_ops[c->f->op].flags & TD_OF_NONDIFF) plain = true;
    if (c->f->flags & TDPY_LIST_RESULT) return list_results(n, made, plain);
    if (n == 1) return tdpy_wrap(made[0], plain);
    if (n == 0) return Py_NewRef(Py_None);
    return named_results(c->f, n, made, plain);
}

/* The tensor that was written is returned. */
static PyObject *written(const call *c, PyObject *target)
{
    if (PyErr_Occurred()) return NULL;
    if (!c->plain && td_grad_enabled()) tdpy_enter_graph(target);
    return Py_NewRef(target);
}

static PyObject *run_into(const call *c, PyObject *target, const char *where, int nin, const td_arg *in,
                          const td_attrs *attrs)
{
    td_array *out[1] = {tdpy_array(target)};
    td_client *client = td_client_of(out[0]);
    if (td_run(client, where, &td_ops[c->f->op], TD_RF_OUT, nin, in, attrs, 1, out, NULL)) return tdpy_fail();
    return written(c, target);
}

/* cat, stack and what is made of them. Where no tensor is of a graph nothing is recorded, as a long list is then put
 * together faster. */
static PyObject *run_join(const call *c, PyObject *target, const char *where)
{
    const td_op *op = &td_ops[c->f->op];
    td_array *y = target ? tdpy_array(target) : NULL;
    td_attrs attrs;
    td_attrs_init(&attrs);
    bool good = true, quiet = c->plain && c->v[0].list.n > TD_MAX_LIST, grad = quiet && td_set_grad_enabled(false);
    for (int i = 1; good && i < c->f->nparams; i++) good = give(&attrs, op, &c->f->params[i], &c->v[i]);
    good = good && !td_run_list(where, op, target ? TD_RF_OUT : 0, c->v[0].list, &attrs, &y);
    if (quiet) td_set_grad_enabled(grad);
    if (!good) return tdpy_fail();
    return target ? written(c, target) : wrap_results(c, 1, &y);
}

static PyObject *when_made(const call *c, PyObject *result)
{
    const char *before = ask_as(c->f->name);
    result = tdpy_when_made(c->f, c->v, result);
    asked = before;
    return result;
}

static PyObject *run_op(const call *c, PyObject *target, const char *where)
{
    const td_op *op = &td_ops[c->f->op];
    if (joins(c->f)) return run_join(c, target, where);
    td_arg few[TDPY_MAX_ARGS], *in = few;
    td_array *one[8], **made = one;
    td_attrs attrs;
    int nin = 0, nout = 0, room = 8;
    tdpy_defaults defaults = {.n = 0};
    PyObject *result = NULL;
    if (c->arrays) in = malloc(TD_MAX_INPUTS * sizeof *in);
    if (c->f->flags & TDPY_LIST_RESULT) made = malloc((room = TD_MAX_OUTPUTS) * sizeof *made);
    td_client *client = op->nparams ? NULL : tdpy_client();
    if (!in || !made) {
        PyErr_NoMemory();
    } else if (op->nparams || client) {
        bool ok = pack(c, op, in, &nin, &attrs) && tdpy_use_default(&defaults, where, op, nin, in, &attrs);
        if (ok && !target) ok = td_run(client, where, op, 0, nin, in, &attrs, room, made, &nout) == 0;
        if (!ok) tdpy_fail();
        else if (target) result = run_into(c, target, where, nin, in, &attrs);
        else result = wrap_results(c, nout, made);
    }
    if (result && c->f->flags & TDPY_WAITS) result = when_made(c, result);
    tdpy_defaults_clear(&defaults);
    if (in != few) free(in);
    if (made != one) free(made);
    return result;
}

/* It makes something like its first argument. */
static bool is_like(const tdpy_function *f)
{
    return f->flags & TDPY_CREATION && f->nparams && f->params[0].kind == TDPY_TENSOR;
}

static PyObject *run_composite(call *c, PyObject *first, const char *where)
{
    td_array *made[8];
    if (is_like(c->f) && td_ndim(c->v[0].arg.array) < 0) return tdpy_fail();
    if (c->f->flags & TDPY_WRITES && !tdpy_may_write(first, false)) return NULL;
    if (c->f->flags & TDPY_CREATION)
        for (int i = 0; i < c->f->nparams; i++)
            if (c->f->params[i].kind == TDPY_DTYPE && c->v[i].dtype == TD_DTYPE_NONE)
                c->v[i].dtype = is_like(c->f) ? td_dtype_of(c->v[0].arg.array) : tdpy.default_dtype;
    const char *before = ask_as(c->f->name);
    bool good = c->f->run(where, c->v, made);
    if (!good) tdpy_fail();
    asked = before;
    if (!good) return NULL;
    if (!(c->f->flags & TDPY_WRITES)) return wrap_results(c, c->f->nouts, made);
    if (PyErr_Occurred()) return NULL;
    if (!c->plain && td_grad_enabled()) tdpy_enter_graph(first);
    return Py_NewRef(first);
}

static void release(call *c)
{
    for (int i = 0; c->stood; i++, c->stood >>= 1)
        if (c->stood & 1) td_trace_gone(c->v[i].ints.at);
    for (int i = 0; i < c->nheld; i++) Py_XDECREF(c->held[i]);
    free(c->arrays);
}

static PyObject *finish_creation(PyObject *made, const binding *b)
{
    if (made && b->requires_grad == Py_True && tdpy_set_requires_grad(made, Py_True, NULL)) Py_CLEAR(made);
    return made;
}

/* In the memory format that was asked for. `made` is consumed. */
static PyObject *lay_out(PyObject *made, const binding *b)
{
    PyObject *lay = made ? tdpy_python("_laid_out") : NULL;
    PyObject *given = strcmp(b->f->name, "contiguous") == 0 ? b->slot[0] : Py_None;
    PyObject *result = lay ? PyObject_CallFunction(lay, "OOOsO", made, b->format ? b->format : Py_None,
                                                   b->layout ? b->layout : Py_None, name_of(b->f), given)
                           : NULL;
    Py_XDECREF(lay);
    Py_XDECREF(made);
    return result;
}

/* What was made is written to `out`, which takes its shape and, where the function says so, has its dtype. `made` is
 * consumed. */
static PyObject *put_into(PyObject *made, PyObject *out, const char *name, unsigned flags)
{
    bool exact = flags & (TDPY_CREATION | TDPY_OUT_EXACT | TDPY_OUT_MADE);
    PyObject *into = made ? tdpy_python("_into") : NULL;
    const char *before = ask_as(name);
    PyObject *result = into ? PyObject_CallFunction(into, "OOsi", made, out, name, (int)exact) : NULL;
    asked = before;
    Py_XDECREF(into);
    Py_XDECREF(made);
    return result;
}

static bool same_shape(PyObject *a, PyObject *b)
{
    td_array *x = tdpy_array(a), *y = tdpy_array(b);
    int n = td_ndim(x);
    return n >= 0 && n == td_ndim(y) && (!n || !memcmp(td_shape(x), td_shape(y), (size_t)n * sizeof(int64_t)));
}

/* Where the result has the dtype of the first tensor it may be written straight to an `out` that has it as well. All
 * else is made first, so that it can be looked at. */
static bool is_straight(const call *c, PyObject *out)
{
    if (c->f->flags & TDPY_WAITS) return false; /* when it fails, `out` is as it was */
    if (!(c->f->flags & (TDPY_OUT_EXACT | TDPY_OUT_MADE))) return true;
    td_dtype to = td_dtype_of(tdpy_array(out));
    if (c->f->flags & TDPY_OUT_MADE || td_dtype_is_complex(to) || c->f->params[0].kind != TDPY_TENSOR) return false;
    for (int i = 1; i < c->f->nparams; i++)
        if (c->f->params[i].kind == TDPY_DTYPE && c->v[i].dtype != TD_DTYPE_NONE) return false;
    return c->v[0].arg.array && td_dtype_of(c->v[0].arg.array) == to;
}

/* Have they elements in common? What is not dense might have some between those of the other, and is let be. */
static bool meet(td_array *a, td_array *b)
{
    uint64_t from, to, begin, end;
    if (td_ndim(a) < 0 || td_ndim(b) < 0 || !td_storage_here(a) || td_storage_here(a) != td_storage_here(b))
        return false;
    const td_desc *x = td_desc_known(a), *y = td_desc_known(b);
    if (!td_desc_is_dense(x) || !td_desc_is_dense(y)) return false;
    td_desc_extent(x, &from, &to);
    td_desc_extent(y, &begin, &end);
    return from < end && begin < to;
}

static Py_ssize_t length(PyObject *list)
{
    return PyList_Check(list) ? PyList_Size(list) : PyTuple_Check(list) ? PyTuple_Size(list) : 0;
}

static PyObject *item(PyObject *list, Py_ssize_t i)
{
    return PyList_Check(list) ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i);
}

/* Is a tensor among `what`, or in its list, that has elements in common with one of `out`? */
static bool touches(PyObject *what, PyObject *out)
{
    if (tdpy_is_tensor(what) && tdpy_is_tensor(out)) return what == out || meet(tdpy_array(what), tdpy_array(out));
    for (Py_ssize_t i = 0; i < length(what); i++)
        if (tdpy_is_tensor(item(what, i)) && touches(item(what, i), out)) return true;
    for (Py_ssize_t i = 0; tdpy_is_tensor(what) && i < length(out); i++)
        if (tdpy_is_tensor(item(out, i)) && touches(what, item(out, i))) return true;
    return false;
}

/* Functions that go to and fro in their inputs want `out`, which stands at `at` or apart, to share nothing with them.
 */
static bool is_apart(unsigned flags, const char *name, PyObject *const *args, Py_ssize_t n, Py_ssize_t at,
                     PyObject *out)
{
    if (!(flags & (TDPY_OUT_APART | TDPY_OUT_APART_REST))) return true;
    for (Py_ssize_t i = flags & TDPY_OUT_APART ? 0 : 1; i < n; i++)
        if (i != at && args[i] && touches(args[i], out))
            return tdpy_raise(
                TD_E_INVALID,
                "%s(): unsupported operation: some elements of the input tensor and the written-to tensor "
                "refer to a single memory location; clone() the tensor before the operation",
                name);
    return true;
}

/* It could not be written to `out` as that was. If that has another shape than the result it takes that one; everything
 * else is the error that has been raised. */
static PyObject *run_again(const call *c, PyObject *out, const char *where)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *made = run_op(c, NULL, where);
    if (made && same_shape(made, out)) Py_CLEAR(made);
    if (!made) {
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return put_into(made, out, name_of(c->f), 0);
}

/* What these add or multiply has the dtype of `out` where nothing else is said, whatever that is. */
static void take_dtype_of(call *c, PyObject *out)
{
    unsigned op = c->f->op;
    if (op != TD_OP_SUM && op != TD_OP_PROD && op != TD_OP_CUMSUM && op != TD_OP_CUMPROD) return;
    for (int i = 0; i < c->f->nparams; i++)
        if (c->f->params[i].kind == TDPY_DTYPE && c->v[i].dtype == TD_DTYPE_NONE)
            c->v[i].dtype = td_dtype_of(tdpy_array(out));
}

/* It lies as it should: contiguous() is the tensor itself. */
static bool is_itself(const binding *b)
{
    return !td_is_tracing() && strcmp(b->f->name, "contiguous") == 0 && !b->format && tdpy_is_tensor(b->slot[0]) &&
           td_is_contiguous(tdpy_array(b->slot[0]));
}

/* The arguments are bound: convert them, run, wrap. */
static PyObject *run_bound(const binding *b, bool in_place)
{
    const tdpy_function *f = b->f;
    call c;
    c.f = f;
    c.nheld = c.nints = c.narrays = 0;
    c.arrays = NULL;
    c.plain = true;
    c.above = c.stood = 0;
    int device = -1, before = -1;
    tdpy_casts casts = {.n = 0};
    bool good = !b->device || tdpy_as_device(b->device, &device), on;
    if (good && b->requires_grad != Py_None) good = tdpy_as_bool(b->requires_grad, &on, name_of(f), "requires_grad");
    for (int i = 0; good && i < f->nparams; i++) good = take(&c, i, b->slot[i]);
    if (good && c.above) good = place_above(&c);
    PyObject *target = in_place ? b->slot[0] : b->out, *result = NULL;
    if (good && b->out && !tdpy_is_tensor(b->out))
        good = tdpy_raise(TD_E_TYPE, "%s(): out must be a Tensor, not %.100s", name_of(f), tdpy_type_name(b->out));
    if (good && b->out) good = is_apart(f->flags, name_of(f), b->slot, f->nparams, -1, b->out);
    if (good && b->out) take_dtype_of(&c, b->out);
    if (good && in_place) good = tdpy_may_write(target, false);
    if (good && device < 0 && is_like(f)) device = td_device_of(c.v[0].arg.array);
    if (good && device >= 0) before = td_set_device(device);
    const char *where = good ? tdpy_site() : NULL;
    if (good && f->flags & TDPY_CASTS && !b->out) good = tdpy_cast(&casts, f, where, c.v, c.narrays, c.arrays);
    const char *outer = ask_as(f->flags & TDPY_RENAMED ? f->name : NULL);
    if (good && b->out && !is_straight(&c, b->out))
        result = put_into(run_op(&c, NULL, where), b->out, name_of(f), f->flags);
    else if (good) result = f->op ? run_op(&c, target, where) : run_composite(&c, b->slot[0], where);
    if (!result && good && b->out && PyErr_ExceptionMatches(tdpy.errors[TD_E_SHAPE]))
        result = run_again(&c, b->out, where);
    asked = outer;
    if (before >= 0) td_set_device(before);
    tdpy_casts_clear(&casts);
    release(&c);
    if (result && f->op && td_ops[f->op].flags & TD_OF_VIEW && tdpy_is_tensor(result))
        tdpy_inherit_part(result, b->slot[0]);
    if (b->format || b->layout) result = lay_out(result, b);
    return f->flags & TDPY_CREATION ? finish_creation(result, b) : result;
}

/* x.view(dtype) reads the bytes as another dtype. */
static bool is_dtype(PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    n += kw ? PyTuple_Size(kw) : 0;
    return n > 0 && Py_TYPE(args[n - 1]) == tdpy.dtype;
}

/* F.silu(x, inplace=True): the values are written over x, which is returned. Where the gradient wants x itself it gets
 * a copy of it, as x changes. */
static PyObject *run_placed(binding *b)
{
    bool on, keeps = td_ops[b->f->op].flags & TD_OF_INPLACE && !(b->f->flags & TDPY_SAVES);
    if (!tdpy_as_bool(b->inplace, &on, name_of(b->f), "inplace")) return NULL;
    if (!on || keeps || !tdpy_is_tensor(b->slot[0])) return run_bound(b, on && keeps);
    PyObject *x = b->slot[0], *own = NULL, *made = NULL, *result = NULL;
    bool recorded = td_grad_enabled() && !tdpy_is_plain(x);
    if (!recorded || (own = PyObject_CallMethod(x, "clone", NULL))) {
        if (own) b->slot[0] = own;
        made = run_bound(b, false);
    }
    PyObject *store = made ? tdpy_python("_store") : NULL;
    if (store) result = PyObject_CallFunction(store, "OOs", x, made, "inplace");
    Py_XDECREF(store);
    Py_XDECREF(made);
    Py_XDECREF(own);
    return result;
}

/* Is something given that the function does not take itself, and PyTorch's of that name does? */
static bool is_as_before(const tdpy_function *f, Py_ssize_t n, PyObject *kw)
{
    if (n > f->positional) return true;
    for (Py_ssize_t i = 0; kw && i < PyTuple_Size(kw); i++)
        if (find_param(f, PyTuple_GetItem(kw, i)) < 0) return true;
    return false;
}

static PyObject *call_as_before(const tdpy_function *f, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    PyObject *name = PyUnicode_FromString(f->name), *result = NULL;
    const char *before = ask_as(f->name);
    if (name) result = tdpy_forward("_loss_as_before", name, args, n, kw);
    asked = before;
    Py_XDECREF(name);
    return result;
}

/* add(1, 2) of two numbers: what it would be of the first as a tensor. */
static PyObject *run_of_numbers(binding *b)
{
    int op = b->f->op;
    bool meant = op == TD_OP_ADD || op == TD_OP_SUB || op == TD_OP_MUL || op == TD_OP_DIV;
    if (!meant || !b->slot[0] || tdpy_is_tensor(b->slot[0]) || tdpy_is_tensor(b->slot[1])) return NULL;
    PyErr_Clear();
    td_array *made = tdpy_from_data(b->slot[0], TD_DTYPE_NONE, TD_CPU);
    PyObject *first = made ? tdpy_wrap(made, true) : NULL, *result = NULL;
    if (first) {
        b->slot[0] = first;
        result = run_bound(b, false);
        Py_DECREF(first);
    }
    return result;
}

PyObject *tdpy_call(tdpy_function *f, bool in_place, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    if (f == &tdpy_fn_view && is_dtype(args, n, kw)) f = &tdpy_op_view_dtype;
    if (f->flags & TDPY_AVERAGES && is_as_before(f, n, kw)) return call_as_before(f, args, n, kw);
    binding b;
    b.f = f;
    PyObject *result = NULL;
    if (bind(&b, self, args, n, kw))
        result = b.inplace ? run_placed(&b) : is_itself(&b) ? Py_NewRef(b.slot[0]) : run_bound(&b, in_place);
    if (!result && f->nparams > 1 && !in_place && PyErr_ExceptionMatches(tdpy.errors[TD_E_INVALID]))
        result = run_of_numbers(&b);
    Py_XDECREF(b.separate);
    return result;
}

/* ---- out= -------------------------------------------------------------------------------------------------------- */

static Py_ssize_t find_keyword(PyObject *kw, const char *name)
{
    Py_ssize_t i = 0, n = PyTuple_Size(kw);
    while (i < n && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(kw, i), name)) i++;
    return i < n ? i : -1;
}

bool tdpy_has_out(PyObject *kw)
{
    return find_keyword(kw, "out") >= 0;
}

PyObject *tdpy_into(tdpy_caller *f, const char *name, unsigned flags, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    Py_ssize_t nkw = PyTuple_Size(kw), at = find_keyword(kw, "out"), k = 0;
    PyObject *out = args[n + at], *dtype = NULL, *made = NULL;
    bool typed = flags & TDPY_CREATION && tdpy_is_tensor(out) && find_keyword(kw, "dtype") < 0;
    if (!is_apart(flags, name, args, n + nkw, n + at, out)) return NULL;
    if (typed && !(dtype = PyObject_GetAttrString(out, "dtype"))) return NULL;
    PyObject *names = PyTuple_New(nkw - 1 + typed), **values = malloc((size_t)(n + nkw) * sizeof *values);
    bool good = names && values;
    for (Py_ssize_t i = 0; good && i < n; i++) values[i] = args[i];
    for (Py_ssize_t i = 0; good && i < nkw; i++) {
        if (i == at) continue;
        values[n + k] = args[n + i];
        good = !PyTuple_SetItem(names, k++, Py_NewRef(PyTuple_GetItem(kw, i)));
    }
    if (good && typed) {
        values[n + k] = dtype;
        good = !PyTuple_SetItem(names, k++, PyUnicode_InternFromString("dtype"));
    }
    if (!values) PyErr_NoMemory();
    if (good) made = f(NULL, values, n, k ? names : NULL);
    free(values);
    Py_XDECREF(names);
    Py_XDECREF(dtype);
    return out == Py_None ? made : put_into(made, out, name, flags);
}

/* ---- several results --------------------------------------------------------------------------------------------- */

/* One type for each list of names: the generator writes equal lists once. */
static PyTypeObject *result_type(tdpy_results *r, int n)
{
    if (r->type) return r->type;
    PyStructSequence_Field fields[9] = {{NULL, NULL}};
    for (int i = 0; i < n; i++) fields[i] = (PyStructSequence_Field){r->names[i], NULL};
    PyStructSequence_Desc desc = {"tensord.return_types", "Several results of one op, by name and by place.", fields,
                                  n};
    return r->type = PyStructSequence_NewType(&desc);
}

static PyObject *named_results(const tdpy_function *f, int n, td_array **made, bool plain)
{
    PyTypeObject *type = result_type(f->outs, n);
    PyObject *all = type ? PyStructSequence_New(type) : NULL;
    for (int i = 0; i < n; i++) {
        PyObject *each = all ? tdpy_wrap(made[i], plain) : NULL;
        if (!all) td_release(made[i]);
        else if (!each) Py_CLEAR(all);
        else PyStructSequence_SetItem(all, i, each);
    }
    return all;
}

/* ---- by Python --------------------------------------------------------------------------------------------------- */

/* NumPy's names for dim and keepdim are taken too. */
static int set_keyword(PyObject *keywords, PyObject *key, PyObject *value)
{
    if (PyUnicode_CompareWithASCIIString(key, "axis") == 0) return PyDict_SetItemString(keywords, "dim", value);
    if (PyUnicode_CompareWithASCIIString(key, "keepdims") == 0) return PyDict_SetItemString(keywords, "keepdim", value);
    return PyDict_SetItem(keywords, key, value);
}

/* What makes tensors, with layout=, memory_format= and pin_memory=. `function` is consumed. */
static PyObject *taking_formats(PyObject *function)
{
    PyObject *taking = function ? tdpy_python("_taking") : NULL;
    PyObject *result = taking ? PyObject_CallFunctionObjArgs(taking, function, NULL) : NULL;
    Py_XDECREF(taking);
    Py_XDECREF(function);
    return result;
}

static bool names_format(PyObject *kw)
{
    return kw && (find_keyword(kw, "layout") >= 0 || find_keyword(kw, "memory_format") >= 0 ||
                  find_keyword(kw, "pin_memory") >= 0);
}

static PyObject *forward(const char *name, const char *called, bool creates, PyObject *self, PyObject *const *args,
                         Py_ssize_t n, PyObject *kw)
{
    PyObject *function = tdpy_python(called), *keywords = kw ? PyDict_New() : NULL, *result = NULL;
    PyObject *all = PyTuple_New(n + (self != NULL));
    if (creates && names_format(kw)) function = taking_formats(function);
    bool good = function && all && (!kw || keywords);
    if (good && self) good = !PyTuple_SetItem(all, 0, Py_NewRef(self));
    for (Py_ssize_t i = 0; good && i < n; i++) good = !PyTuple_SetItem(all, i + (self != NULL), Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; good && kw && i < PyTuple_Size(kw); i++)
        good = !set_keyword(keywords, PyTuple_GetItem(kw, i), args[n + i]);
    const char *before = ask_as(name);
    if (good) result = PyObject_Call(function, all, keywords);
    asked = before;
    Py_XDECREF(function);
    Py_XDECREF(keywords);
    Py_XDECREF(all);
    return result;
}

PyObject *tdpy_forward(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    return forward(name, name, false, self, args, n, kw);
}

PyObject *tdpy_forward_as(const char *name, const char *called, PyObject *self, PyObject *const *args, Py_ssize_t n,
                          PyObject *kw)
{
    return forward(name, called, false, self, args, n, kw);
}

PyObject *tdpy_as(PyObject *module, PyObject *all, PyObject *kw)
{
    (void)module;
    PyObject *name, *function;
    PyObject *head = PyTuple_GetSlice(all, 0, 2), *args = PyTuple_GetSlice(all, 2, PyTuple_Size(all)), *result = NULL;
    const char *text = NULL;
    if (head && args && PyArg_ParseTuple(head, "UO:_as", &name, &function)) text = PyUnicode_AsUTF8AndSize(name, NULL);
    const char *before = ask_as(text);
    if (text) result = PyObject_Call(function, args, kw);
    asked = before;
    Py_XDECREF(head);
    Py_XDECREF(args);
    return result;
}

PyObject *tdpy_create(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    return forward(name, name, true, self, args, n, kw);
}

static bool intern_keys(const tdpy_function *f)
{
    for (int i = 0; i < f->nparams; i++) {
        const tdpy_param *p = &f->params[i];
        f->keys[2 * i] = PyUnicode_InternFromString(p->name);
        f->keys[2 * i + 1] = p->alias ? PyUnicode_InternFromString(p->alias) : NULL;
        if (!f->keys[2 * i] || (p->alias && !f->keys[2 * i + 1])) return false;
    }
    return true;
}

bool tdpy_init_functions(PyObject *module)
{
    for (int i = 0; tdpy_all_functions[i]; i++)
        if (!intern_keys(tdpy_all_functions[i])) return false;
    PyObject *raw = PyModule_New("tensord.ops");
    if (!raw || PyModule_AddFunctions(raw, tdpy_raw_functions) ||
        PyModule_SetDocString(raw, "Every op of the table as the daemon knows it.") ||
        PyModule_AddObjectRef(module, "ops", raw))
        return false;
    Py_DECREF(raw);
    PyObject *layers = PyModule_New("tensord.nn.functional"); /* the functions say that they are of there */
    if (!layers || PyModule_AddFunctions(layers, tdpy_layer_functions) || PyModule_AddObjectRef(module, "_nn", layers))
        return false;
    Py_DECREF(layers);
    return PyModule_AddFunctions(module, tdpy_op_functions) == 0;
}
