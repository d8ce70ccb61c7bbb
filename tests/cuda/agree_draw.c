/* Drawing calls for agree.h: shapes, layouts, dtypes and attributes for each op that has a plan for CUDA. */
#include "tests/cuda/agree.h"
#include "tests/unit/op_calls.h"

static const char *const names[TD_DTYPE_COUNT] = {"b",   "u8",  "i8",  "i16",  "i32", "i64", "f16", "bf16",
                                                  "f32", "f64", "c64", "c128", "u16", "u32", "u64"};

typedef struct shape {
    int n;
    int64_t at[TD_MAX_DIMS];
} shape;

/* Sizes beside powers of two, of warps and blocks. */
static int64_t draw_size(int64_t most)
{
    static const int sizes[] = {1,   2,   3,   5,   8,   15,  16,  17,   31,   32,   33,   63,   64,    65,   100,
                                127, 128, 129, 255, 256, 257, 511, 1000, 1023, 1025, 2049, 4097, 10000, 70000};
    int n = 0;
    while (n < (int)(sizeof sizes / sizeof *sizes) && sizes[n] <= most) n++;
    return agree_below(40) == 0 ? 0 : sizes[agree_below(n)];
}
static shape draw_shape(int most_dims, int64_t size)
{
    shape s = {.n = (int)agree_below(most_dims + 1)};
    for (int i = 0; i < s.n; i++) {
        s.at[i] = draw_size(size);
        size /= s.at[i] ? s.at[i] : 1;
    }
    for (int i = s.n - 1; i > 0; i--) {
        int j = (int)agree_below(i + 1);
        int64_t keep = s.at[i];
        s.at[i] = s.at[j], s.at[j] = keep;
    }
    return s;
}

static void append(char *text, size_t room, const char *part)
{
    snprintf(text + strlen(text), room - strlen(text), "%s", part);
}
static void append_list(char *text, size_t room, const char *before, int n, const int64_t *v)
{
    append(text, room, before);
    append(text, room, "[");
    for (int i = 0; i < n; i++) {
        char part[32];
        snprintf(part, sizeof part, "%s%lld", i ? "," : "", (long long)v[i]);
        append(text, room, part);
    }
    append(text, room, "]");
}

/* " f32[2,3]@[1,2]": row by row, turned, stepped, permuted, with gaps, or one dimension repeated. */
static void operand(char *text, size_t room, int dtype, shape s)
{
    int order[TD_MAX_DIMS], layout = (int)agree_below(9);
    int64_t stride[TD_MAX_DIMS] = {0}, width = layout == 2 ? 2 : 1;
    append(text, room, " ");
    append(text, room, names[dtype]);
    append_list(text, room, "", s.n, s.at);
    if (layout > 5 || !s.n) return;
    for (int i = 0; i < s.n; i++) order[i] = layout == 1 ? i : s.n - 1 - i;
    for (int i = s.n - 1; i > 0 && layout == 3; i--) {
        int j = (int)agree_below(i + 1), keep = order[i];
        order[i] = order[j], order[j] = keep;
    }
    int flat = layout == 5 ? (int)agree_below(s.n) : -1;
    for (int i = 0; i < s.n; i++) {
        int d = order[i];
        if (d == flat) continue;
        stride[d] = width;
        width *= s.at[d] ? s.at[d] : 1;
        if (i == 0 && (layout == 2 || layout == 4)) width += 3;
    }
    append_list(text, room, "@", s.n, stride);
}
/* As it lies. */
static void plain(char *text, size_t room, int dtype, shape s)
{
    append(text, room, " ");
    append(text, room, names[dtype]);
    append_list(text, room, "", s.n, s.at);
}

static int draw_dtype(unsigned mask)
{
    static const int real[] = {TD_BOOL,    TD_UINT8,   TD_INT8,     TD_INT16,   TD_INT32,
                               TD_INT64,   TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32, TD_FLOAT32,
                               TD_FLOAT32, TD_FLOAT64, TD_UINT16,   TD_UINT32,  TD_UINT64};
    for (;;) {
        int t = real[agree_below(sizeof real / sizeof *real)];
        if (mask >> t & 1) return t;
    }
}

