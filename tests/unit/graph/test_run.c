/* Runs of programs: values, branches, loops, lists; gradients; what is let go of; and every place where a run can be
 * interrupted for want of memory. */
#include "daemon/graph/run.h"
#include "daemon/kernels/jit.h"
#include "proto/program/edit.h"
#include "proto/program/prim.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"
#include "proto/wire/record.h"
#include "tests/unit/grad_support.h"

#define LIST(...)                                                                                                      \
    (uint32_t[])                                                                                                       \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define TD(NAME) (TD_IR_TD | TD_OP_##NAME)
#define PRIM(NAME) (TD_IR_PRIM | TD_PRIM_##NAME)

/* ---- making programs */

static uint32_t tensor_type, int_type, float_type, bool_type;

static td_ir_edit *begin(void)
{
    td_ir_edit *e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    td_ir_function_new(e, NULL);
    tensor_type = td_type_any_tensor(e);
    int_type = td_type_plain(e, TD_T_INT);
    float_type = td_type_plain(e, TD_T_FLOAT);
    bool_type = td_type_plain(e, TD_T_BOOL);
    return e;
}

static uint32_t param(td_ir_edit *e, uint32_t type, const char *name)
{
    return td_ir_param_new(e, td_ir_cursor(e), type, name);
}

static uint32_t node1(td_ir_edit *e, uint32_t op, uint32_t type, uint32_t n, const uint32_t *in)
{
    return td_ir_result(e, td_ir_op(e, op, n, in, 1, &type));
}

/* With all its attributes at their defaults. */
static uint32_t op(td_ir_edit *e, unsigned id, uint32_t n, const uint32_t *in)
{
    const td_op *row = td_op_by_id(id);
    uint32_t args[TD_MAX_PARAMS + TD_MAX_ATTRS];
    memcpy(args, in, n * sizeof *in);
    for (uint32_t k = n; k < (uint32_t)row->nparams; k++) args[k] = td_ir_none(e);
    for (uint32_t k = 0; k < row->nattrs; k++) {
        const td_attr *a = &row->attrs[k].value;
        uint32_t v;
        if (!row->attrs[k].has_default || a->kind == TD_A_NONE) v = td_ir_none(e);
        else if (a->kind == TD_A_FLOAT) v = td_ir_float(e, a->f);
        else if (a->kind == TD_A_BOOL) v = td_ir_bool(e, a->i);
        else if (a->kind == TD_A_SCALAR) v = a->s.kind <= TD_S_INT ? td_ir_int(e, a->s.i) : td_ir_float(e, a->s.re);
        else v = td_ir_int(e, a->i);
        args[row->nparams + k] = v;
    }
    return node1(e, TD_IR_TD | id, tensor_type, row->nparams + row->nattrs, args);
}

static td_held_program *program(td_ir_edit *e, uint32_t ncaptured, td_tensor *const *captured)
{
    td_held_program *p = NULL;
    td_error error = {0};
    td_ir *ir = td_ir_seal(e, &error);
    if (!ir || td_program_new(&p, ir, &error) || td_program_capture(p, ncaptured, captured, t_who.account, &error))
        printf("%s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    return p;
}

static td_held_program *program_of_text(const char *text, uint32_t ncaptured, td_tensor *const *captured)
{
    td_held_program *p = NULL;
    td_error error = {0};
    td_ir *ir = td_ir_read(text, strlen(text), &error);
    if (!ir || td_ir_verify(ir, 0, &error) || td_program_new(&p, ir, &error) ||
        td_program_capture(p, ncaptured, captured, t_who.account, &error))
        printf("%s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    return p;
}

static td_held_program *program_of(const char *text)
{
    return program_of_text(text, 0, NULL);
}

/* ---- running them */

static int woken, waits;
static void wake(void *arg)
{
    (void)arg;
    woken++;
}

/* To the end, in steps of one op. With `little` every storage that is wanted is refused once: the run waits, and goes
 * on. The run is the caller's, also after an error. */
static int run(td_held_program *p, bool little, uint32_t n, const td_val *args, td_exec **out, td_error *e)
{
    static const td_exec_env env = {.woken = wake};
    td_account *a = t_who.account;
    uint64_t more = 0;
    td_need need = {0};
    bool done = false;
    *out = NULL;
    int rc = td_exec_new(out, p, &t_who, &env, 0, e);
    if (!rc) rc = td_exec_begin(*out, n, args, e);
    while (!rc && !done) {
        uint64_t had = a->bytes;
        a->limit_bytes = little ? had + more + 1 : 0;
        rc = td_exec_step(*out, 1, &done, little ? &need : NULL, e);
        a->limit_bytes = 0;
        if (!rc) more = 0;
        else if (td_exec_lacks(*out)) {
            if (rc == TD_WAIT_GROW) rc = t_grow(&need, e);
            else rc = more > 1u << 30 ? rc : TD_OK;
            more = more ? 2 * more : 64;
            waits++;
            td_error_clear(e);
        }
        CU_ASSERT_PTR_NULL(td_exec_behind(*out));
    }
    return rc;
}

static void end(td_exec *r, td_held_program *p)
{
    if (r) CU_ASSERT_TRUE(td_exec_drop(r, INT32_MAX));
    td_program_unref(p);
}

static const td_val *result(const td_exec *r, uint32_t k)
{
    const td_val *v;
    CU_ASSERT_TRUE_FATAL(k < td_exec_results(r, &v));
    return &v[k];
}

static td_exec *runs(td_held_program *p, bool little, uint32_t n, const td_val *args)
{
    td_exec *r = NULL;
    td_error e = {0};
    int rc = run(p, little, n, args, &r, &e);
    if (rc) printf("%s: %s (%s)\n", e.op, e.message, e.where);
    CU_ASSERT_EQUAL_FATAL(rc, 0);
    return r;
}

static td_tensor *numbers(int n, const double *v)
{
    return t_new(TD_FLOAT64, 1, (int64_t[]){n}, v);
}

/* ---- control flow */

/* graph(x, n): y = x; for i in range(n): y = y * i + x; return y */
static td_ir_edit *polynomial(void)
{
    td_ir_edit *e = begin();
    uint32_t x = param(e, tensor_type, "x"), n = param(e, int_type, "n"), graph = td_ir_cursor(e);
    uint32_t yes = td_ir_bool(e, true), loop = td_ir_loop(e, n, yes), y = td_ir_carry(e, loop, x, tensor_type, "y");
    uint32_t body = td_ir_child(e, loop, 0), i = td_ir_param(td_ir_now(e), body, 0);
    td_ir_to_end(e, body);
    td_ir_returns(e, body, 2, LIST(yes, op(e, TD_OP_ADD, 2, LIST(op(e, TD_OP_MUL, 2, LIST(y, i)), x))));
    td_ir_to_end(e, graph);
    td_ir_returns(e, graph, 1, LIST(td_ir_out(td_ir_now(e), loop, 0)));
    return e;
}

static void loops(void)
{
    for (int n = -1; n < 6; n++) {
        td_tensor *x = numbers(2, (double[]){3, -2});
        td_held_program *p = program(polynomial(), 0, NULL);
        td_val args[] = {td_val_tensor(x), td_val_int(n)};
        td_exec *r = runs(p, n % 2, 2, args);
        double y = 3;
        for (int i = 0; i < n; i++) y = y * i + 3;
        CU_ASSERT_EQUAL(t_real(result(r, 0)->tensor, 0), y);
        CU_ASSERT_EQUAL(t_real(result(r, 0)->tensor, 1), y / 3 * -2);
        if (n <= 0) CU_ASSERT_PTR_EQUAL(result(r, 0)->tensor, x);
        end(r, p);
        td_tensor_unref(x);
    }
}

/* graph(x): while x.sum() < 100: x = x * x; return x, count */
static void until_a_value(void)
{
    td_ir_edit *e = begin();
    uint32_t x = param(e, tensor_type, "x"), graph = td_ir_cursor(e), zero = td_ir_int(e, 0), one = td_ir_int(e, 1);
    uint32_t most = td_ir_int(e, INT64_MAX), limit = td_ir_float(e, 100);
    uint32_t sum = node1(e, PRIM(ITEM_FLOAT), float_type, 1, LIST(op(e, TD_OP_SUM, 1, LIST(x))));
    uint32_t loop = td_ir_loop(e, most, node1(e, PRIM(LT_FLOAT), bool_type, 2, LIST(sum, limit)));
    uint32_t y = td_ir_carry(e, loop, x, tensor_type, "y"), n = td_ir_carry(e, loop, zero, int_type, "n");
    uint32_t body = td_ir_child(e, loop, 0);
    td_ir_to_end(e, body);
    uint32_t next = op(e, TD_OP_MUL, 2, LIST(y, y));
    sum = node1(e, PRIM(ITEM_FLOAT), float_type, 1, LIST(op(e, TD_OP_SUM, 1, LIST(next))));
    td_ir_returns(e, body, 3,
                  LIST(node1(e, PRIM(LT_FLOAT), bool_type, 2, LIST(sum, limit)), next,
                       node1(e, PRIM(ADD_INT), int_type, 2, LIST(n, one))));
    td_ir_to_end(e, graph);
    td_ir_returns(e, graph, 2, LIST(td_ir_out(td_ir_now(e), loop, 0), td_ir_out(td_ir_now(e), loop, 1)));
    td_held_program *p = program(e, 0, NULL);
    td_tensor *v = numbers(3, (double[]){1, 2, 1});
    td_exec *r = runs(p, true, 1, (td_val[]){td_val_tensor(v)});
    CU_ASSERT_EQUAL(result(r, 1)->i, 3); /* 1 + 2 + 1, 1 + 4 + 1, 1 + 16 + 1, 1 + 256 + 1 */
    CU_ASSERT_EQUAL(t_real(result(r, 0)->tensor, 1), 256);
    end(r, p);
    td_tensor_unref(v);
}

/* graph(x, up: bool): r = twice(x) if up else x; fn twice(a): a + a, called in the arm, and once more behind */
static void arms_and_functions(void)
{
    for (int up = 0; up < 2; up++) {
        td_ir_edit *e = begin();
        uint32_t x = param(e, tensor_type, "x"), c = param(e, bool_type, "up"), graph = td_ir_cursor(e);
        uint32_t twice = td_ir_function_new(e, "twice"), a = param(e, tensor_type, "a");
        td_ir_returns(e, td_ir_cursor(e), 1, LIST(op(e, TD_OP_ADD, 2, LIST(a, a))));
        td_ir_to_end(e, graph);
        uint32_t branch = td_ir_if(e, c), out = td_ir_out_new(e, branch, tensor_type);
        td_ir_to_end(e, td_ir_child(e, branch, 0));
        td_ir_returns(e, td_ir_cursor(e), 1, LIST(node1(e, TD_IR_FN | twice, tensor_type, 1, LIST(x))));
        td_ir_to_end(e, td_ir_child(e, branch, 1));
        td_ir_returns(e, td_ir_cursor(e), 1, LIST(x));
        td_ir_to_end(e, graph);
        td_ir_returns(e, graph, 1, LIST(node1(e, TD_IR_FN | twice, tensor_type, 1, LIST(out))));
        td_held_program *p = program(e, 0, NULL);
        td_tensor *v = numbers(1, (double[]){5});
        td_exec *r = runs(p, false, 2, (td_val[]){td_val_tensor(v), td_val_bool(up)});
        CU_ASSERT_EQUAL(t_real(result(r, 0)->tensor, 0), up ? 20 : 10);
        end(r, p);
        td_tensor_unref(v);
    }
}

/* A list that grows in a loop, and is put together: cat([x * 0, x * 1, ...]). */
static void a_list_of_tensors(void)
{
    td_ir_edit *e = begin();
    uint32_t x = param(e, tensor_type, "x"), n = param(e, int_type, "n"), graph = td_ir_cursor(e);
    uint32_t yes = td_ir_bool(e, true), zero = td_ir_int(e, 0);
    uint32_t list = node1(e, PRIM(LISTCONSTRUCT), td_type_list(e, tensor_type), 0, NULL);
    uint32_t loop = td_ir_loop(e, n, yes), body = td_ir_child(e, loop, 0), i = td_ir_param(td_ir_now(e), body, 0);
    td_ir_to_end(e, body);
    td_ir_op(e, PRIM(APPEND), 2, LIST(list, op(e, TD_OP_MUL, 2, LIST(x, i))), 0, NULL);
    td_ir_returns(e, body, 1, LIST(yes));
    td_ir_to_end(e, graph);
    uint32_t all = node1(e, TD(CAT), tensor_type, 2, LIST(list, zero));
    td_ir_returns(e, graph, 2, LIST(all, node1(e, PRIM(LEN_LIST), int_type, 1, LIST(list))));
    td_held_program *p = program(e, 0, NULL);
    td_tensor *v = numbers(1, (double[]){5});
    td_exec *r = runs(p, true, 2, (td_val[]){td_val_tensor(v), td_val_int(70)});
    CU_ASSERT_EQUAL(result(r, 0)->tensor->desc.shape[0], 70);
    CU_ASSERT_EQUAL(t_real(result(r, 0)->tensor, 69), 345);
    CU_ASSERT_EQUAL(result(r, 1)->i, 70);
    end(r, p);
    td_tensor_unref(v);
}

/* ---- tensors */

/* The derivative of what a program makes, and the derivative of that. */
static void gradients(void)
{
    td_tensor *x = numbers(1, (double[]){2}), *g = NULL, *gg = NULL;
    td_set_requires_grad(x, true, NULL);
    td_held_program *p = program(polynomial(), 0, NULL);
    td_exec *r = runs(p, true, 2, (td_val[]){td_val_tensor(x), td_val_int(4)});
    td_tensor *y = td_tensor_ref(result(r, 0)->tensor);
    end(r, p);
    td_tensor *z = t_run(TD_OP_MUL, 2, (td_tensor *[]){y, y}, NULL, TD_GRAD_ON, NULL);
    td_error e = {0};
    CU_ASSERT_EQUAL_FATAL(t_backward(1, &z, (td_tensor *[]){NULL}, 1, &x, &g, TD_BW_CREATE_GRAPH, &e), 0);
    CU_ASSERT_EQUAL(t_real(g, 0), 2 * 16 * 16 * 2); /* y = 16 x, z = 256 x x */
    CU_ASSERT_EQUAL_FATAL(t_backward(1, &g, (td_tensor *[]){NULL}, 1, &x, &gg, 0, &e), 0);
    CU_ASSERT_EQUAL(t_real(gg, 0), 512);
    td_tensor_unref(gg), td_tensor_unref(g), td_tensor_unref(z), td_tensor_unref(y), td_tensor_unref(x);
}

/* ---- backwards inside */

#define OF(output) "  %outs : Tensor[] = prim::ListConstruct(" output ")\n"
#define NOTHING                                                                                                        \
    "  %no : bool = prim::Constant[value=0]()\n  %none : NoneType = prim::Constant()\n"                                \
    "  %gs : Tensor?[] = prim::ListConstruct()\n  %all : Tensor[] = prim::ListConstruct()\n"
#define SUM(y, x) "  " y " : Tensor = td::sum(" x ", %none, %no, %none)\n"
#define BACKWARD "  prim::backward(%outs, %gs, %all, %no, %no)\n"

/* w -= lr * d/dw sum(w * w * x), by its .grad. */
static const char training[] =
    "captured %w : Tensor\n"
    "graph(%x : Tensor, %lr : float):\n" NOTHING "  %zero : float = prim::Constant[value=0.0]()\n"
    "  prim::set_grad(%w, %none)\n"
    "  %a : Tensor = td::mul(%w, %w)\n"
    "  %b : Tensor = td::mul(%a, %x)\n" SUM("%loss", "%b") OF("%loss") BACKWARD
    "  %maybe : Tensor? = prim::grad(%w)\n"
    "  %g : Tensor = prim::unchecked_cast(%maybe)\n"
    "  td::sgd_step[mode=1](%w, %g, %none, %lr, %zero, %zero, %zero, %no)\n"
    "  return (%loss)\n";

/* All in one run, and interrupted wherever memory is wanted: the same. */
static void trains(void)
{
    double w[2][2];
    for (int little = 0; little < 2; little++) {
        td_tensor *weights = numbers(2, (double[]){1, -2}), *x = numbers(2, (double[]){0.5, 3});
        CU_ASSERT_EQUAL(td_set_requires_grad(weights, true, NULL), 0);
        td_held_program *p = program_of_text(training, 1, &weights);
        for (int k = 0; k < 3; k++) {
            td_exec *r = runs(p, little, 2, (td_val[]){td_val_tensor(x), td_val_float(0.25)});
            CU_ASSERT_TRUE(td_exec_drop(r, INT32_MAX));
        }
        for (int i = 0; i < 2; i++) w[little][i] = t_real(weights, i);
        td_program_unref(p);
        td_tensor_unref(weights), td_tensor_unref(x);
    }
    CU_ASSERT_TRUE(waits > 0);
    CU_ASSERT_EQUAL(w[0][0], w[1][0]);
    CU_ASSERT_EQUAL(w[0][1], w[1][1]);
    CU_ASSERT_NOT_EQUAL(w[0][0], 1);
}

/* Dropped between any two of its steps, a few nodes at a time: nothing is left, and .grad is there as a whole or not at
 * all. */
static void given_up(void)
{
    static const char text[] = "captured %w : Tensor\n"
                               "graph(%n : int):\n" NOTHING "  %yes : bool = prim::Constant[value=1]()\n"
                               "  %y : Tensor = prim::Loop(%n, %yes, %w)\n"
                               "    block0(%i : int, %a : Tensor):\n"
                               "      %c : Tensor = td::mul(%a, %a)\n"
                               "      -> (%yes, %c)\n" SUM("%loss", "%y") OF("%loss") BACKWARD "  return (%n)\n";
    static const td_exec_env env = {.woken = wake};
    td_tensor *w = numbers(2, (double[]){1, 1});
    CU_ASSERT_EQUAL(td_set_requires_grad(w, true, NULL), 0);
    td_held_program *p = program_of_text(text, 1, &w);
    uint64_t nodes = td_autograd_nodes();
    bool done = false;
    for (int after = 1; !done; after += 3) {
        td_exec *r = NULL;
        td_error e = {0};
        CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, p, &t_who, &env, 0, &e), 0);
        CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 1, (td_val[]){td_val_int(200)}, &e), 0);
        for (int k = 0; k < after && !done; k++) CU_ASSERT_EQUAL_FATAL(td_exec_step(r, 1, &done, NULL, &e), 0);
        const td_tensor *g = td_grad(w, 0);
        CU_ASSERT_TRUE(!done || g);
        CU_ASSERT_TRUE(!g || (t_real(g, 0) > 1e30 && t_real(g, 0) == t_real(g, 1)));
        if (!done) td_set_grad(w, 0, NULL, NULL); /* all that is left may be to let go of the graph */
        int turns = 0;
        while (!td_exec_drop(r, 1)) turns++;
        CU_ASSERT_TRUE(after < 150 || turns > 3);
        CU_ASSERT_EQUAL(td_autograd_nodes(), nodes);
        CU_ASSERT_EQUAL(w->storage->pinned, 0);
    }
    CU_ASSERT_TRUE(isinf(t_real(td_grad(w, 0), 0)) || t_real(td_grad(w, 0), 0) > 1e30);
    td_program_unref(p);
    td_tensor_unref(w);
}

