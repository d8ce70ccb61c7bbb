/* Which programs keep the rows of their inputs apart: none whose rows meet anywhere, in whatever is hidden behind sizes
 * and numbers; and whatever is said to is run, with rows together and alone. Programs are drawn, and written down. */
#include "client/model/model.h"
#include "client/tensord_bind.h"
#include "proto/rows/rows.h"
#include "tests/client/common.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static td_client *client;

static td_program *compile(const char *source)
{
    td_binding names[] = {{"td", {0}, "tensord"}};
    td_program *p = td_program_script(client, source, "rows.py", 1, NULL, 1, names);
    td_program *frozen = p ? td_program_freeze(p, 0, NULL, 0) : NULL;
    if (!frozen) fprintf(stderr, "%s\n%s\n", td_last_error()->message, source);
    td_program_free(p);
    return frozen;
}

/* `in`: how each input looks; the number of rows does not matter. */
static bool apart(const td_program *p, int nin, const td_desc *in, const int *in_rows, int *out_rows, char *why)
{
    td_desc captured[16];
    for (int k = 0; k < p->ncaptured; k++) {
        CU_ASSERT_NOT_EQUAL_FATAL(td_dtype_of(p->captured[k]), TD_DTYPE_NONE); /* it is known behind this */
        captured[k] = p->captured[k]->desc;
    }
    td_rows_question q = {p->ir, captured, nin, 1, in, in_rows, TD_ROWS_STEPS};
    return td_rows_stay_apart(&q, out_rows, why);
}

static td_desc look(int ndim, const int64_t *shape)
{
    td_desc d;
    td_error e;
    CU_ASSERT_EQUAL_FATAL(td_desc_contiguous(&d, TD_FLOAT32, ndim, shape, &e), TD_OK);
    return d;
}

/* ---- written down: x (n, 4, 6) */

static bool says(const char *body, char *why)
{
    char source[1000];
    td_desc in[] = {look(3, (int64_t[]){1, 4, 6})};
    int rows[] = {0}, out[1] = {9};
    snprintf(source, sizeof source, "def f(x):\n%s", body);
    td_program *p = compile(source);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    bool yes = apart(p, 1, in, rows, out, why);
    td_program_free(p);
    return yes;
}

/* Of all bodies alike; where they are said to mix, with a reason. */
static void all_say(bool stay_apart, size_t n, const char *const *bodies)
{
    for (size_t k = 0; k < n; k++) {
        char why[TD_ROWS_WHY];
        bool yes = says(bodies[k], why);
        if (yes != stay_apart) fprintf(stderr, "%s:\n%s", yes ? "said to keep rows apart" : why, bodies[k]);
        CU_ASSERT_EQUAL(yes, stay_apart);
        if (!stay_apart) CU_ASSERT_NOT_EQUAL(why[0], 0);
    }
}

