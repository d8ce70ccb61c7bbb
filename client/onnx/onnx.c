/* The door: a file becomes a program and its card. See onnx.h. */
#include "client/onnx/onnx.h"

#include "client/files/source.h"
#include "client/onnx/card.h"
#include "client/onnx/digest.h"
#include "client/onnx/text.h"
#include "client/program/programs.h"
#include "client/script/script.h"
#include "client/tensord_bind.h"
#include "proto/base/text.h"
#include "proto/program/literal.h"
#include "proto/program/prim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEASED = 32 << 10 }; /* bytes from which a weight is read into leased memory */

typedef struct loading {
    const char *path, *shown; /* the file's own name */
    int fd, folder;
    td_onnx_file file;
    td_onnx_whole whole;
    td_onnx_writer writer;
    const char *const *places; /* by line: what it was made of */
    td_error e;
    td_digest outside;
    td_array **weights; /* by captured tensor of the module */
    uint64_t bytes;
} loading;

/* ---- the file */

/* Where external data may lie. */
static int open_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(folder);
    return fd;
}

static bool open_file(loading *l)
{
    const char *slash = strrchr(l->path, '/');
    l->shown = slash ? slash + 1 : l->path;
    l->fd = open(l->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (l->fd < 0) {
        int err = errno;
        td_fail_errno(&l->e, err, "it cannot be opened");
        if (err == ENOENT) l->e.code = TD_E_NOT_FOUND;
        return false;
    }
    l->folder = open_folder(l->path);
    return true;
}

static bool read_graph(loading *l)
{
    if (!open_file(l) || td_onnx_read(&l->file, l->fd, l->folder, &l->e)) return false;
    td_digest_init(&l->outside);
    l->file.outside = &l->outside;
    return !td_onnx_resolve(&l->whole, &l->file, &l->e) && !td_onnx_fold(&l->whole) &&
           !td_onnx_write(&l->writer, &l->whole);
}

static void end(loading *l)
{
    td_onnx_write_end(&l->writer);
    td_onnx_graph_end(&l->whole);
    td_onnx_close(&l->file);
    if (l->fd >= 0) close(l->fd);
    if (l->folder >= 0) close(l->folder);
}

/* ---- the text as a module */

/* With the node that this line of the text was made of, if there is one. */
static void fail_at(loading *l, td_code code, unsigned line, const char *why)
{
    char node[200];
    const td_onnx_step *s = line && line <= l->writer.nlines ? l->writer.lines[line - 1] : NULL;
    if (s) td_fail(&l->e, code, "%s: %s", td_onnx_say(s, node, sizeof node), why);
    else td_fail(&l->e, code, "%s", why);
}

/* "main:LINE:COLUMN: why", then the line: the node of that line instead. */
static void say_node(loading *l)
{
    char why[sizeof l->e.message];
    const char *at = strchr(l->e.message, ':');
    unsigned line = at ? (unsigned)strtoul(at + 1, NULL, 10) : 0;
    const char *text = at ? strstr(at + 1, ": ") : NULL;
    if (!text || strncmp(l->e.message, "main:", 5) != 0) return;
    snprintf(why, sizeof why, "%s", text + 2);
    why[strcspn(why, "\n")] = 0;
    fail_at(l, (td_code)l->e.code, line, why);
}

static const char *const helpers[] = {"_out", "_tensor", "_copy", "_bool", "_int", "_none", "_no_numbers", "_stacked"};
enum { HELPERS = sizeof helpers / sizeof *helpers };

static td_script_name function_of_onnx(const char *name)
{
    return (td_script_name){
        .name = name, .kind = TD_SN_FUNCTION, .text = name, .unit = 1 + TD_SCRIPT_ONNX, .object = TD_IR_NONE};
}

/* What its names mean: functions of onnx.py, and weights. */
static uint32_t fill_names(const loading *l, td_script_name *names, char (*texts)[16])
{
    uint32_t n = 0;
    names[n++] = (td_script_name){.name = "td", .kind = TD_SN_TENSORS};
    names[n++] = (td_script_name){.name = "math", .kind = TD_SN_MATH};
    for (int k = 0; k < HELPERS; k++) names[n++] = function_of_onnx(helpers[k]);
    for (uint32_t k = 0; k < l->writer.nused; k++) names[n++] = function_of_onnx(l->writer.used[k]->function);
    for (uint32_t k = 0; k < l->writer.nweights; k++) {
        snprintf(texts[k], sizeof texts[k], "w%u", k + 1);
        names[n++] = (td_script_name){.name = texts[k], .kind = TD_SN_TENSOR};
    }
    return n;
}

/* Nodes, as a program names them whose run fails. */
static bool name_places(loading *l)
{
    const td_onnx_writer *t = &l->writer;
    char text[TD_ONNX_PLACE];
    if (l->places) return true;
    const char **places = td_onnx_take(&l->file, t->nlines * sizeof *places, &l->e);
    for (uint32_t k = 0; places && k < t->nlines; k++) {
        if (!t->lines[k]) continue;
        if (k && t->lines[k] == t->lines[k - 1]) {
            places[k] = places[k - 1];
            continue;
        }
        td_onnx_say_place(t->lines[k], text);
        char *kept = td_onnx_take(&l->file, strlen(text) + 1, &l->e);
        if (!kept) return false;
        places[k] = strcpy(kept, text); /* NOLINT: as long as it is */
    }
    l->places = places;
    return places != NULL;
}

static td_ir *compile(loading *l)
{
    if (!name_places(l)) return NULL;
    uint32_t room = 2 + HELPERS + l->writer.nused + l->writer.nweights;
    td_script_name *names = calloc(room, sizeof *names);
    char(*texts)[16] = calloc(l->writer.nweights + 1u, sizeof *texts);
    td_ir *ir = NULL;
    if (!names || !texts) td_no_memory(&l->e, "for the names of a model");
    else {
        uint32_t n = fill_names(l, names, texts);
        td_script_unit unit = {
            .source = {"main", l->writer.out.text, l->writer.out.used, 1, l->places, l->writer.nlines},
            .names = {names, n}};
        td_script_world world = {.units = &unit, .nunits = 1, .onnx = true};
        td_script_name entry = {.kind = TD_SN_FUNCTION, .text = "main", .object = TD_IR_NONE};
        ir = td_script_compile_world(&world, &entry, &l->e);
    }
    free(names);
    free(texts);
    if (!ir) say_node(l);
    return ir;
}

/* ---- weights */

static td_array *bring(td_client *c, loading *l, td_onnx_constant *w)
{
    const td_onnx_look *look = &w->look;
    td_ints shape = td_dims_of(look->ndim, look->shape);
    td_lease *lease = look->bytes > LEASED ? td_lease_new(c, look->bytes) : NULL;
    if (look->bytes > LEASED && !lease) return NULL;
    _Alignas(16) char few[LEASED];
    void *to = lease ? td_lease_data(lease) : few;
    int rc = TD_OK;
    if (w->bytes) memcpy(to, w->bytes, look->bytes);
    else rc = td_onnx_fetch(&l->file, w->from, look, to, &l->e);
    unsigned before = td_now_on(TD_CPU);
    td_array *a = rc ? NULL : lease ? td_put(lease, 0, look->dtype, shape) : td_from_data(c, look->dtype, shape, few);
    td_now_on(before);
    td_lease_free(lease);
    l->bytes += look->bytes;
    return td_keep(a); /* from the caller's scope */
}

/* The module captures them by the names of the text, "w12". */
static td_onnx_constant *captured(const loading *l, const td_ir *ir, uint32_t k)
{
    return l->writer.weights[strtoul(td_ir_chars(ir, ir->captures[k].name) + 1, NULL, 10) - 1];
}

static bool bring_all(td_client *c, loading *l, const td_ir *ir)
{
    l->weights = calloc(ir->ncaptures + 1u, sizeof(td_array *));
    if (!l->weights) td_no_memory(&l->e, "for the weights of a model");
    for (uint32_t k = 0; l->weights && k < ir->ncaptures; k++) {
        l->weights[k] = bring(c, l, captured(l, ir, k));
        if (!l->weights[k]) {
            if (!l->e.code) l->e = *td_last_error();
            break;
        }
    }
    return !l->e.code;
}

/* ---- the program */

static td_program *freeze(loading *l, td_program *p, unsigned flags)
{
    td_program *frozen = p && !(flags & TD_ONNX_RAW)
                             ? td_program_freeze(p, 0, NULL, flags & TD_ONNX_EXACTLY ? TD_FREEZE_EXACTLY : 0)
                             : p;
    if (!frozen) l->e = *td_last_error();
    if (p != frozen) td_program_free(p);
    return frozen;
}

/* The line that has this place; 0: none has. */
static unsigned line_of(const loading *l, const td_ir *ir, uint32_t source)
{
    const char *place = source != TD_IR_NONE ? td_ir_chars(ir, ir->sources[source].file) : NULL;
    for (uint32_t k = 0; place && k < l->writer.nlines; k++)
        if (l->places[k] && strcmp(l->places[k], place) == 0) return k + 1;
    return 0;
}

/* An op that always fails for what the file says of it is one that is not known: "AssertionError: why" of a test that
 * was decided. */
static bool is_refused(loading *l, const td_program *p)
{
    const td_ir *ir = p->ir;
    char text[300];
    for (uint32_t n = ir->blocks[ir->functions[0].block].first; n != TD_IR_NONE; n = ir->nodes[n].next) {
        const td_ir_node *x = &ir->nodes[n];
        if (x->op != TD_PRIM_RAISE) continue;
        unsigned line = line_of(l, ir, x->source);
        td_literal why = {0};
        uint32_t def = ir->values[td_ir_in(ir, n, 1)].def;
        if (!(def & TD_IR_PARAM) && ir->nodes[def].op == TD_PRIM_CONSTANT)
            td_literal_get(ir->words + ir->nodes[def].word, ir->nodes[def].nwords, &why);
        snprintf(text, sizeof text, "%.280s", why.kind == TD_L_STR ? td_ir_chars(ir, why.small) : "it always fails");
        fail_at(l, TD_E_UNSUPPORTED, line, text);
        return true;
    }
    return false;
}

static td_program *make(td_client *c, loading *l, unsigned flags)
{
    td_ir *ir = compile(l);
    td_program *p = NULL;
    if (ir && bring_all(c, l, ir)) {
        p = td_program_give(c, td_ir_ref(ir), td_arrays_of((int)ir->ncaptures, l->weights), "load_model");
        p = freeze(l, p, flags);
        if (p && is_refused(l, p)) td_program_free(p), p = NULL;
    }
    for (uint32_t k = 0; ir && l->weights && k < ir->ncaptures; k++)
        if (l->weights[k]) td_release(l->weights[k]);
    free(l->weights);
    td_ir_unref(ir);
    return p;
}

static void raise(const loading *l)
{
    char shown[100];
    td_error e = {0};
    td_text_visible(shown, sizeof shown, l->shown);
    bool ran = strncmp(l->e.where, "node ", 5) == 0; /* what is made of constants alone */
    td_fail(&e, (td_code)l->e.code, "%s: %s%s%s", shown, ran ? l->e.where : "", ran ? ": " : "", l->e.message);
    td_raise_error(&e, "load_model", NULL);
}

/* Of the file, and of what was read from others, which is as much of the model. */
static void digest(loading *l, const char *file, char out[TD_DIGEST_TEXT])
{
    td_digest both;
    char other[TD_DIGEST_TEXT];
    memcpy(out, file, TD_DIGEST_TEXT);
    if (l->outside.size == 0) return;
    td_digest_end(&l->outside, other);
    td_digest_init(&both);
    td_digest_add(&both, file, TD_DIGEST_TEXT - 1);
    td_digest_add(&both, other, TD_DIGEST_TEXT - 1);
    td_digest_end(&both, out);
}

static bool has_outside(const loading *l)
{
    for (uint32_t k = 0; k < l->writer.nweights; k++)
        if (l->writer.weights[k]->from && l->writer.weights[k]->from->location == 1) return true;
    return false;
}

/* What bring_all() would read, in its order. */
static bool skim_all(loading *l)
{
    if (!has_outside(l)) return true;
    td_ir *ir = compile(l);
    for (uint32_t k = 0; ir && k < ir->ncaptures && !l->e.code; k++) {
        const td_onnx_constant *w = captured(l, ir, k);
        if (!w->bytes) td_onnx_skim(&l->file, w->from, &w->look, &l->e);
    }
    td_ir_unref(ir);
    return !l->e.code;
}

td_program *td_onnx_program(td_client *client, const char *path, unsigned flags, char **card)
{
    char of_file[TD_DIGEST_TEXT], of_all[TD_DIGEST_TEXT];
    if (!client || !path || !card) {
        td_raise_null("load_model", !client ? "client" : path ? "card" : "path");
        return NULL;
    }
    loading l = {.path = path, .shown = path, .fd = -1, .folder = -1};
    td_step_aside();
    bool good = read_graph(&l) && !td_digest_file(&l.file.source, of_file, &l.e);
    td_step_back();
    td_program *p = good ? make(client, &l, flags) : NULL;
    if (p) digest(&l, of_file, of_all);
    *card = p ? td_onnx_card(&l.whole, path, of_all, l.bytes) : NULL;
    if (p && !*card) td_program_free(p), p = NULL;
    if (!p) raise(&l);
    end(&l);
    return p;
}

int td_model_digest(const char *path, char out[TD_MODEL_DIGEST])
{
    char of_file[TD_DIGEST_TEXT];
    loading l = {.path = path, .shown = path, .fd = -1, .folder = -1};
    td_step_aside();
    bool good = read_graph(&l) && !td_digest_file(&l.file.source, of_file, &l.e) && skim_all(&l);
    td_step_back();
    snprintf(out, TD_MODEL_DIGEST, "sha256:");
    if (good) digest(&l, of_file, out + strlen(out));
    else raise(&l);
    int rc = l.e.code;
    end(&l);
    return rc;
}

char *td_onnx_source(const char *path, td_error *e)
{
    loading l = {.path = path, .shown = path, .fd = -1, .folder = -1};
    char *text = NULL;
    if (read_graph(&l)) text = l.writer.out.text, l.writer.out.text = NULL;
    else if (e) *e = l.e;
    end(&l);
    return text;
}
