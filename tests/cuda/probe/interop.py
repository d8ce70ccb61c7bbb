#!/usr/bin/env python3
"""Questions 11 and 14: torch and CuPy over memory of another process, and torch's memory in a process without torch.

Each runs in a process of its own with a limit; what is not importable is said. Prints a line each; exit 77 without a driver."""
import ctypes
import os
import socket
import subprocess
import sys
import time

MIB = 1 << 20
ARENA = 64 * MIB
try:
    cu = ctypes.CDLL(os.environ.get("TENSORD_LIBCUDA", "libcuda.so.1"))
except OSError as e:
    print(f"SKIP no CUDA device: {e}")
    sys.exit(77)

u64, size, ptr = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p


def call(name, *args):
    err = getattr(cu, name)(*args)
    if err:
        word = ctypes.c_char_p()
        cu.cuGetErrorName(err, ctypes.byref(word))
        raise RuntimeError(f"{name.removesuffix('_v2')}: {(word.value or b'?').decode()}")


class Prop(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("where", ctypes.c_int), ("id", ctypes.c_int), ("win32", ptr),
                ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("where", ctypes.c_int), ("id", ctypes.c_int), ("flags", ctypes.c_int)]


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


def open_device():
    ctx, device = ptr(), ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), device)
    call("cuCtxSetCurrent", ctx)


def map_handle(handle):
    at = u64()
    call("cuMemAddressReserve", ctypes.byref(at), size(ARENA), size(0), u64(0), u64(0))
    call("cuMemMap", at, size(ARENA), size(0), handle, u64(0))
    call("cuMemSetAccess", at, size(ARENA), ctypes.byref(Access(1, 0, 3)), size(1))
    return at.value


def owner(sock):
    """Makes an arena of ones, hands its descriptor over, looks at it when told."""
    open_device()
    handle, fd = u64(), ctypes.c_int()
    call("cuMemCreate", ctypes.byref(handle), size(ARENA), ctypes.byref(Prop(1, 1, 1, 0)), u64(0))
    at = map_handle(handle)
    call("cuMemsetD32_v2", u64(at), ctypes.c_uint(0x3f800000), size(ARENA // 4))
    call("cuCtxSynchronize")
    call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, 1, u64(0))
    socket.send_fds(sock, [b"arena"], [fd.value])
    while sock.recv(16):
        two = (ctypes.c_float * 2)()
        call("cuMemcpyDtoH_v2", two, u64(at + ARENA - 8), size(8))
        sock.send(repr(list(two)).encode())


def opener(sock):
    """Opens a legacy handle, and says what lies there; without torch."""
    open_device()
    data = sock.recv(200)
    if not data:
        return
    at, offset = u64(), int.from_bytes(data[64:72], "little")
    try:
        call("cuIpcOpenMemHandle_v2", ctypes.byref(at), Handle.from_buffer_copy(data[:64].ljust(64, b"\0")), 1)
        four = (ctypes.c_float * 4)()
        call("cuMemcpyDtoH_v2", four, u64(at.value + offset), size(16))
        answer = repr(list(four))
        call("cuMemcpyHtoD_v2", u64(at.value + offset), (ctypes.c_float * 1)(9), size(4))
        call("cuCtxSynchronize")
        call("cuIpcCloseMemHandle", at)
    except RuntimeError as e:
        answer = str(e)
    sock.send(answer.encode())
    sock.recv(16)


def peer(mode):
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    p = subprocess.Popen([sys.executable, __file__, mode, str(other.fileno())], pass_fds=[other.fileno()])
    other.close()
    return p, mine


class Memory:
    """Device memory as __cuda_array_interface__ shows it."""

    def __init__(self, at, shape, keep=None):
        self.keep = keep
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (at, False), "version": 3, "strides": None,
                                         "stream": None}


def imported():
    p, sock = peer("owner")
    _, fds, _, _ = socket.recv_fds(sock, 100, 1)
    handle = u64()
    call("cuMemImportFromShareableHandle", ctypes.byref(handle), ptr(fds[0]), 1)
    os.close(fds[0])
    return p, sock, handle, map_handle(handle)


def ask_torch():
    import torch
    torch.zeros(1, device="cuda")
    p, sock, handle, at = imported()
    n = ARENA // 4
    memory = Memory(at, (n,))
    t = torch.as_tensor(memory, device="cuda")
    say = [f"torch {torch.__version__} sum {t.double().sum().item() == n}, same address {t.data_ptr() == at}"]
    t.add_(1)
    torch.cuda.synchronize()
    sock.send(b"look")
    say.append(f"the owner sees {sock.recv(100).decode()}")
    d = torch.from_dlpack(t)
    say.append(f"dlpack {d.data_ptr() == at}")
    m = torch.mm(t[:1 << 20].view(1024, 1024), t[:1 << 20].view(1024, 1024))
    say.append(f"cublas over it {m[0, 0].item() == 4096}")
    sock.close()
    p.wait()
    t.mul_(2)
    say.append(f"owner ended: {t[:2].tolist()}")
    del t, d, m
    torch.cuda.synchronize()
    call("cuMemUnmap", u64(at), size(ARENA))
    call("cuMemRelease", handle)
    say.append(f"unmapped after the tensor: torch goes on {torch.ones(3, device='cuda').sum().item()}")
    return "; ".join(say)


