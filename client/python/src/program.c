/* Programs as Python sees them: what tensord.jit makes of functions, and calls. Values go and come as Python has them;
 * which names of a function mean what, jit.py finds out. */
#include "client/python/src/py.h"

#include "proto/program/text.h"
#include "proto/program/verify.h"

#include <stdlib.h>
#include <string.h>

/* ---- values */

static bool as_value(PyObject *o, td_value *v, int depth);

static bool as_items(PyObject *o, td_value_kind kind, td_value *v, int depth)
{
    Py_ssize_t n = PySequence_Size(o);
    td_value *items = n < 0 || n > INT32_MAX ? NULL : calloc((size_t)n + 1, sizeof *items);
    if (!items) return n < 0 ? false : PyErr_NoMemory() != NULL;
    *v = (td_value){kind, 0, {.items = items}, 0};
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = PySequence_GetItem(o, k);
        bool good = item && as_value(item, &items[k], depth + 1);
        Py_XDECREF(item);
        v->n++;
        if (!good) return false;
    }
    return true;
}

static bool as_key(PyObject *o, td_value *v)
{
    if (PyUnicode_Check(o) || (PyLong_Check(o) && !PyBool_Check(o))) return as_value(o, v, 0);
    return tdpy_raise(TD_E_TYPE, "the keys of a dict that a program takes are ints or texts, not %s", tdpy_a_type(o)) !=
           NULL;
}

static bool as_dict(PyObject *o, td_value *v, int depth)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, n = PyDict_Size(o);
    td_value *items = n > INT32_MAX / 2 ? NULL : calloc(2 * (size_t)n + 1, sizeof *items);
    if (!items) return PyErr_NoMemory() != NULL;
    *v = (td_value){TD_VALUE_DICT, 0, {.items = items}, 0};
    while (v->n < 2 * n && PyDict_Next(o, &at, &key, &value)) {
        v->n += 2;
        Py_INCREF(value);
        bool good = as_key(key, &items[v->n - 2]) && as_value(value, &items[v->n - 1], depth + 1);
        Py_DECREF(value);
        if (!good) return false;
    }
    return true;
}

static bool as_text(PyObject *o, td_value *v)
{
    Py_ssize_t n;
    const char *text = PyUnicode_AsUTF8AndSize(o, &n);
    char *copy = text ? malloc((size_t)n + 1) : NULL;
    if (!copy) return text ? PyErr_NoMemory() != NULL : false;
    memcpy(copy, text, (size_t)n + 1);
    *v = (td_value){TD_VALUE_STR, (uint32_t)n, {.text = copy}, 0};
    return true;
}

static bool as_number(PyObject *o, td_value *v)
{
    td_arg a;
    int is = tdpy_is_followed(o) ? tdpy_follow(o, &a) : 0;
    if (!is) is = tdpy_as_number(o, &a);
    if (is < 0) return false;
    if (!is)
        return tdpy_raise(TD_E_TYPE,
                          "a program takes tensors, numbers, texts, None, and lists, tuples and dicts of such, not %s",
                          tdpy_a_type(o)) != NULL;
    *v = (td_value){TD_VALUE_FLOAT, 0, {0}, a.im};
    if (a.kind == TD_ARG_BOOL || a.kind == TD_ARG_INT) {
        v->kind = a.kind == TD_ARG_BOOL ? TD_VALUE_BOOL : TD_VALUE_INT;
        v->i = a.i;
    } else {
        if (a.kind == TD_ARG_COMPLEX) v->kind = TD_VALUE_COMPLEX;
        v->re = a.re;
    }
    return true;
}

