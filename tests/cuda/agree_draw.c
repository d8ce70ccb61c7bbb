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
static void operand_in(char *text, size_t room, int dtype, shape s, int layout)
{
    int order[TD_MAX_DIMS];
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
static void operand(char *text, size_t room, int dtype, shape s)
{
    operand_in(text, room, dtype, s, (int)agree_below(9));
}
/* Of what is written: no two elements lie at one place. */
static void written(char *text, size_t room, int dtype, shape s)
{
    operand_in(text, room, dtype, s, (int)agree_below(5));
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
    if (strstr(op->name, "polynomial")) c->allowed = 4; /* the recurrence in another order */
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

static void append_int(char *text, size_t room, int64_t v)
{
    char part[32];
    snprintf(part, sizeof part, " %lld", (long long)v);
    append(text, room, part);
}
static int draw_float(void)
{
    static const int floats[] = {TD_FLOAT32, TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16};
    return floats[agree_below(5)];
}
/* Sums are taken in another order, and halves are rounded once more. */
static void near(agree_case *c, double units)
{
    c->fill = AGREE_EXACT;
    c->allowed = units;
    c->scaled = true;
}

static void draw_lines(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape s = draw_shape(4, size);
    int t = draw_float();
    if (!s.n) s = (shape){1, {3}};
    operand(text, room, t, s);
    if (strstr(op->name, "backward")) operand(text, room, t, s);
    append(text, room, " |");
    append_int(text, room, agree_below(s.n));
    near(c, 16);
}

static void draw_nll(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    int64_t n = draw_size(size / 16), classes = 1 + agree_below(40), d = 1 + agree_below(5);
    int t = draw_float(), kind = (int)agree_below(3), target = agree_below(2) ? TD_INT64 : TD_INT32,
        reduction = (int)agree_below(3);
    shape x = kind == 0 ? (shape){1, {classes}} : kind == 1 ? (shape){2, {n, classes}} : (shape){3, {n, classes, d}};
    shape y = kind == 0 ? (shape){0, {0}} : kind == 1 ? (shape){1, {n}} : (shape){2, {n, d}};
    bool back = strstr(op->name, "backward"), weighed = agree_below(2);
    if (back) operand(text, room, t, reduction ? (shape){0, {0}} : y);
    else operand(text, room, t, x);
    operand(text, room, target, y);
    if (weighed) plain(text, room, t, (shape){1, {classes}});
    else append(text, room, " _");
    if (back) plain(text, room, t, (shape){0, {0}}), append(text, room, " |"), append_list(text, room, " ", x.n, x.at);
    else append(text, room, " |");
    append_int(text, room, reduction);
    append_int(text, room, agree_below(3) ? -100 : agree_below(classes));
    near(c, 16);
    c->fill = AGREE_INDEX;
    c->limit = classes + (agree_below(12) == 0);
}

static void draw_step(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape s = draw_shape(3, size);
    int t = draw_float();
    bool adam = !strcmp(op->name, "adam_step"), momentum = agree_below(2);
    written(text, room, t, s), operand(text, room, t, s);
    if (adam) {
        written(text, room, t, s), written(text, room, t, s);
        plain(text, room, agree_below(2) ? TD_FLOAT32 : TD_INT64, (shape){0, {0}});
        append(text, room,
               agree_below(2)   ? " | 0.01"
               : agree_below(2) ? " | 0.01 0.8 0.95 1e-8 0.1 true"
                                : " | 0.01 0.9 0.99 1e-6 0.1 false");
        c->fill = AGREE_UNIT;
    } else {
        if (momentum) written(text, room, t, s);
        else append(text, room, " _");
        append(text, room,
               !momentum        ? " | 0.1 0.0 0.0 0.25"
               : agree_below(2) ? " | 0.1 0.9 0.5 0.25 true"
                                : " | 0.1 0.9");
        c->fill = AGREE_EXACT;
    }
    c->allowed = 2;
    c->scaled = true;
}

static void draw_norm(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    int t = draw_float();
    bool back = strstr(op->name, "backward"), layer = !strncmp(op->name, "layer", 5), w = agree_below(3);
    shape x = draw_shape(4, size / 2), one = {1, {0}};
    while (x.n < 2) x.at[x.n++] = 1 + agree_below(20);
    int last = 1 + (int)agree_below(x.n);
    if (back) operand(text, room, t, x);
    operand(text, room, t, x);
    shape tail = {last, {0}}, head = {x.n - last, {0}};
    memcpy(tail.at, x.at + x.n - last, sizeof tail.at[0] * (size_t)last);
    memcpy(head.at, x.at, sizeof x.at[0] * (size_t)(x.n - last));
    if (!layer) tail = one, tail.at[0] = x.at[1], head = tail;
    if (w) operand(text, room, t, tail);
    else append(text, room, " _");
    if (back) {
        plain(text, room, t, head), plain(text, room, t, head);
        append(text, room, " |");
        if (layer) append_int(text, room, last);
        else append(text, room, agree_below(2) ? " true" : " false");
        append_int(text, room, 1 + agree_below(7));
    } else {
        if (w && agree_below(2)) operand(text, room, t, tail);
        else append(text, room, " _");
        if (!layer) plain(text, room, t, tail), plain(text, room, t, tail);
        append(text, room, " |");
        if (layer) append_int(text, room, last);
        else append(text, room, agree_below(2) ? " true 0.25" : " false");
    }
    near(c, 128);
    c->floor = 1; /* means are near 0, of elements that are not */
}

/* Reading and adding by index; now and then an index is out of range. */
static void draw_index(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape x = draw_shape(3, size), idx, src;
    if (!x.n) x = (shape){1, {5}};
    for (int i = 0; i < x.n; i++)
        if (!x.at[i]) x.at[i] = 3;
    bool embeds = !strcmp(op->name, "embedding"), adds = strstr(op->name, "add"), puts = !strcmp(op->name, "scatter"),
         each = puts || !strcmp(op->name, "gather") || !strcmp(op->name, "scatter_add");
    int t = draw_dtype(op->dtypes), dim = embeds ? 0 : (int)agree_below(x.n), it = agree_below(2) ? TD_INT64 : TD_INT32;
    if (embeds) x.n = 2, x.at[1] = 1 + agree_below(40), x.at[0] = 1 + agree_below(50);
    idx = (shape){1, {draw_size(200)}};
    if (embeds && agree_below(2)) idx = (shape){2, {draw_size(30), 3}};
    src = x;
    src.at[dim] = idx.at[0];
    if (each) {
        for (int i = 0; i < x.n; i++) src.at[i] = i == dim ? draw_size(100) : 1 + agree_below(x.at[i]);
        idx = src;
    }
    operand(text, room, t, x);
    operand(text, room, it, idx);
    if (puts && agree_below(3) == 0) append(text, room, " #"), draw_number(text, room);
    else if (adds || puts) operand(text, room, t, src);
    append(text, room, " |");
    if (!embeds) append_int(text, room, dim);
    if (!strcmp(op->name, "index_add") && agree_below(2)) append(text, room, " 2");
    near(c, 8);
    c->fill = AGREE_INDEX;
    c->limit = x.at[dim] + (agree_below(10) == 0);
}

/* Several index tensors together, at neighbouring dimensions or not. */
static void draw_indices(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape x = draw_shape(3, size / 4), idx = {1, {1 + agree_below(20)}}, v = {0, {0}};
    bool puts = strstr(op->name, "put");
    int64_t least = INT64_MAX;
    int given = 0, t = draw_dtype(op->dtypes);
    if (!x.n) x = (shape){2, {5, 7}};
    if (agree_below(3) == 0) idx = (shape){2, {1 + agree_below(4), 3}};
    operand(text, room, t, x);
    for (int i = 0; i < x.n; i++) {
        if (!x.at[i]) x.at[i] = 1;
        if (i && agree_below(3) == 0) {
            append(text, room, " _");
            continue;
        }
        if (given++ && agree_below(4) == 0) operand(text, room, TD_INT64, (shape){1, {1}});
        else operand(text, room, agree_below(2) ? TD_INT64 : TD_INT32, idx);
        least = x.at[i] < least ? x.at[i] : least;
    }
    if (puts) operand(text, room, t, v);
    append(text, room, " |");
    if (puts) append(text, room, agree_below(2) ? " true" : " false");
    near(c, 8);
    c->fill = AGREE_INDEX;
    c->limit = least + (agree_below(10) == 0);
    c->wraps = true;
}

/* Backward has more keys than one tile of the CPU's: of one tile that knows the result anew, and what was drawn is not
 * it. */
static void draw_attention(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    int64_t b = 1 + agree_below(2), pairs = 1 + agree_below(2), h = pairs * (1 + agree_below(2)),
            e = 1 + agree_below(9), f = 1 + agree_below(9), n = 1 + agree_below(12),
            m = 1 + agree_below(size > 5000 ? 300 : 40);
    int t = draw_float(), sum = t == TD_FLOAT64 ? TD_FLOAT64 : TD_FLOAT32;
    bool back = strstr(op->name, "backward");
    if (back) b = 1, m = 129 + agree_below(20);
    if (back) operand(text, room, t, (shape){4, {b, h, n, f}});
    operand(text, room, t, (shape){4, {b, h, n, e}}), operand(text, room, t, (shape){4, {b, pairs, m, e}}),
        operand(text, room, t, (shape){4, {b, pairs, m, f}});
    if (agree_below(2)) append(text, room, " _");
    else
        operand(text, room, agree_below(2) ? TD_BOOL : t,
                agree_below(2) ? (shape){2, {n, m}} : (shape){4, {1, h, n, m}});
    if (back) operand(text, room, t, (shape){4, {b, h, n, f}}), plain(text, room, sum, (shape){3, {b, h, n}});
    append(text, room, agree_below(2) ? " | true 0.5" : " | false 0.25");
    if (back) append_int(text, room, 1 + agree_below(7));
    near(c, 256);
    c->floor = 1;
    if (back) c->fill = AGREE_UNIT;
}

/* Few that lie row by row go in one launch; what has gaps, other dtypes or many parts goes in a launch each. */
static void draw_parts(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape s = draw_shape(3, size / 8);
    int t = draw_dtype(0x7fff), n = 1 + (int)agree_below(6), dim;
    bool cat = !strcmp(op->name, "cat"), many = agree_below(6) == 0, mixed = !many && agree_below(3) == 0;
    if (!s.n && cat) s = (shape){1, {4}};
    if (many) s = (shape){1, {3}}, n = 25 + (int)agree_below(8);
    dim = (int)agree_below(s.n + !cat);
    for (int i = 0; i < n; i++) {
        int own = mixed && agree_below(3) == 0 ? draw_dtype(0x7fff) : t;
        if (cat) s.at[dim] = draw_size(20);
        if (mixed) operand(text, room, own, s);
        else plain(text, room, own, s);
    }
    append(text, room, " |");
    append_int(text, room, dim);
    c->fill = mixed ? AGREE_EXACT : AGREE_WILD;
}

/* The same elements at other places, or zeros in their stead. */
static void draw_moved(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape s = draw_shape(3, size / 4);
    int64_t v[TD_MAX_DIMS], dims[TD_MAX_DIMS];
    int n = 0;
    if (!strcmp(op->name, "tril") || !strcmp(op->name, "triu"))
        while (s.n < 2) s.at[s.n++] = 1 + agree_below(40);
    operand(text, room, draw_dtype(0x7fff), s);
    append(text, room, " |");
    for (int i = 0; i < s.n; i++)
        if (agree_below(2)) v[n] = agree_below(21) - 10, dims[n++] = i;
    if (!strcmp(op->name, "repeat")) {
        for (int i = 0; i < s.n + 1; i++) v[i] = 1 + agree_below(3);
        append_list(text, room, " ", s.n + (int)agree_below(2), v);
    } else if (!strcmp(op->name, "flip")) {
        append_list(text, room, " ", n, dims);
    } else if (!strcmp(op->name, "roll")) {
        v[0] = agree_below(41) - 20;
        append_list(text, room, " ", n ? n : 1, v), append_list(text, room, " ", n, dims);
    } else if (!strcmp(op->name, "constant_pad")) {
        n = 2 * (int)agree_below(s.n + 1);
        for (int i = 0; i < n; i++) v[i] = agree_below(6);
        for (int i = 0; i < n; i++)
            if (s.at[s.n - 1 - i / 2] > 4 && agree_below(3) == 0) v[i] = -1 - agree_below(2);
        append_list(text, room, " ", n, v), append(text, room, agree_below(2) ? " 2" : " 0");
    } else {
        append_int(text, room, agree_below(41) - 20);
    }
    c->fill = AGREE_WILD;
}

/* Lines short and long, in one piece or several. */
static void draw_scan(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape s = draw_shape(3, size);
    bool product = !strcmp(op->name, "cumprod");
    operand(text, room, draw_dtype(op->dtypes & 0x73ff ? op->dtypes : 0x73ff), s);
    append(text, room, " |");
    append_int(text, room, agree_below(s.n ? s.n : 1));
    near(c, product ? 64 : 2);
    if (product) c->fill = AGREE_UNIT, c->scaled = false, c->allowed = 300;
}

static void draw_slice(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape x = draw_shape(3, size), src;
    bool selects = !strcmp(op->name, "select_scatter");
    if (!x.n) x = (shape){1, {7}};
    int t = draw_dtype(0x7fff), dim = (int)agree_below(x.n);
    if (!x.at[dim]) x.at[dim] = 4;
    int64_t start = agree_below(x.at[dim]), end = start + agree_below(x.at[dim] - start + 1), step = 1 + agree_below(3);
    src = x;
    if (selects) {
        for (int i = dim; i + 1 < x.n; i++) src.at[i] = x.at[i + 1];
        src.n--;
    } else {
        src.at[dim] = end > start ? (end - start - 1) / step + 1 : 0;
    }
    operand(text, room, t, x), operand(text, room, t, src);
    append(text, room, " |");
    append_int(text, room, dim);
    append_int(text, room, start);
    if (!selects) append_int(text, room, end), append_int(text, room, step);
    c->fill = AGREE_WILD;
}

static void draw_random(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape s = draw_shape(3, size);
    int t = draw_float();
    c->fill = AGREE_EXACT;
    if (!strcmp(op->name, "bernoulli")) {
        operand(text, room, t, s);
        c->fill = agree_below(8) ? AGREE_UNIT : AGREE_WILD; /* now and then no probabilities */
        return;
    }
    if (!strcmp(op->name, "randint") || !strcmp(op->name, "randperm")) {
        int64_t low = agree_below(100) - 50;
        append(text, room, " |");
        if (!strcmp(op->name, "randperm")) append_int(text, room, draw_size(size));
        else
            append_int(text, room, low),
                append_int(text, room, agree_below(4) ? low + 1 + agree_below(300) : INT64_MAX),
                append_list(text, room, " ", s.n, s.at);
        append(text, room, " ");
        append(text, room, names[agree_below(3) ? TD_INT64 : agree_below(2) ? TD_INT32 : TD_FLOAT64]);
        return;
    }
    if (!strncmp(op->name, "dropout", 7)) {
        operand(text, room, t, s);
        if (strstr(op->name, "backward")) plain(text, room, TD_INT64, (shape){1, {2}});
        append(text, room, agree_below(2) ? " | 0.25" : " | 0.5");
    } else {
        append(text, room, " |");
        append_list(text, room, " ", s.n, s.at);
        append(text, room, " ");
        append(text, room, names[t]);
    }
}

/* Images of some planes. */
static shape draw_image(void)
{
    return (shape){4, {1 + agree_below(3), 1 + agree_below(4), 3 + agree_below(12), 3 + agree_below(12)}};
}
static void append_two(char *text, size_t room, int64_t a, int64_t b)
{
    append_list(text, room, " ", 2, (const int64_t[]){a, b});
}
static int64_t places(int64_t size, int64_t k, int64_t s, int64_t p, int64_t d)
{
    return (size + 2 * p - d * (k - 1) - 1) / s + 1;
}
static void draw_conv(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape x = draw_image(), w, y;
    int t = draw_float();
    int64_t groups = 1 + agree_below(2), kh = 1 + agree_below(3), kw = 1 + agree_below(3), sh = 1 + agree_below(2),
            sw = 1 + agree_below(2), ph = agree_below(2), pw = agree_below(2);
    (void)size;
    x.at[1] *= groups;
    w = (shape){4, {groups * (1 + agree_below(4)), x.at[1] / groups, kh, kw}};
    y = (shape){4, {x.at[0], w.at[0], places(x.at[2], kh, sh, ph, 1), places(x.at[3], kw, sw, pw, 1)}};
    bool back = strstr(op->name, "backward");
    if (back) operand(text, room, t, y);
    operand(text, room, t, x), operand(text, room, t, w);
    if (!back && agree_below(2)) plain(text, room, t, (shape){1, {w.at[0]}});
    else if (!back) append(text, room, " _");
    append(text, room, " |");
    append_two(text, room, sh, sw), append_two(text, room, ph, pw), append_two(text, room, 1, 1);
    append_int(text, room, groups);
    if (back) append_int(text, room, 1 + agree_below(7));
    near(c, 16);
}
static void draw_pool(const td_op *op, int64_t size, agree_case *c, char *text, size_t room)
{
    shape x = draw_image(), y = x;
    int t = draw_float();
    int64_t kh = 1 + agree_below(3), kw = 1 + agree_below(3), sh = 1 + agree_below(3), sw = 1 + agree_below(3),
            ph = kh > 1 ? agree_below(2) : 0, pw = kw > 1 ? agree_below(2) : 0;
    bool back = strstr(op->name, "backward"), most = !strncmp(op->name, "max", 3);
    (void)size;
    y.at[2] = places(x.at[2], kh, sh, ph, 1), y.at[3] = places(x.at[3], kw, sw, pw, 1);
    operand(text, room, t, back ? y : x);
    if (back && most) operand(text, room, TD_INT64, y);
    append(text, room, " |");
    if (back) append_list(text, room, " ", 4, x.at);
    if (!most || !back) append_two(text, room, kh, kw), append_two(text, room, sh, sw), append_two(text, room, ph, pw);
    if (!most) append(text, room, " false"), append(text, room, agree_below(2) ? " true" : " false");
    near(c, 16);
    if (most && !back) c->fill = AGREE_WILD;
    if (most && back) c->fill = AGREE_INDEX, c->limit = x.at[2] * x.at[3];
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
    static const char *const indexed[] = {"index_select", "embedding", "gather", "index_add",
                                          "scatter_add",  "scatter",   NULL};
    static const char *const moved[] = {"repeat", "flip", "roll", "constant_pad", "tril", "triu", NULL};
    static const char *const lines[] = {"softmax", "log_softmax", "softmax_backward", "log_softmax_backward", NULL};
    *c = (agree_case){.text = text};
    snprintf(text, room, "%s", op->name);
    if (is_one_of(op->name, reductions)) draw_reduction(op, size, c, text, room);
    else if (is_one_of(op->name, products)) draw_product(op, size, c, text, room);
    else if (is_one_of(op->name, created)) draw_created(op, size, c, text, room);
    else if (!strcmp(op->name, "copy_last") || !strcmp(op->name, "to_device")) draw_copy(op, size, c, text, room);
    else if (is_one_of(op->name, lines)) draw_lines(op, size, c, text, room);
    else if (!strncmp(op->name, "nll_loss", 8)) draw_nll(op, size, c, text, room);
    else if (!strcmp(op->name, "sgd_step") || !strcmp(op->name, "adam_step")) draw_step(op, size, c, text, room);
    else if (!strncmp(op->name, "layer_norm", 10) || !strncmp(op->name, "batch_norm", 10))
        draw_norm(op, size, c, text, room);
    else if (is_one_of(op->name, indexed)) draw_index(op, size, c, text, room);
    else if (!strcmp(op->name, "cat") || !strcmp(op->name, "stack")) draw_parts(op, size, c, text, room);
    else if (!strcmp(op->name, "index") || !strcmp(op->name, "index_put")) draw_indices(op, size, c, text, room);
    else if (!strncmp(op->name, "tiled_attention", 15)) draw_attention(op, size, c, text, room);
    else if (is_one_of(op->name, moved)) draw_moved(op, size, c, text, room);
    else if (!strcmp(op->name, "cumsum") || !strcmp(op->name, "cumprod")) draw_scan(op, size, c, text, room);
    else if (!strcmp(op->name, "select_scatter") || !strcmp(op->name, "slice_scatter"))
        draw_slice(op, size, c, text, room);
    else if (op->flags & TD_OF_RANDOM || !strcmp(op->name, "dropout_backward")) draw_random(op, size, c, text, room);
    else if (!strncmp(op->name, "conv2d", 6)) draw_conv(op, size, c, text, room);
    else if (strstr(op->name, "_pool2d")) draw_pool(op, size, c, text, room);
    else if (op->flags & TD_OF_POINTWISE && op->nparams) draw_pointwise(op, size, c, text, room);
    else return false;
    return true;
}
