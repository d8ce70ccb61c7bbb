/* Writes zip files as torch.save() does: entries are stored as they are, their bytes begin at multiples of 64, sizes
 * and checksums stand behind them and in the directory, and the end record is that of ZIP64. Nothing is written twice,
 * so the file may be a pipe. */
#ifndef TENSORD_CLIENT_FILES_ZIPPED_H
#define TENSORD_CLIENT_FILES_ZIPPED_H

#include "client/files/sink.h"

typedef struct td_zipped_entry {
    char *name;
    uint64_t header, size;
    uint32_t crc;
} td_zipped_entry;

typedef struct td_zipped {
    td_sink *to;
    td_zipped_entry *entries;
    uint32_t n, room;
} td_zipped;

/* Begin an entry of so many bytes, which are then put to the sink, and end it. */
int td_zipped_begin(td_zipped *z, const char *name, uint64_t size, td_error *e);
int td_zipped_end(td_zipped *z, td_error *e);
/* All of it. */
int td_zipped_entry_of(td_zipped *z, const char *name, const void *bytes, size_t n, td_error *e);
int td_zipped_finish(td_zipped *z, td_error *e); /* the directory, and the sink's flush */
void td_zipped_close(td_zipped *z);

#endif
