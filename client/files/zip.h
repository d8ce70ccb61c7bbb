/* The entries of a zip file, as its central directory tells them, ZIP64 too.
 *
 * Local headers may say nothing (torch.save leaves sizes and checksums to the directory), so the directory is believed
 * where it stays within the file: entries neither overlap each other nor the directory, and none stands there twice. */
#ifndef TENSORD_CLIENT_FILES_ZIP_H
#define TENSORD_CLIENT_FILES_ZIP_H

#include "client/files/source.h"

enum { TD_ZIP_STORED = 0, TD_ZIP_DEFLATED = 8 };

typedef struct td_zip_entry {
    const char *name; /* ends with 0 */
    uint32_t crc;
    uint16_t method;
    uint64_t size, packed;  /* bytes; as stored */
    uint64_t header, limit; /* where its local header is, and what comes next */
} td_zip_entry;

typedef struct td_zip {
    const td_source *source;
    char *names;
    td_zip_entry *entries; /* by name */
    uint32_t n;
} td_zip;

/* Names that no path goes elsewhere by. */
bool td_zip_good_name(const char *name, uint32_t n);
int td_zip_open(td_zip *z, const td_source *s, td_error *e);
void td_zip_close(td_zip *z); /* also of one that did not open */
const td_zip_entry *td_zip_find(const td_zip *z, const char *name);
/* Where the bytes of an entry begin. Fails with TD_E_UNSUPPORTED for one that is not stored as it is. */
int td_zip_place(const td_zip *z, const td_zip_entry *entry, uint64_t *at, td_error *e);

/* The same of one that may be deflated, to at most a gigabyte. */
int td_zip_bytes(const td_zip *z, const td_zip_entry *entry, uint64_t *at, td_error *e);

typedef struct td_zip_packed {
    uint64_t at, size; /* in the file */
    uint64_t skip;     /* bytes of what it inflates to */
    bool whole;        /* nothing may follow what is asked for */
} td_zip_packed;
/* n bytes behind those that are skipped. The checksum goes on from *crc (or NULL), over these too. */
int td_zip_inflate(const td_source *s, const td_zip_packed *packed, void *to, size_t n, uint32_t *crc, td_error *e);

#endif
