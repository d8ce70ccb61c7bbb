"""What stands on torch.distributed, by tensord and by gloo: equal to the last bit in two ranks. Fully sharded parameters, tensors on a mesh, pipelines, checkpoints, DDP's ways."""
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

from test_collectives import NEW, beside_gloo, name, run  # noqa: F401

TRAIN = """
    import hashlib, tempfile, warnings
    warnings.simplefilter("ignore")
    begin()
    nn = torch.nn

    def digest(tensors):
        return hashlib.md5(b"".join(t.detach().float().clone().contiguous().numpy().tobytes() for t in tensors)).hexdigest()

    def model(dtype=torch.float32):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(10, 17), nn.ReLU(), nn.Linear(17, 5)).to(dtype)

    def train(m, steps=50, optimizer=None, dtype=torch.float32):
        optimizer = optimizer or torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)
        order, losses = torch.Generator().manual_seed(rank), []
        for _ in range(steps):
            x, y = torch.randn(8, 10, generator=order).to(dtype), torch.randint(5, (8,), generator=order)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(m(x).float(), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses
"""

NEWER = TRAIN + """
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    one = FullyShardedDataParallel(model(), device_id=torch.device("cpu"), use_orig_params=True)
    losses = train(one)
    with FullyShardedDataParallel.summon_full_params(one):
        say(["FSDP 1", losses, digest(one.parameters())])

    two = model()
    for layer in two:
        if list(layer.parameters()):
            fully_shard(layer)
    fully_shard(two)
    say(["FSDP 2", train(two), digest([p.full_tensor() for p in two.parameters()])])

    import torch.distributed.checkpoint as checkpoint
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    checkpoint.save({"m": two.state_dict()}, checkpoint_id=folder[0])
    again = model()
    fully_shard(again)
    state = {"m": again.state_dict()}
    checkpoint.load(state, checkpoint_id=folder[0])
    say(["checkpoint", digest([p.full_tensor() for p in state["m"].values()])])
    dist.barrier()

    import torch.distributed._functional_collectives as f
    x, world = torch.arange(4.0) + rank, dist.group.WORLD
    say([t.tolist() for t in (f.all_reduce(x, "sum", world), f.all_gather_tensor(x, 0, world), f.broadcast(x, 0, world),
                              f.reduce_scatter_tensor(torch.arange(4.0 * size) + rank, "sum", 0, world),
                              f.all_to_all_single(torch.arange(2.0 * size) + rank, [2] * size, [2] * size, world), *f.all_reduce_coalesced([x, x * 2], "sum", world))])
    compiled = torch.compile(lambda x: f.all_reduce(x * 2, "sum", world) + 1, backend="eager")
    say(compiled(torch.ones(3) * rank).tolist())

    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (size,))
    t = distribute_tensor(torch.arange(8.0).view(4, 2), mesh, [Shard(0)])
    say([t.redistribute(mesh, [Shard(1)]).to_local().tolist(), t.sum().full_tensor().item()])
    parallel = parallelize_module(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8)), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for p in parallel.parameters():
        nn.init.constant_(p, 0.5)
    out = parallel(torch.ones(2, 10))
    out.sum().backward()
    say(["tensor parallel", out.tolist(), digest(p.grad.full_tensor() for p in parallel.parameters())])

    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    stage = nn.Linear(4, 4)
    for p in stage.parameters():
        nn.init.constant_(p, 0.1 + rank)
    schedule = ScheduleGPipe(PipelineStage(stage, rank, size, torch.device("cpu")), 2)
    out = schedule.step(torch.ones(4, 4)) if rank == 0 else schedule.step()
    say(["pipeline", None if out is None else out.tolist()])

    if backend == "tensord":
        from torch.distributed.distributed_c10d import _coalescing_manager
        a, b = torch.ones(3) * rank, torch.ones(2)
        with _coalescing_manager(device=torch.device("cpu")):
            dist.all_reduce(a)
            dist.all_reduce(b)
        assert (a.tolist(), b.tolist()) == ([1.0] * 3, [2.0] * 2)
    os._exit(0)
"""


