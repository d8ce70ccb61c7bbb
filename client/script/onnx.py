"""The ops of ONNX, in the subset: NAME_VERSION is the op NAME as it is from that version of ONNX's ops on. What a file becomes
(client/onnx/text.c) calls them, a node each; it is part of libtensord, as prelude.py is.

Before the "*" are a node's inputs in their order (None: left out); `Any` says that one is given as numbers where the file
has these. A first one called `inputs` takes all, as a tuple. Behind the "*" are its attributes by their names, and what is known
of the node: `several`: more than its first output is wanted, so that all are given; `outputs`: how many it has, given as a
list; `whole`: it takes whole numbers or truths; `kind`: the dtype that it takes; `spatial`: how many dimensions are behind
batch and channels; `rank`: of the first input, -1 where the file does not say; `flat`: the third input is a vector, of more than one
number; `stored`: the dtype of a zero point.

Shapes and other whole numbers of rank 0 and 1 are an int or a list of ints here, never a tensor unless an op wants one;
isinstance() decides while a node is lowered. `ops` are the rows, `td` is all of tensord. NaN of ONNX is that of IEEE 754."""


# ---- numbers and tensors


def _tensor(x):
    return x if isinstance(x, Tensor) else td.tensor(x)


def _out(x, kind):
    return x if isinstance(x, Tensor) else td.tensor(x, dtype=kind)


def _copy(x):
    return ops.copy(x)


def _beside(x, other):
    """As an operand of that tensor: one number as it is, several as a tensor of its dtype."""
    return td.tensor(x, dtype=other.dtype) if isinstance(x, list) else x


def _ints(x):
    if isinstance(x, Tensor):
        numbers: list[int] = ops.reshaped(x, [-1]).tolist()
        return numbers
    return [x] if isinstance(x, int) else x


def _int(x):
    if isinstance(x, Tensor):
        return int(x)
    return x[0] if isinstance(x, list) else x


def _bool(x):
    if isinstance(x, Tensor):
        return bool(x)
    return x[0] if isinstance(x, list) else x


def _no_numbers():
    xs: list[int] = []
    return xs


def _none():
    xs: list[Tensor] = []
    return xs


def _stacked(xs):
    return ops.stack(xs, 0)


def _one(x):
    """The number of a list of one."""
    return x[0] if isinstance(x, list) else x


def _float(x):
    if isinstance(x, Tensor):
        return float(x)
    return float(x[0]) if isinstance(x, list) else float(x)


def _dim(x, axis):
    return axis + x.ndim if axis < 0 else axis


def _floats(x):
    if isinstance(x, Tensor):
        numbers: list[float] = ops.reshaped(x, [-1]).tolist()
        return numbers
    return x


def _product(sizes):
    n = 1
    for s in sizes:
        n = n * s
    return n


def _all(inputs):
    if isinstance(inputs, list):
        return inputs
    xs: list[Tensor] = []
    for x in inputs:
        xs.append(_tensor(x))
    return xs


def _length(a, b):
    """Of what two operands of numbers make."""
    if isinstance(a, list) and isinstance(b, list):
        return max(len(a), len(b)) if len(a) > 0 and len(b) > 0 else 0
    return len(a) if isinstance(a, list) else len(b)


def _at(x, k):
    if isinstance(x, list):
        return x[k] if len(x) > 1 else x[0]
    return x


def _quotient(a, b):
    """Without its fraction."""
    q = a // b
    return q + 1 if q < 0 and q * b != a else q


# ---- arithmetic


def Add_7(A, B):
    if isinstance(A, Tensor) or isinstance(B, Tensor):
        return _both(A, B) + _both(B, A)
    if isinstance(A, list) or isinstance(B, list):
        return [_at(A, k) + _at(B, k) for k in range(_length(A, B))]
    return A + B


def _both(a, other):
    if isinstance(other, Tensor):
        return _beside(a, other)
    return a


def Sub_7(A, B):
    if isinstance(A, Tensor) or isinstance(B, Tensor):
        return _both(A, B) - _both(B, A)
    if isinstance(A, list) or isinstance(B, list):
        return [_at(A, k) - _at(B, k) for k in range(_length(A, B))]
    return A - B


def Mul_7(A, B):
    if isinstance(A, Tensor) or isinstance(B, Tensor):
        return _both(A, B) * _both(B, A)
    if isinstance(A, list) or isinstance(B, list):
        return [_at(A, k) * _at(B, k) for k in range(_length(A, B))]
    return A * B


def Div_7(A, B, *, whole):
    if isinstance(A, Tensor) or isinstance(B, Tensor):
        if whole:
            return ops.trunc_divide(_both(A, B), _both(B, A))
        return _both(A, B) / _both(B, A)
    if isinstance(A, list) or isinstance(B, list):
        return [_quotient(_at(A, k), _at(B, k)) for k in range(_length(A, B))]
    return _quotient(A, B)


def Mod_10(A, B, *, fmod=0):
    x, y = _tensor(A), _tensor(B)
    return ops.fmod(x, y) if fmod == 1 else ops.remainder(x, y)


def Pow_7(X, Y: Any, *, whole, kind):
    x = _tensor(X)
    if whole:
        return ops.copy(ops.pow(x, _beside(Y, x)), kind)
    return ops.pow(x, _exponent(Y, x))


def _exponent(y, x):
    if isinstance(y, Tensor):
        return ops.copy(y, x.dtype) if y.dtype != x.dtype else y
    return _beside(y, x)


# Before version 7 a second operand was brought to the first one's shape when that was asked for.


def _brought(B, A, axis):
    if axis is None or isinstance(B, (int, list)):
        return B
    return ops.reshaped(B, B.shape + [1 for k in range(A.ndim - axis - B.ndim)])


def Add_1(A, B, *, axis=None, broadcast=0, consumed_inputs=None):
    return Add_7(A, _brought(B, A, axis))


def Sub_1(A, B, *, axis=None, broadcast=0, consumed_inputs=None):
    return Sub_7(A, _brought(B, A, axis))


def Mul_1(A, B, *, axis=None, broadcast=0, consumed_inputs=None):
    return Mul_7(A, _brought(B, A, axis))


def Div_1(A, B, *, whole, axis=None, broadcast=0, consumed_inputs=None):
    return Div_7(A, _brought(B, A, axis), whole=whole)


def Pow_1(X, Y: Any, *, whole, kind, axis=None, broadcast=0):
    return Pow_7(X, Y if axis is None else _brought(Y, X, axis), whole=whole, kind=kind)


def Neg_6(X):
    if isinstance(X, Tensor):
        return ops.neg(X)
    if isinstance(X, list):
        return [-x for x in X]
    return -X


def Abs_6(X):
    if isinstance(X, Tensor):
        return ops.abs(X)
    return [abs(x) for x in X] if isinstance(X, list) else abs(X)


def Sign_9(input):
    return ops.sign(_tensor(input))


def Reciprocal_6(X):
    return ops.reciprocal(X)


def Sqrt_6(X):
    return ops.sqrt(X)


def Exp_6(input):
    return ops.exp(input)


def Log_6(input):
    return ops.log(input)


def Floor_6(X):
    return ops.floor(_tensor(X))


def Ceil_6(X):
    return ops.ceil(_tensor(X))


def Round_11(X):
    return ops.round(X)


def Erf_9(input):
    return ops.erf(input)


def Sin_7(input):
    return ops.sin(input)


def Cos_7(input):
    return ops.cos(input)


def Tan_7(input):
    return ops.tan(input)


def Asin_7(input):
    return ops.asin(input)


def Acos_7(input):
    return ops.acos(input)


def Atan_7(input):
    return ops.atan(input)


def Sinh_9(input):
    return ops.sinh(input)


def Cosh_9(input):
    return ops.cosh(input)


def Tanh_6(input):
    return ops.tanh(input)


def Asinh_9(input):
    return ops.asinh(input)


def Acosh_9(input):
    return ops.acosh(input)


def Atanh_9(input):
    return ops.atanh(input)


def Sum_6(inputs):
    xs = _all(inputs)
    y = xs[0]
    for k in range(1, len(xs)):
        y = y + xs[k]
    return y


def Mean_6(inputs):
    xs = _all(inputs)
    y = xs[0]
    for k in range(1, len(xs)):
        y = y + xs[k]
    return y / len(xs)


def Max_6(inputs):
    xs = _all(inputs)
    y = xs[0]
    for k in range(1, len(xs)):
        y = ops.maximum(y, xs[k])
    return y


def Min_6(inputs):
    xs = _all(inputs)
    y = xs[0]
    for k in range(1, len(xs)):
        y = ops.minimum(y, xs[k])
    return y


def BitShift_11(X, Y, *, direction):
    return ops.bitwise_left_shift(X, Y) if direction == "LEFT" else ops.bitwise_right_shift(X, Y)


def BitwiseAnd_18(A, B):
    return ops.bitwise_and(_tensor(A), _tensor(B))


def BitwiseOr_18(A, B):
    return ops.bitwise_or(_tensor(A), _tensor(B))


def BitwiseXor_18(A, B):
    return ops.bitwise_xor(_tensor(A), _tensor(B))


def BitwiseNot_18(X):
    return ops.bitwise_not(_tensor(X))


# ---- truths


def Equal_7(A, B):
    if isinstance(A, Tensor) or isinstance(B, Tensor):
        return ops.eq(_both(A, B), _both(B, A))
    if isinstance(A, list) or isinstance(B, list):
        return [_at(A, k) == _at(B, k) for k in range(_length(A, B))]
    return A == B


def Less_7(A, B):
    if isinstance(A, Tensor) or isinstance(B, Tensor):
        return ops.lt(_both(A, B), _both(B, A))
    if isinstance(A, list) or isinstance(B, list):
        return [_at(A, k) < _at(B, k) for k in range(_length(A, B))]
    return A < B


def Greater_7(A, B):
    if isinstance(A, Tensor) or isinstance(B, Tensor):
        return ops.gt(_both(A, B), _both(B, A))
    if isinstance(A, list) or isinstance(B, list):
        return [_at(A, k) > _at(B, k) for k in range(_length(A, B))]
    return A > B


