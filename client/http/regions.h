/* System shared memory: regions of POSIX shared memory that clients on this host made, and that hold inputs or take
 * outputs.
 *
 * Invariant: nothing of a region is mapped here. Its bytes are copied by read and write calls at places that lie within
 * what was registered, so a region that its maker has cut meanwhile is an error of that request and no signal. The
 * number of regions is bounded. */
#ifndef TENSORD_CLIENT_HTTP_REGIONS_H
#define TENSORD_CLIENT_HTTP_REGIONS_H

#include "client/http/plain.h"

enum { HTTP_REGIONS = 1024, HTTP_REGION_NAME = 256 };

typedef struct http_region {
    char name[HTTP_REGION_NAME], key[HTTP_REGION_NAME];
    uint64_t offset, size;
    int fd;
} http_region;

typedef struct http_regions {
    http_region *at;
    int n, room;
} http_regions;

int http_regions_add(http_regions *all, const char *name, const char *key, uint64_t offset, uint64_t size, td_error *e);
/* "": all of them. No region of that name is no error. */
void http_regions_remove(http_regions *all, const char *name);
void http_regions_free(http_regions *all);
/* "": all of them. TD_E_NOT_FOUND: there is none of that name. */
int http_regions_put(const http_regions *all, const char *name, http_text *t, td_error *e);

int http_region_read(const http_regions *all, const char *name, uint64_t at, void *to, uint64_t n, td_error *e);
int http_region_write(const http_regions *all, const char *name, uint64_t at, const void *from, uint64_t n,
                      td_error *e);

#endif