@pytest.mark.skipif(not NEW, reason="FSDP 2 and tensors on a mesh are newer than PyTorch 1.13, and FSDP 1 has no CPU there")
def test_sharded_training_is_gloos(name):  # noqa: F811
    ours = beside_gloo(NEWER, 2, name)[0]
    assert len(ours) == 8 and ours[1][2] == ours[2][1]


OLDER = TRAIN + """
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
    DDP = nn.parallel.DistributedDataParallel
    for ways in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True, "bucket_cap_mb": 0.0001}):
        m = DDP(model(), **ways)
        say([str(ways), train(m, 20), digest(m.parameters())])
    if NEW or backend == "tensord":  # gloo of PyTorch 1.13 has no bfloat16
        m = DDP(model(torch.bfloat16))
        train(m, 5, dtype=torch.bfloat16)
    say(["bfloat16", digest(m.parameters()) if NEW else 0])
    m = DDP(model())
    say(["zero", train(m, 10, ZeroRedundancyOptimizer(m.parameters(), torch.optim.Adam, lr=0.01)), digest(m.parameters())])
    m, data = DDP(model()), TensorDataset(torch.arange(101).float())
    sampler = DistributedSampler(data)
    sampler.set_epoch(3)
    for k, (x,) in enumerate(DataLoader(data, 8, sampler=sampler)):
        with m.no_sync() if k % 3 else torch.enable_grad():
            m(x[:, None].expand(-1, 10)).sum().backward()
    say(["sampler", digest(p.grad for p in m.parameters())])
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    for state, hook in ((None, default_hooks.allreduce_hook), (None, default_hooks.fp16_compress_hook),
                        (powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)):
        m = DDP(model())
        m.register_comm_hook(state, hook)
        train(m, 6)
        say(["hook", digest(m.parameters())])
    if backend == "tensord":  # in some runs gloo's waits for ever
        m = DDP(model())
        with m.join():
            for _ in range(3 + rank):
                m(torch.ones(4, 10)).sum().backward()
        try:
            dist.monitored_barrier()
            assert False
        except (ValueError, RuntimeError) as e:  # PyTorch's own: it has it for gloo alone
            assert "monitored_barrier is only implemented for GLOO" in str(e), e
    os._exit(0)
"""


def test_ways_of_ddp_are_gloos(name):  # noqa: F811
    assert len(beside_gloo(OLDER, 2, name)[0]) == 10


HOOK = TRAIN + """
    DDP = nn.parallel.DistributedDataParallel
    for ways in ({"bucket_cap_mb": 0.0001}, {"gradient_as_bucket_view": True}):
        told = []
        for hook in (False, True):
            m = DDP(model(), **ways)
            if hook:
                m.register_comm_hook(None if ways.get("bucket_cap_mb") else dist.new_group(), tensord.torch.ddp_hook)
            losses = train(m, 10)
            with m.no_sync():
                m(torch.ones(3, 10)).sum().backward()
            m(torch.ones(3, 10)).sum().backward()
            for p in m.parameters():
                p.grad.mul_(2 + rank)  # nobody else's
            dist.barrier()
            told.append([losses, digest(m.parameters()), digest(p.grad for p in m.parameters())])
        say(told[0] == told[1])
    if rank == 1:
        os._exit(0)
    try:
        for _ in range(2):
            m(torch.ones(3, 10)).sum().backward()
        say("nothing was told")
    except RuntimeError as e:
        say(["rank 1 (pid " in str(e), isinstance(e, td.MemberLost) or not NEW])
    os._exit(0)
"""


def test_the_hook_gives_what_goes_without_it(name):  # noqa: F811
    """To the bit in two ranks; gradients are each rank's own; an error comes out of backward()."""
    assert run(HOOK, 2, name) == [[True, True, [True, True]], [True, True]]
