/* What the command line and the environment say. */
#ifndef TENSORD_DAEMON_SERVER_OPTIONS_H
#define TENSORD_DAEMON_SERVER_OPTIONS_H

#include "daemon/cuda/cuda.h"
#include "proto/base/status.h"
#include "shm/segment.h"

typedef enum td_log_level { TD_LOG_ERROR, TD_LOG_WARN, TD_LOG_INFO, TD_LOG_DEBUG } td_log_level;

typedef struct td_options {
    char socket[108];  /* path; "" with an inherited socket */
    uint64_t memory;   /* bytes of shared memory that may be committed */
    uint64_t session_memory, user_memory; /* of them for one client, for all clients of one user; 0: no limit */
    uint64_t session_device_memory, user_device_memory; /* of each other device's, for the same; 0: no limit */
    uint64_t session_objects, user_objects; /* most objects, of the same */
    uint64_t own_memory;                    /* most bytes of the daemon's own memory */
    td_cuda_options cuda;
    int workers;
    td_shm_backend shm;
    bool is_private;   /* ends with the program that it was started for */
    int root_fd;       /* of that program's root process, a pidfd; or -1: then it ends with its last client */
    int listen_fd;     /* inherited (LISTEN_FDS), or -1 */
    td_log_level log;
    bool time_turns;
    bool help, version;
} td_options;

/* Read argv. On failure `e` says which argument and what it should be. */
int td_options_parse(td_options *o, int argc, char **argv, td_error *e);
void td_options_help(void);

/* What this process may use, by its memory group, or the machine's memory; and processors, by its group's quota. */
uint64_t td_memory_available(void);
int td_processors_available(void);

void td_log_set(td_log_level level);
void td_log(td_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
