"""The package on a GPU of the fake driver: one tensor in two processes without a copy, by both kinds of handle; what other libraries take; tensord.cuda."""
import ctypes
import functools
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import tensord as td
import tensord.nn.functional as F
from common import SLOW, daemon

pytestmark = pytest.mark.skipif("TENSORD_LIBCUDA" not in os.environ, reason="it needs the fake driver")

# What a library of CUDA does with an address. Run by the other process, too.
DRIVER = '''
import ctypes, os
_library = ctypes.CDLL(os.environ["TENSORD_LIBCUDA"])


def call(name, version, *args):
    f, status = ctypes.c_void_p(), ctypes.c_int()
    assert _library.cuGetProcAddress_v2(name.encode(), ctypes.byref(f), version, ctypes.c_ulonglong(0), ctypes.byref(status)) == 0
    assert ctypes.CFUNCTYPE(ctypes.c_int)(f.value)(*args) == 0, name


def current():
    call("cuInit", 2000, 0)
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", 7000, ctypes.byref(context), 0)
    call("cuCtxSetCurrent", 4000, context)


def write(at, values):
    data = (ctypes.c_float * len(values))(*values)
    call("cuMemcpyHtoD", 3020, ctypes.c_ulonglong(at), data, ctypes.c_size_t(ctypes.sizeof(data)))


def read(at, n):
    data = (ctypes.c_float * n)()
    call("cuMemcpyDtoH", 3020, data, ctypes.c_ulonglong(at), ctypes.c_size_t(ctypes.sizeof(data)))
    return list(data)
'''
OTHER = DRIVER + '''
import tensord as td
t = td.open("shared")
i = t.__cuda_array_interface__
current()
print(t.is_cuda, i["shape"], i["strides"], i["typestr"], i["data"][1], read(i["data"][0], 6))
write(i["data"][0] + 4, [9])
'''
here = {}
exec(DRIVER if "TENSORD_LIBCUDA" in os.environ else "", here)


@pytest.fixture(params=["vmm", "ipc"])
def handles(request, tmp_path, monkeypatch):
    """Their kind; this process is connected to a daemon of that."""
    with daemon(str(tmp_path), "--cuda-handles", request.param) as d:
        monkeypatch.setenv("TENSORD_SOCKET", d.path)
        td.connect(d.path)
        yield request.param
        td.disconnect()


def test_another_process_writes(handles):
    t = td.arange(6., device="cuda").reshape(2, 3).publish("shared")
    said = subprocess.run([sys.executable, "-c", OTHER], capture_output=True, text=True, timeout=100)
    assert said.returncode == 0, said.stderr
    assert said.stdout == "True (2, 3) (12, 4) <f4 False [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]\n"
    assert t.tolist() == [[0, 9, 2], [3, 4, 5]] and t.sum().item() == 23
    td.drop("shared")
    assert td.status("devices")[1]["handles"] == handles


def test_what_other_libraries_take(handles):
    t = td.arange(6., device="cuda")
    here["current"]()
    assert t.is_cuda and not t.is_cpu and t.__dlpack_device__() == (2, 0)
    assert t[2:].t().__cuda_array_interface__["data"][0] == t.__cuda_array_interface__["data"][0] + 8
    managed = ctypes.pythonapi.PyCapsule_GetPointer
    managed.restype, managed.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = t.__dlpack__(stream=1)
    at, kind, number = (ctypes.cast(managed(capsule, b"dltensor") + k, ctypes.POINTER(c)).contents.value for k, c in ((0, ctypes.c_uint64), (8, ctypes.c_int32), (12, ctypes.c_int32)))
    address = t.__cuda_array_interface__["data"][0]
    assert (at, kind, number) == (address, 2, 0)
    del t  # the capsule keeps it
    assert here["read"](address, 6) == [0, 1, 2, 3, 4, 5]
    del capsule
    assert td.cuda.memory_allocated() == 0
    with pytest.raises(AttributeError, match="lies on no GPU"):
        td.ones(2).__cuda_array_interface__
    with pytest.raises(RuntimeError, match="detach"):
        td.ones(2, device="cuda", requires_grad=True).__cuda_array_interface__
    with pytest.raises(td.Unsupported, match="bfloat16"):
        td.ones(2, device="cuda").to(td.bfloat16).__cuda_array_interface__
    with pytest.raises(BufferError, match="cpu"):
        td.ones(2, device="cuda").__dlpack__(dl_device=(1, 0))
    assert td.ones(0, 3, device="cuda").__cuda_array_interface__["data"] == (0, False)


