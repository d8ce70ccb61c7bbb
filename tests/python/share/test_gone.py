"""What is handed over and cannot be had, of each kind that travels as a handle: carried to a task, from one, and through queues, it is an error of
who looks at it, and whoever carries it goes on."""
import concurrent.futures
import gc
import importlib.util
import io
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from multiprocessing.reduction import ForkingPickler

import pytest
import tensord as td
from common import SLOW, wait_for
from tensord.share import _loans
from tensord.data import SharedDict, SharedList

METHODS = multiprocessing.get_all_start_methods()
LONG = 60 * SLOW
SMALL, LARGE = [2], [3, 5000]


class Net(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.scale = td.nn.Linear(2, 2), td.nn.Parameter(td.ones(1), requires_grad=False)
        self.tied = self.inner
        self.register_buffer("shift", td.ones(2), persistent=False)

    def forward(self, x: td.Tensor) -> td.Tensor:
        return self.tied(self.inner(x)) * self.scale + self.shift


class Named(td.Tensor):
    pass


def _loaded(program):
    file = io.BytesIO()
    td.jit.save(program, file)
    file.seek(0)
    return td.jit.load(file)


def _frozen():
    return td.jit.freeze(td.jit.script(Net().eval()))


def _traced():
    w = td.ones(2)
    return td.jit.trace(lambda x: x * w, (td.ones(2),))


def _torch():
    import tensord.torch
    import torch

    torch.set_num_threads(1)  # its threads do not live on in a forked child
    tensord.torch.set_sharing_strategy()
    return torch


def _sum(x):
    return x.sum().item()


def _call(f):
    return f(td.ones(2)).sum().item()


# How one is made, and how its values are looked at.
KINDS = {
    "tensor": (lambda: td.ones(2), _sum),
    "Parameter": (lambda: td.nn.Parameter(td.ones(2)), _sum),
    "subclass": (lambda: Named(td.ones(2)), _sum),
    "storage": (lambda: td.ones(2).storage(), lambda s: s.tolist()),
    "SharedList": (lambda: SharedList(["a", "b"]), lambda x: x[1]),
    "SharedDict": (lambda: SharedDict({"a": 1}), lambda x: x["a"]),
    "module": (Net, _call),
    "optimizer": (lambda: td.optim.Adam([td.nn.Parameter(td.ones(2))]), lambda o: o.param_groups[0]["params"][0].sum().item()),
    "ScriptModule": (lambda: td.jit.script(Net()), _call),
    "LoadedProgram": (lambda: _loaded(td.jit.script(Net())), _call),
    "LoadedProgram of a trace": (lambda: _loaded(_traced()), _call),
    "FrozenModule": (_frozen, _call),
    "trace": (_traced, _call),
}
THEIRS = {
    "torch.Tensor": (lambda: _torch().ones(SMALL), _sum),
    "torch.Parameter": (lambda: _torch().nn.Parameter(_torch().ones(LARGE)), _sum),
    "torch module": (lambda: _torch().nn.Linear(2, 2), lambda m: m(_torch().ones(2)).sum().item()),
    "torch views": (lambda: [_torch().ones(LARGE)] * 2, lambda x: (x[0] + x[1]).sum().item()),
}
if importlib.util.find_spec("torch"):
    KINDS.update(THEIRS)


def _load(data):
    usual, _loans.TAKE_SECONDS = _loans.TAKE_SECONDS, 0  # nothing of it is on its way
    try:
        return pickle.loads(data)
    finally:
        _loans.TAKE_SECONDS = usual


class Gone:
    """Unpickles as something that was pickled once, taken once, and is nowhere else."""

    def __init__(self, kind):
        self.data = bytes(ForkingPickler.dumps(KINDS[kind][0]()))
        gc.collect()  # programs and what they are made of hold each other
        pickle.loads(self.data)
        gc.collect()

    def __reduce__(self):
        return _load, (self.data,)


def _use(kind, x):
    return KINDS[kind][1](x)


def _give(kind):
    return Gone(kind)


def _give_back(x):
    return x


def _fresh(kind):
    return KINDS[kind][0]()


def is_gone(ask):
    with pytest.raises(td.NotFound, match="is gone"):
        ask()
    return True


@pytest.fixture(scope="module", autouse=True)
def frozen():
    """What is imported by now is not looked at by each collection."""
    if "torch.Tensor" in KINDS:
        _torch()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def met(monkeypatch):
    """Processes that are started find this one's daemon."""
    td.ones(1)
    monkeypatch.setenv("TENSORD_SOCKET", td.connection()["path"])
    yield
    if "tensord.torch" in sys.modules:
        sys.modules["tensord.torch"].set_sharing_strategy("torch")


@pytest.mark.parametrize("kind", KINDS)
def test_unpickling_raises_nothing_and_every_look_does(kind):
    x = pickle.loads(pickle.dumps(Gone(kind)))
    is_gone(lambda: _use(kind, x))
    assert repr(x)
    is_gone(lambda: ForkingPickler.dumps(x))


def _ask(submit, result, kind):
    """All are asked before the first answer is looked at: one that stops the others would be noticed."""
    taken, given = submit(_use, kind, Gone(kind)), submit(_give, kind)
    handed_back, whole, fresh = submit(_give_back, Gone(kind)), submit(_use, kind, KINDS[kind][0]()), submit(_fresh, kind)
    is_gone(lambda: result(taken))
    is_gone(lambda: _use(kind, result(given)))
    with pytest.raises((td.NotFound, multiprocessing.pool.MaybeEncodingError), match="is gone"):  # it cannot be pickled, and that is said
        result(handed_back)
    assert result(whole) is not None and _use(kind, result(fresh)) is not None


@pytest.mark.parametrize("method", METHODS)
def test_pools(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        for kind in KINDS:
            _ask(lambda f, *args: pool.apply_async(f, args), lambda r: r.get(LONG), kind)


@pytest.mark.parametrize("method", METHODS)
def test_executors(method):
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        for kind in KINDS:
            _ask(pool.submit, lambda f: f.result(LONG), kind)


def _tell(q, back):
    for kind, x in iter(q.get, None):
        try:
            told = _use(kind, x)
        except td.NotFound as e:
            told = "is gone" in str(e)
        back.put((kind, told, Gone(kind)))


@pytest.mark.parametrize("method", METHODS)
def test_queues(method):
    context = multiprocessing.get_context(method)
    q, back = context.Queue(), context.Queue()
    p = context.Process(target=_tell, args=(q, back))
    p.start()
    for kind in KINDS:
        q.put((kind, Gone(kind)))
    q.put(None)
    for kind in KINDS:
        came, told, x = back.get(timeout=LONG)
        assert came == kind and told is True
        is_gone(lambda: _use(kind, x))
    p.join(LONG)
    assert p.exitcode == 0


@pytest.mark.skipif("torch.Tensor" not in KINDS, reason="torch is not there (Debian: python3-torch)")
def test_of_torch():
    """Its functions ask the class of a tensor; and a loader of tensord's own, whose caller is there to hear it, raises at once."""
    torch = _torch()
    from tensord.torch import _loader

    x, p = (pickle.loads(pickle.dumps(Gone(kind))) for kind in ("torch.Tensor", "torch.Parameter"))
    assert (x.shape, x.dtype, x.dim(), x.numel(), p.shape) == ((2,), torch.float32, 1, 2, (3, 5000)) and isinstance(p, torch.nn.Parameter) and x in {x}
    y = torch.ones(2)
    for use in (lambda: x + 1, lambda: y + x, lambda: y.copy_(x), lambda: torch.stack([y, x]), lambda: x[0], lambda: x.tolist(), lambda: bool(x[0]), lambda: x.to("cpu"),
                lambda: x.numpy(), lambda: x.data_ptr(), lambda: x.clone(), lambda: p.sum().backward(), lambda: pickle.dumps(x), lambda: td.tensor(x),
                lambda: torch.nn.functional.linear(y, x), lambda: td.Queue("gone").put(x), lambda: torch.nn.Parameter(x), lambda: x.pin_memory()):
        is_gone(use)
    is_gone(lambda: _loader.loads(pickle.dumps(Gone("torch.Tensor")), {}))
    for use in (lambda: torch.as_tensor(x).sum().item(), lambda: torch.nn.Linear(2, 2).bias.data.set_(x), lambda: torch.tensor(x).tolist()):
        with pytest.raises(Exception, match="meta|is gone"), warnings.catch_warnings():  # no values, by whichever way
            warnings.simplefilter("ignore")
            use()
    assert y.tolist() == [1, 1]


# ---- the sender was killed before


def _send(q, kinds):
    _loans.LENT_SECONDS = 0.2
    for kind in kinds:
        q.put(KINDS[kind][0]())
    os.kill(os.getpid(), signal.SIGKILL)


def lent_by(pid):
    td.sync()
    return [r for r in td.status("names") if r["pid"] == pid]


@pytest.mark.parametrize("method", METHODS)
def test_of_a_sender_that_was_killed(method, monkeypatch):
    """What was lent ends some time after its process; what it sent before that stands in the pipe."""
    lent = [kind for kind in KINDS if kind.startswith(("Shared", "torch"))]
    context = multiprocessing.get_context(method)
    q = context.SimpleQueue()
    p = context.Process(target=_send, args=(q, lent))
    p.start()
    p.join(LONG)
    assert p.exitcode == -signal.SIGKILL
    assert wait_for(lambda: not lent_by(p.pid), LONG)
    monkeypatch.setattr(_loans, "TAKE_SECONDS", 0)  # nothing is on its way
    for kind in lent:
        x = q.get()
        is_gone(lambda: _use(kind, x))
    q.close()
    p.close()
