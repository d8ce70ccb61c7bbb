/* Fuzzes what a peer's bytes meet first: framing, then the message, then the records in it.
 *
 * The input is a stream as it would come from the socket. It goes through a real socket pair, in pieces, and every
 * frame that comes out is unpacked in a bounded arena as the daemon does it. Nothing may crash, leak, or take more than
 * the bound. */
#include "proto/base/arena.h"
#include "proto/wire/frame.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"

#include <assert.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void records(const Td__Wire__Batch *b)
{
    td_error e;
    td_record r;
    for (size_t at = 0; at < b->n_words; at += r.words) {
        if (td_record_parse(b->words + at, b->n_words - at, &r, &e)) return;
        assert(r.words >= TD_RECORD_HEAD && r.words <= b->n_words - at && r.nrest <= r.words);
        td_scalar s;
        uint32_t n = 0;
        while (n < r.nrest && td_record_number(&r, &n, &s, &e) == 0) continue;
    }
}

static void message(const td_frame *f, td_arena *a)
{
    static const ProtobufCMessageDescriptor *const kinds[] = {
        [TD_FRAME_HELLO] = &td__wire__hello__descriptor, [TD_FRAME_BATCH] = &td__wire__batch__descriptor,
        [TD_FRAME_CALL] = &td__wire__call__descriptor,   [TD_FRAME_WELCOME] = &td__wire__welcome__descriptor,
        [TD_FRAME_REPLY] = &td__wire__reply__descriptor, [TD_FRAME_EVENT] = &td__wire__event__descriptor};
    if (f->kind >= sizeof kinds / sizeof *kinds || !kinds[f->kind]) return;
    ProtobufCMessage *m = protobuf_c_message_unpack(kinds[f->kind], &a->allocator, f->bytes, f->payload);
    assert(a->used <= a->limit);
    if (m && f->kind == TD_FRAME_BATCH) records((Td__Wire__Batch *)m);
    td_arena_reset(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ends[2];
    td_error e;
    td_frame f;
    td_reader r;
    td_arena a;
    if (size > 60000 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 0;
    td_reader_init(&r, true);
    td_arena_init(&a, 1 << 20);
    bool broken = false;
    for (size_t at = 0, step = size ? data[0] + 1 : 1; at < size && !broken; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (write(ends[0], data + at, n) != (ssize_t)n || td_reader_fill(&r, ends[1], true, &e) < 0) break;
        int got;
        while ((got = td_reader_next(&r, &f, &e)) == 1) {
            message(&f, &a);
            td_frame_done(&f);
        }
        broken = got < 0;
    }
    td_arena_deinit(&a);
    td_reader_deinit(&r);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
