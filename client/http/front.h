/* tensord-http: what its files share. One thread; a door (door.h) on one side, a client of the daemon on the other.
 *
 * Invariant: no call here waits for what a client of HTTP does, nor for a model: answers come by td_async_infer(),
 * files are read and made models by a process of their own (loader.c). All memory that requests make grow is charged
 * before it is taken, and there is never more of it than options.memory. */
#ifndef TENSORD_CLIENT_HTTP_FRONT_H
#define TENSORD_CLIENT_HTTP_FRONT_H

#include "client/http/door.h"
#include "client/http/oip.h"
#include "client/http/path.h"
#include "client/http/pbtxt.h"
#include "client/http/regions.h"
#include "client/tensord.h"

enum {
    HTTP_NAME = 256,        /* bytes of a model's name */
    HTTP_JSON = 1 << 20,    /* bytes of a request's text */
    HTTP_OPEN_MODELS = 1024 /* that are kept open between requests */
};

typedef struct http_options {
    const char *repository;
    const char *load; /* "all", "none", or names with commas between them */
    const char *socket;
    char token[256]; /* "": none is asked for */
    uint64_t memory; /* bytes that all requests may take together */
    unsigned load_s; /* for one version of a model to be loaded */
    http_limits limits;
} http_options;

/* ---- models.c: models that are open here */

typedef struct http_model {
    struct http_model *next;
    char name[HTTP_NAME];
    int version; /* that was asked for; 0: whichever serves */
    td_model *handle;
    oip_card card;
    unsigned refs; /* requests under way */
    bool stale;    /* there is another one, or none: the next request opens it anew */
} http_model;

/* ---- repository.c */

typedef enum http_state { HTTP_UNLOADED, HTTP_LOADING, HTTP_READY, HTTP_FAILED } http_state;

typedef struct http_entry { /* a model that this server is to have, or may load */
    struct http_entry *next;
    char name[HTTP_NAME];
    char file[4096]; /* of --model; "": a directory of the repository */
    bool wanted;     /* ready means that this is */
    http_state state;
    char reason[512];
    int64_t level, timeout_us, max_batch; /* of config.pbtxt */
} http_entry;

typedef struct http_load http_load; /* loader.c */

typedef struct http_front {
    http_options options;
    td_client *client;
    http_door *door;
    http_regions regions;
    http_model *models;
    http_entry *entries;
    http_load *loads;           /* the first runs, the others wait */
    struct http_infer *writing; /* requests whose answers are being written, in turn */
    td_request *looking;        /* for a table of the models */
    int epoll;
    uint64_t charged, most_charged, refused_busy; /* bytes of requests */
    uint64_t looked_ms;
    bool ending, lost;
} http_front;

/* TD_E_QUOTA: there is no room now; TD_E_INVALID: there never is so much. */
int http_charge(http_front *f, uint64_t bytes, td_error *e);
uint64_t http_room(const http_front *f); /* what is left */
void http_uncharge(http_front *f, uint64_t bytes);
/* The daemon's error as an answer. */
void http_refuse_for(http_exchange *x, const td_error *e);
/* The same of a model that could not be opened: if it is this server's, why it is not there. */
void http_refuse_model(const http_front *f, http_exchange *x, const char *name, const td_error *e);
void http_answer_text(http_exchange *x, int status, const char *type, http_text *t); /* frees the text */

/* A model by name; NULL with *e. Released by http_model_done(). */
http_model *http_model_open(http_front *f, const char *name, int version, td_error *e);
bool http_model_is_open(const http_front *f, const char *name, int version);
void http_model_done(http_front *f, http_model *m);
void http_models_forget(http_front *f, const char *name); /* NULL: all; those in use go with their last request */
/* `models`: the daemon's table. Names that mean another version than the one that is open here are opened anew. */
void http_models_see(http_front *f, const td_table *models);

/* ---- routes.c */

extern const http_handler http_routes;

/* ---- infer.c */

typedef struct http_infer http_infer;
http_infer *http_infer_begin(http_front *f, http_exchange *x, const char *name, int version);
size_t http_infer_body(http_infer *i, const char *bytes, size_t n); /* so many it takes now */
void http_infer_run(http_infer *i);
void http_infer_gone(http_infer *i);
void http_infer_end(http_infer *i);
/* Answers whose text is long are written in parts, between other work: the next part of one. True: there is more. */
bool http_infer_write(http_front *f);

/* ---- repository.c */

int http_repository_add(http_front *f, const char *name, const char *file, td_error *e);
int http_repository_read(http_front *f, td_error *e);  /* the directory: new entries, none for what has gone */
int http_repository_begin(http_front *f, td_error *e); /* what --model and --load ask for */
http_entry *http_repository_find(const http_front *f, const char *name);
const http_entry *http_repository_unready(const http_front *f); /* one that is wanted; NULL: all these are ready */
enum { HTTP_WHY = 640 };
const char *http_repository_why(const http_entry *n, char out[HTTP_WHY]); /* it is not ready; NULL: it is */
void http_repository_free(http_front *f);
/* Answers `x` (NULL: nobody asked) when it is done. */
void http_repository_load(http_front *f, http_exchange *x, const char *name);
void http_repository_unload(http_front *f, http_exchange *x, const char *name);
void http_repository_see(http_front *f, int fd);            /* a loader has said something, or ended */
void http_repository_look(http_front *f);                   /* now and then: has one no time left? */
void http_repository_gone(http_front *f, http_exchange *x); /* it waits no longer */
void http_repository_put_index(http_front *f, const td_table *models, bool ready, http_text *t);

/* ---- loader.c: a file becomes a model in a process of its own */

typedef struct http_job {                           /* what it is told */
    char name[HTTP_NAME], file[4096], config[4096]; /* config "": none */
    int version;                                    /* 0: the next */
    bool keep_old, serves;
    int64_t max_batch, delay_us, queue, instances;
} http_job;

int http_loader_start(http_front *f, const http_job *job, pid_t *pid, int *fd, td_error *e);
int http_loader_main(int argc, char **argv); /* the process itself */

/* ---- metrics.c */

int http_column(const td_table *t, const char *name); /* -1: there is none */

void http_metrics(http_front *f, http_exchange *x);
void http_stats(http_front *f, http_exchange *x, const char *name, int version);
void http_index(http_front *f, http_exchange *x, bool ready);

/* ---- listen.c */

/* A socket in a directory of mode 0700: `path`, or the one beside the daemon's. */
int http_listen_unix(const char *path, td_error *e);
/* "HOST:PORT". *local: a loopback address. `shown`: with the port that it got. */
int http_listen_tcp(const char *address, bool *local, char *shown, size_t size, td_error *e);

#endif
