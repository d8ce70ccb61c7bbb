/* Reads and makes the records of programs. See programs.h. */
#include "client/files/programs.h"

#include "client/files/archive.h"
#include "client/files/file.h"
#include "proto/program/text.h"
#include "proto/program/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MOST_BYTES = 16 << 20 /* of a program, as in a frame */, LONG_NAME = TD_FILED_NAME + 16 };

static bool is_letter(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name(const char *text, size_t n)
{
    bool good = n > 0 && n < TD_FILED_NAME && is_letter(text[0]);
    for (size_t i = 1; good && i < n; i++) good = is_letter(text[i]) || (text[i] >= '0' && text[i] <= '9');
    return good;
}

/* ---- reading */

/* All of an entry, with a 0 behind it, to be freed. */
static char *read_entry(const td_zip *z, const td_zip_entry *en, td_error *e)
{
    uint64_t at;
    if (en->size > MOST_BYTES) {
        td_fail(e, TD_E_QUOTA, "'%.80s' has %llu bytes; a program has at most %d", en->name,
                (unsigned long long)en->size, MOST_BYTES);
        return NULL;
    }
    if (td_zip_place(z, en, &at, e)) return NULL;
    char *bytes = malloc((size_t)en->size + 1);
    if (!bytes) {
        td_no_memory(e, "for a program");
        return NULL;
    }
    bytes[en->size] = 0;
    int rc = td_source_read(z->source, at, bytes, (size_t)en->size, e);
    if (!rc && (uint32_t)crc32_z(0, (const unsigned char *)bytes, (size_t)en->size) != en->crc)
        rc = td_fail(e, TD_E_INVALID, "'%.80s' is damaged: its checksum is another", en->name);
    if (!rc) return bytes;
    free(bytes);
    return NULL;
}

/* The name in "FOLDER/programs/NAME.pb"; its length, 0: that is none. */
static size_t name_in(const td_zip_entry *en, const char *folder, size_t stem, const char **name)
{
    static const char inside[] = "/programs/";
    size_t n = strlen(en->name), head = stem + sizeof inside - 1;
    if (n < head + 4 || memcmp(en->name, folder, stem) != 0 ||
        memcmp(en->name + stem, inside, sizeof inside - 1) != 0 || strcmp(en->name + n - 3, ".pb") != 0)
        return 0;
    *name = en->name + head;
    return n - head - 3;
}

static int read_call(const td_zip *z, const td_zip_entry *en, td_filed *p, td_error *e)
{
    char path[1024];
    int n = snprintf(path, sizeof path, "%.*s.json", (int)(strlen(en->name) - 3), en->name);
    const td_zip_entry *call = n > 0 && (size_t)n < sizeof path ? td_zip_find(z, path) : NULL;
    if (!call) return TD_OK;
    p->call = read_entry(z, call, e);
    return p->call ? TD_OK : e->code;
}

static int read_one(const td_zip *z, const td_zip_entry *en, const char *name, size_t n, td_filed *p, td_error *e)
{
    if (!is_name(name, n)) return td_fail(e, TD_E_INVALID, "'%.80s' is no name of a program", en->name);
    memcpy(p->name, name, n);
    char *bytes = read_entry(z, en, e);
    if (bytes) p->ir = td_ir_decode((const uint8_t *)bytes, (size_t)en->size, 0, e);
    free(bytes);
    if (p->ir) return read_call(z, en, p, e);
    td_error why = *e;
    return td_fail(e, why.code == TD_E_PROTOCOL ? TD_E_INVALID : why.code, "its program '%s': %s", p->name,
                   why.message);
}

static int read_all(const td_zip *z, td_filed_all *out, td_error *e)
{
    const td_zip_entry *data = td_archive_data(z, e);
    if (!data) return e->code;
    size_t stem = (size_t)(strchr(data->name, '/') - data->name);
    const char *name;
    uint32_t count = 0;
    for (uint32_t i = 0; i < z->n; i++) count += name_in(&z->entries[i], data->name, stem, &name) > 0;
    if (!count) return td_fail(e, TD_E_UNSUPPORTED, "the file holds tensors, and no program");
    if (count > TD_FILED_MOST)
        return td_fail(e, TD_E_QUOTA, "the file holds %u programs; at most %d are read", count, TD_FILED_MOST);
    out->at = calloc(count, sizeof *out->at);
    if (!out->at) return td_no_memory(e, "for %u programs", count);
    int rc = TD_OK;
    for (uint32_t i = 0; i < z->n && !rc; i++) {
        size_t n = name_in(&z->entries[i], data->name, stem, &name);
        if (n) rc = read_one(z, &z->entries[i], name, n, &out->at[out->n++], e);
    }
    return rc;
}

int td_filed_read(int fd, td_filed_all *out, td_error *e)
{
    unsigned char head[TD_FILE_HEAD] = {0};
    td_source source;
    td_zip z = {0};
    *out = (td_filed_all){0};
    int rc = td_source_init(&source, fd, e);
    size_t n = rc || source.size >= sizeof head ? sizeof head : (size_t)source.size;
    if (!rc) rc = td_source_read(&source, 0, head, n, e);
    const char *stranger = td_file_stranger(head, n);
    if (!rc && memcmp(head, "PK\3\4", 4) != 0)
        rc = td_fail(e, TD_E_UNSUPPORTED, "this is no file of a program: it is %s",
                     stranger ? stranger : "no zip archive; what holds tensors, tensord.load() reads (td_load())");
    if (rc) return rc;
    rc = td_zip_open(&z, &source, e);
    bool coded = !rc && td_archive_has_code(&z) && !td_archive_has_programs(&z);
    if (!rc) rc = coded ? td_archive_read(fd, &z, out, e) : read_all(&z, out, e);
    td_zip_close(&z);
    if (rc) td_filed_free(out);
    return rc;
}

void td_filed_free(td_filed_all *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        td_ir_unref(all->at[i].ir);
        free(all->at[i].call);
    }
    free(all->at);
    *all = (td_filed_all){0};
}

