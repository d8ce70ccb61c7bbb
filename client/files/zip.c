/* Reading the directory of a zip file. See zip.h; the numbers are those of PKWARE's APPNOTE, section 4.3. */
#include "client/files/zip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    END = 22,
    END_COMMENT = 65535, /* at most, behind the end record */
    END64 = 56,
    LOCATOR = 20,
    CENTRAL = 46,
    LOCAL = 30,
    ENCRYPTED = 1,
    EXTRA64 = 1,
    PIECE = 1 << 20
};
#define MOST_DIRECTORY (UINT64_C(256) << 20) /* bytes */
#define MOST_INFLATED (UINT64_C(1) << 30)

static int damaged(td_error *e, const char *what)
{
    return td_fail(e, TD_E_INVALID, "the zip file is damaged: %s", what);
}

typedef struct directory {
    uint64_t at, size, entries;
    uint64_t end; /* where what follows it begins */
} directory;

/* The end record of ZIP64, when a locator stands before the plain one at `end`. */
static int find_end64(const td_source *s, uint64_t end, directory *d, td_error *e)
{
    unsigned char locator[LOCATOR], r[END64];
    if (end < LOCATOR) return TD_OK;
    int rc = td_source_read(s, end - LOCATOR, locator, sizeof locator, e);
    if (rc || memcmp(locator, "PK\6\7", 4) != 0) return rc;
    uint64_t at = td_le64(locator + 8);
    if (at > end - LOCATOR || end - LOCATOR - at < END64) return damaged(e, "its ZIP64 end record is outside");
    if ((rc = td_source_read(s, at, r, sizeof r, e))) return rc;
    if (memcmp(r, "PK\6\6", 4) != 0) return damaged(e, "its ZIP64 end record is not where it should be");
    if (td_le32(r + 16) || td_le32(r + 20) || td_le64(r + 24) != td_le64(r + 32))
        return damaged(e, "it is one part of several");
    *d = (directory){.at = td_le64(r + 48), .size = td_le64(r + 40), .entries = td_le64(r + 32), .end = at};
    return TD_OK;
}

/* The last record whose comment ends with the file. */
static int find_end(const td_source *s, directory *d, td_error *e)
{
    unsigned char *tail = malloc(END + END_COMMENT);
    uint64_t n = s->size < END + END_COMMENT ? s->size : END + END_COMMENT;
    if (!tail) return td_no_memory(e, "to read a zip file");
    int rc = td_source_read(s, s->size - n, tail, (size_t)n, e);
    const unsigned char *found = NULL;
    for (uint64_t back = END; !rc && !found && back <= n; back++) {
        const unsigned char *p = tail + (n - back);
        if (memcmp(p, "PK\5\6", 4) == 0 && td_le16(p + 20) == back - END) found = p;
    }
    if (!rc && !found) rc = td_fail(e, TD_E_INVALID, "the zip file has no end record: it was cut, or is none");
    if (!rc && (td_le16(found + 4) || td_le16(found + 6) || td_le16(found + 8) != td_le16(found + 10)))
        rc = damaged(e, "it is one part of several");
    if (!rc) {
        uint64_t end = s->size - n + (uint64_t)(found - tail);
        *d = (directory){
            .at = td_le32(found + 16), .size = td_le32(found + 12), .entries = td_le16(found + 10), .end = end};
        rc = find_end64(s, end, d, e);
    }
    free(tail);
    if (rc) return rc;
    if (d->at > d->end || d->size > d->end - d->at || d->entries > d->size / CENTRAL)
        return damaged(e, "its directory is outside");
    return d->size <= MOST_DIRECTORY ? TD_OK : damaged(e, "its directory is too large");
}

/* What did not fit into 32 bits stands in the extra field. */
static bool widen(uint64_t *value, const unsigned char **extra, const unsigned char *end)
{
    if (*value != UINT32_MAX) return true;
    if (end - *extra < 8) return false;
    *value = td_le64(*extra);
    *extra += 8;
    return true;
}

static bool read_extra(td_zip_entry *en, const unsigned char *extra, uint32_t n)
{
    const unsigned char *end = extra + n;
    while (end - extra >= 4 && td_le16(extra) != EXTRA64) {
        if (td_le16(extra + 2) > end - extra - 4) return false;
        extra += 4 + td_le16(extra + 2);
    }
    if (end - extra < 4) return en->size != UINT32_MAX && en->packed != UINT32_MAX && en->header != UINT32_MAX;
    if (td_le16(extra + 2) > end - extra - 4) return false;
    end = extra + 4 + td_le16(extra + 2);
    extra += 4;
    return widen(&en->size, &extra, end) && widen(&en->packed, &extra, end) && widen(&en->header, &extra, end);
}

