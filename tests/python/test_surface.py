"""Names that programs import from PyTorch and that do little: paths, profiles, settings, what says why it is not there."""
import collections
import functools
import gzip
import hashlib
import http.server
import importlib
import json
import threading
import time
import timeit
import urllib.error
import warnings

import pytest
import tensord as td
from common import script

try:
    import torch
except ImportError:
    torch = None
NEW = torch is not None and tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13)
needs_new = pytest.mark.skipif(not NEW, reason="torch 2.13 is not there")

# Of these modules every name of PyTorch's __all__ is there, but for what this says.
WHOLE = {"utils.data": {"_DatasetKind"}, "utils.data.dataset": (), "utils.data.sampler": (), "utils.data.dataloader": (), "utils.data.distributed": (),
         "utils.dlpack": (), "nn.utils.fusion": (), "nn.utils.clip_grad": (), "nn.utils.memory_format": (), "nn.utils.stateless": (), "nn.utils.rnn": (), "nn.utils.parametrize": (),
         "nn.utils.parametrizations": (), "optim.lr_scheduler": (), "optim.swa_utils": (), "optim.optimizer": {"register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"},
         "multiprocessing": (), "autograd.variable": {"VariableMeta"}, "cuda.amp": {"amp_definitely_not_available"}, "amp.autocast_mode": {"autocast_decorator"},
         "profiler": {"kineto_available", "DeviceType", "ExecutionTraceObserver"}, "version": (),
         "overrides": {"get_testing_overrides", "enable_reentrant_dispatch", "redispatch_function"}}


@needs_new
@pytest.mark.parametrize("place", WHOLE)
def test_every_name_is_there(place):
    from tensord.core import _absent

    theirs, ours = importlib.import_module("torch." + place), importlib.import_module("tensord." + place)
    absent = {*WHOLE[place], *_absent._WHY.get("tensord." + place, ())}
    assert {n for n in theirs.__all__ if not hasattr(ours, n)} <= absent


def test_statements_of_programs_run():
    exec("""if True:
    import tensord.optim.lr_scheduler as lr_scheduler, tensord.utils.data.dataset
    from tensord.optim.adamw import AdamW
    from tensord.optim.optimizer import Optimizer
    from tensord.utils.data.sampler import Sampler
    from tensord.utils.data.distributed import DistributedSampler
    from tensord.utils.data._utils.collate import default_collate
    from tensord.amp.grad_scaler import GradScaler
    from tensord.cuda.amp import autocast, GradScaler as G, custom_fwd
    from tensord.autograd.grad_mode import no_grad
    from tensord.nn.utils.clip_grad import clip_grad_norm_
    from tensord.nn.utils.convert_parameters import parameters_to_vector
    import tensord.autograd.profiler as profiler
    from tensord.hub import HASH_REGEX, urlparse
    from tensord.utils.hooks import RemovableHandle
    from tensord.jit.annotations import Dict, List, Optional, Tuple
    import tensord.version, tensord.__config__
    assert issubclass(AdamW, Optimizer) and issubclass(DistributedSampler, Sampler) and tensord.utils.data.dataset.Dataset is tensord.utils.data.Dataset
    assert default_collate([1, 2]).tolist() == [1, 2] and tensord.version.__version__ == tensord.__version__ and tensord.version.cuda is None
    assert tensord.__config__.show().startswith("tensord ") and "daemon" in tensord.__config__.show() and tensord.__config__.parallel_info()
    """, {})


@pytest.mark.parametrize("name, words", [("export", "jit.script"), ("package", "jit.save"), ("sparse", "dense"),
                                         ("library", "autograd.Function"), ("nested", "packs sequences"), ("mps", "accelerator")])
def test_what_is_not_there_says_what_to_use(name, words):
    with pytest.raises(ModuleNotFoundError, match=words):
        importlib.import_module("tensord." + name)
    with pytest.raises(AttributeError, match=words):
        getattr(td, name)


def test_the_compiler_that_there_is_not():
    @td.compiler.disable
    def f(x):
        return x

    @td.compiler.disable(recursive=False)
    def g(x):
        return x

    with td.compiler.set_stance("force_eager"):
        assert f(1) == g(1) == 1 and not td.compiler.is_compiling() and td.compiler.list_backends() == [] and td.compiler.reset() is None
    assert td.compiler.compile(f) is f


def test_nothing_overrides_functions():
    from tensord import overrides as o

    class Like:
        @classmethod
        def __torch_function__(cls, *args):
            return 3

    assert not o.has_torch_function((Like(),)) and not o.has_torch_function_unary(Like()) and not o.has_torch_function_variadic(Like(), td.ones(1))
    assert o.is_tensor_like(Like()) and o.is_tensor_like(td.ones(1)) and not o.is_tensor_like(3)
    assert o.is_tensor_method_or_property(td.Tensor.add) and not o.is_tensor_method_or_property(td.add)
    assert o.resolve_name(td.add) == "tensord.add" and o.resolve_name(td.Tensor.add) == "tensord.Tensor.add"
    assert o.resolve_name(td.nn.functional.conv2d) == "tensord.nn.functional.conv2d" or o.resolve_name(td.nn.functional.conv2d).endswith("conv2d")
    with pytest.raises(TypeError, match="tensord.add"):
        o.handle_torch_function(td.add, (Like(),))