static void test_mixed(void)
{
    static const char *const bodies[] = {
        "    if float(td.amax(x)) > 30.0:\n        return -x\n    return x\n",
        "    return td.where(td.amax(x) > 30.0, -x, x)\n",
        "    return td.cumsum(x, 0)\n",
        "    if x.shape[1] in [3, 4]:\n        return td.cumsum(x, 0)\n    return x\n",
        "    if x.shape[0] in [3, 5]:\n        return -x\n    return x\n",
        "    return td.softmax(x, 0)\n",
        "    return td.sort(x, 0)[0]\n",
        "    return td.sort(x, -3)[0]\n",
        "    y = x.flatten(1)\n    return y @ y.t()\n",
        "    return x.reshape([-1, 8, 6])\n",
        "    return x.reshape([x.shape[0] * 2, 2, 6])\n",
        "    return x.transpose(0, 1).reshape([x.shape[0], 4, 6])\n",
        "    return td.roll(x, [1], [0])\n",
        "    return td.roll(x, [1], [])\n",
        "    return td.flip(x, [0])\n",
        "    return td.index_select(x, 0, td.argsort(x.sum([1, 2]), 0))\n",
        "    return td.index_select(x, 0, td.argsort(td.ones(1), 0))\n",
        "    return x[td.argsort(td.ones(1), 0)]\n",
        "    return x[td.argsort(td.ones(1), 0), :, td.argsort(td.ones(1), 0)]\n",
        "    return x - td.mean(x, [0], True)\n",
        "    return x - td.mean(x)\n",
        "    return x + td.rand(6)\n",
        "    return x * x.shape[0]\n",
        "    return x * (1.0 / x.shape[0])\n",
        "    return x[:1] + x\n",
        "    return x + x[0]\n",
        "    return x[-1:].expand(x.shape)\n",
        "    return x[:100]\n",
        "    return td.cat([x, x], 0)\n",
        "    return x + td.arange(x.shape[0], dtype=td.float32).reshape([-1, 1, 1])\n",
        "    return x + td.full([x.shape[0], 1, 1], x.shape[0], dtype=td.float32)\n",
        "    if x.shape[0] > 8:\n        return -x\n    return x\n",
        "    y = x\n    for i in range(x.shape[0]):\n        y = y + 1\n    return y\n",
        "    return x.squeeze() + 1\n",
        "    return x.squeeze(0) + 1\n",
        "    return td.softmax(x.transpose(0, 1), 1)\n",
        "    return td.unique(x)\n",
        "    return x[x > 0]\n",
        "    return td.norm(x) + x\n",
        "    return td.einsum('nab,mab->nm', x, x)\n",
        "    return x.unfold(0, 1, 1).squeeze(-1).flip([0])\n",
        "    y = x.clone()\n    y[0] = 0\n    return y\n",
        "    return x.expand([2, x.shape[0], 4, 6]).reshape([-1, 4, 6])\n",
    };
    all_say(false, sizeof bodies / sizeof *bodies, bodies);
}

static void test_apart(void)
{
    static const char *const bodies[] = {
        "    return x\n",
        "    return td.softmax(x, -1) * 2 + 1\n",
        "    return x - td.mean(x, [1, 2], True)\n",
        "    y = x.reshape([x.shape[0] * 4, 6])\n    return td.relu(y).reshape([-1, 24])\n",
        "    return x.reshape([x.shape[0], -1])\n",
        "    return x.reshape([-1, 24]).sum([1])\n",
        "    return x @ td.ones(6, 5)\n",
        "    return x @ x.transpose(1, 2)\n",
        "    return x.transpose(0, 1) + 1\n",
        "    return td.cat([x, -x], 1)\n",
        "    return td.stack([x, -x], 0)\n",
        "    return x[:, 1:] + td.zeros(x.shape[0], 1, 6)\n",
        "    return td.where(x > 0, x, x.new_zeros([]))\n",
        "    return td.gather(x, 1, td.argsort(x, 1))\n",
        "    return td.index_select(x, 1, td.argsort(td.ones(4), 0))\n",
        "    return x[:, td.argsort(td.ones(4), 0)]\n",
        "    return x[:, :, td.argsort(td.ones(6), 0)]\n",
        "    return x[:, td.argsort(td.ones(4), 0), td.argsort(td.ones(4), 0)]\n",
        "    return x + td.ones(6).expand([x.shape[0], 4, 6])\n",
        "    if x.shape[1] > 3:\n        return -x\n    return td.cumsum(x, 0)\n",
        "    if x.shape[0] == 0:\n        return td.cumsum(x, 0)\n    return x\n",
        "    if x.shape[1] in [3, 5]:\n        return td.cumsum(x, 0)\n    return x\n",
        "    y = x\n    for i in range(x.shape[1]):\n        y = y + td.flip(x, [2])\n    return y\n",
        "    return td.einsum('nab,nac->nbc', x, x)\n",
        "    return td.layer_norm(x, [6])\n",
        "    return td.norm(x, 2.0, [1])\n",
        "    return td.softmax(x.reshape([x.numel() // 6, 6]), 1).reshape(x.shape)\n",
    };
    all_say(true, sizeof bodies / sizeof *bodies, bodies);
}