/* References of its own, for other threads may change lists meanwhile. What was read when it fails is to be freed. */
static bool as_value(PyObject *o, td_value *v, int depth) /* NOLINT(misc-no-recursion) */
{
    *v = (td_value){TD_VALUE_NONE, 0, {0}, 0};
    if (depth > 64) return tdpy_raise(TD_E_INVALID, "more than 64 lists within lists") != NULL;
    if (o == Py_None) return true;
    if (tdpy_is_tensor(o)) {
        *v = td_value_array(td_retain(tdpy_array(o)));
        return true;
    }
    if (PyUnicode_Check(o)) return as_text(o, v);
    if (PyList_Check(o)) return as_items(o, TD_VALUE_LIST, v, depth);
    if (PyTuple_Check(o)) return as_items(o, TD_VALUE_TUPLE, v, depth);
    if (PyDict_Check(o)) return as_dict(o, v, depth);
    if (PyObject_TypeCheck(o, tdpy.dtype)) {
        *v = (td_value){TD_VALUE_DTYPE, 0, {.i = ((tdpy_dtype *)o)->code}, 0};
        return true;
    }
    if (PyObject_TypeCheck(o, tdpy.device)) {
        int device;
        if (!tdpy_as_device(o, &device)) return false;
        *v = (td_value){TD_VALUE_DEVICE, 0, {.i = device}, 0};
        return true;
    }
    return as_number(o, v);
}

bool tdpy_values(PyObject *tuple, td_value *out)
{
    return as_value(tuple, out, 0);
}

static PyObject *items_of(td_value *v) /* NOLINT(misc-no-recursion) */
{
    bool list = v->kind == TD_VALUE_LIST;
    PyObject *made = list ? PyList_New(v->n) : PyTuple_New(v->n);
    for (uint32_t k = 0; made && k < v->n; k++) {
        PyObject *item = tdpy_value_object(&v->items[k]);
        int rc = !item ? -1 : list ? PyList_SetItem(made, k, item) : PyTuple_SetItem(made, k, item);
        if (rc) Py_CLEAR(made);
    }
    return made;
}

static PyObject *dict_of(td_value *v) /* NOLINT(misc-no-recursion) */
{
    PyObject *made = PyDict_New();
    for (uint32_t k = 0; made && k + 1 < v->n; k += 2) {
        PyObject *key = tdpy_value_object(&v->items[k]), *value = tdpy_value_object(&v->items[k + 1]);
        if (!key || !value || PyDict_SetItem(made, key, value)) Py_CLEAR(made);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return made;
}

PyObject *tdpy_value_object(td_value *v) /* NOLINT(misc-no-recursion) */
{
    switch (v->kind) {
    case TD_VALUE_INT: return PyLong_FromLongLong(v->i);
    case TD_VALUE_FLOAT: return PyFloat_FromDouble(v->re);
    case TD_VALUE_BOOL: return PyBool_FromLong(v->i != 0);
    case TD_VALUE_COMPLEX: return PyComplex_FromDoubles(v->re, v->im);
    case TD_VALUE_STR: return PyUnicode_DecodeUTF8(v->text, (Py_ssize_t)v->n, "replace");
    case TD_VALUE_DEVICE: return tdpy_device((int)v->i);
    case TD_VALUE_DTYPE: return tdpy_dtype_object((td_dtype)v->i);
    case TD_VALUE_LIST:
    case TD_VALUE_TUPLE: return items_of(v);
    case TD_VALUE_DICT: return dict_of(v);
    case TD_VALUE_ARRAY: v->kind = TD_VALUE_NONE; return tdpy_wrap(v->array, false);
    default: return Py_NewRef(Py_None);
    }
}

/* ---- the type */

typedef struct program {
    PyObject_HEAD td_program *program;
} program;

static PyTypeObject *the_type; /* the module's */

td_program *tdpy_program(PyObject *o)
{
    if (PyObject_TypeCheck(o, the_type)) return ((program *)o)->program;
    return tdpy_raise(TD_E_TYPE, "a program is wanted, not %s", tdpy_a_type(o)), NULL;
}

PyObject *tdpy_program_object(td_program *p)
{
    if (!p) return PyErr_Occurred() ? NULL : tdpy_fail();
    allocfunc alloc = (allocfunc)PyType_GetSlot(the_type, Py_tp_alloc);
    PyObject *self = alloc(the_type, 0);
    if (self) ((program *)self)->program = p;
    else td_program_free(p);
    return self;
}

/* ---- what is known of objects (tdpy_is_plain) */

/* It may have given them a .grad, or made them require one. */
static void no_longer_plain(PyObject *o, int depth) /* NOLINT(misc-no-recursion) */
{
    if (tdpy_is_tensor(o)) {
        ((tdpy_tensor *)o)->plain = false;
    } else if (depth <= 64 && PyTuple_Check(o)) {
        for (Py_ssize_t k = 0; k < PyTuple_Size(o); k++) no_longer_plain(PyTuple_GetItem(o, k), depth + 1);
    } else if (depth <= 64 && PyList_Check(o)) {
        for (Py_ssize_t k = 0; k < PyList_Size(o); k++) no_longer_plain(PyList_GetItem(o, k), depth + 1);
    } else if (depth <= 64 && PyDict_Check(o)) {
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) no_longer_plain(value, depth + 1);
    }
}