/* Another scope's gradients are others'. */
static void of_a_scope(void)
{
    static const td_exec_env env = {.woken = wake, .scope = 5};
    td_tensor *w = numbers(1, (double[]){3});
    CU_ASSERT_EQUAL(td_set_requires_grad(w, true, NULL), 0);
    td_held_program *p = program_of_text("captured %w : Tensor\ngraph():\n" NOTHING SUM("%y", "%w") OF("%y") BACKWARD
                                         "  %g : Tensor? = prim::grad(%w)\n  return (%g)\n",
                                         1, &w);
    td_exec *r = NULL;
    td_error e = {0};
    bool done = false;
    CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, p, &t_who, &env, 0, &e), 0);
    CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 0, NULL, &e), 0);
    while (!done) CU_ASSERT_EQUAL_FATAL(td_exec_step(r, 1, &done, NULL, &e), 0);
    CU_ASSERT_PTR_NULL(td_grad(w, 0));
    CU_ASSERT_PTR_NOT_NULL(td_grad(w, 5));
    CU_ASSERT_PTR_EQUAL(result(r, 0)->tensor, td_grad(w, 5));
    end(r, p);
    td_tensor_unref(w);
}

static const struct {
    const char *text, *why;
    td_code code;
} refused[] = {
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING SUM("%y", "%x") OF("%y") BACKWARD "  return (%y)\n",
     "does not require grad", TD_E_AUTOGRAD},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING OF("%w") BACKWARD "  return (%w)\n",
     "only for scalar outputs", TD_E_AUTOGRAD},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING "  %a : Tensor = td::mul(%w, %w)\n" SUM("%y", "%a") OF("%y")
         BACKWARD BACKWARD "  return (%y)\n",
     "a second time", TD_E_AUTOGRAD},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING OF("") BACKWARD "  return (%x)\n", "no output",
     TD_E_INVALID},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING SUM("%y", "%w")
         OF("%y") "  %two : Tensor?[] = prim::ListConstruct(%y, %y)\n  prim::backward(%outs, %two, %all, %no, %no)\n  "
                  "return (%y)\n",
     "2 gradients for 1 outputs", TD_E_INVALID},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING SUM("%y", "%w")
         OF("%y") "  %g : Tensor?[] = prim::ListConstruct(%x)\n  prim::backward(%outs, %g, %all, %no, %no)\n  return "
                  "(%y)\n",
     "Mismatch in shape", TD_E_SHAPE},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING SUM("%y", "%w")
         OF("%y") "  %in : Tensor[] = prim::ListConstruct(%x)\n"
                  "  %g : Tensor[] = prim::autograd_grad(%outs, %gs, %in, %no, %no)\n  return (%g)\n",
     "does not require grad", TD_E_AUTOGRAD},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING SUM("%y", "%w")
         OF("%y") "  %v : Tensor = td::mul(%w, %w)\n  %in : Tensor[] = prim::ListConstruct(%w, %v)\n"
                  "  %g : Tensor[] = prim::autograd_grad(%outs, %gs, %in, %no, %no)\n  return (%g)\n",
     "not have been used", TD_E_AUTOGRAD},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING SUM("%y", "%w") "  prim::set_grad(%w, %y)\n  return (%y)\n",
     "must be like the tensor", TD_E_SHAPE},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING SUM(
         "%y", "%w") "  prim::set_requires_grad(%y, %no)\n  return (%y)\n",
     "leaf", TD_E_AUTOGRAD},
    {"captured %w : Tensor\ngraph(%x : Tensor):\n" NOTHING
     "  %m : Tensor? = prim::grad(%x)\n  %g : Tensor = prim::unchecked_cast(%m)\n  return (%g)\n",
     "is None", TD_E_INVALID},
};

