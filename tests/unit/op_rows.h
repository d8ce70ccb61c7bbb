/* Tables of calls and what inference makes of them (op_calls.h), checked row by row. */
#ifndef TENSORD_TESTS_UNIT_OP_ROWS_H
#define TENSORD_TESTS_UNIT_OP_ROWS_H

#include "cunit_main.h"
#include "op_calls.h"

typedef struct row {
    const char *call, *want; /* want: the whole result; or, with a leading '!', a part of the error's message */
} row;

static void check_rows(const row *rows, size_t count)
{
    static call c;
    for (size_t i = 0; i < count; i++) {
        call_read(&c, rows[i].call);
        const char *got = call_infer(&c), *want = rows[i].want;
        bool ok = *want == '!' ? c.error.code && strstr(got, want + 1) : !c.error.code && !strcmp(got, want);
        if (*want == '!') ok = ok && !strcmp(c.error.op, c.f.op->name) && c.f.nout == 0;
        if (!ok) printf("\n  %s\n    gives  %s\n    wanted %s\n", rows[i].call, got, want);
        CU_ASSERT_TRUE(ok);
    }
}

#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof(rows)[0])

#endif
