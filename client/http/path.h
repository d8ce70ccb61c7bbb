/* The path of a request's target, taken apart before it is decoded: "/v2/models/a%2Fb?x" is v2, models, a/b. */
#ifndef TENSORD_CLIENT_HTTP_PATH_H
#define TENSORD_CLIENT_HTTP_PATH_H

#include <stdbool.h>

enum { HTTP_SEGMENTS = 8 };

typedef struct http_path {
    char text[1024];
    const char *at[HTTP_SEGMENTS];
    int n;
} http_path;

/* False: it is none, has more parts than any path here, or one of them holds a zero or half of an escape. */
bool http_path_read(http_path *p, const char *target);

#endif