static void draw_number(char *text, size_t room)
{
    static const char *const numbers[] = {"2",    "-3",  "0",    "1",  "7", "0.5",  "-0.5", "-1",
                                          "1.25", "100", "true", "-2", "3", "1e-3", "inf"};
    append(text, room, numbers[agree_below(sizeof numbers / sizeof *numbers)]);
}
static void draw_attrs(const td_op *op, char *text, size_t room)
{
    int given = agree_below(2) ? op->nattrs : 0;
    for (int i = 0; i < op->nattrs; i++)
        if (!op->attrs[i].has_default && !op->attrs[i].optional) given = op->nattrs;
    for (int i = 0; i < given; i++) {
        const td_attr_def *a = &op->attrs[i];
        append(text, room, " ");
        if (a->optional && agree_below(3) == 0) append(text, room, "none");
        else if (a->kind == TD_A_BOOL) append(text, room, agree_below(2) ? "true" : "false");
        else if (a->kind == TD_A_DTYPE) append(text, room, names[draw_dtype(~0u)]);
        else if (a->kind == TD_A_INT) append(text, room, agree_below(2) ? "1" : "2");
        else if (a->kind == TD_A_FLOAT) append(text, room, agree_below(2) ? "0.75" : "1.5");
        else draw_number(text, room);
    }
}

static void draw_pointwise(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape s = draw_shape(agree_below(4) ? 3 : 5, size);
    unsigned mask = op->promote == TD_PROMOTE_FLOAT ? 0x73ff : op->dtypes;
    int t = draw_dtype(mask & 0x73ff ? mask : 0x73ff);
    for (int i = 0; i < op->nparams; i++) {
        shape part = s;
        if (op->params[i].kind == TD_P_NUMBER && agree_below(4) == 0) {
            append(text, room, " #");
            draw_number(text, room);
            continue;
        }
        for (int k = 0; i && k < s.n; k++)
            if (agree_below(8) == 0) part.at[k] = 1;
        if (i && agree_below(10) == 0) part.n = 0;
        bool truth = !strcmp(op->params[i].name, "condition") || !strcmp(op->params[i].name, "mask");
        int own = truth ? TD_BOOL : agree_below(6) ? t : draw_dtype(0x73ff);
        if (agree_below(3) == 0) plain(text, room, own, part);
        else operand(text, room, own, part);
    }
    append(text, room, " |");
    draw_attrs(op, text, room);
    c->fill = agree_below(2) ? AGREE_WILD : agree_below(2) ? AGREE_EXACT : AGREE_UNIT;
    c->out_layout = agree_below(5) == 0;
}

/* One dimension, some of them, or all. */
static void draw_dims(const td_op *op, shape s, char *text, size_t room)
{
    int64_t dims[TD_MAX_DIMS];
    int n = 0;
    if (op->attrs[0].kind == TD_A_INT) {
        char part[16];
        if (op->attrs[0].optional && agree_below(3) == 0) {
            append(text, room, " none");
            return;
        }
        snprintf(part, sizeof part, " %d", (int)(agree_below(s.n ? s.n : 1) - (agree_below(2) ? (s.n ? s.n : 1) : 0)));
        append(text, room, part);
        return;
    }
    if (op->attrs[0].optional && agree_below(3) == 0) {
        append(text, room, " none");
        return;
    }
    for (int i = 0; i < s.n; i++)
        if (agree_below(2)) dims[n++] = i;
    append_list(text, room, " ", n, dims);
}
static void draw_reduction(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape s = draw_shape(4, size);
    int t = draw_dtype(op->dtypes ? op->dtypes : 0x73ff);
    bool sums = strstr(op->name, "var") || strstr(op->name, "std") || strstr(op->name, "exp") ||
                strstr(op->name, "prod") || strstr(op->name, "mean");
    operand(text, room, t, s);
    append(text, room, " |");
    if (!strcmp(op->name, "sum_to")) {
        shape to = s;
        int cut = (int)agree_below(s.n + 1);
        for (int i = 0; i < s.n; i++)
            if (agree_below(2)) to.at[i] = 1;
        append_list(text, room, " ", to.n - cut, to.at + cut);
    } else {
        draw_dims(op, s, text, room);
        for (int i = 1; i < op->nattrs; i++) {
            append(text, room, " ");
            if (op->attrs[i].kind == TD_A_BOOL) append(text, room, agree_below(2) ? "true" : "false");
            else if (op->attrs[i].kind == TD_A_FLOAT) append(text, room, agree_below(2) ? "1" : "0");
            else append(text, room, "none");
        }
    }
    bool wild = !sums && strncmp(op->name, "sum", 3) && agree_below(2);
    c->fill = wild ? AGREE_WILD : AGREE_EXACT;
    c->allowed = sums ? 16 : 0;
    c->scaled = sums;
}