/* ---- drawn: x and y alike, whose rows are their first or second dimension */

enum { ROWS = 3, MOST_VARS = 24, LINES = 6 };

typedef struct var {
    int rank, row; /* row: as far as whoever draws is careful */
    int64_t size[5];
} var;

typedef struct drawn {
    uint64_t seed;
    bool careful; /* no op goes along the rows */
    int row, nvars;
    var vars[MOST_VARS];
    char text[4000];
} drawn;

static int below(drawn *d, int n)
{
    d->seed = d->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((d->seed >> 33) % (uint64_t)n);
}

__attribute__((format(printf, 3, 4))) static void line(drawn *d, var made, const char *format, ...)
{
    size_t n = strlen(d->text);
    va_list args;
    va_start(args, format);
    n += (size_t)snprintf(d->text + n, sizeof d->text - n, "    v%d = ", d->nvars);
    n += (size_t)vsnprintf(d->text + n, sizeof d->text - n, format,
                           args); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    va_end(args);
    snprintf(d->text + n, sizeof d->text - n, "\n");
    d->vars[d->nvars++] = made;
}

static int some_dim(drawn *d, const var *v)
{
    if (!d->careful) return below(d, v->rank);
    int dim = below(d, v->rank - 1);
    return dim + (dim >= v->row);
}

static var without(var v, int dim)
{
    for (int k = dim; k + 1 < v.rank; k++) v.size[k] = v.size[k + 1];
    v.rank--, v.row -= dim < v.row;
    return v;
}

static var with(var v, int dim, int64_t size)
{
    for (int k = v.rank; k > dim; k--) v.size[k] = v.size[k - 1];
    v.size[dim] = size, v.rank++, v.row += dim <= v.row;
    return v;
}

static var swapped(var v, int a, int b)
{
    int64_t size = v.size[a];
    v.size[a] = v.size[b], v.size[b] = size;
    v.row = v.row == a ? b : v.row == b ? a : v.row;
    return v;
}

/* One that looks like v, or v. */
static int alike(drawn *d, int v)
{
    const var *x = &d->vars[v];
    for (int k = 0; k < 4; k++) {
        const var *y = &d->vars[below(d, d->nvars)];
        bool same = x->rank == y->rank && memcmp(x->size, y->size, (size_t)x->rank * sizeof *x->size) == 0;
        if (same && (!d->careful || x->row == y->row)) return (int)(y - d->vars);
    }
    return v;
}

static void draw_along(drawn *d, int v, int dim)
{
    static const char *const kept[] = {"td.softmax(v%d, %d)",
                                       "td.cumsum(v%d, %d)",
                                       "td.sort(v%d, %d)[0]",
                                       "td.flip(v%d, [%d])",
                                       "td.log_softmax(v%d, %d)",
                                       "td.roll(v%d, [1], [%d])",
                                       "v%1$d * td.cumsum(v%1$d, %2$d)",
                                       "td.gather(v%1$d, %2$d, td.argsort(v%1$d, %2$d))",
                                       "td.normalize(v%d, 2.0, %d)",
                                       "v%1$d - td.mean(v%1$d, [%2$d], True)"};
    static const char *const gone[] = {"td.sum(v%d, [%d])",     "td.amax(v%d, [%d])",      "td.logsumexp(v%d, [%d])",
                                       "td.select(v%d, %d, 0)", "td.norm(v%d, 2.0, [%d])", "td.median(v%d, %d)[0]"};
    const var *x = &d->vars[v];
    char text[120];
    bool drops = x->rank > 2 && below(d, 3) == 0;
    const char *format = drops ? gone[below(d, 6)] : kept[below(d, 10)];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, v, dim);
#pragma GCC diagnostic pop
    line(d, drops ? without(*x, dim) : *x, "%s", text);
}