static bool all_plain(PyObject *o, int depth) /* NOLINT(misc-no-recursion) */
{
    if (tdpy_is_tensor(o)) return tdpy_is_plain(o);
    bool list = PyList_Check(o), good = depth <= 64;
    for (Py_ssize_t k = 0; good && (list || PyTuple_Check(o)) && k < PySequence_Size(o); k++)
        good = all_plain(list ? PyList_GetItem(o, k) : PyTuple_GetItem(o, k), depth + 1);
    PyObject *key, *value;
    for (Py_ssize_t at = 0; good && PyDict_Check(o) && PyDict_Next(o, &at, &key, &value);)
        good = all_plain(value, depth + 1);
    return good;
}

/* Where the program may have put their tensors into a graph. */
void tdpy_program_called(const td_program *p, PyObject *args)
{
    td_program_effects may = td_program_look(p);
    bool made = may.captured || may.reaches || !all_plain(args, 0); /* it has what may be in a graph, or makes it */
    if (may.enters && td_grad_enabled() && made) tdpy_some_entered();
    if (may.reaches) no_longer_plain(args, 0);
}

/* ---- made, called */

/* _Program(text, captured): of the IR's text, and the tensors that it captures. */
static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    const char *text;
    PyObject *captured;
    td_value v;
    (void)type;
    if (kw && PyDict_Size(kw)) return tdpy_raise(TD_E_TYPE, "_Program takes no keywords");
    if (!PyArg_ParseTuple(args, "sO!:_Program", &text, &PyTuple_Type, &captured)) return NULL;
    bool good = as_value(captured, &v, 0);
    td_client *c = good ? tdpy_client() : NULL;
    td_array **at = c ? calloc(v.n + 1u, sizeof(td_array *)) : NULL;
    for (uint32_t k = 0; at && k < v.n; k++) at[k] = v.items[k].kind == TD_VALUE_ARRAY ? v.items[k].array : NULL;
    td_program *p = at ? td_program_read(c, text, td_arrays_of((int)v.n, at)) : NULL;
    free(at);
    td_value_free(&v);
    if (p && td_program_look(p).reaches) no_longer_plain(captured, 0);
    return tdpy_program_object(p);
}

static void program_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    bool raised = PyErr_Occurred() != NULL;
    td_program_free(((program *)self)->program);
    tdpy_tell_later(raised);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

/* call(args): the results as the graph has them. */
static PyObject *program_run(PyObject *self, PyObject *args)
{
    td_value in, out;
    if (!PyTuple_Check(args)) return tdpy_raise(TD_E_TYPE, "the arguments are a tuple");
    PyObject *made = NULL;
    if (as_value(args, &in, 0)) {
        int rc = td_program_at_call(tdpy_site(), ((program *)self)->program, (int)in.n, in.items, &out);
        made = rc || PyErr_Occurred() ? tdpy_fail() : tdpy_value_object(&out);
        td_value_free(&out);
        tdpy_program_called(((program *)self)->program, args);
    }
    td_value_free(&in);
    return made;
}

/* holds(captured): are these still the arrays that it captured, in a daemon that is still there? Module.to() gives a
 * Parameter another one. */
static PyObject *program_holds(PyObject *self, PyObject *captured)
{
    const td_program *p = ((program *)self)->program;
    int n = td_program_look(p).captured;
    bool same = td_program_is_there(p) && PyTuple_Check(captured) && PyTuple_Size(captured) == n;
    for (int k = 0; same && k < n; k++) same = tdpy_array(PyTuple_GetItem(captured, k)) == td_program_capture(p, k);
    return PyBool_FromLong(same);
}

