/* Do two descriptors over one storage reach the same bytes? */
#ifndef TENSORD_DAEMON_OPS_OVERLAP_H
#define TENSORD_DAEMON_OPS_OVERLAP_H

#include "proto/base/desc.h"

typedef enum td_overlap {
    TD_APART = 0,     /* no byte in common */
    TD_IDENTICAL = 1, /* element by element the same place */
    TD_PARTLY = 2,    /* some bytes in common, but not so */
    TD_UNDECIDED = 3  /* too costly to find out */
} td_overlap;

td_overlap td_desc_overlap(const td_desc *a, const td_desc *b);

#endif
