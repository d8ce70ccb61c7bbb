/* Large and small letters of Unicode. For this room only. */
#ifndef TENSORD_DAEMON_GRAPH_LETTERS_H
#define TENSORD_DAEMON_GRAPH_LETTERS_H

#include <stdint.h>

/* The one letter that it becomes, or itself. */
uint32_t td_letter_small(uint32_t letter);
uint32_t td_letter_large(uint32_t letter);
/* The letters that it becomes, as UTF-8, where they are several; otherwise NULL. */
const char *td_letters_large(uint32_t letter);

#endif
