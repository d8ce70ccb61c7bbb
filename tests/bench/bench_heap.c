/* What a small extent and a small tensor cost: nanoseconds for making and dropping one, alone and among a million
 * others. */
#include "daemon/tensor/device.h"
#include "daemon/tensor/tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static td_heap *heap;
static td_place place;

static void extents(uint64_t bytes, int n)
{
    td_extent x;
    double t = now_ns();
    for (int i = 0; i < n; i++) {
        td_heap_alloc_now(heap, bytes, &x, NULL);
        td_heap_release(heap, &x);
    }
    printf("extent of %8llu bytes, alloc + release: %6.1f ns\n", (unsigned long long)bytes, (now_ns() - t) / n);
}

static td_tensor *make(const td_desc *d)
{
    td_storage *s;
    td_tensor *t;
    if (td_storage_new(&s, &place, td_desc_nbytes(d), NULL, NULL) || td_tensor_new(&t, s, d, place.account, NULL))
        abort();
    td_storage_unref(s);
    return t;
}

static void tensors(int n, int most)
{
    td_desc d;
    int64_t eight = 8;
    td_desc_contiguous(&d, TD_FLOAT32, 1, &eight, NULL);
    double t = now_ns();
    for (int i = 0; i < n; i++) td_tensor_unref(make(&d));
    printf("tensor of 8 floats, make + drop: %.1f ns\n", (now_ns() - t) / n);
    td_tensor **all = malloc((size_t)most * sizeof *all);
    t = now_ns();
    for (int i = 0; i < most; i++) all[i] = make(&d);
    double made = now_ns();
    printf("%d tensors made: %.1f ns each", most, (made - t) / most);
    for (int i = 0; i < most; i++) td_tensor_unref(all[i]);
    printf(", dropped: %.1f ns each\n", (now_ns() - made) / most);
    free(all);
}

static void segments(void)
{
    const uint64_t sizes[] = {65536, UINT64_C(1) << 20, UINT64_C(64) << 20, UINT64_C(256) << 20};
    for (int i = 0; i < 4; i++) {
        td_segment *s;
        double t = now_ns();
        if (td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, sizes[i], NULL)) continue;
        double made = now_ns();
        td_segment_free(s);
        printf("segment of %9llu bytes: made in %8.1f us, freed in %8.1f us\n", (unsigned long long)sizes[i],
               (made - t) / 1e3, (now_ns() - made) / 1e3);
    }
}

int main(void)
{
    td_budget b;
    td_budget_init(&b, UINT64_C(2) << 30, TD_SHM_MEMFD);
    td_device_add(&(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &b});
    td_account *uid = td_account_new(NULL), *payer = td_account_new(uid);
    if (td_heap_new(&heap, &b, TD_SEGMENT_SESSION, 1, NULL)) return 1;
    place = (td_place){.heap = heap, .account = payer};
    segments();
    extents(32, 2000000);
    extents(3000, 2000000);
    extents(20000, 2000000);
    extents(UINT64_C(1) << 20, 2000000);
    extents(UINT64_C(100) << 20, 200000);
    tensors(2000000, 1000000);
    td_account_unref(payer);
    td_account_unref(uid);
    td_heap_free(heap);
    td_budget_deinit(&b);
    return 0;
}
