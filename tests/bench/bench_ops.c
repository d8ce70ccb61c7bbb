/* What an op costs beside its arithmetic: a call of add on 8 floats, taken, prepared, run and returned. The kernel does
 * the least a kernel can. */
#include "daemon/ops/ops.h"
#include "daemon/tensor/device.h"
#include "proto/ops/opid.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void add_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk, (void)scratch;
    const float *x = k->in[0].data, *y = k->in[1].data;
    float *o = k->out[0].data;
    for (int64_t i = 0, n = td_desc_numel(k->out[0].desc); i < n; i++) o[i] = x[i] + y[i];
}

static int plan_add(td_kcall *k, td_error *e)
{
    (void)e;
    k->nphases = 1;
    k->phase[0].fn = add_chunk;
    k->phase[0].chunks = 1;
    return 0;
}

const td_plan_fn td_cpu_plans[TD_OP_COUNT] = {[TD_OP_ADD] = plan_add};

static void submit(td_issuer *who, td_call *c)
{
    (void)who;
    for (int p = 0; p < c->k.nphases; p++) c->k.phase[p].fn(&c->k, 0, NULL);
    td_call_free(c);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
    enum { N = 2000000 };
    td_budget b;
    td_issuer who = {.submit = submit};
    td_budget_init(&b, UINT64_C(1) << 28, TD_SHM_MEMFD);
    td_device_add(&(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &b, .plans = td_cpu_plans});
    who.account = td_account_new(NULL);
    if (td_heap_new(&who.heap, &b, TD_SEGMENT_SESSION, 1, NULL)) return 1;
    td_place place = {.heap = who.heap, .account = who.account};
    td_storage *s;
    td_tensor *x, *z;
    td_desc d;
    int64_t eight = 8;
    td_attrs attrs;
    if (td_desc_contiguous(&d, TD_FLOAT32, 1, &eight, NULL) || td_storage_new(&s, &place, 32, NULL, NULL) ||
        td_tensor_new(&x, s, &d, who.account, NULL))
        return 1;
    td_storage_unref(s);
    td_attrs_init(&attrs);
    td_attrs_scalar(&attrs, td_int(1));
    td_input in[2] = {td_in(x), td_in(x)}, number[2] = {td_in(x), td_in_number(td_float(2))};
    for (int kind = 0; kind < 3; kind++) {
        static const char *const name[] = {"x + x", "x + 2.0", "x += x"};
        double t = now_ns();
        for (int i = 0; i < N; i++) {
            z = x;
            if (td_ops_run(&who, TD_OP_ADD, 2, kind == 1 ? number : in, &attrs, kind == 2 ? TD_CF_OUT : 0, 1, &z, NULL))
                return 1;
            if (kind != 2) td_tensor_unref(z);
        }
        printf("%-8s of 8 floats: %.0f ns\n", name[kind], (now_ns() - t) / N);
    }
    td_tensor_unref(x);
    td_account_unref(who.account);
    td_heap_free(who.heap);
    td_budget_deinit(&b);
    return 0;
}
