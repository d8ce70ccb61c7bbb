/* Texts that others chose (names, lines of programs), before people see them: one line, that moves no cursor. */
#ifndef TENSORD_PROTO_BASE_TEXT_H
#define TENSORD_PROTO_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at `at`, which is not the end: its length in bytes. *code is UINT32_MAX, and the length 1, when this is
 * no UTF-8. */
size_t td_text_char(const char *at, uint32_t *code);

/* Is it to be shown as it is? Not what is no UTF-8, a control character (of either set), a separator of lines, or what
 * turns the direction of writing. */
bool td_text_shown(uint32_t code);

/* Write `text` with \xNN for each byte of what is not to be shown; it is cut to `size`, between characters. */
const char *td_text_visible(char *out, size_t size, const char *text);

/* "8G", "512M", "1048576" as bytes; 0 when it is none. */
uint64_t td_text_size(const char *text);

#endif
