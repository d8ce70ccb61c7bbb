"""What users of torch.jit know beside script() and trace(): every public name of it is here or its absence is explained; sources as units, extra files,
futures, interfaces, enumerations, copies, and programs of whole networks that torch.jit.load() opens."""
import copy
import enum
import gc
import io
import pickle
import types
import warnings
import weakref
from typing import Dict, List, Optional, Tuple

import pytest
import tensord as td
from tensord import nn

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")

try:
    import torch
except ImportError:
    torch = None

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated")
wants_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")


@pytest.fixture(autouse=True)
def without_gradients():
    with td.no_grad():
        yield


# ---- names

STRAY = {"Iterator", "annotations", "contextmanager", "set_module", "torch", "warnings"}  # what torch.jit itself imported


@pytest.mark.skipif(not hasattr(torch, "jit") or not hasattr(torch.jit, "__all__"), reason="no PyTorch that says what names it has is installed")
def test_every_name_is_here_or_explained():
    for name in {*torch.jit.__all__, *(n for n in dir(torch.jit) if not n.startswith("_"))} - STRAY:
        if not hasattr(td.jit, name):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}': .{{20}}"):
                getattr(td.jit, name)
    assert all(hasattr(td.jit, name) for name in td.jit.__all__)


def test_absent_names_say_what_does_their_work():
    with pytest.raises(AttributeError, match="'last_executed_optimized_graph': program.plan"):
        td.jit.last_executed_optimized_graph
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'$"):
        td.jit.nonsense


def test_switches_are_taken_and_change_nothing():
    def f(x):
        with td.jit.strict_fusion():
            y = x + 1
        with td.jit.optimized_execution(False), td.jit.fuser("fuser1"):
            return y * 2

    assert td.jit.script(f)(td.ones(1)).tolist() == f(td.ones(1)).tolist() == [4.0]
    assert td.jit.set_fusion_strategy([("STATIC", 20)]) == [("STATIC", 2), ("DYNAMIC", 10)]
    assert td.jit.set_fusion_strategy([("STATIC", 2), ("DYNAMIC", 10)]) == [("STATIC", 20)]
    with pytest.raises(td.InvalidError, match="'STATIC', depth"):
        td.jit.set_fusion_strategy([("SOMETIMES", 2)])
    with pytest.raises(td.InvalidError, match="unrecognized fuser option"), td.jit.fuser("none"):
        pass
    td.jit.enable_onednn_fusion(True)
    assert td.jit.onednn_fusion_enabled()
    td.jit.enable_onednn_fusion(False)
    assert not td.jit.onednn_fusion_enabled()
    frozen = td.jit.freeze(td.jit.script(nn.Linear(2, 2).eval()))
    assert td.jit.run_frozen_optimizations(frozen) is None
    with pytest.raises(TypeError, match="freeze"):
        td.jit.run_frozen_optimizations(nn.Linear(2, 2))


def test_ops_of_a_program():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    assert td.jit.export_opnames(td.jit.script(net)) == ["td::linear", "td::relu"]
    assert td.jit.export_opnames(td.jit.trace(lambda x: x.add_(1) * 2, td.ones(1))) == ["td::add_", "td::mul"]
    with pytest.raises(TypeError, match="takes a program"):
        td.jit.export_opnames(net)


# ---- units

def test_a_unit_of_text():
    unit = td.jit.CompilationUnit("""
def twice(x, n: int = 2):
    return x * n

def length(xs: List[int], more: Optional[Tensor] = None) -> int:
    return len(xs) + (0 if more is None else more.numel())
""")
    unit.define("def four(x):\n    return twice(twice(x)) + td.ones(1)\n")
    assert unit.twice(td.ones(1)).tolist() == [2.0] and unit.twice(td.ones(1), n=3).tolist() == [3.0]
    assert unit.length([1, 2], td.ones(3)) == 5 and unit.four(td.ones(1)).tolist() == [5.0]
    assert unit.twice.name == "twice" and unit.twice.schema == "twice(Tensor x, int n=2) -> Tensor"
    assert unit.find_function("none") is None and len(unit.get_functions()) == 3
    with pytest.raises(AttributeError, match="no attribute 'none'"):
        unit.none


