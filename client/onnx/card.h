/* The first half of a model's card, as JSON: what goes in and comes out, and where it came from. */
#ifndef TENSORD_CLIENT_ONNX_CARD_H
#define TENSORD_CLIENT_ONNX_CARD_H

#include "client/onnx/graph.h"
#include "proto/program/print.h"

enum { TD_ONNX_CARD = 64 << 10 }; /* bytes, at most */

/* To be freed; NULL: the error says why. `digest`: of the file, as text. */
char *td_onnx_card(td_onnx_whole *w, const char *path, const char *digest, uint64_t weights);

#endif
