/* Failing: fill the caller's td_error and hand the code back. Invariant: `message` is always terminated and `op` and
 * `where` are left to those who know them. */
#include "proto/base/status.h"
#include "proto/base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *symbol, *name;
} codes[TD_CODE_COUNT] = {
    [TD_OK] = {"TD_OK", "ok"},
    [TD_E_INVALID] = {"TD_E_INVALID", "invalid argument"},
    [TD_E_TYPE] = {"TD_E_TYPE", "wrong type"},
    [TD_E_SHAPE] = {"TD_E_SHAPE", "wrong shape"},
    [TD_E_INDEX] = {"TD_E_INDEX", "index out of range"},
    [TD_E_NOT_FOUND] = {"TD_E_NOT_FOUND", "not found"},
    [TD_E_EXISTS] = {"TD_E_EXISTS", "already exists"},
    [TD_E_MEMORY] = {"TD_E_MEMORY", "out of memory"},
    [TD_E_QUOTA] = {"TD_E_QUOTA", "quota exceeded"},
    [TD_E_AUTOGRAD] = {"TD_E_AUTOGRAD", "autograd"},
    [TD_E_VERSION] = {"TD_E_VERSION", "overwritten before backward"},
    [TD_E_BUSY] = {"TD_E_BUSY", "busy"},
    [TD_E_CLOSED] = {"TD_E_CLOSED", "closed"},
    [TD_E_TIMEOUT] = {"TD_E_TIMEOUT", "timed out"},
    [TD_E_LOST] = {"TD_E_LOST", "connection lost"},
    [TD_E_PROTOCOL] = {"TD_E_PROTOCOL", "protocol violation"},
    [TD_E_UNSUPPORTED] = {"TD_E_UNSUPPORTED", "not supported"},
    [TD_E_CANCELLED] = {"TD_E_CANCELLED", "cancelled"},
    [TD_E_SYSTEM] = {"TD_E_SYSTEM", "system error"},
    [TD_E_PERMISSION] = {"TD_E_PERMISSION", "not permitted"},
    [TD_E_INTERNAL] = {"TD_E_INTERNAL", "internal error"},
    [TD_E_DEVICE] = {"TD_E_DEVICE", "device failed"},
    [TD_E_LINALG] = {"TD_E_LINALG", "linear algebra"},
    [TD_E_MEMBER] = {"TD_E_MEMBER", "member lost"},
    [TD_E_MISMATCH] = {"TD_E_MISMATCH", "calls differ"},
    [TD_E_EPOCH] = {"TD_E_EPOCH", "epoch over"},
    [TD_E_DIED] = {"TD_E_DIED", "producer died"},
    [TD_E_NOT_NEWER] = {"TD_E_NOT_NEWER", "nothing newer"},
};

/* What others are called may be in it: nothing of that moves a terminal's cursor, or turns its writing. */
static void clean(char *text)
{
    for (size_t n; *text; text += n) {
        uint32_t code;
        n = td_text_char(text, &code);
        if (!td_text_shown(code) && code != '\n' && code != '\t') memset(text, '?', n);
    }
}

int td_fail(td_error *e, td_code code, const char *format, ...)
{
    assert(code != TD_OK);
    if (e) {
        va_list args;
        va_start(args, format);
        vsnprintf(e->message, sizeof e->message, format, args);
        va_end(args);
        clean(e->message);
        e->code = code;
    }
    return code;
}

int td_no_memory(td_error *e, const char *format, ...)
{
    static const char start[] = "no memory ";
    enum { START = sizeof start - 1 };
    if (e) {
        va_list args;
        va_start(args, format);
        memcpy(e->message, start, START);
        vsnprintf(e->message + START, sizeof e->message - START, format, args);
        va_end(args);
        e->code = TD_E_SYSTEM;
    }
    return TD_E_SYSTEM;
}

int td_fail_errno(td_error *e, int err, const char *format, ...)
{
    if (e) {
        va_list args;
        va_start(args, format);
        int n = vsnprintf(e->message, sizeof e->message, format, args);
        va_end(args);
        char buffer[128];
        size_t used = n < 0 ? 0 : (size_t)n < sizeof e->message ? (size_t)n : sizeof e->message - 1;
        snprintf(e->message + used, sizeof e->message - used, ": %s", strerror_r(err, buffer, sizeof buffer));
        clean(e->message);
        e->code = TD_E_SYSTEM;
    }
    return TD_E_SYSTEM;
}

bool td_code_known(int code)
{
    return code >= 0 && code < TD_CODE_COUNT && codes[code].name;
}

const char *td_code_name(int code)
{
    return td_code_known(code) ? codes[code].name : "unknown error";
}

const char *td_code_symbol(int code)
{
    return td_code_known(code) ? codes[code].symbol : "TD_E_?";
}
