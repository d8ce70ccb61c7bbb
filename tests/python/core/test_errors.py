"""Errors: typed, and pointing at the line of the program that asked."""
import math
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest
import tensord as td
from common import daemon, wait_for

HERE = os.path.basename(__file__)


def line():
    return sys._getframe(1).f_lineno


def script(text, **more):
    return subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=60, **more)


def test_classes():
    pairs = {"OutOfRange": IndexError, "ShapeError": ValueError, "DTypeError": TypeError, "InvalidError": ValueError, "OutOfMemory": MemoryError,
             "ConnectionLost": ConnectionError, "Timeout": TimeoutError, "NotFound": LookupError, "Unsupported": NotImplementedError,
             "PermissionDenied": PermissionError, "SystemFailure": OSError, "Closed": EOFError, "AutogradError": RuntimeError}
    for name, builtin in pairs.items():
        assert issubclass(getattr(td, name), (td.Error,)) and issubclass(getattr(td, name), builtin)
    assert issubclass(td.QuotaExceeded, td.OutOfMemory) and issubclass(td.VersionError, td.AutogradError)


def test_at_the_call():
    with pytest.raises(td.ShapeError) as e:
        td.zeros(2, 3) + td.zeros(4)
    assert e.value.op == "add" and "asked for" not in str(e.value) and HERE in e.value.where


@pytest.mark.parametrize("join", [td.cat, td.stack])
def test_nothing_to_join(join):
    with pytest.raises(td.InvalidError, match="non-empty list of Tensors, but 'xs' is empty"):
        join([])


@pytest.mark.parametrize("flag", ["no", 1, 0, 1.0, [], None, td.tensor(True)], ids=repr)
def test_flags_are_bools(flag):
    """ "no" would count as true; PyTorch refuses these too."""
    x = td.ones(2, 3)
    calls = {"keepdim": [lambda: x.sum(0, keepdim=flag), lambda: x.max(0, flag), lambda: x.std(0, keepdim=flag), lambda: x.norm(dim=0, keepdim=flag)],
             "descending": [lambda: td.sort(x, descending=flag)], "largest": [lambda: x.topk(1, largest=flag)], "copy": [lambda: x.to(td.int8, copy=flag)],
             "requires_grad": [lambda: td.tensor([1.0], requires_grad=flag), lambda: x.requires_grad_(flag), lambda: setattr(x, "requires_grad", flag)],
             "unbiased": [lambda: x.var(unbiased=flag)] if flag is not None else [], "equal_nan": [lambda: td.allclose(x, x, equal_nan=flag)],
             "return_counts": [lambda: td.unique(x, return_counts=flag)], "training": [lambda: td.nn.functional.dropout(x, 0.5, flag)],
             "replace": [lambda: x.publish("flags", replace=flag)], "mode": [lambda: td.set_grad_enabled(flag), lambda: td.nn.ReLU().train(flag)]}
    if flag is not None:
        calls["requires_grad"] += [lambda: td.ones(2, requires_grad=flag), lambda: td.full((2,), 1.0, requires_grad=flag)]
    if not isinstance(flag, int):
        calls["create_graph"] = [lambda: x.sum().backward(create_graph=flag), lambda: td.autograd.grad(x.sum(), x, create_graph=flag)]
    for name, uses in calls.items():
        for use in uses:
            with pytest.raises((TypeError, ValueError), match=f"{name}.*bool") as e:
                use()
            assert isinstance(e.value, td.Error)
    assert td.is_grad_enabled() and not x.requires_grad


def test_torch_is_missing():
    r = script("import sys; sys.modules['torch'] = None; import tensord.torch")
    assert r.returncode == 1 and "ModuleNotFoundError: tensord.torch is for programs that use PyTorch" in r.stderr and "python3-torch" in r.stderr


@pytest.mark.parametrize("want", ["td.ones(2).numpy()", "next(iter(td.data.DataLoader([1, 2])))"])
def test_numpy_is_missing(want):
    r = script(f"import sys; sys.modules['numpy'] = None; import tensord as td; {want}")
    assert r.returncode == 1 and "ModuleNotFoundError: this wants NumPy" in r.stderr and "python3-numpy" in r.stderr, r.stderr


