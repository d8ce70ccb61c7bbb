/* A number that the program of a trace follows, as Python has it: the size of a traced tensor, or what was worked out
 * of such. It passes for an int, or a float: isinstance() says so, arithmetic gives further ones, and every call that
 * takes a number takes it, with its name (tensord_bind.h). It is no int all the same, so that whoever wants a
 * plain one has to ask: that is where the program loses it, and where a warning tells.
 *
 * Comparisons that this package makes itself tell nothing: most look whether arguments fit. They are part of the
 * program instead, which fails where one comes out otherwise (program/_loops.py): so no call goes a way that was taken
 * for other sizes. When the trace is over it is its number, and nothing more. */
#include "client/python/src/py.h"

#include "proto/program/prim.h"

typedef struct number {
    PyObject_HEAD td_scalar is;
    uint64_t name;
} number;

bool tdpy_is_followed(PyObject *o)
{
    return Py_TYPE(o) == tdpy.followed;
}

static PyObject *plain(PyObject *o)
{
    td_scalar s = ((number *)o)->is;
    return s.kind == TD_S_INT ? PyLong_FromLongLong(s.i) : PyFloat_FromDouble(s.re);
}

static void use(PyObject *o, const char *how)
{
    td_trace_use(((number *)o)->name, how);
}

PyObject *tdpy_used(PyObject *o)
{
    use(o, "a number");
    return plain(o);
}

static PyObject *make(td_scalar is, uint64_t name)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(tdpy.followed, Py_tp_alloc);
    PyObject *o = alloc(tdpy.followed, 0);
    if (o) ((number *)o)->is = is, ((number *)o)->name = name;
    return o;
}

PyObject *tdpy_size_of(td_array *a, int dim, int64_t is)
{
    uint64_t name = td_is_tracing() ? td_trace_size(a, dim) : 0;
    return name ? make(td_int(is), name) : PyLong_FromLongLong(is);
}

td_ints tdpy_like(td_array *x)
{
    int n = td_ndim(x);
    return td_is_tracing() && n >= 0 ? td_trace_shape(x) : td_dims_of(n, td_shape(x));
}

/* ---- as an argument */

static td_arg arg_of(PyObject *o)
{
    const number *n = (number *)o;
    td_arg a = n->is.kind == TD_S_INT ? td_arg_int(n->is.i) : td_arg_float(n->is.re);
    a.im = (double)n->name;
    return a;
}

static bool is_element(PyObject *o)
{
    if (!tdpy_is_tensor(o) || !td_trace_knows(tdpy_array(o))) return false;
    td_array *a = tdpy_array(o);
    return td_ndim(a) == 0 && td_dtype_of(a) != TD_BOOL;
}

int tdpy_follow(PyObject *o, td_arg *out)
{
    if (!td_is_tracing()) return 0;
    if (tdpy_is_followed(o)) {
        *out = arg_of(o);
        return 1;
    }
    if (!is_element(o)) return 0;
    return td_trace_item(tdpy_array(o), out) || PyErr_Occurred() ? (tdpy_fail(), -1) : 1;
}

int tdpy_follow_int(PyObject *o, td_arg *out)
{
    if (!td_is_tracing() || (tdpy_is_tensor(o) && !td_dtype_is_integral(td_dtype_of(tdpy_array(o))))) return 0;
    int rc = tdpy_follow(o, out);
    return rc > 0 && out->kind != TD_ARG_INT ? 0 : rc;
}

/* Where the name of the next integer goes that tdpy_follow_ints() reads. */
static _Thread_local uint64_t *next;

static bool take_one(PyObject *o, int64_t *out, const char *function, const char *name)
{
    td_arg a;
    int follows = tdpy_follow_int(o, &a);
    if (!follows && !tdpy_as_int(o, out, function, name)) return false;
    if (follows > 0) *out = a.i;
    *next++ = follows > 0 ? (uint64_t)a.im : 0;
    return follows >= 0;
}

