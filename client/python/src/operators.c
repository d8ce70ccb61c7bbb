/* Operators: +, @, ==, ... of tensors with tensors, numbers and arrays of NumPy, which become tensors, so that no
 * result leaves the graph unseen. What else stands beside a tensor gets its own turn (NotImplemented). */
#include "client/python/src/py.h"

static bool is_operand(PyObject *o)
{
    if (tdpy_is_tensor(o) || PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o)) return true;
    if (tdpy_is_followed(o)) return true;
    return tdpy_is_numpy_scalar(o);
}

/* An array, where somebody has imported NumPy. */
static int is_array(PyObject *o)
{
    if (!PyObject_CheckBuffer(o)) return 0;
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *numpy = modules ? PyMapping_GetItemString(modules, "numpy") : NULL;
    PyObject *kind = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    if (!kind) PyErr_Clear();
    int yes = kind ? PyObject_IsInstance(o, kind) : 0;
    Py_XDECREF(numpy);
    Py_XDECREF(kind);
    return yes;
}

/* A new reference to what the op takes for `o`, which lies where the other operand does; NotImplemented; NULL: raised.
 */
static PyObject *operand(PyObject *o, PyObject *other)
{
    if (is_operand(o)) return Py_NewRef(o);
    int yes = is_array(o);
    if (yes <= 0) return yes ? NULL : Py_NewRef(Py_NotImplemented);
    int there = tdpy_is_tensor(other) ? td_device_of(tdpy_array(other)) : -1;
    return tdpy_wrap(tdpy_from_data(o, TD_DTYPE_NONE, there), true);
}

static PyObject *with_operands(tdpy_function *f, bool in_place, PyObject *a, PyObject *b)
{
    PyObject *args[2] = {operand(a, b), operand(b, a)}, *result = NULL;
    if (args[0] == Py_NotImplemented || args[1] == Py_NotImplemented) result = Py_NewRef(Py_NotImplemented);
    else if (args[0] && args[1])
        result = in_place ? tdpy_call(f, true, a, &args[1], 1, NULL) : tdpy_call(f, false, NULL, args, 2, NULL);
    Py_XDECREF(args[0]);
    Py_XDECREF(args[1]);
    return result;
}

static PyObject *binary(tdpy_function *f, PyObject *a, PyObject *b)
{
    if (!is_operand(a) || !is_operand(b)) return with_operands(f, false, a, b);
    PyObject *args[2] = {a, b};
    return tdpy_call(f, false, NULL, args, 2, NULL);
}

static PyObject *in_place(tdpy_function *f, PyObject *a, PyObject *b)
{
    if (!is_operand(b)) return with_operands(f, true, a, b);
    return tdpy_call(f, true, a, &b, 1, NULL);
}

static PyObject *unary(tdpy_function *f, PyObject *a)
{
    return tdpy_call(f, false, a, NULL, 0, NULL);
}

#define BINARY(name, function)                                                                                         \
    static PyObject *op_##name(PyObject *a, PyObject *b)                                                               \
    {                                                                                                                  \
        return binary(&function, a, b);                                                                                \
    }                                                                                                                  \
    static PyObject *into_##name(PyObject *a, PyObject *b)                                                             \
    {                                                                                                                  \
        return in_place(&function, a, b);                                                                              \
    }
BINARY(add, tdpy_fn_add)
BINARY(sub, tdpy_fn_sub)
BINARY(mul, tdpy_fn_mul)
BINARY(div, tdpy_op_div)
BINARY(floor_divide, tdpy_fn_floor_divide)
BINARY(remainder, tdpy_fn_remainder)
BINARY(and, tdpy_fn_bitwise_and)
BINARY(or, tdpy_fn_bitwise_or)
BINARY(xor, tdpy_fn_bitwise_xor)
BINARY(left_shift, tdpy_fn_bitwise_left_shift)
BINARY(right_shift, tdpy_fn_bitwise_right_shift)

static PyObject *op_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    return modulus == Py_None ? binary(&tdpy_fn_pow, a, b) : Py_NewRef(Py_NotImplemented);
}

static PyObject *into_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    return modulus == Py_None ? in_place(&tdpy_fn_pow, a, b) : Py_NewRef(Py_NotImplemented);
}

static PyObject *op_matmul(PyObject *a, PyObject *b)
{
    if (tdpy_is_tensor(a) && tdpy_is_tensor(b)) return binary(&tdpy_fn_matmul, a, b);
    int array = is_array(tdpy_is_tensor(a) ? b : a);
    if (array < 0) return NULL;
    return array ? binary(&tdpy_fn_matmul, a, b) : Py_NewRef(Py_NotImplemented);
}

static PyObject *op_neg(PyObject *a)
{
    return unary(&tdpy_fn_neg, a);
}

static PyObject *op_positive(PyObject *a)
{
    return Py_NewRef(a);
}

static PyObject *op_abs(PyObject *a)
{
    return unary(&tdpy_fn_abs, a);
}

static PyObject *op_invert(PyObject *a)
{
    return unary(&tdpy_fn_bitwise_not, a);
}

PyObject *tdpy_compare(PyObject *a, PyObject *b, int how)
{
    static tdpy_function *const by[] = {[Py_LT] = &tdpy_fn_lt, [Py_LE] = &tdpy_fn_le, [Py_EQ] = &tdpy_fn_eq,
                                        [Py_NE] = &tdpy_fn_ne, [Py_GT] = &tdpy_fn_gt, [Py_GE] = &tdpy_fn_ge};
    return binary(by[how], a, b);
}

PyType_Slot tdpy_operator_slots[] = {{Py_nb_add, op_add},
                                     {Py_nb_subtract, op_sub},
                                     {Py_nb_multiply, op_mul},
                                     {Py_nb_true_divide, op_div},
                                     {Py_nb_floor_divide, op_floor_divide},
                                     {Py_nb_remainder, op_remainder},
                                     {Py_nb_power, op_pow},
                                     {Py_nb_matrix_multiply, op_matmul},
                                     {Py_nb_and, op_and},
                                     {Py_nb_or, op_or},
                                     {Py_nb_xor, op_xor},
                                     {Py_nb_lshift, op_left_shift},
                                     {Py_nb_rshift, op_right_shift},
                                     {Py_nb_inplace_add, into_add},
                                     {Py_nb_inplace_subtract, into_sub},
                                     {Py_nb_inplace_multiply, into_mul},
                                     {Py_nb_inplace_true_divide, into_div},
                                     {Py_nb_inplace_floor_divide, into_floor_divide},
                                     {Py_nb_inplace_remainder, into_remainder},
                                     {Py_nb_inplace_power, into_pow},
                                     {Py_nb_inplace_and, into_and},
                                     {Py_nb_inplace_or, into_or},
                                     {Py_nb_inplace_xor, into_xor},
                                     {Py_nb_inplace_lshift, into_left_shift},
                                     {Py_nb_inplace_rshift, into_right_shift},
                                     {Py_nb_negative, op_neg},
                                     {Py_nb_positive, op_positive},
                                     {Py_nb_absolute, op_abs},
                                     {Py_nb_invert, op_invert},
                                     {0, NULL}};