def test_later():
    asked = line() + 1
    x = td.zeros(3)[td.tensor([5])]
    y = x + 1
    with pytest.raises(IndexError) as e:
        y.tolist()
    assert f"{HERE}:{asked}" in str(e.value) and e.value.where.endswith(f"{HERE}:{asked}")
    td.sync()  # told once


def test_each_line_again_and_again():
    """The place of an instruction is remembered: it stays that instruction's own, also within one line."""
    first = line() + 4
    for _ in range(3):
        for way in range(3):
            with pytest.raises(td.Error) as e:
                x = td.zeros(2)[td.tensor([7])] if way == 0 else td.zeros(2).index_select(0, td.tensor([7])) if way == 1 else \
                    td.zeros(2).index_select(
                        0, td.tensor([8]))
                x.tolist()
            assert e.value.where.endswith(f"{HERE}:{first + (way == 2)}")


def test_the_line_is_the_program_s_own():
    """Functions of the package's own Python files are passed over."""
    asked = line() + 1
    x = td.where(td.tensor([True]), td.zeros(1)[td.tensor([9])], 0)
    with pytest.raises(IndexError, match=f"{HERE}:{asked}"):
        x.item()
    asked = line() + 1
    x = td.norm(td.zeros(2)[td.tensor([4])], p=3.0)
    with pytest.raises(IndexError, match=f"{HERE}:{asked}"):
        x.item()


def test_memory():
    with pytest.raises(MemoryError) as e:
        td.zeros(1 << 45).sum().item()
    assert isinstance(e.value, td.OutOfMemory)
    assert td.ones(2).sum().item() == 2


def test_names():
    with pytest.raises(LookupError):
        td.open("nobody/here")
    with pytest.raises(TimeoutError):
        td.open("nobody/here", timeout=0.05)
    td.ones(1).publish("errors/a")
    with pytest.raises(td.AlreadyExists):
        td.ones(1).publish("errors/a")
    td.ones(2).publish("errors/a", replace=True)
    assert td.open("errors/a").shape == (2,)
    td.drop("errors/a")


def test_the_daemon_dies():
    r = script("""
        import os, signal, time, tensord as td
        x = td.ones(3)
        x.tolist()
        path = td.connection()["path"]
        os.kill(td.connection()["pid"], signal.SIGKILL)
        for _ in range(1000):
            try:
                x.sum().item()
                time.sleep(0.01)
            except td.ConnectionLost as e:
                print("lost:", isinstance(e, ConnectionError), "daemon" in str(e))
                break
        del x
        td.connect()
        print(td.ones(2).tolist(), "the same place:", td.connection()["path"] == path)
        print(path)
    """)
    told, path = r.stdout.rsplit("\n", 2)[:2]
    assert told == "lost: True True\n[1.0, 1.0] the same place: True" and r.stderr == "", r.stderr
    assert wait_for(lambda: not os.path.exists(os.path.dirname(path))), "the next daemon goes with its program, and what the killed one left with it"


def test_no_daemon():
    r = script("import tensord as td\ntd.ones(1)", env={**os.environ, "TENSORD_SOCKET": "/nonexistent/socket"})
    assert "tensord.NotFound" in r.stderr or "tensord.SystemFailure" in r.stderr or "tensord.ConnectionLost" in r.stderr, r.stderr


@pytest.mark.parametrize("wait", ["td.open('never', timeout=None)", "Q.get(None)", "td.sync()"])
def test_ctrl_c(wait):
    """SIGINT ends every wait at once."""
    setup = """
        import os, signal, threading, tensord as td
        from tensord import _C
        Q = _C._RawQueue("q", 1, 2)
        x = td.ones(1 << 8)
        daemon = td.connection()["pid"]
        if 'sync' in WAIT:
            a = td.rand(1500, 1500)
            for _ in range(60):
                a = a @ a
        td.flush()
        if 'sync' in WAIT:
            os.kill(daemon, signal.SIGSTOP)  # however quick the machine is: without Ctrl-C no wait here ends
        timer = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        try:
            timer.start()
            eval(WAIT)
            print("not interrupted", flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        timer.join()
        os.kill(daemon, signal.SIGCONT)
        os._exit(0)
    """
    r = script(f"WAIT = {wait!r}\n" + textwrap.dedent(setup))
    assert r.stdout == "interrupted\n", r.stdout + r.stderr