int tdpy_follow_ints(PyObject *o, int64_t *out, int room, const char *function, const char *name)
{
    uint64_t names[TD_MAX_INTS], *outer = next;
    next = names;
    int n = tdpy_take_ints(take_one, o, out, room, function, name);
    next = outer; /* an __index__ of the program's own may ask for something meanwhile */
    if (n > 0) td_trace_stand(n, out, names);
    return n;
}

/* ---- arithmetic */

/* What stands beside a followed number, as a plain one: a new reference. NULL without an exception: it is for others.
 */
static PyObject *operand(PyObject *o)
{
    if (tdpy_is_followed(o)) return plain(o);
    if (PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o)) return Py_NewRef(o);
    return PyIndex_Check(o) && !PySequence_Check(o) && !tdpy_is_tensor(o) ? PyNumber_Index(o) : NULL;
}

/* Of Python's number: false where a program has none such. */
static bool scalar_of(PyObject *o, td_scalar *out)
{
    bool whole = PyLong_Check(o);
    if (!whole && !PyFloat_Check(o)) return false;
    *out = whole ? td_int(PyLong_AsLongLong(o)) : td_float(PyFloat_AsDouble(o));
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

double tdpy_float_of(const td_arg *whole)
{
    return (double)td_trace_worked(TD_PRIM_FLOAT_INT, 1, whole, td_float((double)whole->i));
}

/* As the prim:: op takes it: a float where that works on floats. */
static td_arg taken(PyObject *o, PyObject *as_plain, bool real)
{
    td_scalar s = {.kind = TD_S_INT};
    scalar_of(as_plain, &s);
    td_arg a = tdpy_is_followed(o) ? arg_of(o) : td_arg_scalar(s);
    if (!real || a.kind == TD_ARG_FLOAT) return a;
    td_arg f = td_arg_float((double)a.i);
    if (a.im != 0) f.im = tdpy_float_of(&a);
    return f;
}

/* What was made of them, by the op for ints or the one for floats; 0: there is none. `made` is consumed. */
static PyObject *worked(PyObject *made, int n, PyObject *const *given, PyObject *const *plains, int whole, int real)
{
    td_scalar s, parts[2];
    bool floats = false, follows = false, good = made && scalar_of(made, &s);
    for (int k = 0; k < n && good; k++) {
        good = scalar_of(plains[k], &parts[k]);
        floats |= good && parts[k].kind == TD_S_FLOAT;
        follows |= tdpy_is_followed(given[k]) && td_trace_follows(((number *)given[k])->name);
    }
    if (made && !follows) return made;
    /* 2 ** -1 is a float, which the op for ints does not make */
    floats |= good && s.kind == TD_S_FLOAT && whole != TD_PRIM_TRUEDIV_INT && whole != TD_PRIM_FLOAT_INT;
    int prim = floats ? real : whole;
    if (made && (!good || !prim)) {
        for (int k = 0; k < n; k++)
            if (tdpy_is_followed(given[k])) use(given[k], "arithmetic");
        return made;
    }
    td_arg in[2];
    for (int k = 0; k < n && made; k++) in[k] = taken(given[k], plains[k], floats);
    uint64_t name = made ? td_trace_worked((unsigned)prim, n, in, s) : 0;
    if (!name) return made;
    Py_DECREF(made);
    return make(s, name);
}

typedef PyObject *binary_function(PyObject *, PyObject *);

static PyObject *binary(PyObject *a, PyObject *b, binary_function *by, int whole, int real)
{
    PyObject *given[] = {a, b}, *plains[] = {operand(a), operand(b)}, *made = NULL;
    if (plains[0] && plains[1]) made = worked(by(plains[0], plains[1]), 2, given, plains, whole, real);
    else if (!PyErr_Occurred()) made = Py_NewRef(Py_NotImplemented);
    Py_XDECREF(plains[0]);
    Py_XDECREF(plains[1]);
    return made;
}

static PyObject *unary(PyObject *a, PyObject *(*by)(PyObject *), int whole, int real)
{
    PyObject *of = plain(a), *made = of ? worked(by(of), 1, &a, &of, whole, real) : NULL;
    Py_XDECREF(of);
    return made;
}

#define BINARY(name, by, whole, real)                                                                                  \
    static PyObject *op_##name(PyObject *a, PyObject *b)                                                               \
    {                                                                                                                  \
        return binary(a, b, by, whole, real);                                                                          \
    }
BINARY(add, PyNumber_Add, TD_PRIM_ADD_INT, TD_PRIM_ADD_FLOAT)
BINARY(sub, PyNumber_Subtract, TD_PRIM_SUB_INT, TD_PRIM_SUB_FLOAT)
BINARY(mul, PyNumber_Multiply, TD_PRIM_MUL_INT, TD_PRIM_MUL_FLOAT)
BINARY(div, PyNumber_TrueDivide, TD_PRIM_TRUEDIV_INT, TD_PRIM_TRUEDIV_FLOAT)
BINARY(floordiv, PyNumber_FloorDivide, TD_PRIM_FLOORDIV_INT, TD_PRIM_FLOORDIV_FLOAT)
BINARY(mod, PyNumber_Remainder, TD_PRIM_MOD_INT, TD_PRIM_MOD_FLOAT)
BINARY(and, PyNumber_And, TD_PRIM_AND_INT, 0)
BINARY(or, PyNumber_Or, TD_PRIM_OR_INT, 0)
BINARY(xor, PyNumber_Xor, TD_PRIM_XOR_INT, 0)
BINARY(lshift, PyNumber_Lshift, TD_PRIM_LSHIFT, 0)
BINARY(rshift, PyNumber_Rshift, TD_PRIM_RSHIFT, 0)

static PyObject *power(PyObject *a, PyObject *b)
{
    return PyNumber_Power(a, b, Py_None);
}

static PyObject *op_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None) return Py_NewRef(Py_NotImplemented);
    return binary(a, b, power, TD_PRIM_POW_INT, TD_PRIM_POW_FLOAT);
}