def test_what_is_safe_to_load():
    s = td.serialization
    assert s.load is td.load and s.get_safe_globals() == [] and s.get_default_load_endianness() is None and s.get_default_mmap_options() == 2
    with s.safe_globals([set, dict]):
        s.add_safe_globals([list, set])
        assert s.get_safe_globals() == [set, dict, list]
    assert s.get_safe_globals() == []
    s.set_default_load_endianness(s.LoadEndianness.LITTLE)
    with pytest.raises(td.Unsupported, match="high end"):
        s.set_default_load_endianness(s.LoadEndianness.BIG)
    with pytest.raises(TypeError, match="Invalid argument type"):
        s.set_default_load_endianness("big")
    with pytest.raises(AttributeError, match="in one way"):
        s.skip_data


def test_what_is_asked_of_checkpoints():
    from tensord.utils import checkpoint as c

    x = td.ones(3, requires_grad=True)
    with c.set_checkpoint_early_stop(False), c.set_checkpoint_debug_enabled(None):
        c.checkpoint(td.sin, x, use_reentrant=False, context_fn=c.noop_context_fn).sum().backward()
    c.checkpoint_sequential([td.sin, td.cos, td.exp], 2, x, use_reentrant=False, determinism_check="none", early_stop=False).sum().backward()
    assert td.allclose(x.grad, td.cos(td.ones(3)) - td.exp(td.cos(td.sin(td.ones(3)))) * td.sin(td.sin(td.ones(3))) * td.cos(td.ones(3)))
    with pytest.raises(td.Unsupported, match="debug"), c.set_checkpoint_debug_enabled(True):
        pass
    assert issubclass(c.CheckpointError, RuntimeError) and c.get_device_states(x) == ([], [])
    detached = c.detach_variable((x * 2, x.detach(), 3))
    assert detached[0].requires_grad and detached[0].is_leaf and not detached[1].requires_grad and detached[2] == 3
    with pytest.raises(RuntimeError, match="Only tuple"):
        c.detach_variable([x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        c.check_backward_validity([x.detach(), 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c.check_backward_validity([3, x])
    with pytest.raises(AttributeError, match="outside of checkpoint"):
        c.CheckpointPolicy


# ---- profiles


def test_blocks_and_what_lies_in_them(monkeypatch):
    """By a clock that stands but for what slow() takes: 10 ms, and what it calls."""
    P, now = td.profiler, []
    monkeypatch.setattr(time, "perf_counter_ns", lambda: len(now) * 10_000_000)
    slow = P.record_function("slow")(lambda n: now.append(0) or (n and slow(n - 1)))
    with P.record_function("nobody looks"):
        pass
    with P.profile(activities=[P.ProfilerActivity.CPU], record_shapes=True) as prof:
        with P.record_function("outer"):
            slow(1)
            other = threading.Thread(target=slow, args=(0,))
            other.start()
            other.join()
        with pytest.raises(ValueError), P.record_function("raises"):
            raise ValueError
    rows = {e.key: e for e in prof.key_averages()}
    assert set(rows) == {"outer", "slow", "raises"} and rows["slow"].count == 3
    inside = [e for e in prof.events() if e.name == "slow"]
    assert (rows["outer"].cpu_time_total, rows["outer"].self_cpu_time_total) == (30e3, 10e3), "another thread's blocks lie beside"
    assert sorted(e.cpu_time_total for e in inside) == [10e3, 10e3, 20e3] and {e.self_cpu_time_total for e in inside} == {10e3} and rows["slow"].cpu_time == 40e3 / 3
    table = prof.key_averages().table(sort_by="cpu_time_total", row_limit=2, header="Times")
    lines = table.splitlines()
    assert lines[0] == "Times" and lines[2].split()[:3] == ["Name", "Self", "CPU"] and len(lines) == 8 and "Self CPU time total: " in lines[-1]
    assert "ms" in table and "raises" not in table and str(prof.key_averages()).count("\n") == 8
    with pytest.raises(ValueError, match="nothing to sort by"):
        prof.key_averages().table(sort_by="flops")


def _events(monkeypatch, home, clock, of):
    """What happens from now on: that the daemon has done all ("done"), that a clock was looked at ("looked"), which counts these."""
    events, sync = [], home.sync
    monkeypatch.setattr(home, "sync", lambda: (sync(), events.append("done")))
    monkeypatch.setattr(clock, of, lambda: events.append("looked") or len(events))
    return events


def test_a_block_lasts_until_what_it_asked_for_has_ended(monkeypatch):
    """And begins behind what was asked before it: the clock is looked at when the daemon has done all."""
    x, events = td.randn(40, 40), _events(monkeypatch, td._C, time, "perf_counter_ns")
    with td.profiler.profile() as prof:
        with td.profiler.record_function("asked"):
            x = x @ x
            events.append("asked")
    k = events.index("asked")
    assert events[k - 2 : k + 3] == ["done", "looked", "asked", "done", "looked"] and prof.events()[0].cpu_time_total == pytest.approx(3e-3)


@pytest.mark.parametrize("ways", [dict(skip_first=1, wait=1, warmup=1, active=2, repeat=2), dict(wait=0, warmup=0, active=1), dict(wait=2, warmup=0, active=2),
                                  dict(wait=1, warmup=1, active=1, repeat=1, skip_first=2, skip_first_wait=1), dict(wait=0, warmup=2, active=3, repeat=1)])
@pytest.mark.filterwarnings("ignore:Profiler")
def test_schedules(ways):
    ours = [td.profiler.schedule(**ways)(k).name for k in range(20)]
    assert {"RECORD_AND_SAVE"} <= set(ours)
    if NEW:
        assert ours == [torch.profiler.schedule(**ways)(k).name for k in range(20)]
    for wrong in (dict(wait=-1, warmup=0, active=1), dict(wait=0, warmup=0, active=0)):
        with pytest.raises(AssertionError, match="Invalid profiler schedule"):
            td.profiler.schedule(**wrong)


@pytest.mark.parametrize("ways", [dict(skip_first=1, wait=1, warmup=1, active=2, repeat=2), dict(wait=1, warmup=0, active=1), dict(wait=0, warmup=0, active=3)])
def test_steps_are_recorded_as_the_schedule_says(ways):
    seen = []
    for lib in (td, torch) if NEW else (td,):
        traces = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            P = lib.profiler
            with P.profile(activities=[P.ProfilerActivity.CPU], schedule=P.schedule(**ways),
                           on_trace_ready=lambda p: traces.append(sorted(e.name for e in p.events() if e.name[:4] in ("Prof", "step")))) as prof:
                for k in range(11):
                    with P.record_function(f"step {k}"):
                        lib.ones(2).sum().item()
                    prof.step()
            assert prof.step_num == 11
        seen.append([[n for n in names if n.startswith("step")] for names in traces])
        if lib is td:
            assert all("ProfilerStep*" in {e.key for e in prof.key_averages()} for _ in prof.events()[:1])
    assert seen[0] and all(seen[0][:1])
    assert len(seen) == 1 or [t for t in seen[0] if t] == [t for t in seen[1] if t]


def test_files_of_traces(tmp_path):
    P = td.profiler
    with P.profile(schedule=P.schedule(wait=0, warmup=0, active=1), on_trace_ready=P.tensorboard_trace_handler(str(tmp_path / "deep" / "log"), "me", use_gzip=True)) as prof:
        prof.add_metadata_json("run", "[1, 2]")
        for k in range(2):
            with P.record_function(f"a {k}"):
                pass
            prof.step()
    files = sorted((tmp_path / "deep" / "log").iterdir())
    assert len(files) == 3 and all(f.name.startswith("me.") and f.name.endswith(".pt.trace.json.gz") for f in files)
    trace = json.loads(gzip.decompress(files[0].read_bytes()))
    assert [e["name"] for e in trace["traceEvents"]] == ["a 0", "ProfilerStep#0"] and trace["run"] == [1, 2]
    inner, outer = trace["traceEvents"]
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] and inner["ph"] == "X"
    prof.export_chrome_trace(tmp_path / "t.json")
    json.loads((tmp_path / "t.json").read_text())


def test_profiles_by_their_older_names():
    from tensord.autograd import profiler

    with profiler.profile() as prof, profiler.record_function("a"):
        pass
    assert prof.total_average().count == 1 and "a" in prof.table() and [e.name for e in prof.function_events] == ["a"]
    with profiler.profile(enabled=False) as prof, profiler.record_function("a"):
        pass
    assert prof.events() == []
    with pytest.warns(UserWarning, match="CUDA is not available"):
        td.profiler.profile(activities=[td.profiler.ProfilerActivity.CUDA])


# ---- Sobol' sequences


@pytest.mark.skipif(torch is None, reason="torch is not there")
@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 40, 256])
def test_points_are_pytorch_s(dimension):
    for dtype in ("float32", "float64"):
        ours, theirs = (lib.quasirandom.SobolEngine(dimension) for lib in (td, torch))
        for take in (1, 4, 0, 27, 1000):
            a, b = ours.draw(take, dtype=getattr(td, dtype)), theirs.draw(take, dtype=getattr(torch, dtype))
            assert tuple(a.shape) == tuple(b.shape) and a.tolist() == b.tolist() and ours.num_generated == theirs.num_generated
        assert ours.fast_forward(100_000) is ours and ours.draw(3).tolist() == theirs.fast_forward(100_000).draw(3).tolist()
        assert ours.reset() is ours and ours.draw_base2(5).tolist() == theirs.reset().draw_base2(5).tolist() and repr(ours) == repr(theirs)


def test_scrambled_points():
    engine = td.quasirandom.SobolEngine(5, scramble=True, seed=3)
    points = engine.draw(1024, dtype=td.float64)
    assert repr(engine) == "SobolEngine(dimension=5, scramble=True, seed=3)" and td.quasirandom.SobolEngine(5, True, 3).draw(1024, dtype=td.float64).equal(points)
    assert engine.reset().draw(1024, dtype=td.float64).equal(points) and not td.quasirandom.SobolEngine(5, True, 4).draw(1024, dtype=td.float64).equal(points)
    for column in points.T:  # a net still: one point in each 1024th
        assert sorted((column * 1024).floor().long().tolist()) == list(range(1024))
    assert not td.quasirandom.SobolEngine(2, True).draw(4).equal(td.quasirandom.SobolEngine(2, True).draw(4)), "without a seed, by chance"
    out = td.empty(0)
    assert td.quasirandom.SobolEngine(2).draw(3, out) is out and out.tolist() == [[0, 0], [0.5, 0.5], [0.75, 0.25]]


def test_points_that_cannot_be():
    for wrong in (0, -1, 257):
        with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 256\]"):
            td.quasirandom.SobolEngine(wrong)
    engine = td.quasirandom.SobolEngine(2)
    engine.draw(4)
    with pytest.raises(ValueError, match="4 points have been previously generated"):
        engine.draw_base2(3)
    with pytest.raises(ValueError, match="-1"):
        engine.draw(-1)
    with pytest.raises(ValueError, match="points"):
        engine.fast_forward(2**30)


