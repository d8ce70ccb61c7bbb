/* Finding prim:: ops by name. */
#include "proto/program/prim.h"

extern const uint16_t td_prims_by_name[];
extern const unsigned td_prims_named;

const td_prim *td_prim_by_name(const char *name)
{
    unsigned low = 0, high = td_prims_named;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        const td_prim *p = &td_prims[td_prims_by_name[middle]];
        int order = strcmp(name, p->name);
        if (order == 0) return p;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}
