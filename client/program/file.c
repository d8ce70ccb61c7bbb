/* Programs in files: td_program_save() and td_program_load(), over files/programs.h. */
#include "client/files/programs.h"
#include "client/files/save.h"
#include "client/program/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- saving */

/* An opened program asks for what it captures. */
static int bring_captured(td_program *p)
{
    int rc = td_enter(p->client, "program_save");
    if (rc) return rc;
    rc = td_program_captured(p);
    td_leave(p->client);
    return rc;
}

static int write_program(const td_program *p, const char *path, unsigned flags, td_error *e)
{
    td_bytes note = {0};
    td_list captured = td_arrays_of(p->ncaptured, p->captured);
    const char **names = calloc((size_t)p->ncaptured + 1, sizeof *names);
    if (!names) return td_no_memory(e, "for %d names", p->ncaptured);
    for (int k = 0; k < p->ncaptured; k++) names[k] = td_ir_chars(p->ir, p->ir->captures[k].name);
    int rc = td_save_names(captured, names, &note, e);
    td_scripted_program forward = {"forward", p->ir, NULL};
    td_save_content what = {
        .tree = td_save_tree(captured, &note), .programs = &forward, .nprograms = 1, .flags = flags};
    if (!rc) rc = td_save_all(path, &what, e);
    free(note.at);
    free(names);
    return rc;
}

TD_API int td_program_save(td_program *p, const char *path, unsigned flags)
{
    td_error e = {0};
    if (!p || !path) return td_raise_null("program_save", p ? "the path" : "the program");
    int rc = bring_captured(p);
    if (!rc) rc = write_program(p, path, flags, &e);
    if (e.code) td_raise_error(&e, "program_save", NULL);
    return rc;
}

/* ---- loading */

static td_ir *pick(const td_filed_all *all, const char *name, td_error *e)
{
    char known[200] = "";
    size_t n = 0;
    const td_filed *found = td_filed_find(all, name);
    if (found && !found->ir) *e = found->why;
    if (found) return found->ir ? td_ir_ref(found->ir) : NULL;
    for (uint32_t i = 0; i < all->n && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s'%s'", i ? ", " : "", all->at[i].name);
    td_fail(e, TD_E_NOT_FOUND, "the file has no program '%.60s'; it has %s", name, known);
    return NULL;
}

/* Takes the module over. */
static td_program *give(td_client *c, td_ir *ir, const td_loaded *tensors)
{
    td_program *p = NULL;
    td_array **at = calloc(ir->ncaptures + 1u, sizeof(td_array *));
    bool good = at != NULL;
    if (!at) td_raise(TD_E_SYSTEM, "program_load", "no memory for %u tensors", ir->ncaptures);
    for (uint32_t k = 0; good && k < ir->ncaptures; k++)
        good = (at[k] = td_loaded_get(tensors, td_ir_chars(ir, ir->captures[k].name))) != NULL;
    if (good) p = td_program_give(c, ir, td_arrays_of((int)ir->ncaptures, at), "program_load");
    else td_ir_unref(ir);
    free(at);
    return p;
}

static td_program *load_from(td_client *c, int fd, const char *name, unsigned flags)
{
    td_filed_all all;
    td_error e = {0};
    td_program *p = NULL;
    td_ir *ir = td_filed_read(fd, &all, &e) ? NULL : pick(&all, name, &e);
    if (!ir) td_raise_error(&e, "program_load", NULL);
    td_loaded *tensors = ir ? td_load_fd(c, fd, flags | TD_LOAD_PROGRAMS) : NULL;
    if (tensors) p = give(c, ir, tensors);
    else td_ir_unref(ir);
    td_loaded_free(tensors);
    td_filed_free(&all);
    return p;
}

TD_API td_program *td_program_load(td_client *c, const char *path, const char *name, unsigned flags)
{
    if (!c || !path) {
        td_raise_null("program_load", c ? "the path" : "client");
        return NULL;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        td_raise(errno == ENOENT ? TD_E_NOT_FOUND : TD_E_SYSTEM, "program_load", "%.200s: %s", path, strerror(errno));
        return NULL;
    }
    td_program *p = load_from(c, fd, name ? name : "forward", flags);
    close(fd);
    return p;
}