def test_back_ends_that_are_not_there():
    exec("import tensord.backends.cudnn as cudnn\nimport tensord.backends.mkldnn\nfrom tensord.backends import mps\nassert not mps.is_available()\ncudnn.benchmark = True")
    b = td.backends
    assert b.cudnn.benchmark and not b.mkl.benchmark and b.cudnn.version() is None and not b.cuda.is_built() and not b.openmp.is_available()
    b.cudnn.benchmark = False
    b.cuda.matmul.allow_tf32 = True
    with b.cudnn.flags(enabled=True, deterministic=True):
        assert b.cudnn.enabled and b.cudnn.deterministic
    assert not b.cudnn.enabled and not b.cudnn.deterministic
    assert b.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    with pytest.raises(ModuleNotFoundError):
        import tensord.backends.nothing  # noqa: F401


def test_weights_from_the_network(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(td.hub, "_dir", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert td.hub.get_dir() == str(tmp_path / "cache/tensord/hub")
    td.hub.set_dir(tmp_path / "hub")
    td.save({"w": td.arange(3.0)}, tmp_path / "net.pt")
    digest = hashlib.sha256((tmp_path / "net.pt").read_bytes()).hexdigest()
    named = tmp_path / f"net-{digest[:8]}.pt"
    (tmp_path / "net.pt").rename(named)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/{named.name}?download=1"
            assert td.hub.load_state_dict_from_url(url, check_hash=True)["w"].tolist() == [0, 1, 2]
            assert "MB" in capfd.readouterr().err and (tmp_path / "hub/checkpoints" / named.name).exists()
            wrong = f"net-{'0' * 8}.pt"
            named.rename(tmp_path / wrong)
            assert td.hub.load_state_dict_from_url(url)["w"].tolist() == [0, 1, 2], "the one that is there"
            with pytest.raises(RuntimeError, match=digest[:8]):
                td.hub.load_state_dict_from_url(url.replace(named.name, wrong), tmp_path / "other", check_hash=True, progress=False)
            with pytest.raises(urllib.error.HTTPError):
                td.hub.download_url_to_file(url.replace(named.name, "none.pt"), tmp_path / "none.pt")
            assert not any((tmp_path / "other").iterdir()) and not list(tmp_path.glob("none*"))
            with pytest.raises(ValueError, match="names no file"):
                td.hub.load_state_dict_from_url(f"http://127.0.0.1:{server.server_port}/")
        finally:
            server.shutdown()
    with pytest.raises(AttributeError, match="not fetched and run"):
        td.hub.load


Point = collections.namedtuple("Point", "x y")
TREES = [1, None, [], {}, (), [1, (2, 3), {"b": 4, "a": [5]}], Point(1, [2, Point(3, 4)]), collections.OrderedDict([("z", 1), ("y", (2,))]), collections.deque([1, [2]], 3),
         collections.defaultdict(list, {"k": [1, 2]}), {"n": {"m": [[], {}, ()]}}, ["text", {1, 2}, 2.5, None]]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_trees(tree):
    from tensord.utils import _pytree as t

    leaves, spec = t.tree_flatten(tree)
    assert leaves == t.tree_leaves(tree) and spec == t.tree_structure(tree) and spec.num_leaves == len(leaves) and hash(spec) == hash(t.tree_structure(tree))
    again = t.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree) and t.tree_map(lambda *two: two, tree, tree) == t.tree_unflatten([(leaf, leaf) for leaf in leaves], spec)
    assert t.tree_map_only(int, lambda n: n + 10, tree) == t.tree_unflatten([leaf + 10 if isinstance(leaf, int) else leaf for leaf in leaves], spec)
    assert t.tree_all(lambda leaf: leaf in leaves, tree) and t.tree_any(lambda leaf: True, tree) == bool(leaves) and t.tree_is_leaf(tree) == (leaves == [tree] and spec.is_leaf())
    assert t.tree_leaves(tree, is_leaf=lambda x: True) == [tree]
    if NEW:
        theirs = torch.utils._pytree
        their_leaves, their_spec = theirs.tree_flatten(tree)
        assert their_leaves == leaves and (their_spec.num_leaves, their_spec.num_nodes, their_spec.num_children) == (spec.num_leaves, spec.num_nodes, spec.num_children)


def test_trees_that_differ_and_nodes_of_one_s_own():
    from tensord.utils import _pytree as t

    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pair = Pair(1, [2, 3])
    assert t.tree_leaves(pair) == [pair]
    t.register_pytree_node(Pair, lambda p: ([p.a, p.b], "context"), lambda parts, context: Pair(*parts))
    made = t.tree_map(lambda n: n * 2, pair)
    assert (made.a, made.b) == (2, [4, 6]) and t.tree_leaves(td.Size([2, 3])) == [(2, 3)]
    assert t.tree_map(lambda a, b: a + b, {"a": 1, "b": 2}, {"b": 20, "a": 10}) == {"a": 11, "b": 22}
    for wrong in (lambda: t.register_pytree_node(Pair, None, None), lambda: t.tree_unflatten([1], t.tree_structure([1, 2])), lambda: t.tree_map(lambda a, b: a, [1, 2], [1]),
                  lambda: t.tree_map(lambda a, b: a, [1, 2], (1, 2)), lambda: t.tree_map(lambda a, b: a, {"a": 1}, {"b": 1}), lambda: t.tree_map(lambda a, b: a, Point(1, 2), (1, 2))):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError, match="TreeSpec"):
        t.tree_unflatten([1], [1])