static void draw_shape(drawn *d, int v)
{
    var x = d->vars[v], made = x;
    int dim = some_dim(d, &x), other = below(d, x.rank), to = below(d, x.rank + 1);
    switch (below(d, 7)) {
    case 0: line(d, swapped(x, dim, other), "td.transpose(v%d, %d, %d)", v, dim, other); return;
    case 1:
        if (x.rank < 4) line(d, with(x, to, 1), "td.unsqueeze(v%d, %d)", v, to);
        return;
    case 2:
        if (x.rank < 4) line(d, with(x, to, 2), "td.stack([v%d, v%d], %d)", v, alike(d, v), to);
        return;
    case 3:
        if (x.size[dim] > 8) return;
        made.size[dim] *= 2;
        line(d, made, "td.cat([v%d, v%d], %d)", v, alike(d, v), dim);
        return;
    case 4:
        if (x.size[dim] < 2) return;
        made.size[dim]--;
        line(d, made, "td.narrow(v%d, %d, 1, v%d.shape[%d] - 1)", v, dim, v, dim);
        return;
    case 5: /* two dimensions as one, and perhaps apart once more */
        to = below(d, x.rank - 1);
        if (x.rank < 3 || (d->careful && (to == x.row || to + 1 == x.row))) return;
        made = without(x, to + 1);
        made.size[to] *= x.size[to + 1];
        line(d, made, "td.flatten(v%d, %d, %d)", v, to, to + 1);
        return;
    default:
        if (d->careful && x.row != 0) return;
        made = (var){2, 0, {x.size[0], 1}};
        for (int k = 1; k < x.rank; k++) made.size[1] *= x.size[k];
        if (!d->careful && below(d, 2)) line(d, made, "v%d.reshape([3, -1])", v);
        else line(d, made, "v%d.reshape([v0.shape[%d], -1])", v, d->row);
    }
}

static void draw_line(drawn *d)
{
    static const char *const each[] = {"td.relu(v%d)", "td.sigmoid(v%d)", "-v%d", "td.abs(v%d) + 1", "v%d * 0.5"};
    static const char *const both[] = {"v%d + v%d", "v%d * v%d", "td.maximum(v%d, v%d)",
                                       "td.where(v%1$d > 0, v%1$d, v%2$d)"};
    int v = below(d, 2) ? d->nvars - 1 : below(d, d->nvars), kind = below(d, 6);
    const var *x = &d->vars[v];
    char text[120];
    if (d->nvars == MOST_VARS) return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (kind == 0) snprintf(text, sizeof text, each[below(d, 5)], v);
    else snprintf(text, sizeof text, both[below(d, 4)], v, alike(d, v));
#pragma GCC diagnostic pop
    if (kind < 2) line(d, *x, "%s", text);
    else if (kind < 4 && x->rank > 1) draw_along(d, v, some_dim(d, x));
    else if (kind == 4 && x->rank > 1) draw_shape(d, v);
    else if (x->rank == 3 && x->row == 0) {
        var made = *x;
        made.size[2] = x->size[1];
        line(d, made, "td.matmul(v%d, td.transpose(v%d, 1, 2))", v, v);
    }
}

static int draw(drawn *d, int row)
{
    var x = {3, row, {row ? 4 : ROWS, row ? ROWS : 4, 5}};
    d->row = row, d->nvars = 2, d->vars[0] = d->vars[1] = x;
    snprintf(d->text, sizeof d->text, "def f(v0, v1):\n");
    for (int k = 0; k < LINES; k++) draw_line(d);
    size_t n = strlen(d->text);
    snprintf(d->text + n, sizeof d->text - n, "    return v%d\n", d->nvars - 1);
    return d->vars[d->nvars - 1].row;
}

static td_array *run(td_program *p, td_array *x, td_array *y)
{
    td_value out, in[] = {td_value_array(x), td_value_array(y)};
    if (td_program_call(p, 2, in, &out)) return NULL;
    td_array *wide = td_at_to(NULL, out.array, TD_FLOAT64);
    td_value_free(&out);
    return wide;
}

static double largest(const double *v, int64_t n)
{
    double most = 1;
    for (int64_t k = 0; k < n; k++) most = isfinite(v[k]) && fabs(v[k]) > most ? fabs(v[k]) : most;
    return most;
}