def LessOrEqual_12(A, B):
    if isinstance(A, Tensor) or isinstance(B, Tensor):
        return ops.le(_both(A, B), _both(B, A))
    if isinstance(A, list) or isinstance(B, list):
        return [_at(A, k) <= _at(B, k) for k in range(_length(A, B))]
    return A <= B


def GreaterOrEqual_12(A, B):
    if isinstance(A, Tensor) or isinstance(B, Tensor):
        return ops.ge(_both(A, B), _both(B, A))
    if isinstance(A, list) or isinstance(B, list):
        return [_at(A, k) >= _at(B, k) for k in range(_length(A, B))]
    return A >= B


def Not_1(X):
    if isinstance(X, Tensor):
        return ops.logical_not(X)
    return [not x for x in X] if isinstance(X, list) else not X


def And_7(A, B):
    if isinstance(A, bool) and isinstance(B, bool):
        return A and B
    return ops.logical_and(_tensor(A), _tensor(B))


def Or_7(A, B):
    if isinstance(A, bool) and isinstance(B, bool):
        return A or B
    return ops.logical_or(_tensor(A), _tensor(B))


def Xor_7(A, B):
    return ops.logical_xor(_tensor(A), _tensor(B))


def IsNaN_9(X):
    return ops.isnan(X)


def IsInf_10(X, *, detect_negative=1, detect_positive=1):
    if detect_negative == 1 and detect_positive == 1:
        return ops.isinf(X)
    if detect_negative == 1:
        return ops.isneginf(X)
    return ops.isposinf(X) if detect_positive == 1 else ops.full(X.shape, False, td.bool)


def Where_9(condition, X, Y):
    if isinstance(condition, Tensor) or isinstance(X, Tensor) or isinstance(Y, Tensor):
        return ops.where(_tensor(condition), _both(X, Y), _both(Y, X)) if isinstance(X, Tensor) or isinstance(Y, Tensor) else ops.where(_tensor(condition), _tensor(X), _tensor(Y))
    if isinstance(condition, list):
        return [_at(X, k) if condition[k] else _at(Y, k) for k in range(len(condition))]
    return X if condition else Y


# ---- what is one thing under another look


def Identity_1(input):
    return input


def Dropout_6(data, *, several, ratio=0.5, is_test=1):
    return (data, ops.full(data.shape, True, td.bool)) if several else data


def Dropout_12(data, ratio: Any = None, training_mode: Any = None, *, several, seed=0):
    if training_mode is not None:
        share = 0.5 if ratio is None else _float(ratio)
        assert share == 0.0 or not bool(_one(training_mode)), "Dropout that draws numbers is for training"
    return (data, ops.full(data.shape, True, td.bool)) if several else data


def Cast_6(input, *, to, saturate=1):
    if isinstance(input, Tensor):
        return ops.copy(input, to)
    if isinstance(input, bool):  # what an If goes by stays a number, which no run waits for
        return input if to == td.bool else _out(input, to)
    if isinstance(input, int) and to == td.bool:
        return input != 0
    if isinstance(input, (int, list[int])):
        if to == td.int64 or to == td.int32:
            return input
    return _out(input, to)


def CastLike_15(input, target_type, *, saturate=1):
    return ops.copy(_tensor(input), _tensor(target_type).dtype)


def Shape_1(data, *, start=0, end=None):
    if isinstance(data, Tensor):
        if start == 0 and end is None:
            return data.shape
        return data.shape[start:] if end is None else data.shape[start:end]
    n: list[int] = []
    if isinstance(data, list):
        n.append(len(data))
    return n


def Size_1(data):
    if isinstance(data, Tensor):
        return data.numel()
    return len(data) if isinstance(data, list) else 1


def Reshape_5(data, shape: Any, *, allowzero=0):
    sizes = _ints(shape)
    if isinstance(data, Tensor):
        if allowzero == 0 and 0 in sizes:
            return ops.reshaped(data, [data.shape[k] if s == 0 else s for k, s in enumerate(sizes)])
        return ops.reshaped(data, sizes)
    return ops.reshaped(_tensor(data), sizes)


def Reshape_1(data, *, shape):
    return Reshape_5(data, shape)


def Flatten_1(input, *, axis=1):
    if axis == 0:
        return ops.reshaped(input, [1, -1])
    if axis == 1:
        return ops.reshaped(input, [input.shape[0], -1]) if input.numel() > 0 else ops.reshaped(input, [input.shape[0], _product(input.shape[1:])])
    n = _product(input.shape[:axis])
    return ops.reshaped(input, [n, _product(input.shape[axis:])])


def Transpose_1(data, *, perm=None):
    if perm is None:
        return ops.permute(data, [k for k in range(data.ndim - 1, -1, -1)])
    return ops.permute(data, perm)


def Squeeze_1(data, *, axes=None):
    return _squeeze(data, axes)


def Squeeze_13(data, axes: Any = None):
    if axes is None:
        return _squeeze(data, None)
    return _squeeze(data, _ints(axes))


def _squeeze(x, axes):
    if isinstance(x, Tensor):
        return ops.squeeze(x, axes)
    return x[0] if isinstance(x, list) else x


def Unsqueeze_1(data, *, axes):
    return _unsqueeze(data, axes)


def Unsqueeze_13(data, axes: Any):
    return _unsqueeze(data, _ints(axes))


def _unsqueeze(data, axes):
    if isinstance(data, int):
        return [data]
    x = _tensor(data)
    if len(axes) == 1:
        return ops.unsqueeze(x, axes[0])
    n = x.ndim + len(axes)
    for k in sorted([a + n if a < 0 else a for a in axes]):
        x = ops.unsqueeze(x, k)
    return x


def Expand_8(input, shape: Any):
    x, sizes = _tensor(input), _ints(shape)
    more = len(sizes) - x.ndim
    if more < 0:
        sizes = x.shape[:-more] + sizes
        more = 0
    return ops.expand(x, [-1 if s == 1 and k >= more else s for k, s in enumerate(sizes)])


def Concat_4(inputs, *, axis):
    if isinstance(inputs, list):
        return ops.cat(inputs, axis)
    first = inputs[0]
    if isinstance(first, Tensor):
        return ops.cat(_all(inputs), axis)
    numbers = True
    for x in inputs:
        if isinstance(x, Tensor):
            numbers = False
    if numbers:
        r: list[int] = []
        for x in inputs:
            r = r + x
        return r
    return ops.cat(_all(inputs), axis)


def Split_1(input, split=None, *, outputs, axis=0):
    return Split_13(input, split, outputs=outputs, axis=axis)


def Split_2(input, *, outputs, axis=0, split=None):
    return Split_13(input, split, outputs=outputs, axis=axis)