def test_handlers_of_other_signals_run():
    r = script("""
        import signal, threading, time, tensord as td
        td.ones(1).item()
        hits = []
        signal.signal(signal.SIGUSR1, lambda *a: hits.append(td.ones(2).sum().item()))
        threading.Timer(0.2, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)).start()
        while not hits:
            try:
                td.open("never", timeout=0.7)
            except TimeoutError:
                pass
        print(hits)
    """)
    assert r.stdout == "[2.0]\n", r.stdout + r.stderr


def test_eager_errors_come_at_the_line_that_caused_them():
    x = td.ones(3)
    td.set_eager_errors(True)
    try:
        with pytest.raises(IndexError, match="index 7"):
            x.index_select(0, td.tensor([7]))
        with pytest.raises(IndexError, match="index 8"):
            x.index_add_(0, td.tensor([8]), td.ones(1))
        w = td.ones(3, requires_grad=True)
        y = w * 2
        z = (y * y).sum()
        y.detach().add_(1)
        with pytest.raises(td.VersionError):
            z.backward()
        td.sync()  # nothing is left to tell
        assert x.tolist() == [1, 1, 1] and w.grad is None
    finally:
        td.set_eager_errors(False)
    late = x.index_select(0, td.tensor([9]))
    with pytest.raises(IndexError, match="index 9"):
        late.tolist()


@pytest.mark.parametrize("n", [4, 400_000])  # computed by the daemon's loop, and by its workers
def test_a_failed_write_is_told_by_the_next_use_and_once(n):
    base, src, bad = td.zeros(n, 2), td.ones(3, 2), td.tensor([0, 1, n + 7])
    told = rf"index {n + 7} is out of bounds[\s\S]*{HERE}:{line() + 7}"
    uses = {"op": lambda: (base + 1).sum().item(), "view": lambda: base[:2].tolist(), "numpy": base.numpy, "item": lambda: base[0, 0].item(),
            "in place": lambda: base.add_(1)[0].tolist(), "publish": lambda: base.publish("late"), "sync": td.sync, "writing": lambda: base.writing().__enter__(),
            "backward": lambda: (base * td.ones(2, requires_grad=True)).sum().backward() or td.sync()}
    with td.Queue("late") as queue:
        uses["put"] = lambda: queue.put(base) or td.sync()
        for name, use in uses.items():
            base.index_add_(0, bad, src)  # nobody knows of it here
            with pytest.raises(IndexError, match=told):
                use()
            if name == "put":
                with pytest.raises(IndexError, match=told):  # it was not waited for: the next one tells of it as well
                    queue.put(src)
            td.sync()  # nothing is left to tell
            assert base.sum().item() == 0, name
            assert base.numpy()[:2].sum() == 0, name


@pytest.mark.parametrize("n", [4, 400_000])
def test_a_graph_that_saved_what_a_failed_write_left_alone_is_good(n):
    src, bad = td.ones(3, 2), td.tensor([0, 1, n + 7])
    told = rf"index {n + 7} is out of bounds[\s\S]*{HERE}:{line() + 6}"

    def saved(writes):
        base, w = td.full((n, 2), 3.0), td.ones(2, requires_grad=True)
        loss = (base * w).sum()
        for _ in range(writes):
            base.index_add_(0, bad, src)
        return base, w, loss

    for writes in 1, 3:
        base, w, loss = saved(writes)
        loss.backward()  # the program does not know yet that it is good
        with pytest.raises(IndexError, match=told):
            w.grad
        td.sync()  # told once
        assert w.grad is None
        loss.backward()
        assert w.grad.tolist() == [3 * n, 3 * n]
        base, w, loss = saved(writes)
        with pytest.raises(IndexError, match=told):
            td.sync()
        late = (base * w).sum()
        loss.backward()
        late.backward()
        assert w.grad.tolist() == [6 * n, 6 * n]
    base, w, loss = saved(1)
    with pytest.raises(IndexError, match=told):
        base.tolist()
    base[0].add_(1)  # is written, before and after one that fails
    base.index_add_(0, bad, src)
    with pytest.raises(IndexError, match="out of bounds"):
        td.sync()
    loss.backward()
    with pytest.raises(td.VersionError):
        w.grad
    td.sync()


