/* Sites: where in its program each rank was when it called, as text, for messages of the other ranks.
 *
 * They lie behind a board, in memory that all members write. A rank writes its own part alone: a site has a number, and
 * the place number modulo TD_SITE_SLOTS, with the number written last. So a number that is not there any more is known
 * for it. A text is as true as its rank. It is read with \xNN for what moves a terminal's cursor. */
#ifndef TENSORD_SHM_BOARD_SITE_H
#define TENSORD_SHM_BOARD_SITE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_SITE_SLOTS 32
#define TD_SITE_TEXT 92 /* bytes with the end; longer texts lose their beginning, as that is directories */

typedef struct td_site_text {
    _Atomic uint32_t number; /* 0: none */
    char text[TD_SITE_TEXT];
} td_site_text;

static inline uint64_t td_sites_bytes(uint32_t members)
{
    return members * (uint64_t)TD_SITE_SLOTS * sizeof(td_site_text);
}

/* What a rank knows of its own: texts by their address. */
typedef struct td_sites {
    td_site_text *all; /* own mapping */
    uint32_t rank, last;
    const char *texts[TD_SITE_SLOTS];
} td_sites;

/* The number of a text, which lives as long as this; 0 for NULL. */
uint32_t td_sites_number(td_sites *s, const char *text);
/* The text of a rank's site; false: it is not there any more. */
bool td_sites_text(const td_sites *s, uint32_t rank, uint32_t number, char out[TD_SITE_TEXT]);

#endif