def test_words(handles):
    assert td.cuda.is_available() and td.cuda.device_count() == 1
    assert td.cuda.get_device_name() == "fake driver, no GPU" == td.cuda.get_device_name("cuda:0")
    x = td.ones(2).cuda()
    assert x.is_cuda and td.nn.Linear(2, 3).cuda()(x).device == td.device("cuda:0") == td.ones(1).cuda(0).device
    del x
    td.cuda.synchronize()
    free, total = td.cuda.mem_get_info()
    assert free == total > 0 == td.cuda.memory_allocated()
    with pytest.raises(td.Unsupported, match="cuda:1"):
        td.cuda.get_device_name(1)


def test_what_pytorch_gives_too(handles):
    """Indices on the cpu, masks with a number behind them, numpy(force=True), addresses, places of a triangle."""
    x, here = td.arange(6., device="cuda").reshape(2, 3), td.arange(6.).reshape(2, 3)
    assert x.numpy(force=True).tolist() == here.tolist() == x.detach().requires_grad_().numpy(force=True).tolist()
    assert x[td.tensor([1])].tolist() == [[3, 4, 5]] and x[:, td.tensor([2, 0])].device == x.device
    for value in (-1, td.tensor(-1.), td.tensor(-1., device="cuda"), x[0, 1]):
        for mask in (here > 2, x > 2):
            y, expected = x.clone(), here.clone()
            y[mask] = value
            expected[here > 2] = float(value)
            assert y.tolist() == expected.tolist()
    y = x.clone()
    y[:, td.tensor([True, False, True])] = y[1, 1]  # of its own memory
    y[td.tensor([0])] = td.tensor(7.)
    assert y.tolist() == [[7, 7, 7], [4, 4, 4]]
    number, base = td.tensor(3., device="cuda", requires_grad=True), x.clone().requires_grad_()
    y = base * 1
    y[y > 2] = number
    y.sum().backward()
    assert number.grad.item() == 3 and base.grad.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert x.data_ptr() == x.__cuda_array_interface__["data"][0] and x[1].data_ptr() == x.data_ptr() + 12 and td.ones(0, device="cuda").data_ptr() == 0
    assert x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert td.triu_indices(3, 3, 1, device="cuda").tolist() == td.triu_indices(3, 3, 1).tolist() and td.tril_indices(2, 2, device="cuda").is_cuda
    assert td.accelerator.is_available() and td.accelerator.current_accelerator().type == "cuda" and td.accelerator.device_count() == 1


def test_gradients_lie_where_tensors_do(handles):
    x = td.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(td.InvalidError, match=r"backward\(\): Mismatch in device: grad_output\[0\] is on cpu and output\[0\] on cuda:0"):
        (x * 2).backward(td.ones(2))
    with pytest.raises(td.InvalidError, match="assigned grad is on cpu, and the tensor on cuda:0"):
        x.grad = td.ones(2)
    (x * 2).sum().backward(td.tensor(3.))  # a number may lie anywhere
    assert x.grad.tolist() == [6, 6] and x.grad.is_cuda
    assert td.autograd.gradcheck(lambda y: (y * y).sin(), x.detach().double().requires_grad_())
    assert td.autograd.gradgradcheck(lambda y: y * y * y, x.detach().double().requires_grad_())


def test_a_forked_process(handles):
    """It computes there by way of the daemon; its parent's addresses are none of its own."""
    x = td.arange(6., device="cuda")
    assert x.__cuda_array_interface__["data"][0]
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            said = f"{(x * 2).sum().item()} "
            x.__cuda_array_interface__
        except td.DeviceFailed as e:
            said += str(e)
        os.write(w, said.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(r, 1000).decode()
    os.close(r)
    os.close(w)
    assert said.startswith("30.0 ") and "forked after its parent had opened the CUDA driver" in said


ASKS = """
import sys
import tensord as td
x = td.ones(5, device="cuda")
assert x.sum().item() == 5
print("here", flush=True)
sys.stdin.readline()
y = x * 2
td.status()  # it has arrived
print("asked", flush=True)
try:
    print(y.tolist())
except td.DeviceFailed as e:
    print(str(e).splitlines()[0])
"""


def test_all_that_wait_are_told_when_the_gpu_s_process_dies(tmp_path):
    """Two programs' ops go in two streams of it."""
    with daemon(str(tmp_path)) as d:
        others = [subprocess.Popen([sys.executable, "-c", ASKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "TENSORD_SOCKET": d.path}) for _ in range(2)]
        try:
            assert [p.stdout.readline() for p in others] == ["here\n"] * 2
            (pid,) = [int(child) for thread in pathlib.Path(f"/proc/{d.pid}/task").iterdir() for child in (thread / "children").read_text().split()]
            os.kill(pid, signal.SIGSTOP)
            for p in others:
                p.stdin.write("\n"), p.stdin.flush()
            assert [p.stdout.readline() for p in others] == ["asked\n"] * 2
            os.kill(pid, signal.SIGKILL)
            for p in others:
                assert f"cuda:0 has failed: its process ({pid}) has gone" in p.communicate(timeout=60 * SLOW)[0]
        finally:
            for p in others:
                p.kill(), p.communicate()


def test_no_driver_here(handles):
    x = td.ones(2, device="cuda")
    code = "import tensord as td; t = td.open('shared'); t.__cuda_array_interface__"
    x.publish("shared")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, env=dict(os.environ, TENSORD_LIBCUDA="/nowhere"))
    assert said.returncode and "cannot be mapped here: no CUDA driver: /nowhere" in said.stderr and "copy the tensor to the cpu first" in said.stderr
    td.drop("shared")


