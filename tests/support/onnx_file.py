"""ONNX files made byte by byte, so that tests need nothing but Python's standard library.

    write(path, [("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, ["n", 2])], [("y", FLOAT, ["n", 1])], {"w": ((2, 1), [1.0, 2.0])})

Nodes are (operator, inputs, outputs), or with attributes behind them, whole numbers, lists of such and texts by their names, and the node's name behind
these; inputs and outputs of the graph (name, number of the dtype in ONNX, shape), where a size is a number or a name;
constants (shape, floats), or (shape, name of a file beside it that has the floats), or arrays of NumPy."""
import pathlib
import struct

FLOAT, INT32, INT64 = 1, 6, 7  # of TensorProto.DataType


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    """A field of a message of protobuf: a number, or text or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def _constant(name, given):
    if not hasattr(given, "tobytes") and isinstance(given[1], str):
        return b"".join(field(1, n) for n in given[0]) + field(2, FLOAT) + field(8, name) + field(13, field(1, "location") + field(2, given[1])) + field(14, 1)
    if hasattr(given, "tobytes"):
        shape, dtype, data = given.shape, {"int64": INT64, "int32": INT32}.get(str(given.dtype), FLOAT), given.tobytes()
    else:
        shape, dtype, data = given[0], FLOAT, struct.pack(f"<{len(given[1])}f", *given[1])
    return b"".join(field(1, n) for n in shape) + field(2, dtype) + field(8, name) + field(9, data)


def _port(name, dtype, shape):
    dims = b"".join(field(1, field(2, n) if isinstance(n, str) else field(1, n)) for n in shape)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, dims)))


def _attribute(name, given):
    if isinstance(given, int):
        return field(1, name) + field(3, given & 2**64 - 1) + field(20, 2)
    if isinstance(given, str):
        return field(1, name) + field(4, given) + field(20, 3)
    return field(1, name) + b"".join(field(8, n & 2**64 - 1) for n in given) + field(20, 7)


def _node(number, op, inputs, outputs, attributes=None, name=None):
    more = b"".join(field(5, _attribute(*each)) for each in (attributes or {}).items())
    return more + b"".join(field(1, x) for x in inputs) + b"".join(field(2, x) for x in outputs) + field(3, f"n{number}" if name is None else name) + field(4, op)


def model(nodes, inputs, outputs, constants=None, opset=13):
    """The bytes of a model's file."""
    graph = b"".join(field(1, _node(k, *each)) for k, each in enumerate(nodes)) + field(2, "graph")
    graph += b"".join(field(5, _constant(*each)) for each in (constants or {}).items())
    graph += b"".join(field(11, _port(*each)) for each in inputs) + b"".join(field(12, _port(*each)) for each in outputs)
    return field(1, 8) + field(8, field(2, opset)) + field(7, graph)


def write(path, *what, **more):
    pathlib.Path(path).write_bytes(model(*what, **more))
    return path