def test_faults_of_a_unit_have_their_line():
    with pytest.raises(td.DTypeError, match=r":3:12: .*\n +return x \+ y\n +\^"):
        td.jit.CompilationUnit("def f(x):\n    y = 'a'\n    return x + y\n")
    with pytest.raises(td.InvalidError, match=r":1:\d+: .*\n    def f\(x:\n +\^"):
        td.jit.CompilationUnit("def f(x:\n    return x\n")
    with pytest.raises(td.Unsupported, match=":2:1: a unit defines functions"):
        td.jit.CompilationUnit("\nimport os\n")


# ---- calls elsewhere, traces

def test_futures():
    def f(x):
        one = td.jit.fork(td.relu, x)
        return td.jit.wait(one) + td.jit.fork(added, x, n=3).wait()

    x = td.tensor([-1.0, 2.0])
    assert td.jit.script(f)(x).tolist() == f(x).tolist() == [2.0, 7.0]
    future = td.jit.fork(added, x, 1)
    seen = []
    future.add_done_callback(lambda f: seen.append(f.value()))
    assert future.done() and future.then(lambda f: f.wait() * 2).wait().tolist() == [0.0, 6.0] and len(seen) == 1


def added(x, n: int):
    return x + n


def test_functions_that_traces_follow():
    @td.jit.script_if_tracing
    def sign(x, n: int = 3):
        if bool(x.sum() > 0):
            return x * n
        return -x

    def f(x):
        return sign(x, n=4), td.jit.is_tracing()

    assert f(td.ones(1))[0].tolist() == [4.0] and not td.jit.is_tracing()
    p = td.jit.trace(lambda x: f(x)[0] + (1 if f(x)[1] else 0), td.ones(1), check=False)
    assert p(td.ones(1)).tolist() == [5.0] and p(-td.ones(1)).tolist() == [2.0]
    assert td.jit.script(lambda_free)(td.ones(1)).tolist() == [2.0] and not td.jit.is_tracing()


def lambda_free(x):
    from_here = x if td.jit.is_tracing() else x + 1
    return from_here if td.jit.is_scripting() else x


def test_names_that_are_imported():
    from tensord import jit
    from tensord.jit import annotate, fork, is_scripting, is_tracing, wait

    def f(x):
        n = annotate(List[int], [])
        if is_scripting() and jit.is_scripting() and not is_tracing():
            n.append(3)
        return wait(fork(added, x, len(n)))

    assert td.jit.script(f)(td.ones(1)).tolist() == [2.0]


def test_examples_by_name():
    class Net(nn.Module):
        def forward(self, x, y, scale=None):
            return x - y if scale is None else (x - y) * scale

    given = {"y": td.ones(1), "x": td.tensor([3.0])}
    assert td.jit.trace(Net(), example_kwarg_inputs=given)(td.ones(1), td.zeros(1)).tolist() == [1.0]
    assert td.jit.trace(lambda x, y: x - y, example_kwarg_inputs=given)(**given).tolist() == [2.0]
    for arguments in ({}, {"example_inputs": td.ones(1), "example_kwarg_inputs": given}):
        with pytest.raises(TypeError, match="example_kwarg_inputs"):
            td.jit.trace(Net(), **arguments)


# ---- attributes, interfaces, enumerations


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.found = td.jit.Attribute({}, Dict[str, int])
        self.scale = td.jit.Attribute(0.5, float)

    def forward(self, x):
        self.found["calls"] = self.found.get("calls", 0) + 1
        return x * self.scale, self.found


def test_attributes_with_a_type():
    program = td.jit.script(Counts())
    assert program(td.ones(1))[0].tolist() == [0.5] and program(td.ones(1))[1] == {"calls": 2}
    assert program.scale == 0.5 and program.found == {"calls": 2}


@td.jit.interface
class Stage(nn.Module):
    def forward(self, x: td.Tensor) -> td.Tensor:
        pass


class AddOne(nn.Module):
    def forward(self, x):
        return x + 1


class Double(nn.Module):
    def forward(self, x):
        return x * 2


class Staged(nn.Module):
    stage: Stage

    def __init__(self):
        super().__init__()
        self.stage = AddOne()

    def forward(self, x):
        return self.stage.forward(x)


def through_a_variable(x, stage: Stage):
    return stage.forward(x)


