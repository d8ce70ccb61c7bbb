/* Texts that others chose, as people see them. */
#include "proto/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t length_of(unsigned char first)
{
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first < 0xe0) return 2;
    if (first >= 0xe0 && first < 0xf0) return 3;
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Of a code in so many bytes: neither in more than it needs, nor half of a pair, nor beyond the last. */
static bool is_code(uint32_t code, size_t length)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    return code >= least[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

size_t td_text_char(const char *at, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)at;
    size_t n = length_of(*p);
    uint32_t c = n > 1 ? *p & (0x7fu >> n) : *p;
    for (size_t i = 1; i < n; i++) { /* the end is no such byte, and ends this */
        if ((p[i] & 0xc0) != 0x80) n = 0;
        else c = c << 6 | (p[i] & 0x3f);
    }
    bool good = n && is_code(c, n);
    *code = good ? c : UINT32_MAX;
    return good ? n : 1;
}

bool td_text_shown(uint32_t code)
{
    if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code > 0x10ffff) return false;
    return !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069) && code != 0x200e &&
           code != 0x200f && code != 0x61c;
}

const char *td_text_visible(char *out, size_t size, const char *text)
{
    size_t used = 0;
    while (size && *text) {
        uint32_t code;
        size_t n = td_text_char(text, &code), room = td_text_shown(code) ? n : 4 * n;
        if (used + room >= size) break;
        if (room == n) memcpy(out + used, text, n);
        else
            for (size_t i = 0; i < n; i++) snprintf(out + used + 4 * i, 5, "\\x%02x", (unsigned char)text[i]);
        used += room;
        text += n;
    }
    if (size) out[used] = 0;
    return out;
}

uint64_t td_text_size(const char *text)
{
    char *end;
    double v = strtod(text, &end);
    static const char units[] = "KMGT";
    if (end == text || !(v > 0) || v > 1e18) return 0;
    for (int i = 0; units[i]; i++)
        if (toupper((unsigned char)*end) == units[i]) {
            v *= (double)(UINT64_C(1) << (10 * (i + 1)));
            end++;
            break;
        }
    if (*end == 'i') end++;
    if (*end == 'B' || *end == 'b') end++;
    return *end || v > 1e18 ? 0 : (uint64_t)v;
}