bool td_zip_good_name(const char *name, uint32_t n)
{
    if (n == 0 || name[0] == '/' || memchr(name, 0, n)) return false;
    for (const char *p = name; p; p = strchr(p, '/'), p = p ? p + 1 : NULL)
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == 0)) return false;
    return true;
}

/* One row of the directory: its length, or 0. Names go to *names. */
static uint32_t read_row(const unsigned char *row, uint64_t left, td_zip_entry *en, char **names, td_error *e)
{
    uint64_t length =
        left < CENTRAL ? 0 : CENTRAL + (uint64_t)td_le16(row + 28) + td_le16(row + 30) + td_le16(row + 32);
    if (length == 0 || length > left || memcmp(row, "PK\1\2", 4) != 0) {
        damaged(e, "an entry of its directory is none");
        return 0;
    }
    uint32_t n = td_le16(row + 28);
    *en = (td_zip_entry){.name = *names,
                         .crc = td_le32(row + 16),
                         .method = td_le16(row + 10),
                         .size = td_le32(row + 24),
                         .packed = td_le32(row + 20),
                         .header = td_le32(row + 42)};
    memcpy(*names, row + CENTRAL, n);
    (*names)[n] = 0;
    *names += n + 1;
    if (!td_zip_good_name(en->name, n)) damaged(e, "an entry has a name that none may have");
    else if (td_le16(row + 8) & ENCRYPTED)
        td_fail(e, TD_E_UNSUPPORTED, "'%.80s' in the zip file is encrypted", en->name);
    else if (!read_extra(en, row + CENTRAL + n, td_le16(row + 30))) damaged(e, "an entry has no sizes");
    else return (uint32_t)length;
    return 0;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = ((const td_zip_entry *)a)->header, y = ((const td_zip_entry *)b)->header;
    return (x > y) - (x < y);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const td_zip_entry *)a)->name, ((const td_zip_entry *)b)->name);
}

/* Nothing overlaps, and no name is there twice. */
static int check_entries(td_zip *z, uint64_t end, td_error *e)
{
    if (z->n == 0) return TD_OK;
    qsort(z->entries, z->n, sizeof *z->entries, by_place);
    for (uint32_t i = 0; i < z->n; i++) {
        td_zip_entry *en = &z->entries[i];
        en->limit = i + 1 < z->n ? z->entries[i + 1].header : end;
        if (en->limit < en->header || en->limit - en->header < LOCAL || en->packed > en->limit - en->header - LOCAL)
            return td_fail(e, TD_E_INVALID, "the zip file is damaged: '%.80s' overlaps what follows it", en->name);
    }
    qsort(z->entries, z->n, sizeof *z->entries, by_name);
    for (uint32_t i = 1; i < z->n; i++)
        if (strcmp(z->entries[i - 1].name, z->entries[i].name) == 0)
            return td_fail(e, TD_E_INVALID, "the zip file is damaged: '%.80s' is there twice", z->entries[i].name);
    return TD_OK;
}

static int read_directory(td_zip *z, const directory *d, const unsigned char *bytes, td_error *e)
{
    char *names = z->names;
    uint64_t at = 0;
    for (; z->n < d->entries; z->n++) {
        uint32_t n = read_row(bytes + at, d->size - at, &z->entries[z->n], &names, e);
        if (!n) return e->code;
        at += n;
    }
    return check_entries(z, d->at, e);
}

int td_zip_open(td_zip *z, const td_source *s, td_error *e)
{
    directory d = {0};
    *z = (td_zip){.source = s};
    int rc = find_end(s, &d, e);
    if (rc) return rc;
    unsigned char *bytes = malloc((size_t)d.size + 1);
    z->names = malloc((size_t)d.size + 1); /* a row has 46 bytes beside its name */
    z->entries = malloc((size_t)(d.entries + 1) * sizeof *z->entries);
    if (!bytes || !z->names || !z->entries) rc = td_no_memory(e, "for the directory of a zip file");
    else if (!(rc = td_source_read(s, d.at, bytes, (size_t)d.size, e))) rc = read_directory(z, &d, bytes, e);
    free(bytes);
    return rc;
}

void td_zip_close(td_zip *z)
{
    free(z->names);
    free(z->entries);
    *z = (td_zip){0};
}

const td_zip_entry *td_zip_find(const td_zip *z, const char *name)
{
    td_zip_entry key = {.name = name};
    return z->n ? bsearch(&key, z->entries, z->n, sizeof key, by_name) : NULL;
}

