/* The texts of call sites, which nodes of the graph name: one for all nodes of a line, counted.
 *
 * A program has few lines and many nodes; a hostile one may have as many lines as nodes, so that from some number of
 * them on no more are kept, until nodes go. */
#include "daemon/autograd/node.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 13, MOST = 1 << 16 };

typedef struct site {
    struct site *next;
    uint32_t refs, hash;
    char text[];
} site;

static _Thread_local site **loop_sites; /* by hash */
static _Thread_local uint32_t loop_count;

static site *site_of(const char *text)
{
    return (site *)(void *)((uintptr_t)text - offsetof(site, text));
}

static site *make(const char *text, uint32_t hash)
{
    size_t n = strlen(text) + 1;
    site *s = loop_count < MOST ? malloc(sizeof *s + n) : NULL;
    if (!s) return NULL;
    *s = (site){.next = loop_sites[hash % BUCKETS], .hash = hash};
    memcpy(s->text, text, n);
    loop_sites[hash % BUCKETS] = s;
    loop_count++;
    return s;
}

/* Eight letters at a time: each node asks. */
static uint32_t hash_of(const char *text)
{
    uint64_t hash = 0x243f6a8885a308d3u, part = 0;
    size_t n = strlen(text);
    for (; n >= sizeof part; n -= sizeof part, text += sizeof part) {
        memcpy(&part, text, sizeof part);
        hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    part = 0;
    memcpy(&part, text, n);
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 32);
}

const char *td_site_new(const char *text)
{
    if (!text[0] || (!loop_sites && !(loop_sites = calloc(BUCKETS, sizeof *loop_sites)))) return "";
    uint32_t hash = hash_of(text);
    site *s = loop_sites[hash % BUCKETS];
    while (s && (s->hash != hash || strcmp(s->text, text) != 0)) s = s->next;
    if (!s && !(s = make(text, hash))) return "";
    s->refs++;
    return s->text;
}

const char *td_site_ref(const char *text)
{
    if (text[0]) site_of(text)->refs++;
    return text;
}

void td_site_unref(const char *text)
{
    if (!text[0]) return;
    site *s = site_of(text), **at = &loop_sites[s->hash % BUCKETS];
    if (--s->refs) return;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    loop_count--;
    free(s);
}