static void what_a_backward_refuses(void)
{
    for (unsigned k = 0; k < sizeof refused / sizeof *refused; k++) {
        td_tensor *w = numbers(2, (double[]){1, 2}), *x = numbers(2, (double[]){3, 4});
        CU_ASSERT_EQUAL(td_set_requires_grad(w, true, NULL), 0);
        td_held_program *p = program_of_text(refused[k].text, 1, &w);
        td_exec *r = NULL;
        td_error e = {0};
        int rc = run(p, false, 1, (td_val[]){td_val_tensor(x)}, &r, &e);
        if (rc != (int)refused[k].code || !strstr(e.message, refused[k].why)) printf("%u: %d %s\n", k, rc, e.message);
        CU_ASSERT_EQUAL(rc, (int)refused[k].code);
        CU_ASSERT_PTR_NOT_NULL(strstr(e.message, refused[k].why));
        end(r, p);
        td_tensor_unref(w), td_tensor_unref(x);
    }
}

/* An op that is made of others, at every place where it can be interrupted: the same as all at once. */
static void taken_apart(void)
{
    const td_op *row = td_op_by_name("norm");
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    CU_ASSERT_PTR_NOT_NULL_FATAL(row->compose);
    td_ir_edit *e = begin();
    uint32_t x = param(e, tensor_type, "x");
    td_ir_returns(e, td_ir_cursor(e), 1, LIST(op(e, row->id, 1, LIST(x))));
    td_held_program *p = program(e, 0, NULL);
    td_tensor *v = numbers(4, (double[]){1, 2, 3, 6});
    for (int little = 0; little < 2; little++) {
        int before = waits;
        td_exec *r = runs(p, little, 1, (td_val[]){td_val_tensor(v)});
        CU_ASSERT_TRUE(little ? waits > before + 2 : waits == before);
        CU_ASSERT_DOUBLE_EQUAL(t_real(result(r, 0)->tensor, 0), sqrt(50), 1e-12);
        CU_ASSERT_TRUE(td_exec_drop(r, INT32_MAX));
    }
    td_program_unref(p);
    td_tensor_unref(v);
}

