/* The last error of each thread. It stays until td_clear_error() or the next failure; being handed NULL is no new
 * failure. */

#include "client/wire/internal.h"
#include <stdarg.h>
#include <stdio.h>

static _Thread_local td_error last;

TD_API const td_error *td_last_error(void)
{
    return &last;
}

TD_API void td_clear_error(void)
{
    last = (td_error){0};
}

td_error *td_thread_error(void)
{
    td_clear_error();
    return &last;
}

int td_raise(int code, const char *op, const char *format, ...)
{
    td_clear_error();
    last.code = code;
    if (op) snprintf(last.op, sizeof last.op, "%s", op);
    va_list list;
    va_start(list, format);
    vsnprintf(last.message, sizeof last.message, format, list);
    va_end(list);
    return code;
}

int td_raise_error(const td_error *e, const char *op, const char *where)
{
    if (e != &last) last = *e;
    if (!last.op[0] && op) snprintf(last.op, sizeof last.op, "%s", op);
    if (!last.where[0] && where) snprintf(last.where, sizeof last.where, "%s", where);
    return last.code;
}

int td_raise_null(const char *op, const char *argument)
{
    if (last.code) return last.code;
    return td_raise(TD_E_INVALID, op, "%s is NULL", argument);
}

TD_API const char *td_error_name(int code)
{
    return td_code_name(code);
}

TD_API const char *td_error_symbol(int code)
{
    return td_code_symbol(code);
}