def test_libraries_of_packages(tmp_path, monkeypatch):
    """A daemon that is started here looks for cuBLASLt in the packages nvidia-*, which nobody imports; what the environment says comes first."""
    site = tmp_path / "site" / "nvidia"
    for part in ("cublas", "cu13"):
        (site / part / "lib").mkdir(parents=True)
    os.symlink(os.path.join(os.environ["FAKE_CUDA_LIBRARIES"], "libcublasLt.so.13"), site / "cublas" / "lib" / "libcublasLt.so.13")
    code = ("import sys, tensord as td; td.ones(3, device='cuda').sum().item(); print(td.status('devices')[1]['library']); "
            "from tensord.share._launch import cuda_libraries; print(cuda_libraries()); print(any(m.startswith('nvidia') for m in sys.modules))")
    env = {k: v for k, v in os.environ.items() if k not in ("TENSORD_SOCKET", "TENSORD_CUDA_LIBRARIES")}
    env |= {"PYTHONPATH": f"{site.parent}:{env.get('PYTHONPATH', '')}", "XDG_RUNTIME_DIR": str(tmp_path)}
    run = functools.partial(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    said = run(env=env)
    assert said.returncode == 0, said.stderr
    library, places, imported = said.stdout.splitlines()
    assert library.startswith(f"cublasLt 13.0.0 ({site}"[:100]) and imported == "False", library
    assert places == f"{site}/cu13/lib:{site}/cublas/lib"
    said = run(env=env | {"TENSORD_CUDA_LIBRARIES": "off"})
    assert said.returncode == 0 and said.stdout.splitlines()[0] == "", said.stdout + said.stderr


ERRORS = {
    "index_select": lambda z, i: td.index_select(z, 0, i([0, 7, 9])),
    "negative": lambda z, i: td.index_select(z, 1, i([0, 1, -3])),
    "gather": lambda z, i: td.gather(z, 1, i([[0, 1], [2, 5], [9, 9]])),
    "embedding": lambda z, i: td.nn.functional.embedding(i([[0, 1], [4, 6]]), z),
    "index_add": lambda z, i: td.index_add(z, 1, i([0, 5]), z[:, :2]),
    "scatter_add rows": lambda z, i: td.scatter_add(z, 0, i([[0, 1, 2], [3, 8, 1]]), z),
    "scatter_add": lambda z, i: td.scatter_add(z, 1, i([[0, 1, 2], [3, 8, 1]]), z),
    "scatter": lambda z, i: td.scatter(z, 1, i([[0, 1, 2], [3, 8, 1]]), z),
    "index": lambda z, i: z[i([0, 4, -1]), i([2, -3, -4])],
    "index_put": lambda z, i: td.index_put(z, (i([[0], [5]]), i([1, 2])), td.ones(2, 2, device=z.device)),
    "bernoulli": lambda z, i: td.bernoulli(z + 2),
    "nll_loss": lambda z, i: td.nn.functional.nll_loss(z, i([0, 1, 2, 3, 0])),
    "division": lambda z, i: i([1, 2]) // i([1, 0]),
}


def test_a_gpu_that_cannot_be_used_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORD_CUDA_KERNELS", str(tmp_path / "none.so"))
    with daemon(str(tmp_path), "--memory", "128M") as d:
        td.connect(d.path)
        for _ in range(2):
            with pytest.raises(td.DeviceFailed, match="cuda:0 cannot be used: TENSORD_CUDA_KERNELS cannot be read: .*none.so"):
                td.ones(3, device="cuda:0").sum().item()
        assert td.ones(3).sum().item() == 3
        td.disconnect()


def test_errors_have_the_words_of_the_cpu(handles):
    for name, call in ERRORS.items():
        said = []
        for device in ("cpu", "cuda"):
            with pytest.raises(td.Error) as e:
                call(td.zeros(5, 3, device=device), lambda v: td.tensor(v, device=device)).sum().item()
            said.append((type(e.value), str(e.value).split("\n")[0]))
        assert said[0] == said[1], name


def test_mixed_precision(handles, recwarn):
    """As on the cpu, and of tensors there alone."""
    seen = []
    for device in ("cpu", "cuda"):
        td.manual_seed(3)
        net, x, t = td.nn.Sequential(td.nn.Linear(6, 8), td.nn.Tanh(), td.nn.Linear(8, 3)).to(device), td.randn(16, 6).to(device), td.randint(0, 3, (16,)).to(device)
        optimizer, scaler = td.optim.SGD(net.parameters(), lr=0.1), td.amp.GradScaler(device)
        for _ in range(4):
            optimizer.zero_grad()
            with td.autocast(device, td.float16):
                assert td.is_autocast_enabled(device) and td.get_autocast_dtype(device) == td.float16 and net(x).dtype == td.float16
                loss = F.cross_entropy(net(x), t)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert scaler.is_enabled() and loss.dtype == td.float32 and scaler.get_scale() == 65536
        seen.append(loss.item())
    assert seen[0] == pytest.approx(seen[1], abs=2e-3)
    near, far = td.ones(2, 2), td.ones(2, 2, device="cuda")
    with td.cuda.amp.autocast():
        assert (far @ far).dtype == td.float16 and (near @ near).dtype == td.float32
        with td.autocast("cpu"), td.autocast("cuda", enabled=False):
            assert (far @ far).dtype == td.float32 and (near @ near).dtype == td.bfloat16
    assert (far @ far).dtype == td.float32 and not td.is_autocast_enabled() and not recwarn.list


# ---- small networks: inputs are drawn on the CPU, so that both devices get the same

def mlp(place):
    net = [place(td.randn(*s) * 0.3).requires_grad_() for s in ((20, 32), (32,), (32, 1), (1,))]
    x, y = place(td.randn(64, 20)), place(td.randn(64, 1))
    yield td.optim.SGD(net, lr=0.05)
    while True:
        yield F.mse_loss(td.relu(x @ net[0] + net[1]) @ net[2] + net[3], y)


def cnn(place):
    net = [place(td.randn(*s) * 0.2).requires_grad_() for s in ((4, 1, 3, 3), (4,), (10, 100), (10,))]
    x, y = place(td.randn(8, 1, 12, 12)), place(td.randint(0, 10, (8,)))
    yield td.optim.SGD(net, lr=0.02, momentum=0.5)
    while True:
        h = F.max_pool2d(td.relu(F.conv2d(x, net[0], net[1])), 2)
        yield F.cross_entropy(F.linear(h.flatten(1), net[2], net[3]), y)


def gpt(place, letters=17, batch=2, long=9, wide=16, heads=2):
    """One block over letters: attention that looks back, and what is usual beside it."""
    tok, pos, qkv, out, up, down, gain, head = net = [
        place(td.randn(*s) * 0.2).requires_grad_()
        for s in ((letters, wide), (long, wide), (3 * wide, wide), (wide, wide), (4 * wide, wide), (wide, 4 * wide), (wide,), (letters, wide))]
    text = td.randint(0, letters, (200,))
    yield td.optim.AdamW(net, lr=1e-2)
    while True:
        at = td.randint(0, 200 - long - 1, (batch,)).tolist()
        x, y = (place(td.stack([text[i + k:i + k + long] for i in at])) for k in (0, 1))
        h = F.embedding(x, tok) + pos
        q, k, v = F.linear(F.layer_norm(h, (wide,), gain), qkv).reshape(batch, long, 3, heads, wide // heads).permute(2, 0, 3, 1, 4).unbind(0)
        h = h + F.linear(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, long, wide), out)
        h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, (wide,)), up)), down)
        yield F.cross_entropy(F.linear(h, head).reshape(-1, letters), y.reshape(-1))


@pytest.mark.parametrize("net", [mlp, cnn, gpt])
def test_small_networks_train(net, tmp_path):
    """Losses beside the CPU's, and the same bits the second time."""
    def losses(device):
        td.manual_seed(3)
        steps = net(lambda t: t.to(device).detach())
        optimizer, seen = next(steps), []
        for _ in range(20):
            loss = next(steps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        return seen

    with daemon(str(tmp_path)) as d:
        td.connect(d.path)
        here, there, again = losses("cpu"), losses("cuda"), losses("cuda")
        assert there == again
        assert max(abs(a - b) / abs(a) for a, b in zip(here, there)) < 1e-6
        td.disconnect()
