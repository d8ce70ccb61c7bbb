/* What plans wish to have made before they are made again (kernel.h): one for each thread. */
#include "daemon/kernels/kernel.h"
#include <stdlib.h>
#include <string.h>

static _Thread_local bool may_wish;
static _Thread_local td_need_work wish;

td_need_work td_kernel_wished(void)
{
    td_need_work w = wish;
    wish = (td_need_work){NULL, NULL};
    return w;
}

void td_kernel_may_wish(bool may)
{
    if (may) free(td_kernel_wished().arg);
    may_wish = may;
}

bool td_kernel_wish(void (*make)(const void *arg), const void *arg, size_t bytes)
{
    if (!may_wish || wish.make) return may_wish;
    wish.arg = malloc(bytes + 1);
    if (!wish.arg) return false;
    if (bytes) memcpy(wish.arg, arg, bytes);
    wish.make = make;
    return true;
}

bool td_kernel_wishes(void)
{
    return wish.make != NULL;
}
