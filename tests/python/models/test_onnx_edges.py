"""Ops of ONNX at their edges: dtypes of constants, no axes, windows and places beyond the end. The results are onnxruntime's."""
import pytest
import tensord as td
from onnx_file import FLOAT, INT32, INT64, write

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")

NUMBERS = {"float32": FLOAT, "int32": INT32, "int64": INT64}
X = np.array([[1, 2], [3, 4]], dtype=np.float32)
WHOLE = np.array([[-1, -2, -4], [3, 4, 4]], dtype=np.int32)


def i32(*numbers):
    return np.array(numbers, dtype=np.int32)


def i64(*numbers):
    return np.array(numbers, dtype=np.int64)


def f32(*numbers):
    return np.array(numbers, dtype=np.float32)


def one(number, dtype=np.int64):
    return np.array(number, dtype=dtype)


def row(n):
    return np.arange(n, dtype=np.float32).reshape(1, 1, n)


CASES = [  # op, opset, inputs, attributes, result
    ("BitwiseAnd", 18, [i32(6, 5, 4), i32(3)], {}, i32(2, 1, 0)),
    ("BitwiseNot", 18, [i32(6, 5)], {}, i32(-7, -6)),
    ("Min", 13, [i32(6, 1), i32(3), one(5, np.int32)], {}, i32(3, 1)),
    ("Sum", 13, [f32(6, 1), f32(3)], {}, f32(9, 4)),
    ("Mod", 13, [i32(7, -7), i32(3)], {"fmod": 1}, i32(1, -1)),
    ("ReduceMax", 13, [i32(6, 1)], {"axes": [0]}, i32(6)),
    ("Expand", 13, [i32(6, 1), i64(2, 2)], {}, np.array([[6, 1], [6, 1]], dtype=np.int32)),
    ("CastLike", 15, [f32(1.5, 2), i32(0)], {}, i32(1, 2)),
    ("Gather", 13, [i32(6, 1, 2), i64(2, 0)], {}, i32(2, 6)),
    ("Concat", 13, [i32(6, 1), i32(2)], {"axis": 0}, i32(6, 1, 2)),
    ("MatMul", 13, [i32(1, -7), i32(2, 1)], {}, one(-5, np.int32)),
    ("Reshape", 13, [f32(3), i64()], {}, one(3, np.float32)),
    ("ReduceProd", 18, [X, i64()], {}, f32(24).reshape(1, 1)),
    ("ReduceLogSumExp", 18, [X, i64()], {"keepdims": 0}, one(4.4401897, np.float32)),
    ("ReduceSumSquare", 18, [X, i64()], {"noop_with_empty_axes": 1}, X * X),
    ("ReduceL1", 18, [-X], {"noop_with_empty_axes": 1}, X),
    ("ReduceMean", 13, [WHOLE], {"axes": [1], "keepdims": 0}, i32(-2, 3)),
    ("ReduceL2", 13, [WHOLE], {"axes": [1], "keepdims": 0}, i32(4, 6)),
    ("ReduceL2", 18, [X, i64(1)], {"keepdims": 0}, f32(5 ** 0.5, 5)),
    ("Range", 13, [one(2), one(8), one(-3)], {}, i64()),
    ("Range", 13, [one(5, np.int32), one(0, np.int32), one(-3, np.int32)], {}, i32(5, 2)),
    ("CumSum", 13, [f32(1e10, 1, 2), one(0)], {"exclusive": 1}, f32(0, 1e10, 1e10)),
    ("CumSum", 13, [f32(1, np.inf, 2), one(0)], {"exclusive": 1, "reverse": 1}, f32(np.inf, 2, 0)),
    ("Slice", 13, [f32(1, 2, 3), i64(-7), i64(-(2**62)), i64(0), i64(-1)], {}, f32(1)),
    ("Clip", 7, [f32(1, -2)], {}, f32(1, -2)),
    ("Unsqueeze", 13, [one(3), i64(0, 1)], {}, i64(3).reshape(1, 1)),
    ("Split", 13, [i32(4, 5)], {"axis": 0}, i32(4, 5)),
    ("MaxPool", 13, [row(7)], {"kernel_shape": [3], "strides": [3], "pads": [2, 2], "ceil_mode": 1}, f32(0, 3, 6).reshape(1, 1, 3)),
    ("AveragePool", 19, [row(5)], {"kernel_shape": [3], "strides": [2], "pads": [0, 2], "ceil_mode": 1, "count_include_pad": 1}, f32(1, 3, 4 / 3).reshape(1, 1, 3)),
]