def test_structures_of_trees():
    """What they count, tell and have in common, as in PyTorch."""
    from tensord.utils import _pytree as t

    spec = t.tree_structure([1, (2, 3), {"b": 4, "a": [5]}])
    assert (spec.num_leaves, spec.num_nodes, spec.num_children, spec.type, spec.context) == (5, 9, 3, list, None) and t.tree_structure(7).num_nodes == t.LeafSpec().num_leaves == 1
    assert spec.child(1) is spec.children()[1] and spec.child(1).type is tuple and spec.child(2).context == ["b", "a"] and spec.children() is not spec.children_specs
    assert repr(spec) == "TreeSpec(list, None, [*, TreeSpec(tuple, None, [*, *]), TreeSpec(dict, ['b', 'a'], [*, TreeSpec(list, None, [*])])])"
    assert spec.unflatten("vwxyz") == ["v", ("w", "x"), {"b": "y", "a": ["z"]}] and spec == t.tree_structure([0, (0, 0), {"b": 0, "a": [0]}]) and spec != t.tree_structure([0, [0, 0], {"b": 0, "a": [0]}]) and spec != 3
    assert t.tree_structure(Point(1, 2)).type is Point and t.tree_structure(collections.deque([1], 5)).context == 5 and t.tree_structure(collections.defaultdict(int, a=1)).context == (int, ["a"])
    for number in (1, 4):
        with pytest.raises(ValueError, match=f"was given {number} leaves for a tree of 2"):
            t.tree_unflatten(range(number), t.tree_structure([1, 2]))