def test_interfaces():
    program = td.jit.script(Staged())
    assert program(td.tensor([5.0])).tolist() == [6.0]
    program.stage = td.jit.script(Double())
    assert program(td.tensor([5.0])).tolist() == [10.0]
    with pytest.raises(td.DTypeError, match=r"test_jit_usual.py:\d+:34: an interface is the type of a module's attribute"):
        td.jit.script(through_a_variable)
    with pytest.raises(RuntimeError, match="interface must be applied to a class"):
        td.jit.interface(3)


class Mode(enum.Enum):
    NEAREST = "nearest"
    LINEAR = "linear"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Mixed(enum.Enum):
    A = 1
    B = "b"


def by_mode(x, mode: Mode = Mode.LINEAR, modes: Optional[List[Mode]] = None):
    n = 0
    if modes is not None:
        for m in modes:
            n += int(m == mode)
    if mode == Mode.NEAREST:
        x = x + 10
    return x + n, mode, mode.name + "=" + mode.value, mode != Mode.LINEAR, Mode.NEAREST


def by_level(x, level: Level):
    return x * level + Level.HIGH, level >= Level.HIGH


def by_mixed(x):
    return Mixed.A == Mixed.B


class Resize(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        return x * 2 if self.mode == Mode.NEAREST else x


def plain(x):
    return x.tolist() if hasattr(x, "tolist") else tuple(map(plain, x)) if isinstance(x, tuple) else x


@pytest.mark.parametrize("args", [(), (Mode.NEAREST,), (Mode.NEAREST, [Mode.NEAREST, Mode.LINEAR, Mode.NEAREST])])
def test_enumerations(args):
    assert plain(td.jit.script(by_mode)(td.ones(1), *args)) == plain(by_mode(td.ones(1), *args))


def test_enumerations_of_modules_and_of_numbers():
    assert [td.jit.script(Resize(mode))(td.ones(1)).item() for mode in Mode] == [2, 1]
    program = td.jit.script(by_level)
    assert [plain(program(td.ones(1), level)) for level in Level] == [plain(by_level(td.ones(1), level)) for level in Level]
    with pytest.raises(td.Error, match="values have one type.*Mixed"):
        td.jit.script(by_mixed)


# ---- what goes in

def test_numbers_as_they_are_wanted():
    def f(n: int, x: float, c: complex, xs: List[float], d: Dict[str, int], t: Tuple[float, int], o: Optional[float] = None):
        return n, x, c, xs, d, t, o

    program = td.jit.script(f)
    got = program(True, 2, False, [1, True, 2.5], {"a": True}, (np.int64(1), True), True)
    assert repr(got) == "(1, 2.0, 0j, [1.0, 1.0, 2.5], {'a': 1}, (1.0, 1), 1.0)"
    assert repr(program(2**53 + 1, 1, 1.5, (1, 2), {}, (1, 1))) == "(9007199254740993, 1.0, (1.5+0j), [1.0, 2.0], {}, (1.0, 1), None)"
    for bad, kind in ((2.5, "float"), ("1", "str"), (None, "None"), (td.ones(1), "Tensor")):
        with pytest.raises(td.DTypeError, match=rf"argument 1 \('n'\) is int, and {kind} is given"):
            program(bad, 2, 0, [], {}, (1, 1))
    with pytest.raises(td.DTypeError, match="argument 4"):
        program(1, 2, 0, [None], {}, (1, 1))


# ---- copies


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(2, 2), 0
        self.register_buffer("seen", td.zeros(2), persistent=False)

    def forward(self, x, scale: float = 1.0):
        self.calls += 1
        self.seen += 1
        return self.linear(x) * scale + self.seen * self.calls


@pytest.mark.parametrize("make", [td.jit.script, lambda m: td.jit.freeze(td.jit.script(m)), lambda m: td.jit.trace(m, td.ones(3, 2), check=False)], ids=["script", "freeze", "trace"])
def test_copies_and_pickles(make):
    program, x = make(Kept().eval()), td.ones(3, 2)
    program(x)
    for how in copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)):
        twin = how(program)
        first = twin(x)
        if how is not copy.deepcopy:  # pickled tensors are handles of the same memory
            program.seen.sub_(1)
        assert type(twin) is type(program) and td.equal(program(x), first) and isinstance(twin, td.jit.ScriptModule)
        assert list(twin.state_dict()) == list(program.state_dict()) and twin.original_name == program.original_name == "Kept"
    assert type(copy.copy(program)) is type(program)
    twin = copy.deepcopy(program)
    twin.state_dict()["linear.weight" if "linear.weight" in twin.state_dict() else "seen"] if twin.state_dict() else None
    twin.seen.add_(100)
    assert not td.equal(twin(x), program(x))