REDUCTIONS = {  # op: of each number alone, of all
    "Sum": (X, 10), "Prod": (X, 24), "Mean": (X, 2.5), "Max": (X, 4), "Min": (X, 1), "L1": (X, 10), "L2": (X, 30 ** 0.5), "SumSquare": (X * X, 30),
    "LogSum": (np.log(X), np.log(10)), "LogSumExp": (X, 4.4401897),
}
for name, (alone, whole) in REDUCTIONS.items():
    op, opset = "Reduce" + name, 13 if name == "Sum" else 18
    CASES += [(op, opset, given, {"noop_with_empty_axes": 1}, alone) for given in ([X], [X, i64()])]
    CASES += [(op, opset, given, {"keepdims": 0}, one(whole, np.float32)) for given in ([X], [X, i64()])]
    CASES += [(op, opset, [X], {}, f32(whole).reshape(1, 1)), (op, opset, [X, i64(0, -1)], {"noop_with_empty_axes": 1, "keepdims": 0}, one(whole, np.float32))]


@pytest.mark.parametrize("at", range(len(CASES)), ids=[f"{k}_{case[0]}" for k, case in enumerate(CASES)])
def test_an_op_at_its_edge(tmp_path, at):
    op, opset, given, attributes, expected = CASES[at]
    names = [f"x{k}" for k in range(len(given))]
    out = [("y", NUMBERS[str(expected.dtype)], [f"n{k}" for k in range(expected.ndim)])]
    for constants in ({}, dict(zip(names[:1], given)), dict(zip(names[1:], given[1:])), dict(zip(names, given))):
        ports = [(name, NUMBERS[str(x.dtype)], [f"{name}_{k}" for k in range(x.ndim)]) for name, x in zip(names, given) if name not in constants]
        path = write(tmp_path / "op.onnx", [(op, names, ["y"], attributes)], ports, out, constants, opset=opset)
        made = td.load_model(path)(*[x for name, x in zip(names, given) if name not in constants]).numpy()
        assert made.dtype == expected.dtype and made.shape == expected.shape, list(constants)
        assert np.allclose(made, expected, rtol=1e-5, equal_nan=True), (list(constants), made)


def test_numbers_keep_their_dtype_beside_a_truth(tmp_path):
    nodes = [("Greater", ["x", "zero"], ["c"]), ("Where", ["c", "a", "b"], ["y"])]
    constants = {"zero": one(0, np.float32), "a": i32(6, 1), "b": i32(2, 2)}
    path = write(tmp_path / "where.onnx", nodes, [("x", FLOAT, [2])], [("y", INT32, [2])], constants)
    made = td.load_model(path)(f32(1, -1)).numpy()
    assert made.dtype == np.int32 and made.tolist() == [6, 2]


def test_a_size_among_more_dimensions(tmp_path):
    nodes = [("Size", ["x"], ["n"]), ("Unsqueeze", ["n", "axes"], ["y"])]
    path = write(tmp_path / "size.onnx", nodes, [("x", FLOAT, ["k"])], [("y", INT64, [1, 1])], {"axes": i64(0, 1)})
    assert td.load_model(path)(f32(1, 2, 3)).tolist() == [[3]]


def test_a_window_smaller_than_its_step(tmp_path):
    node = ("ConvTranspose", ["x", "w"], ["y"], {"strides": [3], "auto_pad": "SAME_UPPER"})
    weights = {"w": np.array([[[1, 2]]], dtype=np.float32)}
    path = write(tmp_path / "same.onnx", [node], [("x", FLOAT, [1, 1, "k"])], [("y", FLOAT, [1, 1, "n"])], weights)
    assert td.load_model(path)(row(4)).reshape(-1).tolist() == [0, 0, 0, 1, 2, 0, 2, 4, 0, 3, 6]


def test_parts_of_a_constant_are_made_once(tmp_path):
    """A list that an op makes of a constant, beside a tensor that another one makes."""
    nodes = [("Sqrt", ["w"], ["r"]), ("Split", ["r", "n"], ["p", "q"]), ("ReduceSum", ["q", "at"], ["s"]), ("Mul", ["x", "s"], ["y"]), ("Exp", ["v"], ["z"])]
    constants = {"w": f32(1, 4, 9), "v": f32(0), "n": i64(1, 2), "at": i64(0)}
    path = write(tmp_path / "parts.onnx", nodes, [("x", FLOAT, [1])], [("y", FLOAT, [1]), ("z", FLOAT, [1])], constants)
    y, z = td.load_model(path)(f32(2))
    assert y.tolist() == [10] and z.tolist() == [1]