/* In place: the argument itself is what comes back, and what a captured tensor holds stays there for the next run. */
static void writes(void)
{
    td_ir_edit *e = begin();
    uint32_t total = td_ir_capture_new(e, tensor_type, "total", "total"), x = param(e, tensor_type, "x");
    const td_op *add = td_op_by_id(TD_OP_ADD);
    uint32_t args[8] = {total, x}, n = 2;
    for (; n < (uint32_t)(add->nparams + add->nattrs); n++) args[n] = td_ir_int(e, 1);
    td_ir_returns(e, td_ir_cursor(e), 1, LIST(node1(e, TD(ADD) | TD_IR_INPLACE, tensor_type, n, args)));
    td_tensor *sum = numbers(1, (double[]){10}), *v = numbers(1, (double[]){4});
    td_held_program *p = program(e, 1, &sum);
    for (int k = 1; k < 3; k++) {
        td_exec *r = runs(p, false, 1, (td_val[]){td_val_tensor(v)});
        CU_ASSERT_PTR_EQUAL(result(r, 0)->tensor, sum);
        CU_ASSERT_EQUAL(t_real(sum, 0), 10 + 4 * k);
        CU_ASSERT_EQUAL(sum->version->value, (uint32_t)k);
        CU_ASSERT_TRUE(td_exec_drop(r, INT32_MAX));
    }
    td_program_unref(p);
    td_tensor_unref(sum), td_tensor_unref(v);
}

/* Of a chain only the last link lives: a thousand steps need the memory of two. */
static void lets_go(void)
{
    td_ir_edit *e = begin();
    uint32_t x = param(e, tensor_type, "x");
    for (int k = 0; k < 1000; k++) x = op(e, TD_OP_ADD, 2, LIST(x, td_ir_int(e, 1)));
    td_ir_returns(e, td_ir_cursor(e), 1, LIST(x));
    td_held_program *p = program(e, 0, NULL);
    double *zeros = calloc(100000, sizeof *zeros);
    td_tensor *v = numbers(100000, zeros);
    free(zeros);
    t_who.account->limit_bytes = t_who.account->bytes + 5 * 800000;
    td_exec *r = NULL;
    td_error error = {0};
    static const td_exec_env env = {.woken = wake};
    bool done = false;
    CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, p, &t_who, &env, 0, &error), 0);
    CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 1, (td_val[]){td_val_tensor(v)}, &error), 0);
    int steps = 0;
    for (; !done && !error.code; steps++) td_exec_step(r, 10, &done, NULL, &error);
    t_who.account->limit_bytes = 0;
    CU_ASSERT_STRING_EQUAL(error.message, "");
    CU_ASSERT_TRUE(steps >= 100); /* a step is bounded */
    CU_ASSERT_EQUAL(t_real(result(r, 0)->tensor, 99999), 1000);
    end(r, p);
    td_tensor_unref(v);
}

/* ---- large lists and texts */

