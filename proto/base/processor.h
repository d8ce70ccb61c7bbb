/* What this processor can do, for loops that are built for several instruction sets. */
#ifndef TENSORD_PROTO_BASE_PROCESSOR_H
#define TENSORD_PROTO_BASE_PROCESSOR_H

/* The best set that it has and the build has loops for: 0 base, 1 v3 (AVX2), 2 v4 (AVX-512). By features, never by the
 * name of a model. */
int td_processor_level(void);

#endif
