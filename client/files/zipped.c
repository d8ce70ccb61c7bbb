/* See zipped.h; the numbers are those of PKWARE's APPNOTE, section 4.3. */
#include "client/files/zipped.h"

#include <stdlib.h>
#include <string.h>

enum { LOCAL = 30, ALIGN = 64, BEHIND = 8 /* a flag: sizes follow the bytes */, UTF8 = 0x800, WIDE = 45 };

/* Does a number not fit where zip had a place for it at first? */
static bool is_wide(uint64_t n)
{
    return n >= UINT32_MAX;
}

static uint16_t flags_of(uint64_t size)
{
    return size ? UTF8 | BEHIND : UTF8;
}

static td_zipped_entry *new_entry(td_zipped *z, const char *name, td_error *e)
{
    if (z->n == z->room) {
        uint32_t room = z->room ? 2 * z->room : 16;
        td_zipped_entry *more = realloc(z->entries, room * sizeof *more);
        if (!more) {
            td_no_memory(e, "for the directory of a zip file");
            return NULL;
        }
        z->entries = more;
        z->room = room;
    }
    td_zipped_entry *en = &z->entries[z->n];
    *en = (td_zipped_entry){.name = strdup(name)};
    if (!en->name) {
        td_no_memory(e, "for the directory of a zip file");
        return NULL;
    }
    z->n++;
    return en;
}

int td_zipped_begin(td_zipped *z, const char *name, uint64_t size, td_error *e)
{
    unsigned char head[LOCAL + 24] = "PK\3\4", *p = head + 4;
    td_zipped_entry *en = new_entry(z, name, e);
    if (!en) return e->code;
    en->header = z->to->at;
    en->size = size;
    size_t length = strlen(name), wide = is_wide(size) ? 20 : 0;
    size_t pad = (ALIGN - (en->header + LOCAL + length + wide + 4) % ALIGN) % ALIGN; /* behind the field's own head */
    p = td_put_le(p, wide ? WIDE : 0, 2);
    p = td_put_le(p, flags_of(size), 2);
    p = td_put_le(p, 0, 6); /* stored; no time */
    p = td_put_le(p, 0, 4);
    p = td_put_le(p, wide ? UINT32_MAX : 0, 4);
    p = td_put_le(p, wide ? UINT32_MAX : 0, 4);
    p = td_put_le(p, length, 2);
    td_put_le(p, wide + 4 + pad, 2);
    int rc = td_sink_put(z->to, head, LOCAL, e);
    if (!rc) rc = td_sink_put(z->to, name, length, e);
    p = head;
    if (wide) p = td_put_le(td_put_le(td_put_le(td_put_le(p, 1, 2), 16, 2), 0, 8), 0, 8);
    *p++ = 'F', *p++ = 'B';
    p = td_put_le(p, pad, 2);
    if (!rc) rc = td_sink_put(z->to, head, (size_t)(p - head), e);
    if (!rc) rc = td_sink_fill(z->to, 'Z', pad, e);
    z->to->crc = 0;
    return rc;
}

int td_zipped_end(td_zipped *z, td_error *e)
{
    td_zipped_entry *en = &z->entries[z->n - 1];
    unsigned char tail[24] = "PK\7\10", *p = tail + 4;
    en->crc = z->to->crc;
    if (!en->size) return TD_OK;
    int each = is_wide(en->size) ? 8 : 4;
    p = td_put_le(td_put_le(td_put_le(p, en->crc, 4), en->size, each), en->size, each);
    return td_sink_put(z->to, tail, (size_t)(p - tail), e);
}

int td_zipped_entry_of(td_zipped *z, const char *name, const void *bytes, size_t n, td_error *e)
{
    int rc = td_zipped_begin(z, name, n, e);
    if (!rc) rc = td_sink_put(z->to, bytes, n, e);
    return rc ? rc : td_zipped_end(z, e);
}

static int put_row(td_zipped *z, const td_zipped_entry *en, td_error *e)
{
    unsigned char row[46 + 28] = "PK\1\2", *p = row + 4, extra[28], *x = extra + 4;
    size_t length = strlen(en->name);
    if (is_wide(en->size)) x = td_put_le(td_put_le(x, en->size, 8), en->size, 8);
    if (is_wide(en->header)) x = td_put_le(x, en->header, 8);
    size_t more = (size_t)(x - extra) > 4 ? (size_t)(x - extra) : 0;
    td_put_le(td_put_le(extra, 1, 2), more - 4, 2);
    uint64_t size = is_wide(en->size) ? UINT32_MAX : en->size;
    p = td_put_le(p, more ? WIDE : 0, 2);
    p = td_put_le(p, more ? WIDE : 0, 2);
    p = td_put_le(p, flags_of(en->size), 2);
    p = td_put_le(p, 0, 6);
    p = td_put_le(td_put_le(td_put_le(p, en->crc, 4), size, 4), size, 4);
    p = td_put_le(td_put_le(p, length, 2), more, 2);
    p = td_put_le(td_put_le(p, 0, 8), 0, 2); /* no comment, disk, attributes */
    p = td_put_le(p, is_wide(en->header) ? UINT32_MAX : en->header, 4);
    int rc = td_sink_put(z->to, row, (size_t)(p - row), e);
    if (!rc) rc = td_sink_put(z->to, en->name, length, e);
    return rc || !more ? rc : td_sink_put(z->to, extra, more, e);
}

int td_zipped_finish(td_zipped *z, td_error *e)
{
    uint64_t at = z->to->at;
    int rc = TD_OK;
    for (uint32_t i = 0; !rc && i < z->n; i++) rc = put_row(z, &z->entries[i], e);
    if (rc) return rc;
    uint64_t end = z->to->at, size = end - at;
    unsigned char last[56 + 20 + 22] = "PK\6\6", *p = last + 4;
    p = td_put_le(p, 44, 8);
    p = td_put_le(td_put_le(p, 0x031e, 2), WIDE, 2);
    p = td_put_le(td_put_le(p, 0, 8), z->n, 8);
    p = td_put_le(td_put_le(td_put_le(p, z->n, 8), size, 8), at, 8);
    memcpy(p, "PK\6\7", 4);
    p = td_put_le(td_put_le(td_put_le(p + 4, 0, 4), end, 8), 1, 4);
    memcpy(p, "PK\5\6", 4);
    uint64_t few = z->n < UINT16_MAX ? z->n : UINT16_MAX;
    p = td_put_le(td_put_le(td_put_le(p + 4, 0, 4), few, 2), few, 2);
    p = td_put_le(td_put_le(p, is_wide(size) ? UINT32_MAX : size, 4), is_wide(at) ? UINT32_MAX : at, 4);
    p = td_put_le(p, 0, 2);
    size_t left_out = z->n ? 0 : 56 + 20; /* a file of nothing begins with its end, by which it is known */
    rc = td_sink_put(z->to, last + left_out, (size_t)(p - last) - left_out, e);
    return rc ? rc : td_sink_flush(z->to, e);
}

void td_zipped_close(td_zipped *z)
{
    for (uint32_t i = 0; i < z->n; i++) free(z->entries[i].name);
    free(z->entries);
    *z = (td_zipped){0};
}
