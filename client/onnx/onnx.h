/* ONNX files as programs: the door of this room.
 *
 *     reader.c  the file's bytes as a tree of what it says (model.h); nothing of it is believed
 *     graph.c   names to values, nodes in an order that runs, only those that lead to an output
 *     fold.c    what is made of small constants alone
 *     text.c    a function in the subset of Python, one line a node, over the functions of client/script/onnx.py
 *     card.c    what goes in and comes out, as JSON
 *
 * A file is hostile input: what is allocated while it is read is at most TD_ONNX_GROWTH times its size, and nothing
 * recurses deeper than TD_ONNX_NEST. A message names the file, the node, its op and the version of that. */
#ifndef TENSORD_CLIENT_ONNX_ONNX_H
#define TENSORD_CLIENT_ONNX_ONNX_H

#include "client/tensord.h"

/* The file as a program, frozen but for TD_ONNX_RAW, and the first half of its card (all but name, version and batch),
 * to be freed. Its parameters are the file's inputs in their order; it gives one tensor, or a tuple of several. NULL:
 * raised. */
enum { TD_ONNX_EXACTLY = 1, TD_ONNX_RAW = 2 };
td_program *td_onnx_program(td_client *client, const char *path, unsigned flags, char **card);

/* The text that the file becomes, to be freed; NULL with *e. */
char *td_onnx_source(const char *path, td_error *e);

#endif
