/* Stoppers and what is said through them, by hand. */
#ifndef TENSORD_TESTS_HOSTILE_STOPS_H
#define TENSORD_TESTS_HOSTILE_STOPS_H

#include "tests/hostile/requests.h"

#include <sys/socket.h>

/* Its own way to stop calls; -1: it got none. */
static inline int stopper(raw *r)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Stopper q = TD__WIRE__STOPPER__INIT;
    c.stopper = &q;
    Td__Wire__Reply *x = raw_ask(r, &c);
    int end = x && !x->error ? raw_fd : -1;
    if (end >= 0) raw_fd = -1;
    return end;
}

static inline size_t stop_frame(uint8_t frame[32], uint64_t serial)
{
    Td__Wire__Stop q = TD__WIRE__STOP__INIT;
    q.call = serial;
    size_t n = td__wire__stop__pack(&q, frame + TD_FRAME_HEADER);
    td_frame_put_header(frame, (uint32_t)n, TD_FRAME_STOP, 0);
    return TD_FRAME_HEADER + n;
}

static inline bool say_stop(int end, uint64_t serial)
{
    uint8_t frame[32];
    size_t n = stop_frame(frame, serial);
    return send(end, frame, n, MSG_NOSIGNAL) == (ssize_t)n;
}

#endif
