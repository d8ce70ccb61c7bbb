/* See path.h. */
#include "client/http/path.h"

#include <string.h>

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

bool http_path_read(http_path *p, const char *target)
{
    char *to = p->text, *end = p->text + sizeof p->text - 1;
    const char *at = strncmp(target, "http://", 7) == 0 ? strchr(target + 7, '/') : target;
    if (!at) return false;
    p->n = 0;
    while (*at && *at != '?' && *at != '#') {
        if (*at == '/') {
            at++;
            continue;
        }
        if (p->n == HTTP_SEGMENTS) return false;
        p->at[p->n++] = to;
        while (*at && *at != '/' && *at != '?' && *at != '#') {
            int c = (unsigned char)*at++;
            if (c == '%') {
                int high = hex(at[0]), low = high < 0 ? -1 : hex(at[1]);
                c = low < 0 ? 0 : high * 16 + low, at += 2;
            }
            if (c == 0 || to >= end) return false;
            *to++ = (char)c;
        }
        *to++ = 0;
        if (to >= end) return false;
    }
    return true;
}