def ask_early():
    """Unmapped while a tensor is alive: dropping the tensor, and using it."""
    import torch
    torch.zeros(1, device="cuda")
    p, sock, handle, at = imported()
    t = torch.as_tensor(Memory(at, (ARENA // 4,)), device="cuda")
    other = torch.as_tensor(Memory(at, (4,)), device="cuda")
    torch.cuda.synchronize()
    call("cuMemUnmap", u64(at), size(ARENA))
    call("cuMemRelease", handle)
    del other
    say = [f"dropped after the unmapping: torch goes on {torch.ones(3, device='cuda').sum().item()}"]
    try:
        say.append(f"used after it: {t.sum().item()}")
    except Exception as e:
        say.append(f"used after it: {str(e).splitlines()[0][:90]}")
    sock.close()
    return "; ".join(say)


def ask_cupy():
    import cupy
    cupy.zeros(1)
    p, sock, handle, at = imported()
    a = cupy.asarray(Memory(at, (ARENA // 4,)))
    say = [f"cupy {cupy.__version__} sum {float(a.sum(dtype='f8')) == ARENA // 4}, same address {a.data.ptr == at}"]
    a += 2
    cupy.cuda.Device().synchronize()
    sock.send(b"look")
    say.append(f"the owner sees {sock.recv(100).decode()}")
    sock.close()
    return "; ".join(say)


def ask_legacy(kind):
    import torch
    t = torch.arange(5000000, dtype=torch.float32, device="cuda")[8:]
    torch.cuda.synchronize()
    p, sock = peer("opener")
    handle, base, whole = Handle(), u64(), size()
    say = [kind]
    try:
        call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(whole), u64(t.data_ptr()))
        call("cuIpcGetMemHandle", ctypes.byref(handle), u64(t.data_ptr()))
        sock.send(bytes(handle) + (t.data_ptr() - base.value).to_bytes(8, "little"))
        say.append(f"at {t.data_ptr() - base.value} of {whole.value}: {sock.recv(300).decode()}, written back {t[0].item()}")
    except RuntimeError as e:
        say.append(str(e))
    sock.close()
    return "; ".join(say)


def libraries():
    """Where the wheels' libraries lie."""
    import importlib.util
    import glob
    found = []
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations if spec else []:
        for name in ("cublasLt", "cublas", "cudnn", "nvrtc", "nvrtc-builtins", "nccl", "cusolver", "cufft", "nvJitLink"):
            found += glob.glob(f"{root}/*/lib/lib{name}.so*")
    return "; ".join(found)


QUESTIONS = {"11a": ("torch over imported memory", ask_torch), "11b": ("unmapped under torch", ask_early), "11c": ("CuPy over imported memory", ask_cupy),
             "14a": ("torch's memory by legacy handle", lambda: ask_legacy("cudaMalloc")),
             "14b": ("... with expandable segments", lambda: ask_legacy("expandable")), "lib": ("libraries of wheels", libraries)}


def main():
    if len(sys.argv) > 2:
        sock = socket.socket(fileno=int(sys.argv[2]))
        {"owner": owner, "opener": opener}[sys.argv[1]](sock)
        return 0
    if len(sys.argv) == 2:
        try:
            print(QUESTIONS[sys.argv[1]][1](), flush=True)
        except ImportError as e:
            print(f"skip: {e}", flush=True)
            os._exit(2)
        except Exception as e:
            print(f"{type(e).__name__}: {e}", flush=True)
            os._exit(1)
        os._exit(0)
    started = time.monotonic()
    running = {}
    for number in QUESTIONS:
        env = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True") if number == "14b" else None
        running[number] = subprocess.Popen([sys.executable, __file__, number], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                           env=env, start_new_session=True)
    for number, p in running.items():
        try:
            text, _ = p.communicate(timeout=max(1, 60 - (time.monotonic() - started)))
            word = {0: "yes", 2: "skip"}.get(p.returncode, "no")
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, 9)
            text, word = p.communicate()[0], "HANGS"
        print(f"{number:3} {QUESTIONS[number][0]:44} {word:6} {' | '.join(text.strip().splitlines())}", flush=True)
    return 0


sys.exit(main())