@pytest.mark.parametrize("tree, other, parts", [
    ([1, (2, 3)], [[4], ("x", {})], [[4], "x", {}]), (7, [1, 2], [[1, 2]]), ({"a": 1, "b": 2}, collections.OrderedDict([("b", 3), ("a", 4)]), [4, 3]),
    (collections.defaultdict(list, a=1), {"a": [5]}, [[5]]), (collections.OrderedDict(a=1), collections.defaultdict(int, a=2), [2]), (Point(1, [2]), Point(3, [4]), [3, 4]),
    (collections.deque([1, 2], 3), collections.deque([3, 4], 2), [3, 4]), ((), (), [])])
def test_trees_that_begin_alike(tree, other, parts):
    from tensord.utils import _pytree as t

    assert t.tree_structure(tree).flatten_up_to(other) == parts


@pytest.mark.parametrize("tree, other, said", [
    ([1, 2], (1, 2), "a list is there, and a tuple in the other tree"), ([1], 3, "a list is there, and a int in the other tree"), ([1, 2], [1], "a list of 2 is there, and one of 1"), ({"a": 1}, [1], "a dict is there, and a list"),
    ({"a": 1}, {"a": 1, "b": 2}, r"the keys are \['a'\], and \['a', 'b'\]"), (collections.defaultdict(int, a=1), {"b": 1}, r"the keys are \['a'\], and \['b'\]"), (collections.deque([1, 2]), collections.deque([1]), "a deque of 2 is there, and one of 1"),
    (Point(1, 2), (1, 2), "a Point is there, and a tuple"), ((1, 2), Point(1, 2), "a tuple is there, and a Point")])
def test_trees_that_begin_otherwise(tree, other, said):
    from tensord.utils import _pytree as t

    with pytest.raises(ValueError, match=said):
        t.tree_structure(tree).flatten_up_to(other)


