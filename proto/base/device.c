/* The names of devices, by number. They are shown and recorded, and never change their meaning. */
#include "proto/base/device.h"

#include <stdio.h>
#include <string.h>

static const char *const names[TD_MAX_DEVICES] = {"cpu",     "cuda:0",  "cuda:1",  "cuda:2", "cuda:3", "cuda:4",
                                                  "cuda:5",  "cuda:6",  "cuda:7",  "cuda:8", "cuda:9", "cuda:10",
                                                  "cuda:11", "cuda:12", "cuda:13", "fake:0"};

const char *td_device_name(unsigned device)
{
    return device < TD_MAX_DEVICES ? names[device] : "?";
}

/* The same up to an index of 0, which may be absent on either side. */
static bool means(const char *name, const char *asked)
{
    if (!strcmp(name, asked)) return true;
    size_t n = strcspn(name, ":"), m = strcspn(asked, ":");
    const char *index = name[n] ? name + n : ":0", *wanted = asked[m] ? asked + m : ":0";
    return n == m && !memcmp(name, asked, n) && !strcmp(index, wanted);
}

int td_device_number(const char *name)
{
    for (int i = 0; i < TD_MAX_DEVICES; i++)
        if (means(names[i], name)) return i;
    return -1;
}

int td_device_absent(unsigned device, uint32_t there, td_error *e)
{
    char list[192];
    size_t at = 0;
    list[0] = 0;
    for (unsigned i = 0; i < TD_MAX_DEVICES; i++)
        if (there >> i & 1)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s'%s'", at ? ", " : "", td_device_name(i));
    return td_fail(e, TD_E_UNSUPPORTED, "there is no device '%s' here; only %s", td_device_name(device), list);
}
