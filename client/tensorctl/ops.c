/* tensorctl ops: the table that this program was built with. Needs no daemon. */
#include "client/tensorctl/tensorctl.h"
#include "proto/ops/op.h"

#include <stdio.h>
#include <string.h>

static const char *dtypes_of(const td_op *op, char *buffer, size_t size)
{
    if (op->dtypes == (1u << TD_DTYPE_COUNT) - 1) return "all";
    size_t n = 0;
    buffer[0] = 0;
    for (int d = 0; d < TD_DTYPE_COUNT && n < size; d++)
        if (op->dtypes >> d & 1)
            n += (size_t)snprintf(buffer + n, size - n, "%s%s", n ? " " : "", td_dtype_name((td_dtype)d));
    return buffer;
}

static const char *notes_of(const td_op *op, char *buffer, size_t size)
{
    static const struct {
        unsigned flag;
        const char *text;
    } notes[] = {{TD_OF_VIEW, "view"},           {TD_OF_INPLACE, "in place"},
                 {TD_OF_RANDOM, "random"},       {TD_OF_DATA_SHAPE, "shape depends on values"},
                 {TD_OF_NONDIFF, "no gradient"}, {TD_OF_POINTWISE, "pointwise"}};
    size_t n = 0;
    buffer[0] = 0;
    for (size_t i = 0; i < sizeof notes / sizeof notes[0] && n < size; i++)
        if (op->flags & notes[i].flag)
            n += (size_t)snprintf(buffer + n, size - n, "%s%s", n ? ", " : "", notes[i].text);
    return buffer;
}

/* Lines of `text`, each behind `indent`. */
static void print_indented(const char *text, const char *indent)
{
    while (text && *text) {
        size_t n = strcspn(text, "\n");
        printf("%s%.*s\n", indent, (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static void print_op(const td_op *op)
{
    char buffer[256];
    const char *gradients = ctl_gradients(op->id), *composition = ctl_composition(op->id);
    printf("%s%s\n\n  %s\n\n", op->name, op->signature, op->doc);
    printf("  id      %u\n  dtypes  %s\n", op->id, dtypes_of(op, buffer, sizeof buffer));
    if (*notes_of(op, buffer, sizeof buffer)) printf("  notes   %s\n", buffer);
    puts("\n  results");
    print_indented(*ctl_results(op->id) ? ctl_results(op->id) : "none: what is written is marked with !", "    ");
    if (composition) {
        puts("\n  made of");
        print_indented(composition, "    ");
    }
    if (gradients) {
        puts("\n  gradients");
        print_indented(gradients, "    ");
    }
    if (op->example && op->example[0]) {
        puts("\n  example");
        print_indented(op->example, "    ");
    }
}

static void print_json_results(const char *text)
{
    printf(", \"results\": [");
    for (bool first = true; *text; first = false) {
        char name[64], words[256];
        size_t n = strcspn(text, "\n"), colon = strcspn(text, ":");
        snprintf(name, sizeof name, "%.*s", (int)colon, text);
        snprintf(words, sizeof words, "%.*s", (int)(n - colon - 2), text + colon + 2);
        printf("%s{\"name\": ", first ? "" : ", ");
        ctl_print_json_text(name);
        printf(", \"doc\": ");
        ctl_print_json_text(words);
        printf("}");
        text += n + (text[n] == '\n');
    }
    printf("]");
}

static void print_json(const td_op *op, bool last)
{
    const char *const keys[] = {"name", "signature", "doc", "dtypes", "notes", "gradients", "made_of", "example"};
    char dtypes[256], notes[256];
    const char *gradients = ctl_gradients(op->id), *composition = ctl_composition(op->id);
    const char *values[] = {op->name,
                            op->signature,
                            op->doc,
                            dtypes_of(op, dtypes, sizeof dtypes),
                            notes_of(op, notes, sizeof notes),
                            gradients ? gradients : "",
                            composition ? composition : "",
                            op->example ? op->example : ""};
    printf("  {\"id\": %u", op->id);
    for (int i = 0; i < 8; i++) {
        printf(", \"%s\": ", keys[i]);
        ctl_print_json_text(values[i]);
    }
    print_json_results(ctl_results(op->id));
    puts(last ? "}" : "},");
}

/* What an op has on a GPU: a kernel of its own; parts, which clients send; or it runs nothing there. */
enum { KERNEL, PARTS, NOTHING, NONE, WAYS };
static const char *const ways[WAYS] = {"a kernel", "parts", "runs nothing", "no kernel"};
static int way_of(const td_op *op)
{
    if (ctl_has_cuda_kernel(op->id)) return KERNEL;
    if (ctl_composition(op->id)) return PARTS;
    return op->flags & (TD_OF_VIEW | TD_OF_UNCOMPUTED) ? NOTHING : NONE;
}

static int print_ways(const ctl_options *o, const td_op *one)
{
    int count[WAYS] = {0};
    if (strcmp(o->device, "cuda") != 0) {
        fprintf(stderr, "tensorctl: ops --device takes cuda, not %s\n", o->device);
        return 2;
    }
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        if (!op || (one && op != one)) continue;
        count[way_of(op)]++;
        printf("%-24s %s\n", op->name, ways[way_of(op)]);
    }
    if (!one)
        printf("%d have a kernel for CUDA, %d are sent as their parts, %d run nothing, %d have no kernel\n",
               count[KERNEL], count[PARTS], count[NOTHING], count[NONE]);
    return 0;
}

static const char *name_of_op(unsigned id)
{
    const td_op *op = td_op_by_id(id);
    return op ? op->name : NULL;
}

int ctl_ops(const ctl_options *o, const char *name)
{
    const td_op *one = name ? td_op_by_name(name) : NULL;
    if (name && !one) {
        ctl_unknown("op", name, td_op_count, name_of_op, "tensorctl ops");
        return 1;
    }
    if (o->device) return print_ways(o, one);
    if (one && !o->json) {
        print_op(one);
        return 0;
    }
    if (o->json) puts("[");
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        if (!op || (one && op != one)) continue;
        if (o->json) print_json(op, one || id + 1 == td_op_count);
        else printf("%-24s %s\n", op->name, op->doc);
    }
    if (o->json) puts("]");
    return 0;
}
