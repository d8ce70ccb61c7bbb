/* The programs of an archive that torch.jit.save() wrote: its module's methods, from their code (client/script). */
#ifndef TENSORD_CLIENT_FILES_ARCHIVE_H
#define TENSORD_CLIENT_FILES_ARCHIVE_H

#include "client/files/programs.h"
#include "client/files/zip.h"

enum { TD_ARCHIVE_UNITS = 4096, TD_ARCHIVE_CODE = 16 << 20 /* bytes of all */ };

/* Is it one? */
bool td_archive_has_code(const td_zip *z);
/* A method that is more than is known here says so in `why`, and is nothing; of forward() it is the failure of all. */
int td_archive_read(int fd, const td_zip *z, td_filed_all *out, td_error *e);

#endif