def test_a_forked_child_is_told_what_its_parent_was_not():
    base, w = td.zeros(4, 2), td.ones(3, requires_grad=True)
    told = rf"index 9 is out of bounds[\s\S]*{HERE}:{line() + 1}"
    base.index_add_(0, td.tensor([9]), td.ones(1, 2))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with pytest.raises(IndexError, match=told):
                base.tolist()
            code = 0 if base.sum().item() == 0 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with pytest.raises(IndexError, match=told):
        base.tolist()
    td.sync()
    w.index_select(0, td.tensor([7])).sum().backward()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with pytest.raises(IndexError, match="index 7"):
                w.grad
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with pytest.raises(IndexError, match="index 7"):
        w.grad


def test_what_is_overwritten_as_a_whole_lacks_nothing():
    base = td.zeros(4)
    for overwrite in lambda: base.fill_(3), lambda: base.copy_(td.full((4,), 3.0)), lambda: td.add(td.ones(4), 2, out=base):
        base.index_add_(0, td.tensor([9]), td.ones(1))
        overwrite()
        assert base.tolist() == [3, 3, 3, 3]
        with pytest.raises(IndexError, match="index 9"):
            td.sync()
    base.index_add_(0, td.tensor([9]), td.ones(1))
    base[:2].fill_(4)  # a part of it
    with pytest.raises(IndexError, match="index 9"):
        base.tolist()
    assert base.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("n", [4, 400_000])  # the daemon's loop knows of the failure before the backward begins, its workers do not
@pytest.mark.parametrize("order", ["zero first", "zero last", "value before the step", "never zero"])
def test_a_step_that_fails_is_skipped(n, order):
    """As after an exception in PyTorch: the batch with a bad index is lost, and training goes on with the next."""
    net = td.nn.Embedding(n, 2)
    opt = td.optim.SGD(net.parameters(), lr=1, momentum=0.5)
    with td.no_grad():
        net.weight.fill_(1)
    skipped = []
    many = n // 2
    for k, first in enumerate([0, n, many, n + 3, many]):  # the second and the fourth end behind the last row
        try:
            if order == "zero first":
                opt.zero_grad()
            loss = net(td.arange(first, first + many)).sum()
            loss.backward()
            if order == "value before the step":
                loss.item()
            opt.step()
            if order in ("zero last", "value before the step"):
                opt.zero_grad()
            loss.item()
        except IndexError as e:
            assert "is out of bounds" in str(e)
            skipped.append(k)
    td.sync()
    assert skipped == [1, 3]
    # by hand: gradients of 1 for the first half, then twice for the second
    assert net.weight[0].tolist() == ([-0.75] * 2 if order != "never zero" else [-3.25] * 2)
    assert net.weight[n - 1].tolist() == ([-1.5] * 2 if order != "never zero" else [-2.5] * 2)


def test_a_lost_gradient_is_none_once_it_was_told():
    n = 400_000
    for kind in "item", "sync", "grad":
        w = td.zeros(n, 2, requires_grad=True)
        w.index_select(0, td.arange(1, n + 1)).sum().backward() if kind != "item" else (loss := w.index_select(0, td.arange(1, n + 1)).sum()).backward()
        with pytest.raises(IndexError, match="is out of bounds"):
            {"item": lambda: loss.item(), "sync": td.sync, "grad": lambda: w.grad.sum().item()}[kind]()
        td.sync()
        assert w.grad is None, kind
        (w * 2).sum().backward()
        assert w.grad[0].tolist() == [2, 2]
        given = w.index_select(0, td.arange(1, n + 1))
        given.backward(td.ones(n, 2))
        with pytest.raises(IndexError, match="is out of bounds"):
            td.sync()
        td.sync()
        assert w.grad[0].tolist() == [2, 2], kind  # as it was


