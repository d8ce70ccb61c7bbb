/* ONNX files by hand: messages of protobuf, put together from the inside out.
 *
 *     proto g = {0};
 *     put_node(&g, "n", "Relu", "x", "y", NULL);     // in and out: names apart by blanks
 *     put_value(&g, 11, "x", 1, "2 3");
 *     proto m = model_of(&g, 13); */
#ifndef TENSORD_TESTS_ONNX_BUILD_H
#define TENSORD_TESTS_ONNX_BUILD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct proto {
    unsigned char *at;
    size_t n;
} proto;

/* A power of two, as under a sanitizer each realloc copies. */
static size_t room_for(size_t n)
{
    size_t room = 64;
    while (room <= n) room *= 2;
    return room;
}

static void put_bytes(proto *p, const void *bytes, size_t n)
{
    size_t room = room_for(p->n + n);
    if (!p->at || room > room_for(p->n)) p->at = realloc(p->at, room);
    if (!p->at) abort();
    if (n) memcpy(p->at + p->n, bytes, n);
    p->n += n;
}

static void put_varint(proto *p, uint64_t v)
{
    do {
        unsigned char c = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        put_bytes(p, &c, 1);
        v >>= 7;
    } while (v);
}

static void put_int(proto *p, unsigned field, int64_t v)
{
    put_varint(p, field << 3);
    put_varint(p, (uint64_t)v);
}

static void put_data(proto *p, unsigned field, const void *bytes, size_t n)
{
    put_varint(p, field << 3 | 2);
    put_varint(p, n);
    put_bytes(p, bytes, n);
}

static void put_text(proto *p, unsigned field, const char *text)
{
    put_data(p, field, text, strlen(text));
}

/* A message as a field of another; it is gone then. */
static void put_message(proto *p, unsigned field, proto *in)
{
    put_data(p, field, in->at, in->n);
    free(in->at);
    *in = (proto){0};
}

static void put_texts(proto *p, unsigned field, const char *names)
{
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        put_data(p, field, names, n);
    }
}

/* `attributes`: made before, each a message behind the other as field 5; or NULL. */
static void put_node(proto *g, const char *name, const char *op, const char *in, const char *out, proto *attributes)
{
    proto n = {0};
    put_texts(&n, 1, in);
    put_texts(&n, 2, out);
    put_text(&n, 3, name);
    put_text(&n, 4, op);
    if (attributes) {
        put_bytes(&n, attributes->at, attributes->n);
        free(attributes->at);
        *attributes = (proto){0};
    }
    put_message(g, 1, &n);
}

static __attribute__((unused)) void put_attribute_int(proto *node, const char *name, int64_t v)
{
    proto a = {0};
    put_text(&a, 1, name);
    put_int(&a, 3, v);
    put_int(&a, 20, 2);
    put_message(node, 5, &a);
}

static __attribute__((unused)) void put_attribute_graph(proto *node, const char *name, proto *g)
{
    proto a = {0};
    put_text(&a, 1, name);
    put_message(&a, 6, g);
    put_int(&a, 20, 5);
    put_message(node, 5, &a);
}

/* field 11: what comes in, 12: what comes out; sizes apart by blanks, or NULL: not said. */
static void put_value(proto *g, unsigned field, const char *name, int type, const char *sizes)
{
    proto v = {0}, t = {0}, tensor = {0}, shape = {0};
    put_int(&tensor, 1, type);
    for (const char *s = sizes; s && *s; s += strcspn(s, " "), s += *s == ' ') {
        proto dim = {0};
        if (*s >= '0' && *s <= '9') put_int(&dim, 1, (int64_t)strtoll(s, NULL, 10));
        else put_data(&dim, 2, s, strcspn(s, " "));
        put_message(&shape, 1, &dim);
    }
    if (sizes) put_message(&tensor, 2, &shape);
    put_message(&t, 1, &tensor);
    put_text(&v, 1, name);
    put_message(&v, 2, &t);
    put_message(g, field, &v);
}

/* Bytes, or NULL: none. */
static __attribute__((unused)) void put_weight(proto *g, const char *name, int type, int ndim, const int64_t *sizes,
                                               const void *bytes, size_t n)
{
    proto t = {0};
    for (int k = 0; k < ndim; k++) put_int(&t, 1, sizes[k]);
    put_int(&t, 2, type);
    put_text(&t, 8, name);
    if (bytes) put_data(&t, 9, bytes, n);
    put_message(g, 5, &t);
}

static __attribute__((unused)) void put_external(proto *g, const char *name, int64_t size, const char *location,
                                                 const char *offset, const char *length)
{
    const char *keys[] = {"location", "offset", "length"}, *values[] = {location, offset, length};
    proto t = {0};
    put_int(&t, 1, size);
    put_int(&t, 2, 1);
    put_text(&t, 8, name);
    for (int k = 0; k < 3; k++) {
        proto e = {0};
        if (!values[k]) continue;
        put_text(&e, 1, keys[k]);
        put_text(&e, 2, values[k]);
        put_message(&t, 13, &e);
    }
    put_int(&t, 14, 1);
    put_message(g, 5, &t);
}

/* The graph is gone then. */
static proto model_of(proto *g, int64_t opset)
{
    proto m = {0}, o = {0};
    put_int(&m, 1, 8);
    put_message(&m, 7, g);
    put_int(&o, 2, opset);
    put_message(&m, 8, &o);
    return m;
}

#endif