static const char *const large[] = {
    /* texts of floats */
    "graph():\n"
    "  %v : float = prim::Constant[value=0.3333333333333333]()\n"
    "  %n : int = prim::Constant[value=3000]()\n"
    "  %l : float[] = prim::ListConstruct(%v)\n"
    "  %m : float[] = prim::mul.list(%l, %n)\n"
    "  %s : str = prim::str(%m)\n"
    "  %r : int = prim::len.str(%s)\n"
    "  return (%r)\n",
    /* parts of a text */
    "graph():\n"
    "  %n : int = prim::Constant[value=30000]()\n"
    "  %a : str = prim::Constant[value=\"a,\"]()\n"
    "  %by : str = prim::Constant[value=\",\"]()\n"
    "  %t : str = prim::mul.str(%a, %n)\n"
    "  %l : str[] = prim::split.by(%t, %by)\n"
    "  %r : int = prim::len.list(%l)\n"
    "  return (%r)\n",
    /* order */
    "graph():\n"
    "  %n : int = prim::Constant[value=65536]()\n"
    "  %no : bool = prim::Constant[value=0]()\n"
    "  %l : int[] = prim::ListConstruct(%n)\n"
    "  %m : int[] = prim::mul.list(%l, %n)\n"
    "  prim::sort.int(%m, %no)\n"
    "  %r : int = prim::len.list(%m)\n"
    "  return (%r)\n",
    /* lists in a list, which die together */
    "graph():\n"
    "  %n : int = prim::Constant[value=40000]()\n"
    "  %yes : bool = prim::Constant[value=1]()\n"
    "  %l : int[] = prim::ListConstruct(%n)\n"
    "  %all : int[][] = prim::ListConstruct(%l)\n"
    "  %m : int[] = prim::mul.list(%l, %n)\n"
    "  prim::Loop(%n, %yes)\n"
    "    block0(%i : int):\n"
    "      %c : int[] = prim::copy.list(%l)\n"
    "      prim::append(%all, %c)\n"
    "      -> (%yes)\n"
    "  prim::append(%all, %m)\n"
    "  prim::clear.list(%all)\n"
    "  return (%n)\n",
};

/* So many steps beside those of the nodes are what it takes at least; what a run has when it ends early is let go of in
 * steps, too. */
static void takes_steps(void)
{
    static const int64_t wants[] = {3000 * 20, 30001, 65536, 40000};
    static const int steps[] = {20, 20, 15, 100};
    static const td_exec_env env = {.woken = wake};
    uint64_t before = t_who.account->bytes;
    for (unsigned k = 0; k < sizeof large / sizeof *large; k++) {
        td_held_program *p = program_of(large[k]);
        td_exec *r = NULL;
        for (int early = 0; early < 2; early++) {
            td_error error = {0};
            bool done = false;
            int taken = 0, drops = 1;
            CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, p, &t_who, &env, 0, &error), 0);
            CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 0, NULL, &error), 0);
            while (!done && !error.code && !(early && taken == steps[k] / 2)) {
                td_exec_step(r, 100, &done, NULL, &error);
                taken++;
            }
            CU_ASSERT_STRING_EQUAL(error.message, "");
            if (!early) {
                CU_ASSERT_TRUE(taken >= steps[k]);
                CU_ASSERT_EQUAL(result(r, 0)->i, wants[k]);
            }
            while (!td_exec_drop(r, 100)) drops++;
            if (early && k == 2) CU_ASSERT_TRUE(drops > 600);
        }
        td_program_unref(p);
    }
    CU_ASSERT_EQUAL(t_who.account->bytes, before);
}

/* `n` values named by their numbers, from `from` on and round. */
static void many(FILE *f, int n, int from, const char *name, const char *type)
{
    for (int k = 0; k < n; k++) fprintf(f, "%s%%%s%d%s", k ? ", " : "", name, (from + k) % n, type);
}

static int steps_of(td_held_program *p, int64_t arg)
{
    static const td_exec_env env = {.woken = wake};
    td_exec *r = NULL;
    td_error error = {0};
    bool done = false;
    int steps = 0;
    CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, p, &t_who, &env, 0, &error), 0);
    CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 1, (td_val[]){td_val_int(arg)}, &error), 0);
    for (; !done && !error.code; steps++) td_exec_step(r, 8, &done, NULL, &error);
    CU_ASSERT_STRING_EQUAL(error.message, "");
    end(r, p);
    return steps;
}

/* What a block takes, hands on and lets go of counts, of loops as of functions: some values are worth a node. */
static void many_values(void)
{
    enum { N = 1000, TRIPS = 100 };
    for (int in_function = 0; in_function < 2; in_function++) {
        char *text;
        size_t length;
        FILE *f = open_memstream(&text, &length);
        fprintf(f, "graph(%%n : int):\n  %%yes : bool = prim::Constant[value=1]()\n  "), many(f, N, 0, "o", " : int");
        fprintf(f, " = prim::Loop(%%n, %%yes");
        for (int k = 0; k < N; k++) fprintf(f, ", %%n");
        fprintf(f, ")\n    block0(%%i : int, "), many(f, N, 0, "p", " : int"), fprintf(f, "):\n");
        if (in_function) {
            fprintf(f, "      "), many(f, N, 0, "q", " : int");
            fprintf(f, " = fn::f("), many(f, N, 0, "p", ""), fprintf(f, ")\n");
        }
        fprintf(f, "      -> (%%yes, "), many(f, N, 1, in_function ? "q" : "p", "");
        fprintf(f, ")\n  return (%%o0)\nfn f("), many(f, N, 0, "p", " : int");
        fprintf(f, "):\n  return ("), many(f, N, 1, "p", ""), fprintf(f, ")\n");
        fclose(f);
        CU_ASSERT_TRUE(steps_of(program_of(text), TRIPS) >= (1 + in_function) * TRIPS);
        free(text);
    }
}

/* Tensors that an op takes in a list count, too. */
static void many_tensors(void)
{
    enum { TRIPS = 64 };
    static const char text[] = "graph(%n : int):\n"
                               "  %yes : bool = prim::Constant[value=1]()\n"
                               "  %zero : int = prim::Constant[value=0]()\n"
                               "  %many : int = prim::Constant[value=1000]()\n"
                               "  %d : dtype = prim::Constant[value=\"float32\"]()\n"
                               "  %e : int[] = prim::ListConstruct(%n)\n"
                               "  %t : Tensor = td::full(%e, %n, %d)\n"
                               "  %one : Tensor[] = prim::ListConstruct(%t)\n"
                               "  %all : Tensor[] = prim::mul.list(%one, %many)\n"
                               "  prim::Loop(%n, %yes)\n"
                               "    block0(%i : int):\n"
                               "      %c : Tensor = td::cat(%all, %zero)\n"
                               "      -> (%yes)\n"
                               "  return (%n)\n";
    CU_ASSERT_TRUE(steps_of(program_of(text), TRIPS) >= TRIPS);
}

static void fails_with(td_held_program *p, uint32_t n, const td_val *args, td_code code, const char *text,
                       const char *where);