@pytest.mark.parametrize("given", [False, True])  # a gradient that is differentiated itself
def test_a_gradient_that_was_given_fails_with_its_root_and_once(given):
    n = 400_000
    w, g = td.ones(n, requires_grad=True), td.full((n,), 2.0, requires_grad=given)
    rows = td.arange(1, n + 1)
    for make in lambda: w.index_select(0, rows), lambda: w.index_select(0, rows) * w:
        root = make()
        with pytest.raises(IndexError, match=rf"index {n} [\s\S]*{HERE}:{line() - 2}"):
            (first,) = td.autograd.grad(root, w, g, create_graph=True)
            (second,) = td.autograd.grad((first * first).sum(), g) if given else (first,)  # where it is known by then, here
            second.sum().item()
        td.sync()  # told once
    root = (w * w).exp() * w * w
    (first,) = td.autograd.grad(root, w, g, create_graph=True)
    e = math.e
    assert first[n - 1].item() == pytest.approx(8 * e)  # 2 (2w + 2w^3) exp(w^2)
    for of, want in (w, 32 * e), *([(g, 4 * e)] if given else []):
        (second,) = td.autograd.grad(first.sum(), of, retain_graph=True)
        assert second[n - 1].item() == pytest.approx(want)
    td.sync()


def test_a_failed_backward_is_told_by_the_next_use_of_a_gradient():
    w = td.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    loss = w.index_select(0, td.tensor([7])).sum()
    loss.backward()
    with pytest.raises(IndexError, match=rf"index 7[\s\S]*{HERE}:{line() - 2}"):
        w.grad
    td.sync()
    assert w.grad.tolist() == [2, 2, 2]  # as it was
    loss = w.index_select(0, td.tensor([8])).sum()
    loss.backward()
    opt = td.optim.SGD([w], lr=1)
    with pytest.raises(IndexError, match="index 8"):
        opt.step()
        td.sync()
    opt.step()
    assert w.tolist() == [-1, -1, -1]


def test_eager_errors_can_be_asked_for_by_the_environment():
    code = "import tensord as td\ntry: td.ones(3).index_select(0, td.tensor([7]))\nexcept IndexError: print('told')"
    for value, out in ("1", "told"), ("0", ""), ("", ""):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"TENSORD_EAGER_ERRORS": value}, timeout=100)
        assert done.stdout.strip() == out


def test_a_second_backward_fails_where_it_is_asked_for():
    w = td.ones(3, requires_grad=True)
    loss = (w * w).sum()
    other = loss * 2
    loss.backward()
    for root in loss, other:
        with pytest.raises(td.AutogradError, match="second time"):
            root.backward()
    td.sync()
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad.tolist() == [6, 6, 6]


def test_a_second_grad_tells_its_own_failure_only():
    """What failed otherwise may be another thread's, which waits for it."""
    w = td.ones(3, requires_grad=True)
    loss, other = (w * w).sum(), (w * 2).sum()
    td.autograd.grad(loss, w)
    failed = td.ones(2)[td.tensor([5])]
    assert td.autograd.grad(other, w)[0].tolist() == [2, 2, 2]
    with pytest.raises(td.AutogradError, match="second time"):
        td.autograd.grad(loss, w)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        failed.tolist()
    td.sync()


@pytest.mark.parametrize("call", ["td.optim.SGD([3], lr=1)", "td.Queue('q', on_death=3)", "td.data.SharedDict({object(): 1})", "td.save(object(), __import__('io').BytesIO(), format='safetensors')", "td.Queue('q', [])"])
def test_a_type_is_named_with_its_article(call):
    with pytest.raises(TypeError) as e:
        eval(call, {"td": td, "object": type("object", (), {})})
    assert re.search(r"not (an (int|object)|a list)\b", str(e.value)), e.value


