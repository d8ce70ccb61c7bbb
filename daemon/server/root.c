/* The root of the program that a private daemon was started for: while it lives, so does the daemon, as its next child
 * may be the first to need what lies here. A process that ends makes its pidfd readable. */
#include "daemon/server/server.h"

#include <fcntl.h>
#include <unistd.h>

static void closed(uv_handle_t *h)
{
    td_server *s = h->data;
    close(s->options.root_fd);
}

/* Somebody may read what the program wrote to its stderr to the end, which comes when nobody holds that any more. */
static void let_go_of_stderr(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0) return;
    dup2(null, STDERR_FILENO);
    close(null);
}

static void root_ended(uv_poll_t *h, int status, int events)
{
    (void)status, (void)events;
    td_server *s = h->data;
    s->root_lives = false;
    let_go_of_stderr();
    uv_close((uv_handle_t *)h, closed);
}

int td_root_watch(td_server *s, td_error *e)
{
    if (s->options.root_fd < 0) return TD_OK;
    if (uv_poll_init(&s->loop, &s->root, s->options.root_fd) != 0)
        return td_fail(e, TD_E_INVALID, "--root: descriptor %d is not a process's", s->options.root_fd);
    s->root.data = s;
    uv_poll_start(&s->root, UV_READABLE, root_ended);
    s->root_lives = true;
    return TD_OK;
}