def Split_13(input, split: Any = None, *, outputs, axis=0):
    x = _tensor(input)
    if split is None:
        n = x.shape[axis]
        assert n % outputs == 0, f"Split: {n} parts do not come out even in {outputs}"
        return ops.split(x, [n // outputs for k in range(outputs)], axis)
    return ops.split(x, _ints(split), axis)


def Split_18(input, split: Any = None, *, outputs, axis=0, num_outputs=None):
    x = _tensor(input)
    if split is None:
        n = x.shape[axis]
        each = (n + outputs - 1) // outputs
        return ops.split(x, [min(each, n - k * each) for k in range(outputs)], axis)
    return ops.split(x, _ints(split), axis)


def Slice_1(data, *, starts, ends, axes=None):
    if axes is None:
        return _slices(data, starts, ends, [k for k in range(len(starts))], [1 for k in range(len(starts))])
    return _slices(data, starts, ends, axes, [1 for k in range(len(starts))])


def Slice_10(data, starts: Any, ends: Any, axes: Any = None, steps: Any = None):
    first = _ints(starts)
    n = len(first)
    at = [k for k in range(n)] if axes is None else _ints(axes)
    each = [1 for k in range(n)] if steps is None else _ints(steps)
    return _slices(data, first, _ints(ends), at, each)


def _slices(data, starts, ends, axes, steps):
    if isinstance(data, list):
        return data[starts[0]:ends[0]] if steps[0] == 1 else data[max(starts[0], -len(data)):ends[0]:steps[0]]
    x = data
    for k in range(len(starts)):
        if steps[k] > 0:
            x = ops.slice(x, axes[k], starts[k], ends[k], steps[k])
        else:
            x = _backwards(x, axes[k], starts[k], ends[k], steps[k])
    return x


def _backwards(x, axis: int, start: int, end: int, step: int):
    """A start in front of the first place is the first place."""
    n = x.shape[axis]
    first = min(max(start + n if start < 0 else start, 0), n - 1)
    last = min(max(end + n if end < 0 else end, -1), n - 1)
    return ops.slice(ops.flip(x, [axis]), axis, n - 1 - first, max(n - 1 - last, n - 1 - first), -step)


def Tile_6(input, repeats: Any):
    return ops.tile(_tensor(input), _ints(repeats))


def DepthToSpace_1(input, *, blocksize, mode="DCR"):
    n, c, h, w = input.shape[0], input.shape[1], input.shape[2], input.shape[3]
    b = blocksize
    if mode == "CRD":
        x = ops.permute(ops.reshaped(input, [n, c // (b * b), b, b, h, w]), [0, 1, 4, 2, 5, 3])
    else:
        x = ops.permute(ops.reshaped(input, [n, b, b, c // (b * b), h, w]), [0, 3, 4, 1, 5, 2])
    return ops.reshaped(x, [n, c // (b * b), h * b, w * b])


def SpaceToDepth_1(input, *, blocksize):
    n, c, h, w = input.shape[0], input.shape[1], input.shape[2], input.shape[3]
    b = blocksize
    x = ops.permute(ops.reshaped(input, [n, c, h // b, b, w // b, b]), [0, 3, 5, 1, 2, 4])
    return ops.reshaped(x, [n, c * b * b, h // b, w // b])


# ---- what is made


def ConstantOfShape_9(input: Any, *, value=0.0, value_dtype=td.float32):
    return ops.full(_ints(input), value, value_dtype)


def Range_11(start: Any, limit: Any, delta: Any, *, whole, kind):
    if whole:
        a, b, by = _int(start), _int(limit), _int(delta)
        return ops.arange(a, b if (b > a) == (by > 0) else a, by, kind)
    first, end, step = _float(start), _float(limit), _float(delta)
    return ops.arange(first, end if (end > first) == (step > 0.0) else first, step, kind)


def EyeLike_9(input, *, k=0, dtype=None, kind):
    x = _tensor(input)
    n, m = x.shape[0], x.shape[1]
    rows = ops.reshaped(ops.arange(0, n, 1, td.int64), [n, 1])
    return ops.copy(ops.eq(rows + k, ops.arange(0, m, 1, td.int64)), kind if dtype is None else dtype)


def OneHot_9(indices, depth: Any, values, *, axis=-1):
    x, n, v = _tensor(indices), int(_float(depth)), _tensor(values)
    at = axis + x.ndim + 1 if axis < 0 else axis
    places = ops.copy(x, td.int64)
    places = ops.unsqueeze(ops.where(ops.lt(places, 0), places + n, places), at)
    line = ops.reshaped(ops.arange(0, n, 1, td.int64), [n if k == at else 1 for k in range(x.ndim + 1)])
    return ops.where(ops.eq(places, line), ops.select(v, 0, 1), ops.select(v, 0, 0))


# ---- places


def _wrap(indices, n):
    """Those below 0 count from the end."""
    return ops.where(ops.lt(indices, 0), indices + n, indices)


def Gather_1(data, indices, *, axis=0):
    if isinstance(data, list) and not isinstance(indices, Tensor):
        return data[indices] if isinstance(indices, int) else [data[k] for k in indices]
    return _gather(_tensor(data), indices, axis)


def _gather(x, indices, axis):
    if isinstance(indices, int):
        return ops.select(x, axis, indices)
    if axis == 0:
        return ops.index(x, [_tensor(indices)])
    at: list[Tensor | None] = []
    for k in range(_dim(x, axis)):
        at.append(None)
    at.append(_tensor(indices))
    return ops.index(x, at)


def GatherElements_11(data, indices, *, axis=0):
    x, at = _tensor(data), _tensor(indices)
    return ops.gather(x, axis, ops.copy(_wrap(at, x.shape[axis]), td.int64))


def GatherND_11(data, indices, *, batch_dims=0):
    x, at = _tensor(data), ops.copy(_tensor(indices), td.int64)
    n, b = at.shape[-1], batch_dims
    parts: list[Tensor | None] = []
    for k in range(b):
        parts.append(ops.reshaped(ops.arange(0, x.shape[k], 1, td.int64), [x.shape[k] if i == k else 1 for i in range(at.ndim - 1)]))
    for k in range(n):
        parts.append(_wrap(ops.select(at, -1, k), x.shape[b + k]))
    return ops.index(x, parts)


def Scatter_9(data, indices, updates, *, axis=0):
    return ScatterElements_11(data, indices, updates, axis=axis)


def ScatterElements_11(data, indices, updates, *, axis=0, reduction="none"):
    x, src = _tensor(data), _tensor(updates)
    at = ops.copy(_wrap(_tensor(indices), x.shape[axis]), td.int64)
    if reduction == "add":
        return ops.scatter_reduce(x, axis, at, src, 0)
    if reduction == "mul":
        return ops.scatter_reduce(x, axis, at, src, 1)
    if reduction == "max":
        return ops.scatter_reduce(x, axis, at, src, 3)
    if reduction == "min":
        return ops.scatter_reduce(x, axis, at, src, 4)
    return ops.scatter(x, axis, at, src)


def ScatterND_11(data, indices, updates, *, reduction="none"):
    x, at, src = _tensor(data), ops.copy(_tensor(indices), td.int64), _tensor(updates)
    n = at.shape[-1]
    if reduction == "none" or reduction == "add":
        parts: list[Tensor | None] = []
        for k in range(n):
            parts.append(_wrap(ops.select(at, -1, k), x.shape[k]))
        return ops.index_put(x, parts, src, reduction == "add")
    place, rest = ops.full(at.shape[:-1], 0, td.int64), _product(x.shape[n:])
    for k in range(n):
        place = place * x.shape[k] + _wrap(ops.select(at, -1, k), x.shape[k])
    flat = ops.reshaped(x, [-1, rest])
    rows = ops.expand(ops.reshaped(place, [-1, 1]), [-1, rest])
    how = 1 if reduction == "mul" else 3 if reduction == "max" else 4
    return ops.reshaped(ops.scatter_reduce(flat, 0, rows, ops.reshaped(src, [-1, rest]), how), x.shape)


def NonZero_9(X):
    return ops.t(ops.nonzero(_tensor(X)))


def Compress_9(input, condition, *, axis=None):
    c = ops.copy(_tensor(condition), td.bool)
    places = ops.reshaped(ops.nonzero(c), [-1])
    x = _tensor(input)
    return ops.index_select(ops.reshaped(x, [-1]) if axis is None else x, 0 if axis is None else axis, places)


def ReverseSequence_10(input, sequence_lens, *, batch_axis=1, time_axis=0):
    x = _tensor(input)
    steps = x.shape[time_axis]
    time = ops.reshaped(ops.arange(0, steps, 1, td.int64), [steps if k == time_axis else 1 for k in range(x.ndim)])
    lens = ops.reshaped(_tensor(sequence_lens), [x.shape[batch_axis] if k == batch_axis else 1 for k in range(x.ndim)])
    return ops.gather(x, time_axis, ops.expand(ops.where(ops.lt(time, lens), lens - 1 - time, time), x.shape))


def Trilu_14(input, k: Any = None, *, upper=1):
    n = 0 if k is None else _int(k)
    return ops.triu(_tensor(input), n) if upper == 1 else ops.tril(_tensor(input), n)


def TopK_1(X, *, several, k, axis=-1):
    y, at = ops.topk(_tensor(X), k, axis)
    return (y, at) if several else y


def TopK_10(X, K: Any, *, several, axis=-1):
    y, at = ops.topk(_tensor(X), _int(K), axis)
    return (y, at) if several else y


def TopK_11(X, K: Any, *, several, axis=-1, largest=1, sorted=1):
    y, at = ops.topk(_tensor(X), _int(K), axis, largest == 1)
    return (y, at) if several else y


def Unique_11(X, *, several, axis=None, sorted=1):
    assert axis is None, "Unique along an axis is not in programs"
    x = ops.reshaped(_tensor(X), [-1])
    y, at, inverse, counts = ops.unique_all(x)
    if sorted == 1:
        return (y, at, inverse, counts) if several else y
    order = ops.argsort(at, 0)
    back = ops.argsort(order, 0)
    y = ops.index_select(y, 0, order)
    return (y, ops.index_select(at, 0, order), ops.index_select(back, 0, inverse), ops.index_select(counts, 0, order)) if several else y


# ---- reductions


def _or_all(x, axes):
    """No axes are all."""
    if axes is None:
        return [k for k in range(x.ndim)]
    return axes if len(axes) > 0 else [k for k in range(x.ndim)]


def _is_whole(kind):
    return kind == td.int32 or kind == td.int64


def _sum(x, axes, keep, kind):
    return ops.sum(x, axes, keep, kind)


def _prod(x, axes, keep, kind):
    if axes is None:
        y = ops.prod(ops.reshaped(x, [-1]), 0, False, kind)
        return ops.reshaped(y, [1 for k in range(x.ndim)]) if keep else y
    y = x
    for a in sorted([a + x.ndim if a < 0 else a for a in _or_all(x, axes)], reverse=True):
        y = ops.prod(y, a, keep, kind)
    return y


def _mean(x, axes, keep, kind):
    if _is_whole(kind):
        y = ops.sum(x, axes, keep, kind)
        return ops.trunc_divide(y, max(x.numel() // max(y.numel(), 1), 1))
    return ops.mean(x, axes, keep)


def _max(x, axes, keep, kind):
    return ops.amax(x, axes, keep)


def _min(x, axes, keep, kind):
    return ops.amin(x, axes, keep)


def _l1(x, axes, keep, kind):
    return ops.sum(ops.abs(x), axes, keep, kind)


def _l2(x, axes, keep, kind):
    if _is_whole(kind):
        return ops.copy(ops.sqrt(ops.copy(ops.sum(x * x, axes, keep, kind), td.float64)), kind)
    return ops.sqrt(ops.sum(x * x, axes, keep, kind))


def _square(x, axes, keep, kind):
    return ops.sum(x * x, axes, keep, kind)


def _log_sum(x, axes, keep, kind):
    return ops.log(ops.sum(x, axes, keep, kind))


def _log_sum_exp(x, axes, keep, kind):
    return ops.logsumexp(x, _or_all(x, axes), keep)


def ReduceSum_1(data, *, kind, axes=None, keepdims=1):
    return _sum(_tensor(data), axes, keepdims == 1, kind)


def ReduceSum_13(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return x if noop_with_empty_axes == 1 else _sum(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return x
    return _sum(x, at, keepdims == 1, kind)


def ReduceProd_1(data, *, kind, axes=None, keepdims=1):
    return _prod(_tensor(data), axes, keepdims == 1, kind)


def ReduceProd_18(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return x if noop_with_empty_axes == 1 else _prod(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return x
    return _prod(x, at, keepdims == 1, kind)


def ReduceMean_1(data, *, kind, axes=None, keepdims=1):
    return _mean(_tensor(data), axes, keepdims == 1, kind)


def ReduceMean_18(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return x if noop_with_empty_axes == 1 else _mean(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return x
    return _mean(x, at, keepdims == 1, kind)


def ReduceMax_1(data, *, kind, axes=None, keepdims=1):
    return _max(_tensor(data), axes, keepdims == 1, kind)


def ReduceMax_18(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return x if noop_with_empty_axes == 1 else _max(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return x
    return _max(x, at, keepdims == 1, kind)


def ReduceMin_1(data, *, kind, axes=None, keepdims=1):
    return _min(_tensor(data), axes, keepdims == 1, kind)


def ReduceMin_18(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return x if noop_with_empty_axes == 1 else _min(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return x
    return _min(x, at, keepdims == 1, kind)


def ReduceL1_1(data, *, kind, axes=None, keepdims=1):
    return _l1(_tensor(data), axes, keepdims == 1, kind)


def ReduceL1_18(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return ops.abs(x) if noop_with_empty_axes == 1 else _l1(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return ops.abs(x)
    return _l1(x, at, keepdims == 1, kind)


def ReduceL2_1(data, *, kind, axes=None, keepdims=1):
    return _l2(_tensor(data), axes, keepdims == 1, kind)


def ReduceL2_18(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return ops.abs(x) if noop_with_empty_axes == 1 else _l2(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return ops.abs(x)
    return _l2(x, at, keepdims == 1, kind)


def ReduceSumSquare_1(data, *, kind, axes=None, keepdims=1):
    return _square(_tensor(data), axes, keepdims == 1, kind)


def ReduceSumSquare_18(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return x * x if noop_with_empty_axes == 1 else _square(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return x * x
    return _square(x, at, keepdims == 1, kind)


def ReduceLogSum_1(data, *, kind, axes=None, keepdims=1):
    return _log_sum(_tensor(data), axes, keepdims == 1, kind)


def ReduceLogSum_18(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return ops.log(x) if noop_with_empty_axes == 1 else _log_sum(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return ops.log(x)
    return _log_sum(x, at, keepdims == 1, kind)


def ReduceLogSumExp_1(data, *, kind, axes=None, keepdims=1):
    return _log_sum_exp(_tensor(data), axes, keepdims == 1, kind)


def ReduceLogSumExp_18(data, axes: Any = None, *, kind, keepdims=1, noop_with_empty_axes=0):
    x = _tensor(data)
    if axes is None:
        return x if noop_with_empty_axes == 1 else _log_sum_exp(x, None, keepdims == 1, kind)
    at = _ints(axes)
    if noop_with_empty_axes == 1 and len(at) == 0:
        return x
    return _log_sum_exp(x, at, keepdims == 1, kind)


def ArgMax_1(data, *, axis=0, keepdims=1, select_last_index=0):
    x = _tensor(data)
    if select_last_index == 1:
        return x.shape[axis] - 1 - ops.argmax(ops.flip(x, [axis]), axis, keepdims == 1)
    return ops.argmax(x, axis, keepdims == 1)


def ArgMin_1(data, *, axis=0, keepdims=1, select_last_index=0):
    x = _tensor(data)
    if select_last_index == 1:
        return x.shape[axis] - 1 - ops.argmin(ops.flip(x, [axis]), axis, keepdims == 1)
    return ops.argmin(x, axis, keepdims == 1)


def CumSum_11(x, axis: Any, *, kind, exclusive=0, reverse=0):
    at, y = _int(axis), _tensor(x)
    if reverse == 1:
        y = ops.flip(y, [at])
    if exclusive == 1:
        around = [0 for k in range(2 * y.ndim)]
        around[2 * (y.ndim - 1 - _dim(y, at))] = 1
        y = ops.slice(ops.constant_pad(y, around, 0), at, 0, y.shape[at], 1)
    sums = ops.cumsum(y, at, kind)
    return ops.flip(sums, [at]) if reverse == 1 else sums


# ---- activations


def Relu_6(X):
    return ops.relu(X)


def Sigmoid_6(X):
    return ops.sigmoid(X)


def LeakyRelu_6(X, *, alpha=0.01):
    return ops.leaky_relu(X, alpha)


def PRelu_6(X, slope):
    return PRelu_7(X, _columns(slope, X))


def PRelu_7(X, slope):
    return ops.where(ops.lt(X, 0), X * slope, X)


def Elu_6(X, *, alpha=1.0):
    return ops.elu(X, alpha)


def Selu_6(X, *, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875):
    return ops.where(ops.gt(X, 0), X * gamma, ops.expm1(X) * (alpha * gamma))


def Celu_12(X, *, alpha=1.0):
    return ops.celu(X, alpha)


def Softplus_1(X):
    return ops.softplus(X)


def Softsign_1(input):
    return ops.softsign(input)


def ThresholdedRelu_10(X, *, alpha=1.0):
    return ops.where(ops.gt(X, alpha), X, 0)


def Shrink_9(input, *, bias=0.0, lambd=0.5, whole, kind):
    y = ops.where(ops.lt(input, -lambd), input + bias, ops.where(ops.gt(input, lambd), input - bias, 0))
    return ops.copy(y, kind) if whole else y


def HardSigmoid_6(X, *, alpha=0.2, beta=0.5):
    return ops.clamp(X * alpha + beta, 0.0, 1.0)


def HardSwish_14(X):
    return ops.hardswish(X)


def Gelu_20(X, *, approximate="none"):
    return ops.gelu(X, approximate == "tanh")


def Mish_18(X):
    return ops.mish(X)


def Clip_6(input, *, min=None, max=None):
    if min is None and max is None:
        return input
    return ops.clamp(input, min, max)


def Clip_11(input, min: Any = None, max: Any = None):
    return _below(_above(_tensor(input), min), max)


def _above(x, least):
    if least is None:
        return x
    return ops.maximum(x, least) if isinstance(least, Tensor) else ops.clamp(x, _one(least), None)


def _below(x, most):
    if most is None:
        return x
    return ops.minimum(x, most) if isinstance(most, Tensor) else ops.clamp(x, None, _one(most))


def _flat(x, axis):
    """The dimensions before one, and the others."""
    at = _dim(x, axis)
    n = _product(x.shape[:at])
    return ops.reshaped(x, [n, _product(x.shape[at:])])


def Softmax_1(input, *, rank, axis=1):
    if axis == -1 or axis == rank - 1:
        return ops.softmax(input, axis)
    return ops.reshaped(ops.softmax(_flat(input, axis), 1), input.shape)


def Softmax_13(input, *, axis=-1):
    return ops.softmax(input, axis)


def LogSoftmax_1(input, *, rank, axis=1):
    if axis == -1 or axis == rank - 1:
        return ops.log_softmax(input, axis)
    return ops.reshaped(ops.log_softmax(_flat(input, axis), 1), input.shape)


def LogSoftmax_13(input, *, axis=-1):
    return ops.log_softmax(input, axis)


def _hardmax(x, axis):
    first = ops.argmax(x, axis, True)
    n = x.shape[axis]
    line = ops.reshaped(ops.arange(0, n, 1, td.int64), [n if k == _dim(x, axis) else 1 for k in range(x.ndim)])
    return ops.copy(ops.eq(line, first), x.dtype)


def Hardmax_1(input, *, axis=1):
    return ops.reshaped(_hardmax(_flat(input, axis), 1), input.shape)


def Hardmax_13(input, *, axis=-1):
    return _hardmax(input, axis)


# ---- products


def MatMul_1(A, B):
    return ops.matmul(A, B)


def Gemm_1(A, B, C, *, flat, alpha=1.0, beta=1.0, broadcast=0, transA=0, transB=0):
    return Gemm_7(A, B, C, flat=flat, alpha=alpha, beta=beta, transA=transA, transB=transB)


def Gemm_7(A, B, C=None, *, flat, alpha=1.0, beta=1.0, transA=0, transB=0):
    x = ops.t(A) if transA == 1 else A
    if C is None:
        y = ops.matmul(x, ops.t(B) if transB == 1 else B)
        return y if alpha == 1.0 else y * alpha
    if alpha == 1.0 and beta == 1.0 and flat:
        return ops.linear(x, B if transB == 1 else ops.t(B), C)
    y = ops.matmul(x, ops.t(B) if transB == 1 else B)
    z = y if alpha == 1.0 else y * alpha
    return z + C if beta == 1.0 else z + C * beta


def Einsum_12(inputs, *, equation):
    return ops.einsum(equation, _all(inputs))


def _heads(x, n):
    """(batch, steps, heads * size) as (batch, heads, steps, size)."""
    return ops.transpose(ops.reshaped(x, [x.shape[0], x.shape[1], n, -1]), 1, 2)


def _repeated(x, times):
    """Each head so many times."""
    b, h, n, d = x.shape[0], x.shape[1], x.shape[2], x.shape[3]
    return ops.reshaped(ops.expand(ops.unsqueeze(x, 2), [b, h, times, n, d]), [b, h * times, n, d])


def Attention_23(Q, K, V, attn_mask=None, past_key=None, past_value=None, *, several, rank, is_causal=0, kv_num_heads=0, q_num_heads=0, qk_matmul_output_mode=0, scale=None, softcap=0.0,
                 softmax_precision=None):
    q = _heads(Q, q_num_heads) if rank == 3 else Q
    k = _heads(K, kv_num_heads) if rank == 3 else K
    v = _heads(V, kv_num_heads) if rank == 3 else V
    before = 0
    if past_key is not None:
        before = past_key.shape[2]
        k = ops.cat([past_key, k], 2)
    if past_value is not None:
        v = ops.cat([past_value, v], 2)
    root = math.sqrt(1.0 / math.sqrt(float(q.shape[3])) if scale is None else scale)
    times = q.shape[1] // k.shape[1]
    keys, values = k, v
    if times != 1:
        keys = _repeated(k, times)
        values = _repeated(v, times)
    raw = ops.matmul(q * root, ops.transpose(keys * root, 2, 3))
    capped = raw
    if softcap != 0.0:
        capped = ops.tanh(raw / softcap) * softcap
    s = capped
    if is_causal == 1:
        rows = ops.reshaped(ops.arange(0, q.shape[2], 1, td.int64), [-1, 1]) + before
        s = ops.where(ops.le(ops.arange(0, k.shape[2], 1, td.int64), rows), s, -math.inf)
    if attn_mask is not None:
        s = _masked(s, attn_mask)
    weights = ops.softmax(s, -1)
    if is_causal == 1 or attn_mask is not None:
        weights = ops.where(ops.eq(ops.amax(s, [-1], True), -math.inf), 0, weights)  # of nothing at all
    y = ops.matmul(weights, values)
    if rank == 3:
        y = ops.reshaped(ops.transpose(y, 1, 2), [y.shape[0], y.shape[2], -1])
    if several:
        return y, k, v, raw if qk_matmul_output_mode == 0 else capped if qk_matmul_output_mode == 1 else s if qk_matmul_output_mode == 2 else weights
    return y


def _masked(s, mask):
    if mask.dtype == td.bool:
        return ops.where(mask, s, -math.inf)
    return s + ops.copy(mask, s.dtype)


def RotaryEmbedding_23(X, cos_cache, sin_cache, position_ids=None, *, rank, interleaved=0, num_heads=0, rotary_embedding_dim=0):
    x = ops.transpose(X, 1, 2) if rank == 4 else ops.reshaped(X, [X.shape[0], X.shape[1], num_heads, -1])
    n = x.shape[3] if rotary_embedding_dim == 0 else rotary_embedding_dim
    cos = cos_cache if position_ids is None else ops.index(cos_cache, [position_ids])
    sin = sin_cache if position_ids is None else ops.index(sin_cache, [position_ids])
    c, s = ops.unsqueeze(ops.slice(cos, 2, 0, n // 2, 1), 2), ops.unsqueeze(ops.slice(sin, 2, 0, n // 2, 1), 2)
    turned = ops.slice(x, 3, 0, n, 1)
    if interleaved == 1:
        a, b = ops.slice(turned, 3, 0, n, 2), ops.slice(turned, 3, 1, n, 2)
        y = ops.reshaped(ops.stack([c * a - s * b, s * a + c * b], -1), turned.shape)
    else:
        a, b = ops.slice(turned, 3, 0, n // 2, 1), ops.slice(turned, 3, n // 2, n, 1)
        y = ops.cat([c * a - s * b, s * a + c * b], -1)
    all = ops.cat([y, ops.slice(x, 3, n, x.shape[3], 1)], -1)
    return ops.transpose(all, 1, 2) if rank == 4 else ops.reshaped(all, X.shape)


def Det_11(X):
    return ops.linalg_det(X)


# ---- windows


def _ones(spatial):
    if spatial == 1:
        return [1]
    if spatial == 2:
        return [1, 1]
    return [1, 1, 1]


def _zeros(spatial):
    if spatial == 1:
        return [0, 0]
    if spatial == 2:
        return [0, 0, 0, 0]
    return [0, 0, 0, 0, 0, 0]


def _missing(n, kernel, stride, dilation):
    """What is to be put around n places so that each is the middle of a window."""
    if stride == 1:
        return (kernel - 1) * dilation
    return max(((n + stride - 1) // stride - 1) * stride + (kernel - 1) * dilation + 1 - n, 0)


def _same(x, spatial, upper, kernel, strides, dilations):
    before: list[int] = []
    after: list[int] = []
    for k in range(spatial):
        all = _missing(x.shape[2 + k], kernel[k], strides[k], dilations[k])
        before.append(all // 2 if upper else all - all // 2)
        after.append(all - all // 2 if upper else all // 2)
    return before + after


def _pads(x, spatial, auto_pad, pads, kernel, strides, dilations):
    if auto_pad == "SAME_UPPER" or auto_pad == "SAME_LOWER":
        return _same(x, spatial, auto_pad == "SAME_UPPER", kernel, strides, dilations)
    return _zeros(spatial) if pads is None else pads


def _fits(pads, kernel, spatial):
    """No window lies outside: the rows of pooling want that, and the same before and behind."""
    good = _is_even(pads, spatial)
    for k in range(spatial):
        good = good and 2 * pads[k] <= kernel[k]
    return good


def _is_even(pads, spatial):
    """The same before and behind?"""
    if spatial == 1:
        return pads[0] == pads[1]
    if spatial == 2:
        return pads[0] == pads[2] and pads[1] == pads[3]
    return pads[0] == pads[3] and pads[1] == pads[4] and pads[2] == pads[5]


def _around(x, pads, spatial, value):
    if spatial == 1:
        return ops.constant_pad(x, [pads[0], pads[1]], value)
    if spatial == 2:
        return ops.constant_pad(x, [pads[1], pads[3], pads[0], pads[2]], value)
    return ops.constant_pad(x, [pads[2], pads[5], pads[1], pads[4], pads[0], pads[3]], value)


def _conv(x, w, b, spatial, strides, pads, dilations, group):
    if spatial == 1:
        return ops.conv1d(x, w, b, strides[0], pads[0], dilations[0], group)
    if spatial == 2:
        return ops.conv2d(x, w, b, strides, pads[:2], dilations, group)
    return ops.conv3d(x, w, b, strides, pads[:3], dilations, group)


def Conv_1(X, W, B=None, *, spatial, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    s = _ones(spatial) if strides is None else strides
    d = _ones(spatial) if dilations is None else dilations
    p = _pads(X, spatial, auto_pad, pads, W.shape[2:], s, d)
    if _is_even(p, spatial):
        return _conv(X, W, B, spatial, s, p, d, group)
    return _conv(_around(X, p, spatial, 0), W, B, spatial, s, _zeros(spatial), d, group)


def ConvTranspose_1(X, W, B=None, *, spatial, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, output_padding=None, output_shape=None, pads=None, strides=None):
    s = _ones(spatial) if strides is None else strides
    d = _ones(spatial) if dilations is None else dilations
    more = [0 for k in range(spatial)] if output_padding is None else output_padding
    p = _zeros(spatial) if pads is None else pads
    if output_shape is not None:
        p = _pads_for(X, W, spatial, auto_pad, s, d, more, output_shape)
    elif auto_pad == "SAME_UPPER" or auto_pad == "SAME_LOWER":
        p = [max(n, 0) for n in _pads_for(X, W, spatial, auto_pad, s, d, more, [X.shape[2 + k] * s[k] for k in range(spatial)])]
    # all of it, of which the pads are cut away: the row takes the same on both sides alone
    if spatial == 1:
        y = ops.conv_transpose1d(X, W, B, s, [0], [0], group, d)
    elif spatial == 2:
        y = ops.conv_transpose2d(X, W, B, s, [0, 0], [0, 0], group, d)
    else:
        y = ops.conv_transpose3d(X, W, B, s, [0, 0, 0], [0, 0, 0], group, d)
    return _cut(y, B, p, more, spatial)


def _pads_for(x, w, spatial, auto_pad, strides, dilations, more, sizes):
    before: list[int] = []
    after: list[int] = []
    for k in range(spatial):
        all = strides[k] * (x.shape[2 + k] - 1) + more[k] + (w.shape[2 + k] - 1) * dilations[k] + 1 - sizes[len(sizes) - spatial + k]
        before.append(all // 2 if auto_pad == "SAME_UPPER" else all - all // 2)
        after.append(all - all // 2 if auto_pad == "SAME_UPPER" else all // 2)
    return before + after


def _cut(y, b, pads, more, spatial):
    """What is put on at the end is the bias alone."""
    x = y
    for k in range(spatial):
        n, end = x.shape[2 + k], more[k] - pads[spatial + k]
        if end > 0:
            zeros: list[int] = []
            for i in range(spatial - 1 - k):
                zeros = zeros + [0, 0]
            x = ops.constant_pad(x, zeros + [0, end], 0)
            if b is not None:
                tail = [1 for i in range(x.ndim)]
                tail[1] = -1
                line = [1 for i in range(x.ndim)]
                line[2 + k] = n + end
                behind = ops.reshaped(ops.ge(ops.arange(0, n + end, 1, td.int64), n), line)
                x = x + ops.reshaped(b, tail) * ops.copy(behind, x.dtype)
        x = ops.slice(x, 2 + k, pads[k], n + end, 1)
    return x


def _least(kind, whole):
    if whole:
        return 0 if kind == td.uint8 else -128
    return -math.inf


def MaxPool_1(X, *, several, spatial, whole, kind, auto_pad="NOTSET", ceil_mode=0, dilations=None, kernel_shape, pads=None, storage_order=0, strides=None):
    s = _ones(spatial) if strides is None else strides
    d = _ones(spatial) if dilations is None else dilations
    p = _pads(X, spatial, auto_pad, pads, kernel_shape, s, d)
    if not several and not _fits(p, kernel_shape, spatial):
        around = _max_pool(_around(X, p, spatial, _least(kind, whole)), spatial, kernel_shape, s, _zeros(spatial), d, ceil_mode == 1)[0]
        return _begun(around, X, p, s, spatial) if ceil_mode == 1 else around
    if several:
        assert _fits(p, kernel_shape, spatial), "MaxPool gives places where pads are the same before and behind"
        assert storage_order == 0, "MaxPool gives places row by row"
    y, at = _max_pool(X, spatial, kernel_shape, s, p, d, ceil_mode == 1)
    if several:
        first = ops.reshaped(ops.arange(0, X.shape[0] * X.shape[1], 1, td.int64), [X.shape[0], X.shape[1]] + _ones(spatial))
        return y, at + first * _product(X.shape[2:])
    return y


def _begun(y, x, pads, strides, spatial):
    """Without windows that begin behind the last place: rounding up makes such."""
    for k in range(spatial):
        y = ops.slice(y, 2 + k, 0, (x.shape[2 + k] + pads[k] - 1) // strides[k] + 1, 1)
    return y


def _max_pool(x, spatial, kernel, strides, pads, dilations, ceil):
    if spatial == 1:
        y, at = ops.max_pool1d_with_indices(x, kernel, strides, pads[:1], dilations, ceil)
    elif spatial == 2:
        y, at = td.max_pool2d_with_indices(x, kernel, strides, pads[:2], dilations, ceil)
    else:
        y, at = ops.max_pool3d_with_indices(x, kernel, strides, pads[:3], dilations, ceil)
    return y, at


def _avg_pool(x, spatial, kernel, strides, pads, ceil, all):
    if spatial == 1:
        y = ops.avg_pool2d(ops.unsqueeze(x, 2), [1, kernel[0]], [1, strides[0]], [0, pads[0]], ceil, all)
        return ops.squeeze(y, [2])
    if spatial == 2:
        return ops.avg_pool2d(x, kernel, strides, pads[:2], ceil, all)
    return ops.avg_pool3d(x, kernel, strides, pads[:3], ceil, all)


def AveragePool_1(X, *, spatial, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, kernel_shape, pads=None, strides=None):
    s = _ones(spatial) if strides is None else strides
    p = _pads(X, spatial, auto_pad, pads, kernel_shape, s, _ones(spatial))
    if _fits(p, kernel_shape, spatial):
        return _avg_pool(X, spatial, kernel_shape, s, p, ceil_mode == 1, count_include_pad == 1)
    y = _avg_pool(_around(X, p, spatial, 0), spatial, kernel_shape, s, _zeros(spatial), ceil_mode == 1, True)
    if count_include_pad == 0:
        ones = _around(ops.full(X.shape, 1, X.dtype), p, spatial, 0)
        y = y / _avg_pool(ones, spatial, kernel_shape, s, _zeros(spatial), ceil_mode == 1, True)
    return _begun(y, X, p, s, spatial) if ceil_mode == 1 else y


def AveragePool_19(X, *, spatial, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None, kernel_shape, pads=None, strides=None):
    if dilations is not None:
        assert _product(dilations) == 1, "AveragePool with dilations is not in programs"
    return AveragePool_1(X, spatial=spatial, auto_pad=auto_pad, ceil_mode=ceil_mode, count_include_pad=count_include_pad, kernel_shape=kernel_shape, pads=pads, strides=strides)


def LpPool_1(X, *, spatial, auto_pad="NOTSET", kernel_shape, p=2, pads=None, strides=None):
    s = _ones(spatial) if strides is None else strides
    around = _pads(X, spatial, auto_pad, pads, kernel_shape, s, _ones(spatial))
    x = ops.pow(ops.abs(_around(X, around, spatial, 0)), float(p))
    sums = _avg_pool(x, spatial, kernel_shape, s, _zeros(spatial), False, True) * _product(kernel_shape)
    return ops.pow(sums, 1.0 / float(p))


def _behind(x):
    return [k for k in range(2, x.ndim)]


def GlobalAveragePool_1(X, *, rank):
    if rank == 4:
        return ops.adaptive_avg_pool2d(X, [1, 1])
    return ops.mean(X, _behind(X), True)


def GlobalMaxPool_1(X):
    return ops.amax(X, _behind(X), True)


def GlobalLpPool_1(X, *, p=2):
    return ops.pow(ops.sum(ops.pow(ops.abs(X), float(p)), _behind(X), True), 1.0 / float(p))


# ---- norms


def BatchNormalization_1(X, scale, B, mean, var, *, epsilon=1e-05, momentum=0.9, is_test=0, spatial=1, consumed_inputs=None):
    return BatchNormalization_7(X, scale, B, mean, var, epsilon=epsilon)


def BatchNormalization_7(X, scale, B, mean, var, *, epsilon=1e-05, momentum=0.9, training_mode=0, spatial=1):
    assert training_mode == 0, "BatchNormalization in training is not what a model that serves does"
    return ops.batch_norm(X, scale, B, mean, var, False, 0.1, epsilon)


def _columns(w, x):
    """A number for each channel."""
    return ops.reshaped(w, [1, -1] + [1 for k in range(2, x.ndim)])


def InstanceNormalization_6(input, scale, B, *, epsilon=1e-05):
    x, n, c = input, input.shape[0], input.shape[1]
    y = ops.layer_norm(ops.reshaped(x, [n, c, -1]), None, None, 1, epsilon)
    return ops.reshaped(y, x.shape) * _columns(scale, x) + _columns(B, x)


def GroupNormalization_18(X, scale, bias, *, num_groups, epsilon=1e-05):
    n, c = X.shape[0], X.shape[1]
    y = ops.layer_norm(ops.reshaped(X, [n, num_groups, -1]), None, None, 1, epsilon)
    parts = ops.reshaped(y, [n, num_groups, c // num_groups, -1])
    return ops.reshaped(parts * ops.reshaped(scale, [1, num_groups, 1, 1]) + ops.reshaped(bias, [1, num_groups, 1, 1]), X.shape)


def GroupNormalization_21(X, scale, bias, *, num_groups, epsilon=1e-05, stash_type=1):
    n = X.shape[0]
    y = ops.layer_norm(ops.reshaped(X, [n, num_groups, -1]), None, None, 1, epsilon)
    return ops.reshaped(y, X.shape) * _columns(scale, X) + _columns(bias, X)


def LayerNormalization_17(X, Scale, B=None, *, several, axis=-1, epsilon=1e-05, stash_type=1):
    n = -axis if axis < 0 else X.ndim - axis
    y = ops.layer_norm(X, Scale, B, n, epsilon)
    if several:
        at = [k for k in range(X.ndim - n, X.ndim)]
        mean = ops.mean(X, at, True)
        return y, mean, ops.rsqrt(ops.mean((X - mean) * (X - mean), at, True) + epsilon)
    return y


def LpNormalization_1(input, *, axis=-1, p=2):
    n = ops.norm(input, float(p), [axis], True)
    return input / ops.where(ops.eq(n, 0), 1, n)


def RMSNormalization_23(X, scale, *, axis=-1, epsilon=1e-05, stash_type=1):
    at = [k for k in range(_dim(X, axis), X.ndim)]
    return X * ops.rsqrt(ops.mean(X * X, at, True) + epsilon) * scale


def MeanVarianceNormalization_9(X, *, axes=None):
    at = [0, 2, 3] if axes is None else axes
    mean = ops.mean(X, at, True)
    return (X - mean) / (ops.sqrt(ops.mean(X * X, at, True) - mean * mean) + 1e-9)


def LRN_1(X, *, size, alpha=0.0001, beta=0.75, bias=1.0):
    n, c, before = X.shape[0], X.shape[1], (size - 1) // 2
    squares = ops.reshaped(X * X, [n, 1, c, -1])
    sums = ops.avg_pool2d(ops.constant_pad(squares, [0, 0, before, size - 1 - before], 0), [size, 1], [1, 1]) * size
    return X / ops.pow(ops.reshaped(sums, X.shape) * (alpha / float(size)) + bias, beta)


# ---- edges


def _edge(n, before, after, mode):
    """Which places of n are put where, in front and behind."""
    k = ops.arange(-before, n + after, 1, td.int64)
    if mode == "edge":
        return ops.clamp(k, 0, n - 1)
    if mode == "wrap":
        return ops.remainder(k, n)
    turn = max(2 * (n - 1), 1)
    k = ops.remainder(k, turn)
    return ops.minimum(k, turn - k)


def _pad(x, pads, mode, value, axes):
    n = len(axes)
    if mode == "constant":
        around = [0 for k in range(2 * x.ndim)]
        for k in range(n):
            at = 2 * (x.ndim - 1 - _dim(x, axes[k]))
            around[at] = pads[k]
            around[at + 1] = pads[n + k]
        return ops.constant_pad(x, around, value)
    y = x
    for k in range(n):
        if pads[k] != 0 or pads[n + k] != 0:
            y = ops.index_select(y, axes[k], _edge(y.shape[axes[k]], pads[k], pads[n + k], mode))
    return y


def Pad_2(data, *, pads, mode="constant", value=0.0):
    return _pad(data, pads, mode, value, [k for k in range(len(pads) // 2)])


def Pad_11(data, pads: Any, constant_value: Any = None, axes: Any = None, *, mode="constant"):
    x, p = _tensor(data), _ints(pads)
    at = [k for k in range(len(p) // 2)] if axes is None else _ints(axes)
    if constant_value is None:
        return _pad(x, p, mode, 0, at)
    if isinstance(constant_value, Tensor):
        return _pad(x, p, mode, float(constant_value), at)
    return _pad(x, p, mode, _one(constant_value), at)


def CenterCropPad_18(input_data, shape: Any, *, axes=None):
    x, want = _tensor(input_data), _ints(shape)
    at = [k for k in range(x.ndim)] if axes is None else axes
    for k in range(len(want)):
        n = x.shape[at[k]]
        if n > want[k]:
            first = (n - want[k]) // 2
            x = ops.slice(x, at[k], first, first + want[k], 1)
        else:
            before = (want[k] - n) // 2
            around = [0 for i in range(2 * x.ndim)]
            around[2 * (x.ndim - 1 - _dim(x, at[k]))] = before
            around[2 * (x.ndim - 1 - _dim(x, at[k])) + 1] = want[k] - n - before
            x = ops.constant_pad(x, around, 0)
    return x


# ---- sizes of pictures


def _coordinates(n, size, scale, how):
    """Where the places of a new size are among n."""
    k = ops.copy(ops.arange(0, size, 1, td.int64), td.float32)
    if how == "asymmetric":
        return k / scale
    if how == "align_corners":
        return k * (float(n - 1) / (scale * float(n) - 1.0)) if size > 1 else k * 0.0
    if how == "pytorch_half_pixel":
        return (k + 0.5) / scale - 0.5 if size > 1 else k * 0.0
    if how == "tf_half_pixel_for_nn":
        return (k + 0.5) / scale
    if how == "half_pixel_symmetric":
        whole = scale * float(n)
        middle = float(n) / 2.0
        return middle * (1.0 - float(size) / whole) + (k + 0.5) / scale - 0.5
    return (k + 0.5) / scale - 0.5


def _nearest(c, how):
    if how == "floor":
        return ops.floor(c)
    if how == "ceil":
        return ops.ceil(c)
    if how == "round_prefer_ceil":
        return ops.floor(c + 0.5)
    return ops.ceil(c - 0.5)


def _line(w, x, dim):
    """A number for each place along a dimension."""
    shape = [1 for k in range(x.ndim)]
    shape[dim] = -1
    return ops.reshaped(w, shape)


def _taken(x, dim, places):
    return ops.index_select(x, dim, ops.clamp(ops.copy(places, td.int64), 0, x.shape[dim] - 1))


def _inside(places, n):
    return ops.copy(ops.logical_and(ops.ge(places, 0), ops.le(places, n - 1)), td.float32)


def _cubic(t, a):
    """The weight of what is so far away."""
    near = ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
    far = ((t - 5.0) * t + 8.0) * t * a - 4.0 * a
    return ops.where(ops.le(t, 1), near, ops.where(ops.lt(t, 2), far, 0))


def _resize_along(x, dim, size, scale, mode, how, nearest, a, outside):
    n = x.shape[dim]
    c = _coordinates(n, size, scale, how)
    if mode == "nearest":
        return _taken(x, dim, _nearest(c, nearest))
    low = ops.floor(c)
    if mode == "linear":
        f = _line(ops.copy(c - low, x.dtype), x, dim)
        return _taken(x, dim, low) * (1.0 - f) + _taken(x, dim, low + 1) * f
    w = [_cubic(ops.abs(c - (low + float(k))), a) * (_inside(low + float(k), n) if outside else 1.0) for k in range(-1, 3)]
    all = w[0] + w[1] + w[2] + w[3]
    y = _taken(x, dim, low - 1) * _line(ops.copy(w[0] / all, x.dtype), x, dim)
    for k in range(1, 4):
        y = y + _taken(x, dim, low + float(k - 1)) * _line(ops.copy(w[k] / all, x.dtype), x, dim)
    return y


def _resize(x, sizes, scales, axes, mode, how, nearest, a, outside):
    y = x
    for k in range(len(sizes)):
        if scales[k] != 1.0 or sizes[k] != y.shape[axes[k]]:
            y = _resize_along(y, axes[k], sizes[k], scales[k], mode, how, nearest, a, outside)
    return y


def _scaled(x, scales, axes):
    return [int(math.floor(float(x.shape[axes[k]]) * scales[k])) for k in range(len(scales))]


def Upsample_7(X, *, rank, scales, mode="nearest"):
    return Upsample_9(X, scales, rank=rank, mode=mode)


def Upsample_9(X, scales: Any, *, rank, mode="nearest"):
    return Resize_10(X, scales, rank=rank, mode=mode)


def Resize_10(X, scales: Any, *, rank, mode="nearest"):
    return Resize_11(X, None, scales, rank=rank, mode=mode, nearest_mode="floor", coordinate_transformation_mode="asymmetric")


def _is_planes(scales, rank):
    """Pictures whose planes alone change."""
    return rank == 4 and len(scales) == 4 and scales[0] == 1.0 and scales[1] == 1.0


def Resize_11(X, roi=None, scales: Any = None, sizes: Any = None, *, rank, mode="nearest", nearest_mode="round_prefer_floor", coordinate_transformation_mode="half_pixel",
              cubic_coeff_a=-0.75, exclude_outside=0, extrapolation_value=0.0, antialias=0, axes=None, keep_aspect_ratio_policy="stretch"):
    how = coordinate_transformation_mode
    assert how != "tf_crop_and_resize", "Resize of a part (tf_crop_and_resize) is not in programs"
    assert antialias == 0, "Resize with antialias is not in programs"
    at = [k for k in range(X.ndim)] if axes is None else axes
    if sizes is not None:
        assert keep_aspect_ratio_policy == "stretch", "Resize that keeps the aspect ratio is not in programs"
        want = _ints(sizes)
        ratio = [float(want[k]) / float(X.shape[at[k]]) for k in range(len(want))]
        return _resize(X, want, ratio, at, mode, how, nearest_mode, cubic_coeff_a, exclude_outside == 1)
    ratio = _floats(scales)
    if mode == "nearest" and how == "asymmetric" and nearest_mode == "floor":
        if _is_planes(ratio, rank):
            planes = [int(math.floor(float(X.shape[2]) * ratio[2])), int(math.floor(float(X.shape[3]) * ratio[3]))]
            return ops.resample(X, planes, 0, False, False, None, ratio[2], ratio[3])
    return _resize(X, _scaled(X, ratio, at), ratio, at, mode, how, nearest_mode, cubic_coeff_a, exclude_outside == 1)


def AffineGrid_20(theta, size: Any, *, align_corners=0):
    return ops.affine_grid(theta, _ints(size), align_corners == 1)


def GridSample_16(X, grid, *, align_corners=0, mode="bilinear", padding_mode="zeros"):
    kind = 0 if mode == "bilinear" or mode == "linear" else 1 if mode == "nearest" else 2
    return ops.grid_sampler(X, grid, kind, 0 if padding_mode == "zeros" else 1 if padding_mode == "border" else 2, align_corners == 1)


# ---- what keeps a state


def _rows(w, hidden, order):
    """Its gates in another order."""
    return ops.cat([ops.slice(w, 0, k * hidden, (k + 1) * hidden, 1) for k in order], 0)


def _start(state, way, x, hidden):
    if state is None:
        return ops.full([1, x.shape[1], hidden], 0, x.dtype)
    return ops.slice(state, 0, way, way + 1, 1)


def _half(b, way, hidden, gates, first, order):
    if b is None:
        return None
    n = gates * hidden
    part = ops.slice(ops.select(b, 0, way), 0, 0 if first else n, n if first else 2 * n, 1)
    return _rows(part, hidden, order)


def _lstm(x, w, r, b, h, c, way, hidden, reverse):
    order = [0, 2, 3, 1]
    y, h1, c1, gates, cells = ops.lstm_layer(x, _start(h, way, x, hidden), _start(c, way, x, hidden), _rows(ops.select(w, 0, way), hidden, order), _rows(ops.select(r, 0, way), hidden, order),
                                             _half(b, way, hidden, 4, True, order), _half(b, way, hidden, 4, False, order), reverse)
    return y, h1, c1


def LSTM_7(X, W, R, B=None, sequence_lens=None, initial_h=None, initial_c=None, P=None, *, several, hidden_size, direction="forward", layout=0, input_forget=0,
           clip=None, activations=None, activation_alpha=None, activation_beta=None):
    assert sequence_lens is None, "LSTM over sequences of different lengths is not in programs"
    assert P is None and clip is None and input_forget == 0, "LSTM with peepholes, clip or input_forget is not in programs"
    assert activations is None or _are(activations, ["Sigmoid", "Tanh", "Tanh"]), "LSTM with other activations is not in programs"
    x = ops.transpose(X, 0, 1) if layout == 1 else X
    h0 = None if initial_h is None else ops.transpose(initial_h, 0, 1) if layout == 1 else initial_h
    c0 = None if initial_c is None else ops.transpose(initial_c, 0, 1) if layout == 1 else initial_c
    y, h, c = _lstm(x, W, R, B, h0, c0, 0, hidden_size, direction == "reverse")
    if direction == "bidirectional":
        y1, h1, c1 = _lstm(x, W, R, B, h0, c0, 1, hidden_size, True)
        return _ways(ops.stack([y, y1], 1), ops.cat([h, h1], 0), ops.cat([c, c1], 0), layout, several)
    return _ways(ops.unsqueeze(y, 1), h, c, layout, several)


def _are(given, usual):
    good = True
    for k in range(len(given)):
        good = good and given[k] == usual[k % len(usual)]
    return good


def _ways(y, h, c, layout, several):
    """Steps, ways, rows, numbers; by rows first where that is asked for."""
    all = ops.permute(y, [2, 0, 1, 3]) if layout == 1 else y
    if several:
        if layout == 1:
            return all, ops.transpose(h, 0, 1), ops.transpose(c, 0, 1)
        return all, h, c
    return all


def _gru_once(x, h, w, r, wb, rb, hidden):
    """linear_before_reset = 0: the reset gate works on the state."""
    order = [1, 0]
    gates = ops.sigmoid(ops.linear(x, ops.slice(w, 0, 0, 2 * hidden, 1), ops.slice(wb, 0, 0, 2 * hidden, 1)) + ops.linear(h, ops.slice(r, 0, 0, 2 * hidden, 1), ops.slice(rb, 0, 0, 2 * hidden, 1)))
    z, g = ops.slice(gates, 1, 0, hidden, 1), ops.slice(gates, 1, hidden, 2 * hidden, 1)
    n = ops.tanh(ops.linear(x, ops.slice(w, 0, 2 * hidden, 3 * hidden, 1), ops.slice(wb, 0, 2 * hidden, 3 * hidden, 1)) + ops.linear(g * h, ops.slice(r, 0, 2 * hidden, 3 * hidden, 1), ops.slice(rb, 0, 2 * hidden, 3 * hidden, 1)))
    return n + z * (h - n)


def _gru_steps(x, h0, w, r, b, way, hidden, reverse):
    wb = ops.full([3 * hidden], 0, x.dtype) if b is None else ops.slice(ops.select(b, 0, way), 0, 0, 3 * hidden, 1)
    rb = ops.full([3 * hidden], 0, x.dtype) if b is None else ops.slice(ops.select(b, 0, way), 0, 3 * hidden, 6 * hidden, 1)
    w1, r1, h = ops.select(w, 0, way), ops.select(r, 0, way), ops.select(h0, 0, 0)
    ys: list[Tensor] = []
    for k in range(x.shape[0]):
        h = _gru_once(ops.select(x, 0, x.shape[0] - 1 - k if reverse else k), h, w1, r1, wb, rb, hidden)
        ys.append(h)
    y = ops.stack(ys, 0)
    return ops.flip(y, [0]) if reverse else y, ops.unsqueeze(h, 0)


def _gru(x, w, r, b, h, way, hidden, before, reverse):
    order = [1, 0, 2]
    h0 = _start(h, way, x, hidden)
    if before == 0:
        return _gru_steps(x, h0, w, r, b, way, hidden, reverse)
    y, h1, gates, cells = ops.gru_layer(x, h0, _rows(ops.select(w, 0, way), hidden, order), _rows(ops.select(r, 0, way), hidden, order), _half(b, way, hidden, 3, True, order),
                                        _half(b, way, hidden, 3, False, order), reverse)
    return y, h1


def GRU_7(X, W, R, B=None, sequence_lens=None, initial_h=None, *, several, hidden_size, direction="forward", layout=0, linear_before_reset=0, clip=None, activations=None, activation_alpha=None,
          activation_beta=None):
    assert sequence_lens is None, "GRU over sequences of different lengths is not in programs"
    assert clip is None, "GRU with clip is not in programs"
    assert activations is None or _are(activations, ["Sigmoid", "Tanh"]), "GRU with other activations is not in programs"
    x = ops.transpose(X, 0, 1) if layout == 1 else X
    h0 = None if initial_h is None else ops.transpose(initial_h, 0, 1) if layout == 1 else initial_h
    y, h = _gru(x, W, R, B, h0, 0, hidden_size, linear_before_reset, direction == "reverse")
    if direction == "bidirectional":
        y1, h1 = _gru(x, W, R, B, h0, 1, hidden_size, linear_before_reset, True)
        return _ways_two(ops.stack([y, y1], 1), ops.cat([h, h1], 0), layout, several)
    return _ways_two(ops.unsqueeze(y, 1), h, layout, several)


def _ways_two(y, h, layout, several):
    all = ops.permute(y, [2, 0, 1, 3]) if layout == 1 else y
    if several:
        return (all, ops.transpose(h, 0, 1)) if layout == 1 else (all, h)
    return all


def _rnn(x, w, r, b, h, way, hidden, relu, reverse):
    y, h1 = ops.rnn_layer(x, _start(h, way, x, hidden), ops.select(w, 0, way), ops.select(r, 0, way), _half(b, way, hidden, 1, True, [0]), _half(b, way, hidden, 1, False, [0]), relu, reverse)
    return y, h1


def RNN_7(X, W, R, B=None, sequence_lens=None, initial_h=None, *, several, hidden_size, direction="forward", layout=0, clip=None, activations=None, activation_alpha=None, activation_beta=None):
    assert sequence_lens is None, "RNN over sequences of different lengths is not in programs"
    assert clip is None, "RNN with clip is not in programs"
    relu = activations is not None and _are(activations, ["Relu"])
    assert activations is None or relu or _are(activations, ["Tanh"]), "RNN with other activations is not in programs"
    x = ops.transpose(X, 0, 1) if layout == 1 else X
    h0 = None if initial_h is None else ops.transpose(initial_h, 0, 1) if layout == 1 else initial_h
    y, h = _rnn(x, W, R, B, h0, 0, hidden_size, relu, direction == "reverse")
    if direction == "bidirectional":
        y1, h1 = _rnn(x, W, R, B, h0, 1, hidden_size, relu, True)
        return _ways_two(ops.stack([y, y1], 1), ops.cat([h, h1], 0), layout, several)
    return _ways_two(ops.unsqueeze(y, 1), h, layout, several)


# ---- losses


def _losses(scores, target, weight, ignore_index, reduction):
    places = ops.copy(_tensor(target), td.int64)
    if ignore_index is None:
        each = ops.full(places.shape, 1, scores.dtype)
    else:
        each = ops.copy(ops.ne(places, ignore_index), scores.dtype)
        places = ops.where(ops.ne(places, ignore_index), places, 0)
    if weight is not None:
        each = each * ops.reshaped(ops.index_select(weight, 0, ops.reshaped(places, [-1])), places.shape)
    losses = ops.neg(ops.squeeze(ops.gather(scores, 1, ops.unsqueeze(places, 1)), [1])) * each
    if reduction == "none":
        return losses
    if reduction == "sum":
        return ops.sum(losses)
    return ops.sum(losses) / ops.sum(each)


def NegativeLogLikelihoodLoss_12(input, target, weight=None, *, ignore_index=None, reduction="mean"):
    return _losses(input, target, weight, ignore_index, reduction)


def SoftmaxCrossEntropyLoss_12(scores, labels, weights=None, *, several, ignore_index=None, reduction="mean"):
    logs = ops.log_softmax(scores, 1)
    loss = _losses(logs, labels, weights, ignore_index, reduction)
    return (loss, logs) if several else loss


# ---- what is quantized


def _along(w, x, axis):
    """One number, or one for each place along a dimension."""
    at = _dim(x, axis)
    return ops.reshaped(w, [-1 if k == at else 1 for k in range(x.ndim)]) if x.ndim > 0 else ops.reshaped(w, [])


def _saturated(x, stored):
    if stored == td.int8:
        return ops.copy(ops.clamp(x, -128.0, 127.0), stored)
    if stored == td.int16:
        return ops.copy(ops.clamp(x, -32768.0, 32767.0), stored)
    if stored == td.uint16:
        return ops.copy(ops.clamp(x, 0.0, 65535.0), stored)
    return ops.copy(ops.clamp(x, 0.0, 255.0), td.uint8)


def QuantizeLinear_10(x, y_scale, y_zero_point=None, *, stored, axis=1, saturate=1):
    y = ops.round(_tensor(x) / _along(y_scale, x, axis))
    if y_zero_point is None:
        return _saturated(y, stored)
    return _saturated(y + ops.copy(_along(_tensor(y_zero_point), x, axis), td.float32), stored)


def DequantizeLinear_10(x, x_scale, x_zero_point=None, *, axis=1):
    y = _tensor(x)
    if x_zero_point is None:
        return ops.copy(y, x_scale.dtype) * _along(x_scale, y, axis)
    whole = ops.copy(y, td.int32) - ops.copy(_along(_tensor(x_zero_point), y, axis), td.int32)
    return ops.copy(whole, x_scale.dtype) * _along(x_scale, y, axis)


def DynamicQuantizeLinear_11(x, *, several):
    low, high = ops.clamp(ops.amin(x), None, 0.0), ops.clamp(ops.amax(x), 0.0, None)
    scale = (high - low) / 255.0
    zero = ops.clamp(ops.round(ops.neg(low) / scale), 0.0, 255.0)
    y = _saturated(ops.round(x / scale) + zero, td.uint8)
    return (y, scale, ops.copy(zero, td.uint8)) if several else y


def _centred(x, zero):
    """As int32, around nothing."""
    whole = ops.copy(x, td.int32)
    return whole if zero is None else whole - ops.copy(_tensor(zero), td.int32)


def MatMulInteger_10(A, B, a_zero_point=None, b_zero_point=None):
    if a_zero_point is None:
        return ops.matmul(_centred(A, None), _centred(B, b_zero_point))
    rows = _tensor(a_zero_point)
    return ops.matmul(_centred(A, ops.unsqueeze(rows, -1) if rows.ndim > 0 else rows), _centred(B, b_zero_point))


def ConvInteger_10(x, w, x_zero_point=None, w_zero_point=None, *, spatial, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    kernel = _centred(w, None if w_zero_point is None else _along(_tensor(w_zero_point), w, 0))
    return Conv_1(_centred(x, x_zero_point), kernel, None, spatial=spatial, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)


def _requantized(whole, scale, zero, stored):
    return _saturated(ops.round(ops.copy(whole, td.float32) * scale) + ops.copy(_tensor(zero), td.float32), stored)


def QLinearMatMul_10(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point, *, stored):
    return _requantized(ops.matmul(_centred(a, a_zero_point), _centred(b, b_zero_point)), a_scale * b_scale / y_scale, y_zero_point, stored)


def QLinearConv_10(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B=None, *, stored, spatial, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None,
                   strides=None):
    kernel = _centred(w, _along(_tensor(w_zero_point), w, 0))
    y = Conv_1(_centred(x, x_zero_point), kernel, None, spatial=spatial, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    if B is not None:
        y = y + _columns(_tensor(B), y)
    return _requantized(y, _columns(ops.reshaped(x_scale * w_scale / y_scale, [-1]), y), y_zero_point, stored)


# ---- signals


def _turns(size, periodic, times):
    n = _int(size)
    k = ops.copy(ops.arange(0, n, 1, td.int64), td.float64)
    return ops.cos(k * (2.0 * math.pi * times / float(n if periodic == 1 else n - 1)))


def HannWindow_17(size: Any, *, output_datatype=td.float32, periodic=1):
    return ops.copy(0.5 - _turns(size, periodic, 1.0) * 0.5, output_datatype)


def HammingWindow_17(size: Any, *, output_datatype=td.float32, periodic=1):
    return ops.copy(25.0 / 46.0 - _turns(size, periodic, 1.0) * (21.0 / 46.0), output_datatype)


def BlackmanWindow_17(size: Any, *, output_datatype=td.float32, periodic=1):
    return ops.copy(0.42 - _turns(size, periodic, 1.0) * 0.5 + _turns(size, periodic, 2.0) * 0.08, output_datatype)


def DFT_20(input, dft_length: Any = None, axis: Any = None, *, inverse=0, onesided=0):
    return DFT_17(input, dft_length, axis=-2 if axis is None else _int(axis), inverse=inverse, onesided=onesided)


def DFT_17(input, dft_length: Any = None, *, axis=1, inverse=0, onesided=0):
    assert inverse == 0 or onesided == 0, "DFT from one side back is not in programs"
    x = ops.view_as_complex(ops.packed(ops.constant_pad(input, [0, 2 - input.shape[-1]], 0)))
    at = axis + input.ndim if axis < 0 else axis
    n = x.shape[at] if dft_length is None else _int(dft_length)
    y = ops.ifft(x, n, at) if inverse == 1 else ops.fft(x, n, at)
    if onesided == 1:
        y = ops.slice(y, at, 0, n // 2 + 1, 1)
    return ops.view_as_real(ops.packed(y))


def MaxUnpool_9(X, I, output_shape: Any = None, *, kernel_shape, pads=None, strides=None):
    n = len(kernel_shape)
    s = [1 for k in range(n)] if strides is None else strides
    p = [0 for k in range(2 * n)] if pads is None else pads
    inner = [(X.shape[2 + k] - 1) * s[k] + kernel_shape[k] - p[k] - p[n + k] for k in range(n)]
    sizes = X.shape[:2] + inner
    y = ops.reshaped(ops.scatter(ops.full([_product(sizes)], 0, X.dtype), 0, ops.reshaped(I, [-1]), ops.reshaped(X, [-1])), sizes)
    if output_shape is None:
        return y
    want = _ints(output_shape)
    around = [0 for k in range(2 * y.ndim)]
    for k in range(y.ndim):
        around[2 * (y.ndim - 1 - k) + 1] = want[k] - sizes[k]
    return ops.constant_pad(y, around, 0)