static PyObject *op_divmod(PyObject *a, PyObject *b)
{
    PyObject *whole = op_floordiv(a, b), *rest = whole && whole != Py_NotImplemented ? op_mod(a, b) : NULL;
    PyObject *both = rest ? PyTuple_Pack(2, whole, rest) : NULL;
    if (whole == Py_NotImplemented) return whole;
    Py_XDECREF(whole);
    Py_XDECREF(rest);
    return both;
}

static PyObject *op_neg(PyObject *a)
{
    return unary(a, PyNumber_Negative, TD_PRIM_NEG_INT, TD_PRIM_NEG_FLOAT);
}

static PyObject *op_abs(PyObject *a)
{
    return unary(a, PyNumber_Absolute, TD_PRIM_ABS_INT, TD_PRIM_ABS_FLOAT);
}

static PyObject *op_invert(PyObject *a)
{
    return unary(a, PyNumber_Invert, TD_PRIM_INVERT, 0);
}

static PyObject *op_positive(PyObject *a)
{
    return Py_NewRef(a);
}

/* ---- ways to a whole number that Python asks by names */

static PyObject *call(PyObject *o, const char *name)
{
    return PyObject_CallMethod(o, name, NULL);
}

static PyObject *floor_of(PyObject *o)
{
    return call(o, "__floor__");
}

static PyObject *ceil_of(PyObject *o)
{
    return call(o, "__ceil__");
}

static PyObject *trunc_of(PyObject *o)
{
    return call(o, "__trunc__");
}

static PyObject *round_of(PyObject *o)
{
    return call(o, "__round__");
}