/* is_there(): is the daemon that has it? */
static PyObject *program_is_there(PyObject *self, PyObject *none)
{
    (void)none;
    return PyBool_FromLong(td_program_is_there(((program *)self)->program));
}

/* _program_timeout(ms): of this thread's calls, 0 for none; what it was before. */
static PyObject *set_timeout(PyObject *module, PyObject *ms)
{
    (void)module;
    long v = PyLong_AsLong(ms);
    if (v == -1 && PyErr_Occurred()) return NULL;
    return PyLong_FromLong(td_set_program_timeout(v > INT32_MAX ? INT32_MAX : (int)v));
}

static PyMethodDef program_methods[] = {{"call", program_run, METH_O, NULL},
                                        {"holds", program_holds, METH_O, NULL},
                                        {"is_there", program_is_there, METH_NOARGS, NULL},
                                        {NULL, NULL, 0, NULL}};
static PyType_Slot program_slots[] = {{Py_tp_doc, "A program that the daemon has; see tensord.jit."},
                                      {Py_tp_new, program_new},
                                      {Py_tp_dealloc, program_dealloc},
                                      {Py_tp_methods, program_methods},
                                      {0, NULL}};
static PyType_Spec program_spec = {
    .name = "tensord._C._Program", .basicsize = sizeof(program), .flags = Py_TPFLAGS_DEFAULT, .slots = program_slots};

/* ---- functions in the subset: what jit.py found out of their names, as arrays. Texts are those of the objects. */

typedef struct given {
    void **taken; /* all that is to be freed */
    unsigned n, room;
    uint32_t nunits;
} given;

static void *take(given *g, size_t n, size_t each)
{
    if (g->n == g->room) {
        void **more = realloc(g->taken, (g->room + 64) * sizeof *more);
        if (!more) return PyErr_NoMemory();
        g->taken = more;
        g->room += 64;
    }
    void **at = &g->taken[g->n];
    if (!(*at = calloc(n + 1, each))) return PyErr_NoMemory();
    g->n++;
    return *at;
}

static bool take_name(given *g, PyObject *value, td_script_name *n);

static bool take_items(given *g, PyObject *list, td_script_name *n) /* NOLINT(misc-no-recursion): as deep as they are */
{
    Py_ssize_t count = PyList_Size(list);
    td_script_name *items = count < 0 ? NULL : take(g, (size_t)count, sizeof *items);
    if (!items) return false;
    n->items = items, n->n = (uint32_t)count;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *item = PyList_GetItem(list, k);
        items[k].name = n->name;
        if (!item || !take_name(g, item, &items[k])) return false;
    }
    return true;
}

static bool take_number(PyObject *value, td_script_name *n)
{
    td_arg a;
    if (tdpy_as_number(value, &a) <= 0)
        return PyErr_Occurred() ? false : tdpy_raise(TD_E_TYPE, "no constant: %s", tdpy_a_type(value)) != NULL;
    n->kind = TD_SN_NUMBER;
    if (a.kind == TD_ARG_BOOL) n->number = td_bool(a.i != 0);
    else if (a.kind == TD_ARG_INT) n->number = td_int(a.i);
    else if (a.kind == TD_ARG_COMPLEX) n->number = td_complex(a.re, a.im);
    else n->number = td_float(a.re);
    return true;
}

/* ("function", unit, name, object[, what is said to who gives arguments]): below 0 are the prelude, and no object. */
static bool take_function(const given *g, PyObject *value, td_script_name *n)
{
    const char *kind;
    int unit, object;
    if (!PyArg_ParseTuple(value, "sisi|s:function", &kind, &unit, &n->text, &object, &n->alone)) return false;
    n->unit = unit < 0 ? g->nunits : (uint32_t)unit;
    n->object = object < 0 ? TD_IR_NONE : (uint32_t)object;
    return true;
}

/* ("named", unit, name), ("tuple", items, unit, name): the class of a named tuple. */
static bool take_class(const given *g, PyObject *unit, PyObject *name, td_script_name *n)
{
    n->unit = (uint32_t)PyLong_AsUnsignedLong(unit);
    if (PyErr_Occurred()) return false;
    if (n->unit >= g->nunits) return tdpy_raise(TD_E_INVALID, "there are %u units", g->nunits) != NULL;
    n->text = PyUnicode_AsUTF8AndSize(name, NULL);
    return n->text != NULL;
}

