"""tensord.multiprocessing, and modules by the names of torch.nn.parallel: what processes share, how they fail, what they had asked for when they end."""
import os
import pickle
import signal
import sys
import time

import pytest
import tensord as td
import tensord.multiprocessing as mp

try:
    import torch
    import torch.multiprocessing as their_mp
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not there (Debian: python3-torch)")
STARTS = ["spawn", "fork", "forkserver"]


def write(rank, rows, model):
    rows[rank] = rank + 1
    rows[rank] *= 2
    model(td.ones(1, 2)).sum().backward()
    with td.no_grad():
        model.bias += model.bias.grad


def fail(rank, how):
    if rank == 1 and how == "raise":
        raise ValueError("of one's own")
    if rank == 1 and how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and how == "exit":
        os._exit(7)
    if rank == 1 and how == "sys.exit":
        sys.exit(3)
    if rank == 1 and how == "long":
        raise ValueError("x" * 200_000)
    time.sleep(10_000)  # nobody waits for the end of that


def fill(t, value):
    t.fill_(value)
    t.add_(1)


def doubled(t):
    return t * 2


def relay(source, target):
    target.put({"doubled": source.get() * 2})


@pytest.mark.parametrize("start", STARTS)
def test_processes_write_to_what_they_are_given(start):
    rows, model = td.zeros(3, 4), td.nn.Linear(2, 1).share_memory()
    before = model.bias.item()
    assert mp.start_processes(write, (rows, model), nprocs=3, start_method=start) is None
    assert rows.tolist() == [[2.0] * 4, [4.0] * 4, [6.0] * 4]
    assert model.bias.item() > before and (start == "fork") == (model.bias.grad is not None)


@pytest.mark.parametrize("start", STARTS)
def test_what_a_process_asked_for_is_done_when_it_has_ended(start):
    t = td.zeros(1000)
    process = mp.get_context(start).Process(target=fill, args=(t, 4.0))
    process.start()
    process.join()
    assert process.exitcode == 0 and t.sum().item() == 5000


def test_pools_and_queues_carry_tensors():
    with mp.get_context("spawn").Pool(2) as pool:
        got = pool.map(doubled, [td.ones(3), td.arange(3)])
    assert [x.tolist() for x in got] == [[2, 2, 2], [0, 2, 4]]
    context = mp.get_context("fork")
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=relay, args=(there, back))
    process.start()
    there.put(td.tensor([1.5]))
    assert back.get()["doubled"].item() == 3
    process.join()
    assert isinstance(mp.Queue(), type(there)) and mp.cpu_count() >= 1


FAILURES = [("raise", "ProcessRaisedException", {}, "ValueError: of one's own"), ("kill", "ProcessExitedException", {"exit_code": -9, "signal_name": "SIGKILL"}, "process 1 was ended by SIGKILL"),
            ("exit", "ProcessExitedException", {"exit_code": 7, "signal_name": None}, "process 1 ended with exit code 7"),
            ("sys.exit", "ProcessExitedException", {"exit_code": 3, "signal_name": None}, "process 1 ended with exit code 3")]


@pytest.mark.parametrize("how, kind, has, said", FAILURES)
def test_the_first_that_fails_ends_the_others(how, kind, has, said):
    for lib in (mp,) if torch is None else (mp, their_mp):
        context = lib.start_processes(fail, (how,), nprocs=3, join=False, start_method="fork")
        with pytest.raises(Exception) as e:
            while not context.join():
                pass
        assert type(e.value).__name__ == kind and e.value.error_index == 1
        assert getattr(e.value, "pid" if hasattr(e.value, "pid") else "error_pid") == context.pids()[1]
        assert all(getattr(e.value, k) == v for k, v in has.items())
        assert not any(process.is_alive() for process in context.processes)
        assert lib is not mp or said in str(e.value)
        again = pickle.loads(pickle.dumps(e.value)) if lib is mp else e.value
        assert str(again) == str(e.value) and vars(again) == vars(e.value)


def test_an_error_as_long_as_a_book_is_told():
    with pytest.raises(mp.ProcessRaisedException, match="x" * 1000):
        mp.start_processes(fail, ("long",), nprocs=2, start_method="fork")


def test_joining_in_steps():
    context = mp.start_processes(fail, ("none",), nprocs=2, join=False, start_method="fork", daemon=True)
    assert context.join(timeout=0.05) is False and len(context.pids()) == 2 and all(process.daemon for process in context.processes)
    os.kill(context.pids()[0], signal.SIGTERM)
    with pytest.raises(mp.ProcessExitedException, match="process 0 was ended by SIGTERM"):
        while not context.join():
            pass
    assert mp.start_processes(fill, (1.0,), nprocs=0) is None
    with pytest.raises(mp.ProcessRaisedException, match="AttributeError"):
        mp.start_processes(fill, (1.0,), nprocs=1, start_method="fork")


@needs_torch
def test_strategies():
    assert mp.get_all_sharing_strategies() == their_mp.get_all_sharing_strategies() and mp.get_sharing_strategy() == "file_descriptor"
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(ValueError, match="'files'"):
        mp.set_sharing_strategy("files")
    assert all(hasattr(mp, name) for name in their_mp.__all__)


def test_modules_for_several_devices():
    net = td.nn.Linear(2, 3)
    for lib, linear in ((td, net),) + (() if torch is None else ((torch, torch.nn.Linear(2, 3)),)):
        made = lib.nn.DataParallel(linear, device_ids=None)
        x = lib.ones(4, 2)
        assert made(x).shape == (4, 3) and list(made.state_dict()) == ["module.weight", "module.bias"] and made.module is linear
        assert not isinstance(made, lib.nn.parallel.DistributedDataParallel)
    assert td.equal(td.nn.parallel.data_parallel(net, td.ones(4, 2)), net(td.ones(4, 2)))
    with pytest.raises(td.Unsupported, match="share_memory"):
        td.nn.parallel.DistributedDataParallel(net)
    with pytest.raises(AttributeError, match="a module runs where it lies"):
        td.nn.parallel.replicate


def test_ways_of_attention():
    from tensord.nn.attention import SDPBackend, sdpa_kernel

    q = td.randn(1, 2, 5, 4)
    plain = td.nn.functional.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        assert td.equal(td.nn.functional.scaled_dot_product_attention(q, q, q), plain)
    assert sdpa_kernel(SDPBackend.MATH)(lambda: 3)() == 3 and str(SDPBackend.MATH) == "SDPBackend.MATH"
    with pytest.raises(AssertionError, match="got int"):
        with sdpa_kernel(3):
            pass
    with pytest.raises(ValueError, match="no way"):
        with sdpa_kernel([]):
            pass
    if torch is not None and hasattr(torch.nn, "attention"):
        assert {k: int(v) for k, v in torch.nn.attention.SDPBackend.__members__.items()} == dict(SDPBackend.__members__)


@needs_torch
def test_capsules():
    from tensord.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack

    t = td.arange(4)
    theirs = torch.utils.dlpack.from_dlpack(to_dlpack(t))
    t[0] = 9
    td.sync()
    assert theirs[0] == 9 and from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2))).tolist() == [1, 1]
    assert td.from_dlpack(td.to_dlpack(t)).tolist() == [9, 1, 2, 3] and t.__dlpack_device__()[0] == DLDeviceType.kDLCPU