/* Behind its local header. */
static int find_bytes(const td_zip *z, const td_zip_entry *en, uint64_t *at, td_error *e)
{
    unsigned char local[LOCAL];
    int rc = td_source_read(z->source, en->header, local, sizeof local, e);
    if (rc) return rc;
    uint64_t begin = en->header + LOCAL + td_le16(local + 26) + td_le16(local + 28);
    if (memcmp(local, "PK\3\4", 4) != 0 || begin > en->limit || en->packed > en->limit - begin)
        return td_fail(e, TD_E_INVALID, "the zip file is damaged: '%.80s' is not where it should be", en->name);
    *at = begin;
    return TD_OK;
}

int td_zip_place(const td_zip *z, const td_zip_entry *en, uint64_t *at, td_error *e)
{
    if (en->method != TD_ZIP_STORED || en->size != en->packed)
        return td_fail(e, TD_E_UNSUPPORTED, "'%.80s' in the zip file is compressed", en->name);
    return find_bytes(z, en, at, e);
}

int td_zip_bytes(const td_zip *z, const td_zip_entry *en, uint64_t *at, td_error *e)
{
    if (en->method == TD_ZIP_STORED) return td_zip_place(z, en, at, e);
    if (en->method != TD_ZIP_DEFLATED)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "'%.80s' in the zip file is compressed in a way that is not known here (%u)", en->name,
                       en->method);
    if (en->size > MOST_INFLATED)
        return td_fail(e, TD_E_UNSUPPORTED, "'%.80s' in the zip file is compressed and has more than a gigabyte",
                       en->name);
    return find_bytes(z, en, at, e);
}

/* ---- what is deflated */

typedef struct inflating {
    z_stream z;
    const td_source *source;
    uint64_t at, left; /* still to read */
    bool over;
    unsigned char in[1 << 14], passed[1 << 14];
} inflating;

/* Up to n bytes, all of them unless it ends before. */
static int inflate_some(inflating *f, void *to, size_t n, size_t *got, td_error *e)
{
    f->z.next_out = to;
    f->z.avail_out = (unsigned)n;
    while (f->z.avail_out && !f->over) {
        if (!f->z.avail_in) {
            size_t part = f->left < sizeof f->in ? (size_t)f->left : sizeof f->in;
            int rc = part ? td_source_read(f->source, f->at, f->in, part, e) : damaged(e, "what is compressed is cut");
            if (rc) return rc;
            f->z.next_in = f->in;
            f->z.avail_in = (unsigned)part;
            f->at += part;
            f->left -= part;
        }
        int rc = inflate(&f->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END) f->over = true;
        else if (rc != Z_OK)
            return rc == Z_MEM_ERROR ? td_no_memory(e, "to read a zip file") : damaged(e, "what is compressed is none");
    }
    *got = n - f->z.avail_out;
    return TD_OK;
}

static int inflate_all(inflating *f, const td_zip_packed *packed, unsigned char *p, size_t n, uint32_t *crc,
                       td_error *e)
{
    for (uint64_t skip = packed->skip; skip || n;) {
        size_t want = skip ? (skip < sizeof f->passed ? (size_t)skip : sizeof f->passed) : n < PIECE ? n : PIECE, got;
        unsigned char *to = skip ? f->passed : p;
        int rc = inflate_some(f, to, want, &got, e);
        if (rc) return rc;
        if (got < want) return damaged(e, "what is compressed is shorter than its directory says");
        if (crc) *crc = (uint32_t)crc32_z(*crc, to, want);
        if (skip) skip -= want;
        else p += want, n -= want;
    }
    size_t more = 0;
    int rc = packed->whole ? inflate_some(f, f->passed, 1, &more, e) : TD_OK;
    return rc || !more ? rc : damaged(e, "what is compressed is longer than its directory says");
}

int td_zip_inflate(const td_source *s, const td_zip_packed *packed, void *to, size_t n, uint32_t *crc, td_error *e)
{
    inflating *f = malloc(sizeof *f);
    if (!f) return td_no_memory(e, "to read a zip file");
    *f = (inflating){.source = s, .at = packed->at, .left = packed->size};
    int rc = inflateInit2(&f->z, -MAX_WBITS) == Z_OK ? TD_OK : td_no_memory(e, "to read a zip file");
    if (!rc) {
        rc = inflate_all(f, packed, to, n, crc, e);
        inflateEnd(&f->z);
    }
    free(f);
    return rc;
}