static bool take_tuple(given *g, PyObject *value, td_script_name *n) /* NOLINT(misc-no-recursion) */
{
    static const struct {
        const char *name;
        td_script_name_kind kind;
    } table[] = {{"tensord", TD_SN_TENSORS}, {"math", TD_SN_MATH},     {"tensor", TD_SN_TENSOR},
                 {"op", TD_SN_OP},           {"object", TD_SN_OBJECT}, {"function", TD_SN_FUNCTION},
                 {"listing", TD_SN_LISTING}, {"tuple", TD_SN_TUPLE},   {"list", TD_SN_LIST},
                 {"refused", TD_SN_REFUSED}, {"named", TD_SN_NAMED},   {"dict", TD_SN_DICT},
                 {"state", TD_SN_STATE},     {"type", TD_SN_TYPE}};
    PyObject *first = PyTuple_GetItem(value, 0), *second = PyTuple_Size(value) > 1 ? PyTuple_GetItem(value, 1) : NULL;
    const char *kind = first ? PyUnicode_AsUTF8AndSize(first, NULL) : NULL;
    unsigned i = 0;
    while (kind && i < sizeof table / sizeof *table && strcmp(table[i].name, kind) != 0) i++;
    if (!kind || i == sizeof table / sizeof *table)
        return kind ? tdpy_raise(TD_E_INVALID, "no kind of name: %s", kind) != NULL : false;
    n->kind = table[i].kind;
    if (n->kind == TD_SN_FUNCTION) return take_function(g, value, n);
    if (!second) return true;
    Py_ssize_t size = PyTuple_Size(value);
    if (n->kind == TD_SN_NAMED || n->kind == TD_SN_TYPE || size == 4) {
        if (size < 3) return tdpy_raise(TD_E_INVALID, "a class has a unit and a name") != NULL;
        if (!take_class(g, PyTuple_GetItem(value, size - 2), PyTuple_GetItem(value, size - 1), n)) return false;
    }
    if (n->kind == TD_SN_NAMED || n->kind == TD_SN_TYPE) return true;
    if (PyList_Check(second)) return take_items(g, second, n);
    if (n->kind == TD_SN_OBJECT || n->kind == TD_SN_LISTING) n->object = (uint32_t)PyLong_AsUnsignedLong(second);
    else if (n->kind == TD_SN_STATE) n->number = td_int(PyLong_AsLong(second));
    else n->text = PyUnicode_AsUTF8AndSize(second, NULL);
    return !PyErr_Occurred();
}

static bool take_name(given *g, PyObject *value, td_script_name *n) /* NOLINT(misc-no-recursion) */
{
    if (PyTuple_Check(value)) return take_tuple(g, value, n);
    if (value == Py_None) return n->kind = TD_SN_NONE, true;
    if (PyObject_TypeCheck(value, tdpy.dtype)) {
        n->kind = TD_SN_DTYPE, n->number.i = ((tdpy_dtype *)value)->code;
        return true;
    }
    if (PyObject_TypeCheck(value, tdpy.device)) {
        int device;
        if (!tdpy_as_device(value, &device)) return false;
        n->kind = TD_SN_DEVICE, n->number.i = device;
        return true;
    }
    if (!PyUnicode_Check(value)) return take_number(value, n);
    n->kind = TD_SN_TEXT, n->text = PyUnicode_AsUTF8AndSize(value, NULL);
    return n->text != NULL;
}

static bool take_names(given *g, PyObject *dict, td_script_names *names)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, n = PyDict_Size(dict);
    td_script_name *to = n < 0 ? NULL : take(g, (size_t)n, sizeof *to);
    if (!to) return false;
    *names = (td_script_names){to, (uint32_t)n};
    for (; PyDict_Next(dict, &at, &key, &value); to++)
        if (!(to->name = PyUnicode_AsUTF8AndSize(key, NULL)) || !take_name(g, value, to)) return false;
    return true;
}

