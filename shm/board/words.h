/* Calls as words, for messages of members and tables of the daemon. */
#ifndef TENSORD_SHM_BOARD_WORDS_H
#define TENSORD_SHM_BOARD_WORDS_H

#include "shm/board/board.h"

/* "all_reduce #1204 (float32[1048576], sum)"; whatever a scribbled call says. */
const char *td_board_say_call(const td_board_call *call, char *text, size_t size);

#endif
