"""DistributedDataParallel with tensord.torch.ddp_hook: gradients equal to those without it, whatever shares its buffers."""
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import tensord as td
from common import SLOW

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

BEGIN = """
import os, signal, sys
import torch, torch.distributed as dist
import tensord.torch as tdt
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

rank, size = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("tensord", init_method="tensord://" + sys.argv[3], rank=rank, world_size=size)
"""


def run(text, size, name, killed=()):
    td.connect()
    env = {**os.environ, "TENSORD_SOCKET": td.connection()["path"]}
    ranks = [subprocess.Popen([sys.executable, "-c", BEGIN + textwrap.dedent(text), str(r), str(size), name], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) for r in range(size)]
    said = [p.communicate(timeout=240 * SLOW) for p in ranks]
    for r, p in enumerate(ranks):
        assert p.returncode == (-signal.SIGKILL if r in killed else 0), said[r][0] + said[r][1]
    return [out for out, _ in said]


def test_gradients_are_equal():
    """Two models in one backward, buckets that DDP cuts anew after the first, steps without sums, and a model that is made later."""
    run("""
        def train(hook, view):
            torch.manual_seed(0)
            large = DDP(nn.Sequential(*[nn.Linear(120, 120) for _ in range(8)]), bucket_cap_mb=0.1, gradient_as_bucket_view=view)
            small = DDP(nn.Linear(120, 120).double())
            if hook:
                large.register_comm_hook(dist.group.WORLD, tdt.ddp_hook)
                small.register_comm_hook(None, tdt.ddp_hook)
            optimizer = torch.optim.SGD([*large.parameters(), *small.parameters()], 0.05)
            torch.manual_seed(rank + 1)
            for step in range(5):
                x = torch.randn(4, 120)
                optimizer.zero_grad()
                if step == 2:
                    with large.no_sync():
                        large(x).pow(2).mean().backward()
                (large(x).pow(2).mean() + small(x.double()).pow(2).mean()).backward()
                optimizer.step()
            return [p.detach().clone() for p in [*large.parameters(), *small.parameters()]]

        for view in (False, True):
            plain, hooked = train(False, view), train(True, view)
            assert all(torch.equal(x, y) for x, y in zip(plain, hooked)), view
        of = dist.group.WORLD.buckets
        assert of.made == len(of.free) < 30 and not of.taken and of.open == 0, (of.made, len(of.free), of.taken, of.open)
        dist.destroy_process_group()
    """, 2, "hooks")


def test_more_buckets_than_buffers():
    run("""
        import tensord.torch._hooks as h
        h._BUFFERS_MOST = 2
        def train(hook):
            torch.manual_seed(0)
            model = DDP(nn.Sequential(*[nn.Linear(120, 120) for _ in range(8)]), bucket_cap_mb=0.1)
            if hook:
                model.register_comm_hook(dist.group.WORLD, tdt.ddp_hook)
            torch.manual_seed(rank + 1)
            for _ in range(3):
                model(torch.randn(4, 120)).pow(2).mean().backward()
            return [p.grad.clone() for p in model.parameters()]
        assert all(torch.equal(x, y) for x, y in zip(train(False), train(True)))
        dist.destroy_process_group()
    """, 2, "few")


def test_a_death_comes_out_of_backward():
    said = run("""
        model = DDP(nn.Linear(500, 500))
        model.register_comm_hook(dist.group.WORLD, tdt.ddp_hook)
        for step in range(3):
            if rank == 1 and step == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                model(torch.randn(4, 500)).sum().backward()
            except RuntimeError as e:
                print("rank 1 (pid" in str(e) and "died" in str(e), flush=True)
                os._exit(0)
        raise AssertionError
    """, 3, "dies", killed=(1,))
    assert said[0].strip() == said[2].strip() == "True", said