/* (source, file, line, names, generic) */
static bool take_unit(given *g, PyObject *tuple, td_script_unit *u)
{
    PyObject *names;
    int line, generic;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(tuple, "s#siO!p:unit", &u->source.text, &size, &u->source.file, &line, &PyDict_Type, &names,
                          &generic))
        return false;
    u->source.size = (size_t)size, u->source.first_line = line > 0 ? (uint32_t)line : 1, u->generic = generic;
    return take_names(g, names, &u->names);
}

/* (kind, how many items, title, names) */
static bool take_object(given *g, PyObject *tuple, td_script_object *o)
{
    PyObject *names;
    int kind, items;
    if (!PyArg_ParseTuple(tuple, "iisO!:object", &kind, &items, &o->title, &PyDict_Type, &names)) return false;
    o->kind = kind, o->items = (uint32_t)items;
    return take_names(g, names, &o->names);
}

/* (object, attribute, unit, the function there whose parameter says its type) */
static bool take_states(given *g, PyObject *list, td_script_world *w)
{
    Py_ssize_t n = PyList_Size(list);
    td_script_state *s = n < 0 ? NULL : take(g, (size_t)n, sizeof *s);
    if (!s) return false;
    w->states = s, w->nstates = (uint32_t)n;
    for (Py_ssize_t k = 0; k < n; k++, s++) {
        if (!PyArg_ParseTuple(PyList_GetItem(list, k), "IsIs:state", &s->object, &s->name, &s->unit, &s->text))
            return false;
        if (s->object >= w->nobjects || s->unit >= w->nunits)
            return tdpy_raise(TD_E_INVALID, "a state has an object and a unit") != NULL;
    }
    return true;
}

static bool take_world(given *g, PyObject *units, PyObject *objects, PyObject *states, td_script_world *w)
{
    Py_ssize_t nu = PyList_Size(units), no = PyList_Size(objects);
    td_script_unit *u = nu < 0 ? NULL : take(g, (size_t)nu, sizeof *u);
    td_script_object *o = u && no >= 0 ? take(g, (size_t)no, sizeof *o) : NULL;
    if (!o) return false;
    *w = (td_script_world){.units = u, .objects = o, .nunits = (uint32_t)nu, .nobjects = (uint32_t)no};
    g->nunits = w->nunits;
    for (Py_ssize_t k = 0; k < nu; k++)
        if (!take_unit(g, PyList_GetItem(units, k), &u[k])) return false;
    for (Py_ssize_t k = 0; k < no; k++)
        if (!take_object(g, PyList_GetItem(objects, k), &o[k])) return false;
    return take_states(g, states, w);
}

td_ir *tdpy_read_ir(const char *text, Py_ssize_t n)
{
    td_error e = {0};
    td_ir *ir = td_ir_read(text, (size_t)n, &e);
    if (ir && !td_ir_verify(ir, 0, &e)) return ir;
    td_ir_unref(ir);
    return tdpy_raise(e.code, "%s", e.message);
}

PyObject *tdpy_captured_names(const td_ir *ir)
{
    PyObject *all = PyTuple_New(ir->ncaptures);
    for (uint32_t k = 0; all && k < ir->ncaptures; k++) {
        PyObject *name = PyUnicode_FromString(td_ir_chars(ir, ir->captures[k].name));
        if (!name || PyTuple_SetItem(all, k, name)) Py_CLEAR(all);
    }
    return all;
}

/* (text of the IR, names of what it captures, the named tuples that it gives or None). */
static PyObject *compiled(const td_ir *ir, const char *gives)
{
    td_error e = {0};
    char *text = td_ir_print(ir, &e);
    PyObject *names = text ? tdpy_captured_names(ir) : NULL;
    PyObject *made = names ? Py_BuildValue("sNz", text, names, gives) : NULL;
    if (!text) tdpy_raise(e.code, "%s", e.message);
    free(text);
    return made;
}