# ---- under the name that was called

F = td.nn.functional
NAMED = {
    "max_pool1d(): 'kernel' must be at least 1": lambda: F.max_pool1d(td.ones(1, 1, 4), 0),
    "max_pool3d(): 'padding' must be at least 0": lambda: F.max_pool3d(td.ones(1, 1, 4, 4, 4), 2, padding=-1, return_indices=True),
    "avg_pool1d(): 'padding' must be at least 0": lambda: F.avg_pool1d(td.ones(1, 1, 4), 2, padding=-1),
    "adaptive_max_pool1d() argument 'output_size' should contain one int (got 0)": lambda: F.adaptive_max_pool1d(td.ones(1, 1, 4), ()),
    "adaptive_avg_pool1d() argument 'output_size' should contain one int (got 2)": lambda: F.adaptive_avg_pool1d(td.ones(1, 1, 4), (1, 2)),
    "adaptive_max_pool2d(): elements of output_size must be greater than or equal to 0": lambda: F.adaptive_max_pool2d(td.ones(1, 1, 4, 4), (-1, 2)),
    "logspace(): number of 'steps' must be non-negative": lambda: td.logspace(0, 1, -1),
    "logspace only supports 0-dimensional start and end tensors, but got start with 1 dimension(s) and end with 0": lambda: td.logspace(td.ones(2), 1, 3),
    "linspace only supports 0-dimensional start and end tensors, but got start with 0 dimension(s) and end with 1": lambda: td.linspace(0, td.ones(2), 3),
    "bucketize(): boundaries tensor must be 1 dimension, but got dim(2)": lambda: td.bucketize(td.ones(3), td.ones(2, 2)),
    "gradient(): dim 1 appears multiple times": lambda: td.gradient(td.ones(3, 3), dim=(1, -1)),
    "gradient() only supports edge_order=1 and edge_order=2, not 3": lambda: td.gradient(td.ones(3), edge_order=3),
    "gradient(): expected spacing to be unspecified, a scalar, or one for each dimension": lambda: td.gradient(td.ones(3, 3), spacing=(1.0,)),
    "greater(): The size of tensor a (2)": lambda: td.greater(td.ones(2), td.ones(3)),
    "take(): unsupported operation: more than one element of the written-to tensor": lambda: td.take(td.ones(6), td.tensor([1, 2]), out=td.ones(1).expand(2)),
    "masked_select(): unsupported operation: more than one element of the written-to tensor":
        lambda: td.masked_select(td.ones(2), td.tensor([True, True]), out=td.ones(1).expand(2)),
    "index_select(): unsupported operation: more than one element of the written-to tensor":
        lambda: td.index_select(td.ones(3, 6), 1, td.tensor([0, 1]), out=td.ones(1, 6).expand(2, 6)),
    "aminmax(): Expected reduction dim to be specified": lambda: td.aminmax(td.ones(0)),
    "multi_margin_loss(): weight must be one-dimensional": lambda: F.multi_margin_loss(td.ones(2, 3), td.tensor([0, 1]), weight=td.ones(2, 3)),
    "multi_margin_loss(): Expected non-empty vector or matrix with optional 0-dim batch size, but got: [2, 0]": lambda: F.multi_margin_loss(td.ones(2, 0), td.tensor([0, 1])),
    "multi_margin_loss(): target tensor should be 1-D with size equal to the number of input samples": lambda: F.multi_margin_loss(td.ones(2, 3), td.tensor([0])),
    "multilabel_margin_loss(): Expected non-empty vector or matrix": lambda: F.multilabel_margin_loss(td.ones(0), td.ones(0, dtype=td.int64)),
    "triplet_margin_with_distance_loss(): The anchor, positive, and negative tensors": lambda: F.triplet_margin_with_distance_loss(td.ones(3), td.ones(3, 4), td.ones(3, 4)),
    "narrow() cannot be applied to a 0-dim tensor": lambda: td.tensor(1.0).narrow(0, 0, 1),
    "narrow(): start out of range (expected to be in range of [-3, 3], but got -4)": lambda: td.ones(3).narrow(0, -4, 1),
    "narrow(): length must be non-negative": lambda: td.ones(3).narrow(0, 0, -1),
    "narrow(): start (1) + length (3) exceeds dimension size (3)": lambda: td.ones(3).narrow(0, 1, 3),
    "layer_norm(): Given normalized_shape=[2], expected input with shape [*, 2], but got input of size[2, 3]": lambda: F.layer_norm(td.ones(2, 3), (2,)),
    "general_cosine(): Coefficients must be a list/tuple": lambda: td.signal.windows.general_cosine(3, a=None),
}