def test_leaves_by_what_they_are():
    from tensord.utils import _pytree as t

    tree, seen = [1, 2.5, (3, "x")], []
    assert t.tree_map_(seen.append, tree) is tree and seen == [1, 2.5, 3, "x"] and t.tree_map(lambda a: a, tree, is_leaf=lambda x: isinstance(x, tuple)) == tree
    assert t.tree_map_only((int, str), lambda v: v * 2, tree) == [2, 2.5, (6, "xx")] and t.tree_map_only(lambda v: v == 3, lambda v: 0, tree) == [1, 2.5, (0, "x")]
    assert t.tree_all_only(int, lambda v: v < 4, tree) and not t.tree_all_only(int, lambda v: v < 3, tree) and t.tree_any_only(int, lambda v: v > 2, tree) and not t.tree_any_only((int, str), lambda v: v == 2.5, tree)
    assert not t.tree_all(lambda v: isinstance(v, int), tree) and not t.tree_any(lambda v: v is None, tree) and t.tree_leaves(tree, is_leaf=lambda x: isinstance(x, tuple)) == [1, 2.5, (3, "x")]
    assert t.tree_structure(tree, is_leaf=lambda x: isinstance(x, tuple)).num_leaves == 3 and t.tree_is_leaf(3) and not t.tree_is_leaf([]) and t.tree_is_leaf([], is_leaf=lambda x: True)
    assert t.MappingKey("a") == ("a",) and str(t.MappingKey(3)) == "[3]"


# ---- timers


def test_timers(capsys, monkeypatch):
    """By a clock that goes by the calls of the statement: 10 us each."""
    from tensord.utils import benchmark

    calls = []
    monkeypatch.setattr(timeit, "default_timer", lambda: len(calls) * 1e-5)
    t = benchmark.Timer("f(x)", setup="x = 3", globals={"f": calls.append}, label="append", sub_label="small", description="list")
    m = t.timeit(100)
    assert (m.number_per_run, len(m.times), m.label, m.as_row_name, m.num_threads, set(calls)) == (100, 1, "append", "small", 1, {3})
    assert m.mean == m.median == m.times[0] == m.raw_times[0] / 100 > 0 and m.iqr == 0
    m = t.blocked_autorange(min_run_time=0.02)
    assert sum(m.raw_times) >= 0.02 and m.raw_times == pytest.approx([1e-4] * 200) and "append: small" in repr(m) and "10 runs per measurement, 1 thread" in repr(m)
    told = []
    m = t.adaptive_autorange(max_run_time=0.02, callback=lambda number, time: told.append(time))
    assert m.raw_times == told and 0.01 < sum(told) < 0.02  # the times agree before it is over
    one = benchmark.Measurement(10, [1.0, 2.0, 3.0, 4.0], benchmark.TaskSpec("a", "pass", label="l", sub_label="row", description="x"))
    two = benchmark.Measurement(10, [1e-3], benchmark.TaskSpec("b", "pass", label="l", sub_label="row", description="y"))
    assert (one.median, one.mean, round(one.iqr, 9), one.has_warnings) == (0.25, 0.25, 0.15, True)
    table = benchmark.Compare([one, two])
    table.highlight_best()
    table.print()
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:4]] == [["|", "x", "|", "y"], ["1", "threads:"], ["row", "|", "250000.0", "|", "100.0*"]]
    assert benchmark.Measurement.merge([one, one])[0].times == [0.1, 0.2, 0.3, 0.4] * 2
    assert (benchmark.select_unit(3e-5), benchmark.trim_sigfig(3.14159, 2), benchmark.unit_to_english("ns")) == (("us", 1e-6), 3.1, "nanosecond")
    with pytest.raises(td.Unsupported, match="no C\\+\\+ is compiled"):
        benchmark.Timer("a;", language="c++")
    with pytest.raises(NameError):
        benchmark.Timer("nothing").timeit(1)


def test_timers_wait_for_what_was_asked(monkeypatch):
    from tensord.utils import benchmark

    x, events = td.rand(40, 40), _events(monkeypatch, td, timeit, "default_timer")
    m = benchmark.Timer("ask()", globals={"ask": lambda: (x @ x, events.append("asked"))}).timeit(5)
    assert events[-9:] == ["done", "looked", *["asked"] * 5, "done", "looked"] and m.raw_times == [7]


def measured():
    """Of several threads, environments and labels."""
    from tensord.utils.benchmark import Measurement, TaskSpec

    return [Measurement(10, [1.0, 2.0, 3.0, 4.0], TaskSpec("a", "pass", label="l", sub_label="row", description="x")),
            Measurement(10, [1e-3], TaskSpec("b", "pass", label="l", sub_label="row", description="y")),
            Measurement(1, [2.0, 2.1, 2.2, 2.3, 2.1], TaskSpec("c", "pass", label="l", sub_label="other", description="y", num_threads=2)),
            Measurement(1, [2.0], TaskSpec("c", "pass", label="l", sub_label="other", description="y", env="fast")), Measurement(1, [3e-5], TaskSpec("c", "pass"))]


