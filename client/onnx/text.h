/* The source that a graph becomes: a function `main` in the subset of Python, one line a node, over the functions of
 * client/script/onnx.py.
 *
 * Nothing of the file stands in it as it is: variables are numbered, names and texts are written anew. */
#ifndef TENSORD_CLIENT_ONNX_TEXT_H
#define TENSORD_CLIENT_ONNX_TEXT_H

#include "client/onnx/graph.h"
#include "client/onnx/ops.h"
#include "proto/program/print.h"

typedef struct td_onnx_writer {
    td_onnx_whole *w;
    const td_onnx_ops *ops;
    td_print out;
    const td_onnx_step **lines; /* whose each line is, from the first on; NULL: nobody's */
    uint32_t nlines, line_room, variables, level;
    td_onnx_constant **weights;
    uint32_t nweights, weight_room;
    const td_onnx_form **used;
    uint32_t nused, used_room;
    bool exactly;
} td_onnx_writer;

int td_onnx_write(td_onnx_writer *t, td_onnx_whole *w);
void td_onnx_write_end(td_onnx_writer *t);

/* Does a constant stand in the text as it is? `number`: where an op wants numbers. */
bool td_onnx_is_written(const td_onnx_constant *c, bool number);

/* ---- between text.c and control.c */

void td_onnx_write_line(td_onnx_writer *t, const td_onnx_step *whose);
/* `number`: where an op wants numbers. */
void td_onnx_write_value(td_onnx_writer *t, const td_onnx_value *v, bool number);
/* In the file's memory; at most 40 characters. */
const char *td_onnx_text_of(td_onnx_writer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void td_onnx_write_steps(td_onnx_writer *t, const td_onnx_scope *s);
void td_onnx_write_if(td_onnx_writer *t, td_onnx_step *x);
void td_onnx_write_loop(td_onnx_writer *t, td_onnx_step *x);

/* ---- infer.c: of what the file does not say */

/* Ranks and dtypes of what the step gives, and whether that is a tensor for sure. */
void td_onnx_infer(td_onnx_step *x);
/* Are its operands tensors of their dtypes, also where the file or a shape gives numbers? The others look for
 * themselves. */
bool td_onnx_wants_tensors(const td_onnx_step *x);
/* The dtype that a step works in, and that of a zero point; TD_DTYPE_NONE: it is not known. */
td_dtype td_onnx_takes(const td_onnx_step *x);
td_dtype td_onnx_stored(const td_onnx_step *x);

#endif