/* What does not fit fails, though it would fit into 32 bits. */
static void too_many_items(void)
{
    static const char text[] = "graph(%a : int, %b : int):\n"
                               "  %l : int[] = prim::ListConstruct(%a)\n"
                               "  %m : int[] = prim::mul.list(%l, %a)\n"
                               "  %n : int[] = prim::mul.list(%m, %b)\n"
                               "  return (%n)\n";
    for (int64_t times = 65536; times < (INT64_C(1) << 50); times = 16 * times + 1) {
        td_val args[] = {td_val_int(65536), td_val_int(times)};
        fails_with(program_of(text), 2, args, TD_E_INVALID, "at most 65536 items", NULL);
    }
}

static void racy(void)
{
    static const char *const texts[] = {"graph(%x : Tensor):\n"
                                        "  %y : Tensor = td::relu(%x)\n"
                                        "  return (%y)\n",
                                        "graph(%x : Tensor):\n"
                                        "  %y : Tensor = td::relu[mode=8](%x)\n"
                                        "  return (%y)\n"};
    static const td_exec_env env = {.woken = wake};
    for (int k = 0; k < 3; k++) {
        td_tensor *v = numbers(2, (double[]){1, -1});
        td_held_program *p = program_of(texts[k == 1]);
        td_exec *r = NULL;
        td_error error = {0};
        bool done = false;
        CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, p, &t_who, &env, k == 2 ? TD_RM_RACY : 0, &error), 0);
        CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 1, (td_val[]){td_val_tensor(v)}, &error), 0);
        CU_ASSERT_EQUAL(td_exec_step(r, 100, &done, NULL, &error), 0);
        CU_ASSERT_TRUE_FATAL(done);
        CU_ASSERT_EQUAL(!!(result(r, 0)->tensor->storage->flags & TD_SF_RACY), k > 0);
        CU_ASSERT_FALSE(v->storage->flags & TD_SF_RACY);
        end(r, p);
        td_tensor_unref(v);
    }
}

static bool in_its_own_way(const td_tensor *t, uint32_t mode)
{
    return !(t->storage->flags & TD_SF_RACY) == !(mode & TD_RM_RACY) &&
           !(t->storage->flags & TD_SF_SERVICE) == !(mode & TD_RM_SERVICE);
}

/* However often they come by: where others would be run as one, by then. */
static void repeated_in_a_way_of_their_own(void)
{
    enum { OFTEN = 12 };
    static const uint32_t ops[] = {0, TD_RM_RACY, TD_RM_SERVICE, 0}, runs_of[] = {0, 0, 0, TD_RM_RACY};
    static const td_exec_env env = {.woken = wake};
    t_who.service_heap = t_who.heap, t_who.service_account = t_who.account;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        char text[256];
        snprintf(text, sizeof text,
                 "graph(%%x : Tensor):\n  %%a : Tensor = td::neg[mode=%u](%%x)\n"
                 "  %%b : Tensor = td::mul[mode=%u](%%a, %%x)\n  %%c : Tensor = td::abs[mode=%u](%%b)\n"
                 "  return (%%c)\n",
                 ops[k], ops[k], ops[k]);
        td_held_program *p = program_of(text);
        td_tensor *x = numbers(2, (double[]){1, -2});
        for (int n = 0; n < OFTEN; n++) {
            td_exec *r = NULL;
            td_error error = {0};
            bool done = false;
            uint32_t mode = n % 4 == 3 ? 0 : runs_of[k]; /* a run of the other way in between */
            CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, p, &t_who, &env, mode, &error), 0);
            CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 1, (td_val[]){td_val_tensor(x)}, &error), 0);
            while (!done && !error.code) td_exec_step(r, 100, &done, NULL, &error);
            CU_ASSERT_STRING_EQUAL(error.message, "");
            CU_ASSERT_EQUAL(t_real(result(r, 0)->tensor, 1), 4);
            CU_ASSERT_TRUE(in_its_own_way(result(r, 0)->tensor, ops[k] | mode));
            CU_ASSERT_TRUE(td_exec_drop(r, INT32_MAX));
        }
        CU_ASSERT_EQUAL(td_program_plans(p) > 0, k == 0 || k == 3);
        CU_ASSERT_EQUAL(td_plan_why_not(td_program_module(p), 0) != NULL, ops[k] != 0);
        td_program_unref(p);
        td_tensor_unref(x);
    }
    t_who.service_heap = NULL, t_who.service_account = NULL;
}

/* What is known of a result: its numbers, which argument it is, and what it is a view of. */
typedef struct known {
    double at[4];
    int argument, argument_base;
} known;

enum { RESULTS = 5 };

static int which(const td_tensor *t, td_tensor *const *of)
{
    for (int k = 0; k < 3; k++)
        if (t && t == of[k]) return k;
    return t ? 3 : -1;
}

static td_tensor *part_of(td_tensor *of)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 2, (int64_t[]){2, 2});
    return t_run(TD_OP_VIEW, 1, &of, &a, TD_GRAD_ON, NULL);
}

enum { APART, VIEW, BOTH, VIEW_TWICE, ITS_VIEW, TWO_VIEWS, SPOTS };

/* A run for x and y that lie to each other in one of these ways. */
static void run_at_one_spot(td_held_program *p, int way, known *out)
{
    td_tensor *base = t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4});
    td_tensor *other = t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){5, 6, 7, 8});
    td_tensor *x = way == VIEW || way == VIEW_TWICE || way == TWO_VIEWS ? part_of(base) : td_tensor_ref(base);
    td_tensor *y = way == APART || way == VIEW        ? td_tensor_ref(other)
                   : way == BOTH || way == VIEW_TWICE ? td_tensor_ref(x)
                                                      : part_of(base);
    td_tensor *all[] = {x, y, base};
    td_exec *r = runs(p, false, 2, (td_val[]){td_val_tensor(x), td_val_tensor(y)});
    for (uint32_t k = 0; k < RESULTS; k++) {
        const td_tensor *t = result(r, k)->tensor;
        for (int i = 0; i < 4; i++) out[k].at[i] = t_real(t, i);
        out[k].argument = which(t, all);
        out[k].argument_base = which(t->view_base, all);
    }
    CU_ASSERT_TRUE(td_exec_drop(r, INT32_MAX));
    td_tensor_unref(x), td_tensor_unref(y), td_tensor_unref(base), td_tensor_unref(other);
}

/* At one spot now a tensor, now a view of one, now two of one memory: what comes is what a program gives that never saw
 * another, and is a view of what it would be a view of. */
