/* How far apart two words are, for messages that say what was meant. */
#ifndef TENSORD_PROTO_BASE_NEAR_H
#define TENSORD_PROTO_BASE_NEAR_H

/* How many letters are put in, left out, changed, or have changed places (optimal string alignment). Where that is more
 * than `most`, or a word is longer than 40 letters, only some number that is more. */
unsigned td_text_distance(const char *a, const char *b, unsigned most);

#endif