static PyObject *to_whole(PyObject *a, PyObject *(*by)(PyObject *), int prim)
{
    if (((number *)a)->is.kind == TD_S_INT) return Py_NewRef(a);
    PyObject *of = plain(a), *made = of ? by(of) : NULL;
    td_scalar s;
    td_arg in = arg_of(a);
    uint64_t name = made && scalar_of(made, &s) ? td_trace_worked((unsigned)prim, 1, &in, s) : 0;
    Py_XDECREF(of);
    if (!name) return made;
    Py_DECREF(made);
    return make(s, name);
}

static PyObject *number_floor(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return to_whole(self, floor_of, TD_PRIM_FLOOR);
}

static PyObject *number_ceil(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return to_whole(self, ceil_of, TD_PRIM_CEIL);
}

static PyObject *number_trunc(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return to_whole(self, trunc_of, TD_PRIM_INT_FLOAT);
}

static PyObject *number_round(PyObject *self, PyObject *args)
{
    PyObject *digits = Py_None;
    if (!PyArg_ParseTuple(args, "|O:round", &digits)) return NULL;
    if (digits == Py_None) return to_whole(self, round_of, TD_PRIM_ROUND_FLOAT);
    PyObject *of = tdpy_used(self), *made = of ? PyObject_CallMethod(of, "__round__", "O", digits) : NULL;
    Py_XDECREF(of);
    return made;
}

/* ---- as a plain number, which the program loses */

static PyObject *as_int(PyObject *self)
{
    use(self, "int() of a size");
    PyObject *of = plain(self), *made = of ? PyNumber_Long(of) : NULL;
    Py_XDECREF(of);
    return made;
}

static PyObject *as_index(PyObject *self)
{
    PyObject *of = plain(self), *made = of ? PyNumber_Index(of) : NULL;
    Py_XDECREF(of);
    if (made) use(self, "a size as an int of Python");
    return made;
}

static PyObject *as_float(PyObject *self)
{
    use(self, "float() of a size");
    PyObject *of = plain(self), *made = of ? PyNumber_Float(of) : NULL;
    Py_XDECREF(of);
    return made;
}

/* What this package found, comparing a with b, the program has to find, too. */
static bool hold(PyObject *a, PyObject *b, int how, bool found)
{
    static _Thread_local bool inside; /* who makes that part of it compares nothing for the program */
    bool follows = (tdpy_is_followed(a) && td_trace_follows(((number *)a)->name)) ||
                   (tdpy_is_followed(b) && td_trace_follows(((number *)b)->name));
    if (inside || !follows) return true;
    inside = true;
    PyObject *holds = tdpy_python("hold"), *made = NULL;
    if (holds) made = PyObject_CallFunction(holds, "OOiO", a, b, how, found ? Py_True : Py_False);
    Py_XDECREF(holds);
    Py_XDECREF(made);
    inside = false;
    return made != NULL;
}

static int truth(PyObject *self)
{
    td_scalar s = ((number *)self)->is;
    bool is = s.kind == TD_S_INT ? s.i != 0 : s.re != 0;
    if (!tdpy_at_home()) use(self, "the truth of a size");
    else if (td_is_tracing()) {
        PyObject *none = PyLong_FromLong(0);
        bool held = none && hold(self, none, Py_NE, is);
        Py_XDECREF(none);
        if (!held) return -1;
    }
    return is;
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    PyObject *x = operand(a), *y = operand(b), *made = NULL;
    if (x && y) made = PyObject_RichCompare(x, y, how);
    else if (!PyErr_Occurred()) made = Py_NewRef(Py_NotImplemented);
    if (made && x && y && td_is_tracing()) {
        if (!tdpy_at_home()) use(tdpy_is_followed(a) ? a : b, "a comparison of a size");
        else if (!hold(a, b, how, made == Py_True)) Py_CLEAR(made);
    }
    Py_XDECREF(x);
    Py_XDECREF(y);
    return made;
}

static Py_hash_t hash(PyObject *self)
{
    if (!tdpy_at_home()) use(self, "a size as a key");
    PyObject *of = plain(self);
    Py_hash_t h = of ? PyObject_Hash(of) : -1;
    Py_XDECREF(of);
    return h;
}