def test_functions_are_pickled_by_their_names():
    for program in td.jit.script(added), scripted:
        assert pickle.loads(pickle.dumps(program))(td.ones(1), 2).tolist() == [3.0] and copy.deepcopy(program)(td.ones(1), 2).tolist() == [3.0]
    assert pickle.loads(pickle.dumps(scripted)) is scripted
    traced = td.jit.trace(lambda x, y: {"sum": x + y}, (td.ones(1), td.ones(1)))
    assert pickle.loads(pickle.dumps(traced))(td.ones(1), td.ones(1))["sum"].tolist() == [2.0]


@td.jit.script
def scripted(x, n: int):
    return x + n


def test_a_module_of_a_program_is_not_made_by_itself():
    with pytest.raises(TypeError, match="td.jit.script"):
        td.jit.ScriptModule()
    with pytest.raises(TypeError, match="CompilationUnit"):
        td.jit.script(AddOne()).define("def f(self): return 1")
    assert not isinstance(AddOne(), td.jit.ScriptModule) and isinstance(td.jit.trace(AddOne(), td.ones(1)), td.jit.ScriptModule)


class Marked(td.jit.ScriptModule):
    """As PyTorch's users wrote modules before script()."""

    __constants__ = ["n"]

    def __init__(self, n):
        td.jit.ScriptModule.__init__(self)
        self.n, self.weight = n, td.nn.Parameter(td.tensor([2.0, 3.0]))
        self.found = td.jit.Attribute({"a": 1}, Dict[str, int])
        self.register_buffer("seen", td.zeros(2))

    def in_python(self, x):
        return [self.forward(x)]

    @td.jit.script_method
    def scaled(self, x, k: int = 3):
        return x * k

    @td.jit.script_method
    def forward(self, x):
        self.seen.add_(x)
        if self.training:
            x = x + 100
        for i in range(self.n):
            x = x + i
        return self.scaled(x * self.weight, 10) + self.found["a"]


class MarkedAnew(Marked):
    @td.jit.script_method
    def forward(self, x):
        return self.scaled(x)


class Unmarked(td.jit.ScriptModule):
    def forward(self, x):
        return x + 1

    @td.jit.script_method
    def wrong(self, x):
        return x.no_such_thing()


def test_classes_that_say_which_methods_are_programs(tmp_path):
    a, x = Marked(3).eval(), td.ones(2)
    assert isinstance(a, td.jit.ScriptModule) and isinstance(a, td.nn.Module) and td.jit.script(a) is a and [n for n, _ in a.named_parameters()] == ["weight"]
    assert a(x).tolist() == [81.0, 121.0] and a.seen.tolist() == [1.0, 1.0] and a.in_python(x)[0].tolist() == [81.0, 121.0] and a.found == {"a": 1}
    assert a.scaled(x).tolist() == [3.0, 3.0] and a.train()(x).tolist() == [2081.0, 3121.0] and "prim::Loop" in a.graph and a.schema == "forward(Tensor x) -> Tensor"
    twin = copy.deepcopy(a.eval())
    twin.weight.data.zero_()
    assert twin(x).tolist() == [1.0, 1.0] and pickle.loads(pickle.dumps(a))(x).tolist() == copy.copy(a)(x).tolist() == [81.0, 121.0]
    assert MarkedAnew(3)(x).tolist() == [3.0, 3.0] and td.nn.Sequential(a, a)(x).tolist() == td.jit.script(td.nn.Sequential(a, a))(x).tolist()
    td.jit.save(a, tmp_path / "a.pt")
    back = td.jit.load(tmp_path / "a.pt")
    assert back(x).tolist() == [81.0, 121.0] and back.scaled(x, 2).tolist() == [2.0, 2.0]
    hook = a.register_forward_hook(lambda module, given, out: out * 0)
    assert a(x).tolist() == [0.0, 0.0]
    hook.remove()
    with pytest.raises(td.Unsupported, match="no 'no_such_thing'"):  # behind __init__(), as script() of it would
        Unmarked()
    with td.enable_grad():
        a(x).sum().backward()
    assert a.weight.grad.tolist() == [40.0, 40.0]