@pytest.mark.parametrize("text", NAMED)
def test_under_the_name_that_was_called(text):
    with pytest.raises(td.Error, match=re.escape(text)):
        NAMED[text]()


def test_written_to_what_is_read():
    x, y = td.ones(0), td.ones(4, 6)
    for out in (x, y):
        with pytest.raises(td.InvalidError, match="some elements of the input tensor and the written-to tensor refer to a single memory location"):
            td.cat((x, y), 0, out=out)
    assert td.cat((x, y), 0, out=td.ones(0)).shape == (4, 6)


@pytest.mark.parametrize("call, name", [(lambda: td.svd(td.ones(3)), "svd"), (lambda: td.ones(3).pinverse(), "pinverse"), (lambda: td.qr(td.ones(3)), "qr"),
                                        (lambda: td.ones(4).split_with_sizes([1, 2]), "split_with_sizes"), (lambda: td.clip(td.ones(3), td.ones(4)), "clip")])
def test_other_names_of_functions_are_those_that_were_called(call, name):
    with pytest.raises(td.Error, match=rf"^{name}\(\): "):
        call()


@pytest.mark.parametrize("name", ["inv", "cholesky", "det", "slogdet"])
def test_programs_name_what_users_know(name):
    """They are made of ops with names of their own."""
    function = getattr(td.linalg, name)
    program, bad = td.jit.trace(lambda x: function(x), td.eye(2)), td.zeros(2, 3) if "det" in name else -td.ones(2, 2)
    with pytest.raises(td.Error, match=rf"^linalg\.{name}\(\): "):
        td.Tensor.tolist(program(bad) if name != "slogdet" else program(bad)[0])


@pytest.mark.parametrize("call, name, said", [("td.ones(2).numpy()", "numpy", "this wants NumPy"), ("td.Queue('q', 1, out='torch')", "torch", "out='torch' asks for tensors of PyTorch"),
                                              ("import tensord.torch", "torch", "tensord.torch is for programs that use PyTorch")])
def test_packages_that_are_missing_are_named_with_the_way_to_get_them(call, name, said):
    run = script(f"""
        import sys
        import tensord as td
        sys.modules["{name}"] = None
        try:
            {call}
        except ModuleNotFoundError as e:
            print(e.name, e)
    """)
    assert run.stdout.startswith(f"{name} {said}, which is not there for {sys.executable}: install python3-{name} (Debian), or pip install {name}"), run.stderr


def test_a_daemon_without_descriptors_says_so_and_goes_on(tmp_path):
    pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
    with daemon(str(tmp_path)) as d:
        run = script("""
            import os, resource
            import tensord as td
            pid = int(os.environ["ITS_PID"])
            x = td.ones(5, device="cpu") * 3
            td.sync()
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
            try:
                print(x.numpy())
            except td.Busy as e:
                print(e)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            print(x.numpy().tolist())
        """, env={**os.environ, "TENSORD_SOCKET": d.path, "ITS_PID": str(d.pid)})
    assert run.returncode == 0, run.stderr
    said, then = run.stdout.splitlines()
    assert re.match(r"numpy\(\): no descriptor came for segment \d+: the daemon has none left to send", said) and then == "[3.0, 3.0, 3.0, 3.0, 3.0]", run.stderr