static void bases_and_views_at_one_spot(void)
{
    static const char text[] = "graph(%x : Tensor, %y : Tensor):\n"
                               "  %one : int = prim::Constant[value=1]()\n"
                               "  %a : Tensor = td::neg(%y)\n"
                               "  %b : Tensor = td::mul(%a, %a)\n"
                               "  %c : Tensor = td::add_(%x, %b, %one)\n"
                               "  %d : Tensor = td::mul_(%y, %b)\n"
                               "  %e : Tensor = td::mul(%c, %y)\n"
                               "  %v : Tensor = td::t(%x)\n"
                               "  %u : Tensor = td::t(%y)\n"
                               "  return (%c, %d, %e, %v, %u)\n";
    td_held_program *p = program_of(text);
    for (int n = 0; n < 4 * SPOTS * SPOTS; n++) { /* each way twice, and then another */
        int way = n / 2 % SPOTS;
        if (n % (4 * SPOTS) >= 2 * SPOTS) way = SPOTS - 1 - way;
        known got[RESULTS], want[RESULTS];
        memset(got, 0, sizeof got), memset(want, 0, sizeof want);
        td_held_program *once = program_of(text);
        run_at_one_spot(p, way, got);
        run_at_one_spot(once, way, want);
        td_program_unref(once);
        bool alike = !memcmp(got, want, sizeof got);
        if (!alike) printf("way %d, time %d\n", way, n);
        CU_ASSERT_TRUE(alike);
    }
    CU_ASSERT_TRUE(td_program_plans(p) > 1);
    td_program_unref(p);
}

enum { OPS_A_STEP = 100 };

/* The steps of a loop that carries so many numbers, and lets them be. */
static int steps_of_carrying(int numbers, int trips)
{
    char *text;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fprintf(f, "graph(%%n : int):\n  %%yes : bool = prim::Constant[value=1]()\n");
    for (int k = 0; k < numbers; k++) fprintf(f, "%s%%r%d : int", k ? ", " : "  ", k);
    fprintf(f, " = prim::Loop(%%n, %%yes");
    for (int k = 0; k < numbers; k++) fprintf(f, ", %%n");
    fprintf(f, ")\n    block0(%%i : int");
    for (int k = 0; k < numbers; k++) fprintf(f, ", %%c%d : int", k);
    fprintf(f, "):\n      -> (%%yes");
    for (int k = 0; k < numbers; k++) fprintf(f, ", %%c%d", k);
    fprintf(f, ")\n  return (%%r0)\n");
    fclose(f);
    static const td_exec_env env = {.woken = wake};
    td_held_program *p = program_of(text);
    td_exec *r = NULL;
    td_error e = {0};
    bool done = false;
    int steps = 0;
    CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, p, &t_who, &env, 0, &e), 0);
    CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 1, (td_val[]){td_val_int(trips)}, &e), 0);
    for (; !done; steps++) CU_ASSERT_EQUAL_FATAL(td_exec_step(r, OPS_A_STEP, &done, NULL, &e), 0);
    end(r, p);
    free(text);
    return steps;
}

/* Values that go from trip to trip take their part of a step: as they are taken along, as they arrive, and as those
 * before them end. Four such moves are as much as a node, and a step goes on to the end of a trip. */
static void what_is_carried_takes_steps(void)
{
    enum { TRIPS = 2000, NUMBERS = 400, TRIP = 3 * NUMBERS / 4 };
    int few = steps_of_carrying(1, TRIPS), many = steps_of_carrying(NUMBERS, TRIPS);
    CU_ASSERT_TRUE(few < 10);
    CU_ASSERT_TRUE(many >= TRIPS * TRIP / (OPS_A_STEP * TD_EXEC_COST_OP + TRIP));
}

/* A run that prints a line so many times, and another: the room that it has for them in the end. */
static size_t prints(int bytes, int times, int last, char **said, size_t *n)
{
    char *text;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fprintf(f, "graph(%%n : int):\n  %%yes : bool = prim::Constant[value=1]()\n");
    fprintf(f, "  %%a : str = prim::Constant[value=\"%0*d\"]()\n", bytes - 1, 0);
    fprintf(f, "  %%b : str = prim::Constant[value=\"%0*d\"]()\n", last - 1, 0);
    fprintf(f, "  prim::Loop(%%n, %%yes)\n    block0(%%i : int):\n      prim::Print(%%a)\n      -> (%%yes)\n");
    fprintf(f, "  prim::Print(%%b)\n  prim::Print(%%n)\n  return (%%n)\n");
    fclose(f);
    td_held_program *p = program_of(text);
    td_exec *r = runs(p, false, 1, (td_val[]){td_val_int(times)});
    size_t room = r->said_room;
    const char *all = td_exec_said(r, n);
    *said = calloc(*n + 1, 1); /* what is said has no zero at its end */
    CU_ASSERT_PTR_NOT_NULL_FATAL(*said);
    memcpy(*said, all, *n);
    end(r, p);
    free(text);
    return room;
}

/* What is printed is kept as a whole up to a size; where it becomes more, that is said instead, and nothing comes
 * behind it. */
static void prints_to_the_brim(void)
{
    enum { MOST = 1 << 16, LINE = 64 };
    static const char cut[] = "... (a run prints at most 64 KiB)\n";
    for (int more = 0; more < 2; more++) {
        char *said;
        size_t n, lines = MOST - LINE;
        prints(LINE, MOST / LINE - 1, LINE + more, &said, &n);
        CU_ASSERT_EQUAL(n, (more ? lines : MOST) + sizeof cut - 1); /* of MOST the number behind is too much */
        CU_ASSERT_STRING_EQUAL(said + n - (sizeof cut - 1), cut);
        for (size_t k = 0; k < n - (sizeof cut - 1); k++)
            if (said[k] != (k % LINE == LINE - 1 ? '\n' : '0')) CU_FAIL_FATAL("a line is another");
        free(said);
    }
}

/* The room for it grows when it is full, and no later: a first line of N bytes gets 2 * N + 256. */
static void prints_grow_when_there_is_no_room(void)
{
    enum { N = 100, ROOM = 2 * N + 256, NUMBER = 2 };
    for (int k = 0; k < 3; k++) {
        char *said;
        size_t n, room = prints(N, 1, ROOM - N - NUMBER - 1 + k, &said, &n);
        CU_ASSERT_EQUAL(room > ROOM, k > 1);
        CU_ASSERT_EQUAL(n, ROOM - 1 + k);
        CU_ASSERT_STRING_EQUAL(said + n - NUMBER, "1\n");
        free(said);
    }
}

/* ---- what goes wrong */

static const char *t_caller = "serve.py:9";

static void fails_with(td_held_program *p, uint32_t n, const td_val *args, td_code code, const char *text,
                       const char *where)
{
    td_exec *r = NULL;
    td_error e = {0};
    snprintf(t_who.where, sizeof t_who.where, "%s", t_caller);
    CU_ASSERT_EQUAL(run(p, false, n, args, &r, &e), (int)code);
    if (!strstr(e.message, text)) printf("%s\n", e.message);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, text));
    if (where) CU_ASSERT_STRING_EQUAL(e.where, where);
    CU_ASSERT_STRING_EQUAL(t_who.where, t_caller);
    t_who.where[0] = 0;
    end(r, p);
}