def test_methods_that_stay_in_python():
    class Half(td.jit.ScriptModule):
        def forward(self, x):
            return self.doubled(x) + len(str(type(self)))

        @td.jit.script_method
        def doubled(self, x):
            return x * 2

    made = types.new_class("Made", (Half,))
    assert made()(td.ones(1)).item() == 2 + len(str(made)) and type(Half)("Bare", (td.jit.ScriptModule,), {"n": 3})().n == 3
    a = Half()
    assert a(td.zeros(1)).item() == len(str(Half)) and a.doubled(td.ones(1)).item() == 2
    with pytest.raises(TypeError, match=r"forward\(\) of Half is no program"):
        a.graph
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None


def test_what_programs_say_of_themselves():
    def f(x, n: int = 3, s: str = "a", sizes: Optional[List[int]] = None, t: Tuple[int, str] = (1, "b")):
        return x * n, [n], {"a": x}

    program = td.jit.script(f)
    assert program.schema == 'f(Tensor x, int n=3, str s="a", int[]? sizes=None, (int, str) t=(1, b)) -> (Tensor, int[], Dict(str, Tensor))'
    assert program.inlined_graph == program.graph and program.code_with_constants == (program.code, {}) and program.qualified_name == "__torch__.f"
    module = td.jit.script(Kept())
    assert module.schema == module.forward.schema == "forward(Tensor x, float scale=1.0) -> Tensor"
    assert td.jit.freeze(td.jit.script(Kept().eval())).schema == "forward(Tensor x, float scale) -> Tensor"
    assert td.jit.trace(AddOne(), td.ones(1)).schema == "forward(Tensor x) -> Tensor"


# ---- files


def test_extra_files(tmp_path):
    program = td.jit.script(AddOne())
    for name in "a.td", "a.pt":
        td.jit.save(program, tmp_path / name, _extra_files={"note.txt": "h\u00e9", "deep/er.bin": b"\0\1"})
        found = {"note.txt": "", "deep/er.bin": "", "none": "was"}
        assert td.jit.load(tmp_path / name, _extra_files=found)(td.ones(1)).tolist() == [2.0]
        assert found == {"note.txt": "h\u00e9".encode(), "deep/er.bin": b"\0\1", "none": b""}
    if torch:
        found = {"note.txt": "", "deep/er.bin": ""}
        assert torch.jit.load(str(tmp_path / "a.pt"), _extra_files=found)(torch.ones(1)).tolist() == [2.0]
        assert [x if isinstance(x, bytes) else x.encode() for x in found.values()] == ["h\u00e9".encode(), b"\0\1"]
        buffer = io.BytesIO()
        torch.jit.save(torch.jit.script(torch.nn.ReLU()), buffer, _extra_files={"k": "v"})
        buffer.seek(0)
        found = {"k": ""}
        assert td.jit.load(buffer, _extra_files=found)(td.tensor([-1.0])).tolist() == [0.0] and found == {"k": b"v"}
    found = {"note.txt": ""}
    assert td.jit.load(io.BytesIO(program.save_to_buffer(_extra_files={"note.txt": "x"})), _extra_files=found)(td.ones(1)).tolist() == [2.0] and found["note.txt"] == b"x"


@pytest.mark.parametrize("name", ["", "/etc/x", "a/../../b", "a\nb", "x" * 2000, "a\\b"])
def test_extra_files_with_bad_names(tmp_path, name):
    with pytest.raises(td.InvalidError, match="no name in a file"):
        td.jit.script(AddOne()).save(tmp_path / "a.td", _extra_files={name: "x"})
    assert list(tmp_path.iterdir()) == []


def test_extra_files_that_are_none(tmp_path):
    with pytest.raises(TypeError, match="texts or bytes"):
        td.jit.script(AddOne()).save(tmp_path / "a.td", _extra_files={"a": 3})
    td.jit.script(AddOne()).save(tmp_path / "a.td", _extra_files={"a": b"x" * 5000})
    whole = (tmp_path / "a.td").read_bytes()
    at = whole.index(b"x" * 5000)
    (tmp_path / "a.td").write_bytes(whole[:at] + b"y" + whole[at + 1:])
    with pytest.raises(td.InvalidError, match="extra files are damaged"):
        td.jit.load(tmp_path / "a.td", _extra_files={"a": ""})
    (tmp_path / "a.td").write_bytes(whole[:at])
    with pytest.raises(td.InvalidError):
        td.jit.load(tmp_path / "a.td", _extra_files={"a": ""})


