/* Words that are nearly others. */
#include "proto/base/near.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { LONGEST = 40 };

unsigned td_text_distance(const char *a, const char *b, unsigned most)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *now = rows[2];
    if (n > LONGEST || m > LONGEST || (n > m ? n - m : m - n) > most) return most + 1;
    for (size_t k = 0; k <= m; k++) last[k] = (unsigned)k;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (unsigned)i;
        for (size_t k = 1; k <= m; k++) {
            unsigned least = last[k - 1] + (a[i - 1] != b[k - 1]);
            if (last[k] + 1 < least) least = last[k] + 1;
            if (now[k - 1] + 1 < least) least = now[k - 1] + 1;
            bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
            now[k] = swapped && before[k - 2] + 1 < least ? before[k - 2] + 1 : least;
        }
        unsigned *free = before;
        before = last, last = now, now = free;
    }
    return last[m];
}