static PyObject *by_plain(PyObject *self, PyObject *(*by)(PyObject *))
{
    PyObject *of = plain(self), *made = of ? by(of) : NULL;
    Py_XDECREF(of);
    return made;
}

static PyObject *repr(PyObject *self)
{
    return by_plain(self, PyObject_Repr);
}

static PyObject *text(PyObject *self)
{
    if (!tdpy_at_home()) use(self, "a size in a text");
    return by_plain(self, PyObject_Repr);
}

static PyObject *format(PyObject *self, PyObject *spec)
{
    if (!tdpy_at_home()) use(self, "a size in a text");
    PyObject *of = plain(self), *made = of ? PyObject_Format(of, spec) : NULL;
    Py_XDECREF(of);
    return made;
}

static PyObject *reduce(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    PyObject *of = tdpy_used(self);
    return of ? Py_BuildValue("(O(N))", Py_TYPE(of), of) : NULL;
}

static PyObject *itself(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_NewRef(self);
}

static PyObject *get_class(PyObject *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(((number *)self)->is.kind == TD_S_INT ? (PyObject *)&PyLong_Type : (PyObject *)&PyFloat_Type);
}

/* What it has no name for the plain number has: bit_length(), is_integer(), ... */
static PyObject *get(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name), *of = NULL;
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    of = plain(self);
    found = of ? PyObject_GetAttr(of, name) : NULL;
    if (found) use(self, "an attribute of a size");
    Py_XDECREF(of);
    return found;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"__floor__", number_floor, METH_NOARGS, NULL}, {"__ceil__", number_ceil, METH_NOARGS, NULL},
    {"__trunc__", number_trunc, METH_NOARGS, NULL}, {"__round__", number_round, METH_VARARGS, NULL},
    {"__format__", format, METH_O, NULL},           {"__reduce__", reduce, METH_NOARGS, NULL},
    {"conjugate", itself, METH_NOARGS, NULL},       {"__copy__", itself, METH_NOARGS, NULL},
    {"__deepcopy__", itself, METH_O, NULL},         {NULL, NULL, 0, NULL}};
static PyGetSetDef attributes[] = {{"__class__", get_class, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_doc, "A size of a traced tensor, or what was worked out of such."},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, attributes},
                              {Py_tp_getattro, get},
                              {Py_tp_dealloc, dealloc},
                              {Py_tp_richcompare, compare},
                              {Py_tp_hash, hash},
                              {Py_tp_repr, repr},
                              {Py_tp_str, text},
                              {Py_nb_add, op_add},
                              {Py_nb_subtract, op_sub},
                              {Py_nb_multiply, op_mul},
                              {Py_nb_true_divide, op_div},
                              {Py_nb_floor_divide, op_floordiv},
                              {Py_nb_remainder, op_mod},
                              {Py_nb_divmod, op_divmod},
                              {Py_nb_power, op_pow},
                              {Py_nb_and, op_and},
                              {Py_nb_or, op_or},
                              {Py_nb_xor, op_xor},
                              {Py_nb_lshift, op_lshift},
                              {Py_nb_rshift, op_rshift},
                              {Py_nb_negative, op_neg},
                              {Py_nb_positive, op_positive},
                              {Py_nb_absolute, op_abs},
                              {Py_nb_invert, op_invert},
                              {Py_nb_bool, truth},
                              {Py_nb_int, as_int},
                              {Py_nb_float, as_float},
                              {Py_nb_index, as_index},
                              {0, NULL}};
static PyType_Spec spec = {
    .name = "tensord._C.Followed",
    .basicsize = sizeof(number),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

bool tdpy_init_followed(PyObject *module)
{
    tdpy.followed = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return tdpy.followed && !PyModule_AddObjectRef(module, "_Followed", (PyObject *)tdpy.followed);
}