static void draw_product(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    int64_t side = size >= 65536 ? 300 : size >= 4096 ? 150 : 70;
    int64_t m = draw_size(side), n = draw_size(side), k = draw_size(agree_below(6) ? side : 4 * side),
            b = 1 + agree_below(4);
    int t = draw_dtype(op->dtypes);
    if (!strcmp(op->name, "mm")) {
        operand(text, room, t, (shape){2, {m, k}}), operand(text, room, t, (shape){2, {k, n}});
    } else if (!strcmp(op->name, "bmm")) {
        operand(text, room, t, (shape){3, {b, m, k}}), operand(text, room, t, (shape){3, {b, k, n}});
    } else if (!strcmp(op->name, "addmm")) {
        shape x = agree_below(2) ? (shape){1, {n}} : (shape){2, {agree_below(2) ? m : 1, n}};
        operand(text, room, t, x), operand(text, room, t, (shape){2, {m, k}}),
            operand(text, room, t, (shape){2, {k, n}});
        append(text, room, agree_below(2) ? " |" : agree_below(2) ? " | 2 3" : " | 0 1");
    } else if (!strcmp(op->name, "linear")) {
        operand(text, room, t, agree_below(2) ? (shape){2, {m, k}} : (shape){3, {b, m, k}}),
            operand(text, room, t, (shape){2, {n, k}});
        if (agree_below(2)) plain(text, room, t, (shape){1, {n}});
        else append(text, room, " _");
    } else if (!strcmp(op->name, "dot")) {
        k = draw_size(size);
        operand(text, room, t, (shape){1, {k}}), operand(text, room, t, (shape){1, {k}});
    } else {
        operand(text, room, t, (shape){2, {m, k}}), operand(text, room, t, (shape){1, {k}});
    }
    c->fill = AGREE_EXACT;
    c->allowed = 0;
    c->out_layout = 0;
}

static void draw_created(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    char part[128];
    long long n = (long long)draw_size(size);
    const char *t = names[draw_dtype(0x73ff & ~1u)];
    if (!strcmp(op->name, "full")) snprintf(part, sizeof part, " | [%lld,3] %s %s", n, agree_below(2) ? "1.5" : "7", t);
    else if (!strcmp(op->name, "arange"))
        snprintf(part, sizeof part, " | %s %lld %s %s", agree_below(2) ? "0" : "-3", n, agree_below(2) ? "1" : "2", t);
    else if (!strcmp(op->name, "linspace"))
        snprintf(part, sizeof part, " | -1.5 2.25 %lld %s", n, names[agree_below(2) ? TD_FLOAT32 : TD_FLOAT64]);
    else snprintf(part, sizeof part, " | %lld %lld %s", n % 200, (long long)draw_size(100), t);
    append(text, room, part);
    (void)c;
}

/* An image that comes to lie channels last; a copy to where it is. */
static void draw_copy(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape s = {4, {1 + agree_below(3), draw_size(size / 64), 1 + agree_below(9), 1 + agree_below(9)}};
    operand(text, room, draw_dtype(0x7fff), s);
    append(text, room, !strcmp(op->name, "to_device") ? " | 0" : " |");
    c->fill = AGREE_WILD;
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(name, *list)) return true;
    return false;
}

bool agree_draw(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    static const char *const reductions[] = {"sum",     "mean",      "prod",   "amax",        "amin", "max_dim",
                                             "min_dim", "argmax",    "argmin", "var",         "std",  "any",
                                             "all",     "logsumexp", "sum_to", "sum_squares", NULL};
    static const char *const products[] = {"mm", "bmm", "addmm", "linear", "dot", "mv", NULL};
    static const char *const created[] = {"full", "arange", "linspace", "eye", NULL};
    *c = (agree_case){.text = text};
    snprintf(text, room, "%s", op->name);
    if (is_one_of(op->name, reductions)) draw_reduction(op, size, c, text, room);
    else if (is_one_of(op->name, products)) draw_product(op, size, c, text, room);
    else if (is_one_of(op->name, created)) draw_created(op, size, c, text, room);
    else if (!strcmp(op->name, "copy_last") || !strcmp(op->name, "to_device")) draw_copy(op, size, c, text, room);
    else if (op->flags & TD_OF_POINTWISE && op->nparams) draw_pointwise(op, size, c, text, room);
    else return false;
    return true;
}
