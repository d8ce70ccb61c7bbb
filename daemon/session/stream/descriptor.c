/* A descriptor that comes with a call: the call takes it, or it is closed. Closing it may take long, whatever it is. */
#include "daemon/session/stream/stream.h"

#include <unistd.h>

void td_session_aside(td_session *s, void (*work)(void *), void (*done)(void *), void *arg)
{
    const td_service_options *o = &s->service->options;
    if (o->aside) {
        o->aside(o->arg, work, done, arg);
        return;
    }
    work(arg);
    if (done) done(arg);
}

static void close_number(void *arg)
{
    close((int)(intptr_t)arg);
}

void td_import_drop(td_session *s)
{
    if (s->stream.import_fd >= 0) td_session_aside(s, close_number, NULL, (void *)(intptr_t)s->stream.import_fd);
    s->stream.import_fd = -1;
}

void td_import_admit(td_session *s, bool on)
{
    if (s->io.admit) s->io.admit(s->io.arg, on);
}

void td_import_receive(td_session *s, td_frame *f)
{
    if (f->fd < 0) return;
    td_import_drop(s);
    s->stream.import_fd = f->fd;
    f->fd = -1;
    td_import_admit(s, false);
}
