/* Sites of calls, behind a board. See site.h. */
#include "shm/board/site.h"
#include "proto/base/text.h"

#include <string.h>

static td_site_text *slot(const td_sites *s, uint32_t rank, uint32_t number)
{
    return &s->all[(size_t)rank * TD_SITE_SLOTS + number % TD_SITE_SLOTS];
}

static uint32_t known(const td_sites *s, const char *text)
{
    for (uint32_t i = 0; i < TD_SITE_SLOTS && i < s->last; i++)
        if (s->texts[(s->last - i) % TD_SITE_SLOTS] == text) return s->last - i;
    return 0;
}

uint32_t td_sites_number(td_sites *s, const char *text)
{
    if (!text || !text[0]) return 0;
    uint32_t number = known(s, text);
    if (number) return number;
    number = ++s->last ? s->last : ++s->last;
    s->texts[number % TD_SITE_SLOTS] = text;
    td_site_text *at = slot(s, s->rank, number);
    size_t n = strlen(text);
    const char *from = n < TD_SITE_TEXT ? text : text + n - (TD_SITE_TEXT - 1);
    atomic_store_explicit(&at->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    strncpy(at->text, from, TD_SITE_TEXT - 1);
    atomic_store_explicit(&at->number, number, memory_order_release);
    return number;
}

bool td_sites_text(const td_sites *s, uint32_t rank, uint32_t number, char out[TD_SITE_TEXT])
{
    td_site_text *at = slot(s, rank, number);
    char said[TD_SITE_TEXT];
    out[0] = 0;
    if (!number || atomic_load_explicit(&at->number, memory_order_acquire) != number) return false;
    memcpy(said, at->text, TD_SITE_TEXT);
    said[TD_SITE_TEXT - 1] = 0;
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&at->number, memory_order_relaxed) != number) return false;
    td_text_visible(out, TD_SITE_TEXT, said);
    return true;
}
