/* SHA-256 of a file, as sha256sum prints it. */
#ifndef TENSORD_CLIENT_ONNX_DIGEST_H
#define TENSORD_CLIENT_ONNX_DIGEST_H

#include "client/files/source.h"

enum { TD_DIGEST_TEXT = 65 };
int td_digest_file(const td_source *s, char out[TD_DIGEST_TEXT], td_error *e);

#endif