const td_filed *td_filed_find(const td_filed_all *all, const char *name)
{
    uint32_t i = 0;
    while (i < all->n && strcmp(all->at[i].name, name) != 0) i++;
    return i < all->n ? &all->at[i] : NULL;
}

/* ---- making */

/* Takes the bytes over. */
static bool add_record(td_out_record *out, uint32_t *n, const char *name, const char *ending, char *bytes, size_t size)
{
    char *path = malloc(LONG_NAME);
    if (!path || !bytes) {
        free(path);
        free(bytes);
        return false;
    }
    snprintf(path, LONG_NAME, "programs/%s.%s", name, ending);
    td_out_record *r = &out[(*n)++];
    r->name = path, r->bytes = bytes, r->n = size;
    return true;
}

int td_filed_make(const td_scripted_program *p, td_out_record out[TD_FILED_RECORDS], uint32_t *n, td_error *e)
{
    const char *name = p->name;
    size_t size;
    *n = 0;
    if (!is_name(name, strlen(name)))
        return td_fail(e, TD_E_INVALID, "'%.80s' is no name of a program: letters, digits and _, at most %d", name,
                       TD_FILED_NAME - 1);
    uint8_t *packed = td_ir_encode(p->ir, &size, e);
    bool good = packed && add_record(out, n, name, "pb", (char *)packed, size);
    char *text = good ? td_ir_print(p->ir, e) : NULL;
    good = text && add_record(out, n, name, "txt", text, strlen(text));
    if (good && p->call) good = add_record(out, n, name, "json", strdup(p->call), strlen(p->call));
    if (good) return TD_OK;
    td_filed_drop(out, *n);
    *n = 0;
    return e->code ? e->code : td_no_memory(e, "to save a program");
}

void td_filed_drop(td_out_record *records, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)records[i].name);
        free((void *)(uintptr_t)records[i].bytes);
    }
}