TABLE = """
[-------------------l-------------------]
                |         x  |          y
1 threads:
  row           |  250000.0  |      100.0
  (fast) other  |            |  2000000.0
2 threads:
  other         |            |  2100000.0

Times are in microseconds (us).

[----c-----]
     |      @
1 threads:
  c  |  30.0

Times are in microseconds (us).
"""
BEST = """
[-------------------l--------------------]
                |         x  |           y
1 threads:
  row           |  200000.0  |      100.0*
  (fast) other  |            |  2000000.0*
2 threads:
  other         |            |  2000000.0*

Times are in microseconds (us).

[-----c-----]
     |       @
1 threads:
  c  |  30.0*

Times are in microseconds (us).
"""


def test_tables_of_measurements():
    from tensord.utils.benchmark import Compare

    table = Compare(measured()[:2])
    table.extend_results(measured()[2:])
    assert str(table) == TABLE[1:].replace("@", "")
    table.colorize()
    table.trim_significant_figures()
    assert str(table) == BEST[1:].replace("@", "")


def test_what_measurements_tell():
    from tensord.utils import benchmark as b

    said = [repr(m).partition("\n")[2].splitlines() for m in measured()]
    assert said[0] == ["l: row", "x", "  Median: 250.00 ms", "  IQR:    150.00 ms (175.00 to 325.00)", "  4 measurements, 10 runs per measurement, 1 thread",
                       "  WARNING: Interquartile range is 60.0% of the median measurement.", "           This suggests significant environmental influence."]
    assert said[1] == ["l: row", "y", "  100.00 us", "  1 measurement, 10 runs, 1 thread"]
    assert said[2] == ["l: other", "y", "  Median: 2.10 s", "  IQR:    0.10 s (2.10 to 2.20)", "  5 measurements, 1 runs per measurement, 2 threads"]
    assert said[4] == ["c", "  30.00 us", "  1 measurement, 1 runs, 1 thread"]
    some = b.Measurement(1, [1.0, 1.2, 1.1], b.TaskSpec("d", "x = 1\ny = 2", description="D"))
    assert repr(some).splitlines()[1:] == ["d", "D", "setup:", "x = 1", "y = 2", "  Median: 1.10 s", "  3 measurements, 1 runs per measurement, 1 thread"]
    wide = b.Measurement(1, [1.0, 1.2, 1.4, 1.1], b.TaskSpec("d", "x = 1"))
    assert repr(wide).splitlines()[2] == "setup: x = 1" and repr(wide).splitlines()[-1].strip() == "This could indicate system fluctuation."
    assert [m.significant_figures for m in measured()] == [1, 3, 1, 5, 3]
    for times, figures in (([1.0, 1.1, 1.05, 1.02, 1.08, 1.04, 1.01], 1), ([1.0, 1.001, 1.002, 1.0015, 1.0005, 1.003], 3), ([1e-6, 1.001e-6], 1), ([1.0, 2.0], 1)):
        assert b.Measurement(1, times, some.task_spec).significant_figures == figures
    assert [m.has_warnings for m in measured()] == [True, False, False, False, False] and measured()[0].meets_confidence(0.61) and not measured()[0].meets_confidence(0.59)
    assert not b.Measurement(1, [1.0, 2.0, 3.0], some.task_spec).meets_confidence(0.5), "as much as the threshold is too much"
    assert b.Measurement(1, [1.0], b.TaskSpec("", "pass")).as_row_name == "[Unknown]" and measured()[3].as_row_name == "other" and measured()[4].as_row_name == "c"
    with pytest.raises(AttributeError, match="'Measurement' object has no attribute 'nothing'"):
        some.nothing
    for seconds, unit in ((3e-10, "ns"), (9.99e-7, "ns"), (1e-6, "us"), (9.99e-4, "us"), (1e-3, "ms"), (0.5, "ms"), (1, "s"), (7200, "s")):
        assert b.select_unit(seconds) == (unit, {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[unit])
    assert b.ordered_unique([2, 1, 2, 3, 1]) == [2, 1, 3]


def test_timers_set_threads_and_stop():
    from tensord.utils import benchmark as b

    calls, threads, before = [], [], td.get_num_threads()
    t = b.Timer("f()", timer=lambda: sum(calls), globals={"f": lambda: (calls.append([0.4, 0.1][len(calls) % 2]), threads.append(td.get_num_threads()))}, num_threads=before + 1)
    m = t.adaptive_autorange(threshold=0.1, max_run_time=5.0)
    assert set(threads) == {before + 1} and td.get_num_threads() == before and sum(m.times) >= 5.0, "times that differ are measured until it is over"
    assert t.blocked_autorange(min_run_time=1.0).raw_times and td.get_num_threads() == before
    told = []
    m = b.Timer("f()", timer=lambda: len(told) * 1.0, globals={"f": lambda: told.append(1)}).adaptive_autorange(max_run_time=50.0)
    assert m.raw_times == [1.0] * 4 and m.number_per_run == 1, "four that agree are enough"
    m = b.Timer("f()", timer=lambda: len(told) * 1.0, globals={"f": lambda: told.append(1)}).blocked_autorange(min_run_time=3.0)
    assert m.raw_times == [1.0] * 3
    assert b.Timer("pass", timer=lambda: 0.0).timeit(5).raw_times == [1e-9]
    for wrong in ({"language": "c++"}, {"global_setup": "int x;"}):
        with pytest.raises(td.Unsupported, match="no C\\+\\+ is compiled"):
            b.Timer("pass", **wrong)
    assert b.Timer("x", "", language="py").timeit and b.Timer("pass", "")._task_spec.setup == "pass"


@needs_new
def test_measurements_as_pytorch_counts_them():
    import torch.utils.benchmark as theirs
    from tensord.utils import benchmark as ours

    for times in ([1.0], [1.0, 2.0], [5.0, 1.0, 2.0, 2.5], [1.0, 1.1, 1.05, 1.02, 1.08, 1.04, 1.01]):
        a, b = (lib.Measurement(10, times, lib.TaskSpec("s", "pass", label="l")) for lib in (ours, theirs))
        for what in ("median", "mean", "iqr", "title", "times"):
            assert getattr(a, what) == pytest.approx(getattr(b, what)), what
        assert len(times) == 1 or (a.has_warnings, a.significant_figures) == (b.has_warnings, b.significant_figures)


# ---- what models of others import


def test_tensor_types_are_classes():
    x = td.ones(2)
    assert isinstance(x, td.FloatTensor) and not isinstance(x, td.LongTensor) and not isinstance(1.0, td.FloatTensor) and isinstance(td.FloatTensor, type)
    assert (td.FloatTensor | None).__args__ == (td.FloatTensor, type(None)) and repr(td.HalfTensor) == "<class 'tensord.HalfTensor'>"
    assert td.LongTensor([1, 2]).dtype is td.int64 and td.DoubleTensor(2, 3).shape == (2, 3) and td.BoolTensor().shape == (0,)


def test_small_names_of_model_zoos(tmp_path, monkeypatch):
    from tensord.jit.annotations import BroadcastingList2
    from tensord.utils import _pytree as t

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert td.hub._get_torch_home() == str(tmp_path / "tensord") and td.jit._script_if_tracing is td.jit.script_if_tracing
    assert BroadcastingList2[int].__args__ == (int,) and td._assert_async(td.ones(1)) is None
    with pytest.raises(RuntimeError, match="^nothing there"):
        td._assert_async(td.zeros(1), "nothing there")

    class Mine(dict):
        pass

    t.register_pytree_node(Mine, t._dict_flatten, lambda values, keys: Mine(t._dict_unflatten(values, keys)), flatten_with_keys_fn=t._dict_flatten_with_keys)
    got = t.tree_map(lambda v: v + 1, Mine(a=1, b=[2]))
    assert type(got) is Mine and got == {"a": 2, "b": [3]} and [str(k) for k, _ in t._dict_flatten_with_keys(got)[0]] == ["['a']", "['b']"]


# ---- rooms of the package


def test_compat_is_loaded_at_its_first_use():
    """Only what asks for a module of tensord/compat loads it: layers, training, programs and files do not."""
    run = script("""
        import io, sys, tensord as td
        net = td.nn.Sequential(td.nn.Linear(2, 3), td.nn.ReLU())
        td.nn.MSELoss()(net(td.ones(1, 2)), td.zeros(1, 3)).backward()
        td.optim.SGD(net.parameters(), lr=0.1).step()
        td.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        td.jit.script(net)(td.ones(1, 2))
        file = io.BytesIO()
        td.save(net.state_dict(), file)
        td.data, td.utils.data, td.amp, td.func, td.autograd.graph
        names = ("distributions", "masked", "signal", "quasirandom", "nn.utils.prune", "nn.utils.parametrize", "cuda", "_matrix", "_settings", "_size_average", "_former", "_fusers")
        early = [name for name in names if "tensord." + name in sys.modules]
        found = td.distributions.Normal, td.masked.mean, td.signal.windows, td.quasirandom, td.nn.utils.prune.identity, td.nn.utils.parametrize, td.jit.fuser
        from tensord.nn.utils import parametrizations
        import tensord.distributions.kl
        print(early, td.distributions.__name__, td.distributions.Normal.__module__, td.nn.utils.prune.__name__)
    """)
    assert run.stdout == "[] tensord.distributions tensord.distributions._located tensord.nn.utils.prune\n", run.stderr


def test_former_names_of_modules_are_read():
    """A file names the module of a function or a class that it holds, as it was when the file was written."""
    import pickle

    from tensord.program import _trees

    for module, name, now in (("_functions", "celu", td.celu), ("_more", "no_grad", td.no_grad), ("_script_usual", "Attribute", td.jit.Attribute),
                              ("optim._more_optimizers", "Rprop", td.optim.Rprop), ("program._trace", "_LEAF", _trees.LEAF)):
        assert pickle.loads(f"ctensord.{module}\n{name}\n.".encode()) is now
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensord._nothing_of_the_kind")