# ---- networks that torch.jit.load() opens


@pytest.mark.parametrize("form", [lambda x: x.squeeze(1) + x.any(1), lambda x: x.all(0) * x.squeeze(0)], ids=["columns", "rows"])
def test_lists_of_one_item_that_became_constants(form, tmp_path):
    x, program = td.tensor([[1.0], [0.0]]), td.jit.freeze(td.jit.trace(_Of(form).eval(), td.ones(2, 1)))
    program.save(tmp_path / "p.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.save(tmp_path / "p.pt")
    want = form(x)
    assert td.jit.load(tmp_path / "p.pt")(x).tolist() == want.tolist()
    if torch:
        assert torch.jit.load(str(tmp_path / "p.pt"))(torch.tensor(x.tolist())).tolist() == want.tolist()


class _Of(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x):
        return self.form(x)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(td.relu(self.norm(self.conv(x))), 1)
        return self.last(x.flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), nn.GRU(12, 5), nn.RNN(5, 3, nonlinearity="relu")

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, last = self.gru(y)
        return self.rnn(z)[0], h, c, last


class Controlled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, n: int = 2, more: Optional[td.Tensor] = None) -> Tuple[td.Tensor, List[td.Tensor], Dict[str, td.Tensor]]:
        out: List[td.Tensor] = []
        for i in range(n + 3):
            x = td.tanh(self.linear(x))
            if x.sum() > 0:
                out.append(x * i)
            elif i == 2:
                break
        if more is not None:
            x = x + more
        return x, out, {"x": x}


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.attention, self.layer = nn.Embedding(10, 8), nn.MultiheadAttention(8, 2, batch_first=True), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, i, mask):
        x = self.words(i)
        y, weights = self.attention(x, x, x, attn_mask=mask)
        return self.layer(y), weights


NETS = {"pictures": (Pictures, lambda: (td.randn(2, 3, 8, 8),)),
        "layers": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 4), nn.Softmax(-1)), lambda: (td.randn(3, 8),)),
        "recurrent": (Recurrent, lambda: (td.randn(2, 5, 4),)), "controlled": (Controlled, lambda: (td.randn(2, 4), 4, td.ones(2, 4))),
        "attending": (Attending, lambda: (td.arange(10).reshape(2, 5), td.tensor([[-1e9 if j > i else 0.5 for j in range(5)] for i in range(5)])))}
MAKERS = {"script": lambda m, args: td.jit.script(m), "trace": lambda m, args: td.jit.trace(m, args), "freeze": lambda m, args: td.jit.freeze(td.jit.script(m)),
          "freeze_trace": lambda m, args: td.jit.freeze(td.jit.trace(m, args)), "optimize": lambda m, args: td.jit.optimize_for_inference(td.jit.script(m))}


def numbers(x):
    if isinstance(x, (list, tuple)):
        return [n for y in x for n in numbers(y)]
    if isinstance(x, dict):
        return numbers(list(x.values()))
    return [np.asarray(x.detach().numpy())]


def near(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=3e-6)


@wants_torch
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", NETS)
def test_networks_open_in_pytorch(name, make, tmp_path):
    if name == "controlled" and "trace" in make:
        pytest.skip("its branches are no trace's")
    if name == "attending" and not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        pytest.skip("an older PyTorch has no such op")
    td.manual_seed(3)
    net, examples = NETS[name]
    net, args = net().eval(), examples()
    want = numbers(net(*args))
    program = MAKERS[make](net, args)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that there is no code
        td.jit.save(program, tmp_path / "p.pt")
    given = [torch.from_numpy(x.numpy().copy()) if td.is_tensor(x) else x for x in args]
    theirs = torch.jit.load(str(tmp_path / "p.pt"))
    with torch.no_grad():
        near(numbers(theirs(*given)), want)
    near(numbers(td.jit.load(tmp_path / "p.pt")(*args)), want)
    for more in (lambda: theirs, lambda: torch.jit.freeze(theirs.eval())) if make in ("script", "trace") else (lambda: theirs,):
        torch.jit.save(more(), str(tmp_path / "back.pt"))
        near(numbers(td.jit.load(tmp_path / "back.pt")(*args)), want)