/* Row `row` of what came of all, beside what came of it alone. */
static bool equal(td_array *all, int dim, int row, td_array *alone)
{
    static double a[65536], b[65536];
    td_array *part = td_narrow(all, dim, row, 1);
    int64_t n = part ? td_numel(part) : -1;
    bool good = n >= 0 && n == td_numel(alone) && n <= 65536;
    if (good && n) good = td_read(part, a, (size_t)n * 8) == TD_OK && td_read(alone, b, (size_t)n * 8) == TD_OK;
    double most = good ? largest(b, n) : 0;
    for (int64_t k = 0; k < n && good; k++)
        good = a[k] == b[k] || (isnan(a[k]) && isnan(b[k])) || fabs(a[k] - b[k]) <= 1e-4 * most;
    td_release(part);
    return good;
}

/* Numbers of very different size, row by row. */
static td_array *numbers(drawn *d, int row)
{
    static float v[ROWS * 20];
    int64_t shape[] = {row ? 4 : ROWS, row ? ROWS : 4, 5};
    for (int k = 0; k < ROWS * 20; k++) {
        int at = row ? k / 5 % ROWS : k / 20;
        v[k] = (float)(below(d, 2001) - 1000) / (at == 1 ? 10 : 1000);
    }
    return td_from_data(client, TD_FLOAT32, (td_ints){3, shape}, v);
}

/* Is it as it was said? */
static bool is_so(drawn *d, td_program *p, int row, int out_row)
{
    td_array *x = numbers(d, row), *y = numbers(d, row), *all = run(p, x, y);
    bool good = all != NULL;
    for (int k = 0; k < ROWS && good; k++) {
        td_array *a = td_narrow(x, row, k, 1), *b = td_narrow(y, row, k, 1), *alone = run(p, a, b);
        good = alone && (out_row < 0 || equal(all, out_row, k, alone));
        td_release(alone), td_release(a), td_release(b);
    }
    td_release(all), td_release(x), td_release(y);
    return good;
}

static int draw_many(int n, bool careful)
{
    int yes = 0, ran = 0;
    for (int k = 0; k < n; k++) {
        drawn d = {.seed = (uint64_t)k * 2 + careful, .careful = careful};
        int row = below(&d, 2), out_row = 9, want = draw(&d, row), rows[] = {row, row};
        char why[TD_ROWS_WHY];
        td_program *p = compile(d.text);
        if (!p) continue; /* what cannot be compiled was drawn without care */
        td_desc one = look(3, row ? (int64_t[]){4, 1, 5} : (int64_t[]){1, 4, 5}), in[] = {one, one};
        bool said = apart(p, 2, in, rows, &out_row, why);
        bool good = said ? is_so(&d, p, row, out_row) : !careful;
        if (said && careful) good = good && (out_row == want);
        if (!good) fprintf(stderr, "%s (row %d, result %d):\n%s", said ? "wrong" : why, row, out_row, d.text);
        CU_ASSERT_TRUE(good);
        ran++, yes += said;
        td_program_free(p);
    }
    CU_ASSERT_TRUE(ran > n * 3 / 4);
    return yes;
}

static int how_many(void)
{
    const char *more = getenv("TENSORD_DRAWN");
    return more ? atoi(more) : 100;
}

static void test_drawn_apart(void)
{
    int n = how_many();
    CU_ASSERT_EQUAL(draw_many(n, true), n);
}

static void test_drawn(void)
{
    int n = how_many(), yes = draw_many(n, false);
    CU_ASSERT_TRUE(yes > n / 20 && yes < n);
}

static int begin(void)
{
    return start_server() || !(client = td_connect(server.socket));
}

static int end(void)
{
    td_disconnect(client);
    return stop_server();
}

TD_CUNIT_MAIN_WITH("client_rows", begin, end, {"rows that meet", test_mixed}, {"rows that do not", test_apart},
                   {"programs that are drawn with care", test_drawn_apart}, {"and without", test_drawn})