/* _script(units, objects, states, entry): no daemon is asked. */
static PyObject *script(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *units, *objects, *states, *entry, *made = NULL;
    td_error e = {0};
    given g = {0};
    td_script_world w;
    td_script_name function = {.kind = TD_SN_FUNCTION};
    if (!PyArg_ParseTuple(args, "O!O!O!O!:_script", &PyList_Type, &units, &PyList_Type, &objects, &PyList_Type, &states,
                          &PyTuple_Type, &entry))
        return NULL;
    if (take_world(&g, units, objects, states, &w) && take_function(&g, entry, &function)) {
        char *gives = NULL;
        td_ir *ir = td_script_compile_named(&w, &function, &gives, &e);
        if (ir) made = compiled(ir, gives);
        else tdpy_raise(e.code, "%s", e.message);
        free(gives);
        td_ir_unref(ir);
    }
    while (g.n) free(g.taken[--g.n]);
    free(g.taken);
    return made;
}

/* _show(text, what): the text of an IR in another form (td_text_kind). No daemon is asked. */
static PyObject *show(PyObject *module, PyObject *args)
{
    (void)module;
    const char *text;
    Py_ssize_t n;
    int what;
    td_error e = {0};
    if (!PyArg_ParseTuple(args, "s#i:_show", &text, &n, &what)) return NULL;
    td_ir *ir = tdpy_read_ir(text, n);
    char *shown = ir ? td_program_show(ir, (td_text_kind)what, &e) : NULL;
    PyObject *made = shown ? PyUnicode_DecodeUTF8(shown, (Py_ssize_t)strlen(shown), "replace") : NULL;
    if (ir && !shown) tdpy_raise(e.code, "%s", e.message);
    td_ir_unref(ir);
    free(shown);
    return made;
}

/* What is under a name now: 1, it is another object; 0, the same; -1: an error of Python. */
static int is_other(PyObject *home, PyObject *name, PyObject *was)
{
    if (PyDict_Check(home)) {
        PyObject *now = PyDict_GetItemWithError(home, name); /* borrowed */
        return !now && PyErr_Occurred() ? -1 : (now ? now : Py_None) != was;
    }
    PyObject *now = PyObject_GetAttr(home, name);
    if (!now) return -1;
    Py_DECREF(now);
    return now != was;
}

/* _changed(seen): is something else now in one of (dict or object, name, what was there)? Asked before each call of a
 * module's program, which may have hundreds. */
static PyObject *changed(PyObject *module, PyObject *seen)
{
    (void)module;
    Py_ssize_t n = PyList_Check(seen) ? PyList_Size(seen) : -1;
    int other = n < 0 ? -1 : 0;
    if (n < 0) tdpy_raise(TD_E_TYPE, "a list is wanted");
    for (Py_ssize_t k = 0; !other && k < n; k++) {
        PyObject *each = PyList_GetItem(seen, k), *home, *name, *was;
        if (each && !PyTuple_Check(each)) tdpy_raise(TD_E_TYPE, "a list of tuples is wanted");
        bool good = each && PyTuple_Check(each) && PyArg_ParseTuple(each, "OOO:_changed", &home, &name, &was);
        other = good ? is_other(home, name, was) : -1;
    }
    return other < 0 ? NULL : PyBool_FromLong(other);
}

PyMethodDef tdpy_program_functions[] = {{"_show", show, METH_VARARGS, NULL},
                                        {"_changed", changed, METH_O, NULL},
                                        {"_script", script, METH_VARARGS, NULL},
                                        {"_program_timeout", set_timeout, METH_O, NULL},
                                        {NULL, NULL, 0, NULL}};

/* To sys.stdout, whatever that is by now. The call may have been interrupted. */
static void print(void *context, const char *text, size_t n)
{
    (void)context;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *out = PySys_GetObject("stdout"), *line = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace");
    if (!line || (out && out != Py_None && PyFile_WriteObject(line, out, Py_PRINT_RAW))) PyErr_WriteUnraisable(NULL);
    Py_XDECREF(line);
    PyErr_Restore(type, value, trace);
}

bool tdpy_init_program(PyObject *module)
{
    td_set_program_print(print, NULL);
    PyObject *type = PyType_FromModuleAndSpec(module, &program_spec, NULL);
    if (!type) return false;
    the_type = (PyTypeObject *)type;
    int rc = PyModule_AddObjectRef(module, "_Program", type);
    Py_DECREF(type);
    return rc == 0 && PyModule_AddFunctions(module, tdpy_program_functions) == 0;
}
