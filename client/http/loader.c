/* A file becomes a model in a process of its own: this program once more, as `tensord-http --publish`.
 *
 * A file is hostile input, and making a model of it takes seconds: neither is to be felt by requests. The process reads
 * the file, publishes the model under its name, says how that went by one line of JSON on its standard output, and
 * ends. It is killed when the server ends. A file whose digest the published model has already, and which was published
 * so, is not published again.
 */
#include "client/http/front.h"
#include "proto/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARGUMENTS = 16, NUMBER = 24 };

extern char **environ;

/* ---- the server's side ------------------------------------------------------------------------------------------ */

int http_loader_start(http_front *f, const http_job *job, pid_t *pid, int *fd, td_error *e)
{
    char numbers[6][NUMBER], flags[NUMBER];
    const int64_t of[6] = {job->version, job->max_batch, job->delay_us, job->queue, job->instances, getpid()};
    for (int i = 0; i < 6; i++) snprintf(numbers[i], NUMBER, "%" PRId64, of[i]);
    snprintf(flags, sizeof flags, "%d", (job->keep_old ? 1 : 0) + (job->serves ? 2 : 0));
    const char *argv[ARGUMENTS] = {"tensord-http", "--publish", td_socket_path(f->client),
                                   job->name,      job->file,   job->config,
                                   numbers[0],     numbers[1],  numbers[2],
                                   numbers[3],     numbers[4],  numbers[5],
                                   flags,          NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int ends[2], err;
    sigemptyset(&none);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return td_fail_errno(e, errno, "a process to load %.80s", job->name);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    err = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    *fd = ends[0];
    if (err) close(ends[0]);
    return err ? td_fail_errno(e, err, "a process to load %.80s", job->name) : TD_OK;
}

/* ---- the process itself ----------------------------------------------------------------------------------------- */

static int say(int rc, int version, bool published)
{
    http_text t = {0};
    const td_error *e = td_last_error();
    if (rc) {
        http_put(&t, "{\"error\":");
        http_put_quoted(&t, e->message[0] ? e->message : td_error_name(rc));
        http_put(&t, "}\n");
    } else http_put(&t, "{\"version\":%d,\"published\":%s}\n", version, published ? "true" : "false");
    if (!t.failed) fwrite(t.bytes.at, 1, t.bytes.n, stdout);
    fflush(stdout);
    free(t.bytes.at);
    return rc ? 1 : 0;
}

static int check_config(const char *path, const oip_card *card, td_error *e)
{
    bool there;
    pbtxt_config config;
    if (!*path) return TD_OK;
    int rc = pbtxt_open(&config, path, &there, e);
    if (!rc) rc = pbtxt_check(&config, card, path, e);
    pbtxt_close(&config);
    return rc;
}

static bool asked_so(const oip_card *card, const td_model_options *o)
{
    return card->asked.max_batch == o->max_batch && card->asked.delay_us == o->delay_us &&
           card->asked.queue == o->queue && card->asked.instances == o->instances;
}

/* Is it there already, made of these contents and in this way? */
static bool is_published(td_client *c, const char *name, const td_model_options *o, const oip_card *want, int *have)
{
    oip_card card = {0};
    td_error e;
    td_model *m = td_model_open(c, name, o->version, 0);
    bool same = m && oip_card_read(&card, td_model_card(m), &e) == TD_OK && card.digest && want->digest &&
                strcmp(card.digest, want->digest) == 0 && asked_so(&card, o);
    *have = m ? td_model_version(m) : 0;
    oip_card_close(&card);
    td_model_free(m);
    td_clear_error();
    return same;
}

static int fail_with(const td_error *e)
{
    http_text t = {0};
    http_put(&t, "{\"error\":");
    http_put_quoted(&t, e->message);
    http_put(&t, "}\n");
    if (!t.failed) fwrite(t.bytes.at, 1, t.bytes.n, stdout);
    fflush(stdout);
    free(t.bytes.at);
    return 1;
}

static int publish(td_client *c, td_model *m, char **argv)
{
    enum { NAME = 3, CONFIG = 5, VERSION, BATCH, DELAY, QUEUE, INSTANCES, PARENT, FLAGS };
    int flags = atoi(argv[FLAGS]), have = 0;
    td_model_options o = {.size = sizeof o,
                          .flags = flags & 1 ? TD_MODEL_KEEP_OLD : 0,
                          .version = atoi(argv[VERSION]),
                          .max_batch = atoi(argv[BATCH]),
                          .delay_us = atoi(argv[DELAY]),
                          .queue = atoi(argv[QUEUE]),
                          .instances = atoi(argv[INSTANCES])};
    oip_card card;
    td_error e = {0};
    int rc = oip_card_read(&card, td_model_card(m), &e);
    if (!rc) rc = check_config(argv[CONFIG], &card, &e);
    bool there = !rc && is_published(c, argv[NAME], &o, &card, &have);
    oip_card_close(&card);
    if (rc) return fail_with(&e);
    if (there && flags & 2 && o.version) rc = td_model_serve(c, argv[NAME], o.version);
    if (!there) rc = td_model_publish(m, argv[NAME], &o);
    return say(rc, there ? have : td_model_version(m), !there);
}

int http_loader_main(int argc, char **argv)
{
    if (argc != 13) return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != (pid_t)atoi(argv[11])) return 1; /* it has ended meanwhile */
    td_client *c = td_connect(argv[2]);
    td_model *m = c ? td_model_load(c, argv[4], 0) : NULL;
    int status = m ? publish(c, m, argv) : say(td_last_error()->code ? td_last_error()->code : TD_E_INTERNAL, 0, false);
    td_model_free(m);
    td_disconnect(c);
    return status;
}