static void errors(void)
{
    td_tensor *a = numbers(2, (double[]){1, 2}), *b = numbers(3, (double[]){1, 2, 3});
    td_ir_edit *e = begin();
    uint32_t x = param(e, tensor_type, "x"), y = param(e, tensor_type, "y");
    td_ir_from(e, "model.py", 31, 4, 9);
    td_ir_returns(e, td_ir_cursor(e), 1, LIST(op(e, TD_OP_ADD, 2, LIST(x, y))));
    td_held_program *p = program(e, 0, NULL);
    td_val args[] = {td_val_tensor(a), td_val_tensor(b)};
    fails_with(td_program_ref(p), 2, args, TD_E_SHAPE, "", "model.py:31, called at serve.py:9");
    t_caller = "/a/path/that/is/longer/than/the/room/behind/a/line/of/the/program/serve.py:1234";
    fails_with(td_program_ref(p), 2, args, TD_E_SHAPE, "",
               "model.py:31, called at .../a/line/of/the/program/serve.py:1234");
    t_caller = "/a/path/serve_with_a_name_that_is_longer_than_all_the_room.py:7";
    fails_with(td_program_ref(p), 2, args, TD_E_SHAPE, "",
               "model.py:31, called at ...me_that_is_longer_than_all_the_room.py:7");
    t_caller = "serve.py:9";
    fails_with(td_program_ref(p), 1, args, TD_E_INVALID, "takes 2 arguments, and 1 are given", NULL);
    args[1] = td_val_int(3);
    fails_with(p, 2, args, TD_E_TYPE, "argument 2 ('y') of the program is of another type: int is given", NULL);

    e = begin();
    uint32_t n = param(e, int_type, "n");
    td_ir_from(e, "model.py", 7, 4, 9);
    td_ir_returns(e, td_ir_cursor(e), 1, LIST(node1(e, PRIM(FLOORDIV_INT), int_type, 2, LIST(td_ir_int(e, 7), n))));
    p = program(e, 0, NULL);
    fails_with(td_program_ref(p), 1, (td_val[]){td_val_int(0)}, TD_E_INVALID, "division by zero",
               "model.py:7, called at serve.py:9");
    td_exec *r = runs(p, false, 1, (td_val[]){td_val_int(-2)});
    CU_ASSERT_EQUAL(result(r, 0)->i, -4);
    end(r, p);

    e = begin();
    x = param(e, tensor_type, "x");
    td_ir_returns(e, td_ir_cursor(e), 1, LIST(node1(e, PRIM(ITEM_INT), int_type, 1, LIST(x))));
    fails_with(program(e, 0, NULL), 1, (td_val[]){td_val_tensor(b)}, TD_E_INVALID, "shape [3] has 3 elements", NULL);
    td_tensor_unref(a), td_tensor_unref(b);
}

/* A list that never ends is an end. */
static void a_list_that_grows(void)
{
    td_ir_edit *e = begin();
    uint32_t graph = td_ir_cursor(e), yes = td_ir_bool(e, true), zero = td_ir_int(e, 0);
    uint32_t list = node1(e, PRIM(LISTCONSTRUCT), td_type_list(e, int_type), 1, LIST(zero));
    uint32_t loop = td_ir_loop(e, td_ir_int(e, INT64_MAX), yes), body = td_ir_child(e, loop, 0);
    td_ir_to_end(e, body);
    td_ir_op(e, PRIM(EXTEND), 2, LIST(list, list), 0, NULL);
    td_ir_returns(e, body, 1, LIST(yes));
    td_ir_to_end(e, graph);
    td_ir_returns(e, graph, 1, LIST(zero));
    uint64_t had = t_who.account->bytes;
    fails_with(program(e, 0, NULL), 0, NULL, TD_E_INVALID, "at most 65536 items", NULL);
    CU_ASSERT_EQUAL(t_who.account->bytes, had);
}

/* ---- loops of machine code */

/* How many of them the plans of a chain of large exact ops have. */
static uint32_t loops_of_a_chain(td_account *account)
{
    static const char text[] = "graph(%x : Tensor):\n"
                               "  %a : Tensor = td::mul(%x, %x)\n"
                               "  %b : Tensor = td::neg(%a)\n"
                               "  %c : Tensor = td::abs(%b)\n"
                               "  %d : Tensor = td::mul(%c, %b)\n"
                               "  return (%d)\n";
    enum { N = 1 << 17 };
    static const td_exec_env env = {.woken = wake};
    td_account *before = t_who.account;
    double *values = calloc(N, sizeof *values);
    t_who.account = account;
    td_tensor *x = numbers(N, values);
    td_held_program *p = program_of(text);
    uint32_t had = account->loops;
    for (int k = 0; k < 4; k++) {
        td_exec *r = NULL;
        td_error error = {0};
        bool done = false;
        CU_ASSERT_EQUAL_FATAL(td_exec_new(&r, p, &t_who, &env, 0, &error), 0);
        CU_ASSERT_EQUAL_FATAL(td_exec_begin(r, 1, (td_val[]){td_val_tensor(x)}, &error), 0);
        while (!done && !error.code) td_exec_step(r, 100, &done, NULL, &error);
        CU_ASSERT_STRING_EQUAL(error.message, "");
        while (!td_exec_drop(r, 1000)) {
        }
    }
    uint32_t loops = account->loops - had;
    td_program_unref(p);
    CU_ASSERT_EQUAL(account->loops, had);
    td_tensor_unref(x);
    free(values);
    t_who.account = before;
    return loops;
}

/* Of the loops that there can be each session takes at most so many as are left to all, and so do those of a user. */
static void loops_are_shared(void)
{
    td_account *user = td_account_new(t_who.account), *session = td_account_new(user), *other = td_account_new(user);
    uint32_t left = td_jit_left();
    uint32_t some = loops_of_a_chain(session);
    CU_ASSERT_EQUAL(some > 0, left > 0);
    session->loops += left;
    CU_ASSERT_EQUAL(loops_of_a_chain(session), 0);
    CU_ASSERT_EQUAL(loops_of_a_chain(other), some);
    session->loops -= left;
    user->loops += left;
    CU_ASSERT_EQUAL(loops_of_a_chain(other), 0);
    user->loops -= left;
    CU_ASSERT_EQUAL(loops_of_a_chain(session), some);
    td_account_unref(session), td_account_unref(other), td_account_unref(user);
}

TD_CUNIT_MAIN_WITH("graph_run", t_setup, t_teardown, {"loops", loops}, {"a loop until a value", until_a_value},
                   {"arms and functions", arms_and_functions}, {"a list of tensors", a_list_of_tensors},
                   {"gradients of gradients", gradients}, {"ops made of ops", taken_apart}, {"writes", writes},
                   {"lets go of what nobody uses", lets_go}, {"errors say where", errors},
                   {"a list that grows for ever", a_list_that_grows}, {"what is large takes steps", takes_steps},
                   {"what is carried takes steps", what_is_carried_takes_steps}, {"loops are shared", loops_are_shared},
                   {"many values", many_values}, {"many tensors", many_tensors}, {"too many items", too_many_items},
                   {"racy", racy}, {"repeated in a way of their own", repeated_in_a_way_of_their_own},
                   {"bases and views at one spot", bases_and_views_at_one_spot},
                   {"prints to the brim", prints_to_the_brim},
                   {"prints grow when there is no room", prints_grow_when_there_is_no_room}, {"training", trains},
                   {"a backward that is given up", given_up}, {"gradients of a scope", of_a_scope},
                   {"what a backward refuses", what_a_backward_refuses})
