"""A second device: fake:0, of a daemon that only tests have (tests/support/fake_device.h)."""
import asyncio
import inspect
import pickle
import subprocess
import sys
import threading

import pytest

import tensord as td
from common import SLOW, script

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")


def test_places():
    fake, cpu = td.device("fake"), td.device("cpu")
    x = td.arange(6.0, device="fake:0").reshape(2, 3)
    assert x.device is fake is td.device("fake", 0) is pickle.loads(pickle.dumps(fake)) and fake != cpu
    assert (fake.type, fake.index, str(fake), repr(fake)) == ("fake", 0, "fake:0", "device(type='fake', index=0)")
    made = [td.zeros(2, device=fake), td.full((2,), 3, device=fake), td.randn(2, 2, device=fake), td.eye(3, device=fake), td.tensor([[1, 2]], device=fake),
            td.asarray(np.ones(3), device=fake), td.zeros_like(x), td.full_like(x, 2), td.rand_like(x), x.new_zeros(3), x.new_full((2,), 1), x.new_tensor([4]),
            td.ones(2).to(fake), x.t(), x[0], x > 1, x.sum(), x.clone(), x.to(td.float64), td.ones(3).to(x), td.cat([x, x]), td.where(x > 2, x, 0)]
    assert [t.device for t in made] == [fake] * len(made)
    back = [x.to("cpu"), x.cpu(), td.zeros_like(x, device="cpu"), td.asarray(x, device="cpu"), td.ones(2).to("cpu")]
    assert [t.device for t in back] == [cpu] * len(back)
    assert x.to(fake) is x and x.to(fake, copy=True) is not x and td.ones(1).device is cpu
    for like in (td.array_api.empty_like, td.array_api.zeros_like, td.array_api.ones_like, lambda *x, **more: td.array_api.full_like(*x, 2, **more)):
        assert [like(x).device, like(x, device="cpu").device, like(back[0], device=fake).device] == [fake, cpu, fake]


def test_values():
    x = td.arange(6.0, device="fake:0").reshape(2, 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and (x @ x.T).tolist() == [[5, 14], [14, 50]] and x.sum().item() == 15 and bool((x < 9).all())
    assert repr(x[0]) == "tensor([0., 1., 2.], device='fake:0')" and repr(x.long()[0, :2]) == "tensor([0, 1], device='fake:0')"
    y = x.clone()
    y[0] = 7
    y[y == 4] = -1
    y += 1
    assert y.tolist() == [[8, 8, 8], [4, 0, 6]] and x.cpu().numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    y.copy_(x)
    assert y.tolist() == x.tolist() and td.nonzero(x > 3).tolist() == [[1, 1], [1, 2]]


def test_what_is_refused():
    x = td.ones(3, device="fake:0")
    for call in (x.numpy, lambda: np.asarray(x), lambda: memoryview(x)):
        with pytest.raises((td.Error, BufferError), match="fake:0"):
            call()
    with pytest.raises(td.Error, match="Expected all tensors to be on the same device, but found at least two devices, fake:0 and cpu: 'x' is on fake:0, 'y' on cpu"):
        x + td.ones(3)
    assert (x + td.tensor(2.0)).tolist() == [3, 3, 3]  # a number may stand beside it
    for pinned in (x.pin_memory, lambda: td.tensor([1.0], device="fake:0", pin_memory=True)):
        with pytest.raises(td.Unsupported, match="cannot pin .* on fake:0; only .* on the cpu"):
            pinned()
    assert td.tensor([1.0], device="fake:0", pin_memory=False).device == x.device and td.tensor([1.0], pin_memory=True).pin_memory().tolist() == [1.0]
    with pytest.raises(td.Unsupported, match="there is no device 'cuda:0' here; only 'cpu', 'fake:0'"):
        x.to("cuda")


def test_training():
    losses = []
    for device in ("cpu", "fake:0"):
        td.manual_seed(3)
        net = td.nn.Sequential(td.nn.Linear(8, 16), td.nn.Tanh(), td.nn.Linear(16, 2)).to(device)
        x, t = td.randn(32, 8).to(device), td.randn(32, 2).to(device)
        step = td.optim.Adam(net.parameters(), lr=0.05)
        for _ in range(30):
            step.zero_grad()
            loss = ((net(x) - t) ** 2).mean()
            loss.backward()
            step.step()
        assert {p.device.type for p in net.parameters()} == {p.grad.device.type for p in net.parameters()} == {device[:4].rstrip(":")}
        losses.append(loss.item())
    assert losses[0] == losses[1] < 1


@pytest.fixture
def on_fake():
    td.set_default_device("fake:0")
    yield td.device("fake")
    td.set_default_device(None)


def test_a_default_device(on_fake):
    made = [td.ones(2), td.tensor([1, 2]), td.arange(3), td.eye(2), td.full((2,), 1.0), td.randint(0, 3, (2,)), td.randperm(3), td.linspace(0, 1, 3), td.asarray([1.0]),
            td.asarray(np.ones(2)), td.zeros(3).double(), td.FloatTensor([1, 2]), td.nn.Linear(2, 2).weight, td.Tensor([1, 2])]
    assert {t.device for t in made} == {on_fake} == {td.get_default_device()}
    here = [td.ones(2, device="cpu"), td.from_numpy(np.ones(2)), td.from_dlpack(np.ones(2)), td.zeros_like(td.ones(1, device="cpu")), td.ones(1, device="cpu").new_zeros(2)]
    assert {t.device.type for t in here} == {"cpu"}
    seen = []
    other = threading.Thread(target=lambda: seen.append(td.ones(1).device.type))  # each thread has its own
    other.start()
    other.join()
    assert seen == ["cpu"]
    td.set_default_device("cpu")
    assert td.ones(1).device.type == "cpu"
    with pytest.raises(td.Unsupported, match="no device 'cuda:0' here"):
        td.set_default_device("cuda")


def test_what_is_no_tensor_yet_comes_to_those_beside():
    x = td.arange(6.0, device="fake:0").reshape(2, 3)
    assert (x + np.ones(3, dtype="f4")).tolist() == [[1, 2, 3], [4, 5, 6]] and x[[1, 0]].tolist() == x[np.array([1, 0])].tolist() == [[3, 4, 5], [0, 1, 2]]
    x[0] = [7.0, 8, 9]
    x[1] = td.ones(3)  # a tensor, too: it is copied
    assert x.tolist() == [[7, 8, 9], [1, 1, 1]] and x.device.type == "fake"
    k = td.tensor([3, 1, 1, 2], device="fake:0")
    made = [td.bincount(k), td.multinomial(x.abs(), 2, True), td.repeat_interleave(x[0], k[:3]), td.diag(x[0]), k.clone().bernoulli_(0.5), k.clone().random_(9), x.quantile(0.5),
            td.unique(k), td.searchsorted(td.tensor([1, 2], device="fake:0"), k), td.nn.functional.one_hot(k), td.nn.functional.interpolate(x.reshape(1, 1, 2, 3), scale_factor=2),
            td.array_api.fft.fft(x.to(td.complex64)), td.isin(k, td.tensor([2], device="fake:0"))]
    assert {t.device.type for t in made} == {"fake"}


def layers(**place):
    n = td.nn
    yield n.Linear(2, 3, **place)
    yield n.Bilinear(2, 2, 3, **place)
    yield n.Conv1d(2, 2, 3, **place)
    yield n.Conv2d(2, 2, 3, **place)
    yield n.Conv3d(2, 2, 3, **place)
    yield n.ConvTranspose1d(2, 2, 3, **place)
    yield n.ConvTranspose2d(2, 2, 3, **place)
    yield n.ConvTranspose3d(2, 2, 3, **place)
    yield n.Embedding(4, 2, padding_idx=0, **place)
    yield n.EmbeddingBag(4, 2, **place)
    yield n.LayerNorm(3, **place)
    yield n.RMSNorm(3, **place)
    yield n.GroupNorm(1, 2, **place)
    yield n.InstanceNorm1d(2, affine=True, **place)
    yield n.InstanceNorm2d(2, affine=True, track_running_stats=True, **place)
    yield n.SyncBatchNorm(2, **place)
    yield n.InstanceNorm3d(2, affine=True, **place)
    yield n.BatchNorm3d(2, **place)
    yield n.Bilinear(2, 3, 2, **place)
    yield n.AdaptiveLogSoftmaxWithLoss(4, 6, [2], **place)
    yield n.BatchNorm1d(2, **place)
    yield n.BatchNorm2d(2, **place)
    yield n.PReLU(**place)
    yield n.LSTM(2, 3, num_layers=2, bidirectional=True, **place)
    yield n.GRU(2, 3, **place)
    yield n.RNN(2, 3, **place)
    yield n.LSTMCell(2, 3, **place)
    yield n.GRUCell(2, 3, **place)
    yield n.RNNCell(2, 3, **place)
    yield n.MultiheadAttention(4, 2, **place)
    yield n.TransformerEncoderLayer(4, 2, 8, **place)
    yield n.TransformerDecoderLayer(4, 2, 8, **place)
    yield n.Transformer(4, 2, 1, 1, 8, **place)
    yield n.TransformerEncoder(n.TransformerEncoderLayer(4, 2, 8, **place), 2)
    for made, sizes in (("Linear", (3,)), *((f"{k}{d}d", (2, 3)) for k in ("Conv", "ConvTranspose") for d in (1, 2, 3)), *((f"{k}Norm{d}d", ()) for k in ("Batch", "Instance") for d in (1, 2, 3))):
        lazy = getattr(n, "Lazy" + made)(*sizes, **place)
        yield lazy
        lazy(td.ones(2, 2, *(4,) * (int(made[-2]) if made != "Linear" else 0), **place))
        yield lazy


def test_layers_are_made_where_they_are_told():
    """Every class of tensord.nn that takes device= is among them."""
    known = set()
    for layer in layers(device="fake:0"):
        known |= {type(m) for m in layer.modules()}
        assert {t.device.type for t in layer.state_dict().values()} == {"fake"}, layer
    takes = {c for c in vars(td.nn).values() if isinstance(c, type) and issubclass(c, td.nn.Module) and "device" in inspect.signature(c).parameters}
    takes -= {td.nn.RNNBase, td.nn.RNNCellBase}  # what others have in common
    assert takes <= known, takes - known


def test_a_module_moves_and_stays_itself():
    net = td.nn.Sequential(td.nn.Linear(3, 3), td.nn.BatchNorm1d(3), td.nn.Linear(3, 3))
    net[2].weight = net[0].weight  # one that stands in two places stays one
    w = net[0].weight
    step = td.optim.Adam(net.parameters(), lr=0.1)
    (net(td.randn(4, 3)) ** 3).sum().backward()
    assert net.to("fake") is net and net[0].weight is net[2].weight is w and w.is_leaf and w.requires_grad and w.grad.device is w.device is td.device("fake")
    before = w.tolist()
    step.step()
    assert w.tolist() != before and {s.device.type for s in step.state[w].values() if td.is_tensor(s)} == {"fake"}
    assert net(td.ones(4, 3, device="fake")).device.type == "fake" and net.cpu() is net and w.device.type == w.grad.device.type == "cpu"
    with pytest.raises(td.Error, match="on the same device"):
        net(td.ones(4, 3, device="fake"))
    net.to("fake").load_state_dict(td.nn.Sequential(td.nn.Linear(3, 3), td.nn.BatchNorm1d(3), td.nn.Linear(3, 3)).state_dict())  # comes from the CPU


def test_files(tmp_path):
    x = {"a": td.arange(4.0, device="fake"), "b": [td.ones(2, dtype=td.complex64, device="fake"), 3]}
    td.save(x, tmp_path / "x")
    here, there = td.load(tmp_path / "x"), td.load(tmp_path / "x", map_location="fake:0")
    for got, place in (here, "cpu"), (there, "fake"):
        assert got["a"].device.type == got["b"][0].device.type == place and got["a"].tolist() == [0, 1, 2, 3] and got["b"][0].tolist() == [1, 1] and got["b"][1] == 3
    with pytest.raises(td.Unsupported, match="cuda"):
        td.load(tmp_path / "x", map_location="cuda")


def test_a_device_that_fails():
    """Only what was under way there is lost: the daemon, the CPU's tensors and the device go on."""
    out = script("""
        import tensord as td
        here, kept = td.ones(3), td.ones(3, device="fake:0")
        (kept * 1).tolist()
        told = []
        for i in range(20):
            x = kept * i
            try:
                assert (x + 1).tolist() == [i + 1] * 3
            except td.DeviceFailed as e:
                told.append(str(e))
        assert len(told) == 1 and "fake:0 failed while this ran" in told[0], told
        assert (here * 2).tolist() == [2, 2, 2] and (kept + 1).tolist() == [2, 2, 2]
        print("good")
    """, FAKE_DEVICE_BREAKS="11")
    assert out.stdout.strip() == "good", out.stderr


def test_each_byte_there_is_in_a_row():
    """Of the table of what takes memory: what lies in a queue, what has an id, its gradient, what a graph has saved."""
    w = td.ones(1000, device="fake:0", requires_grad=True)
    y = (w * 2).exp().sin().sum()
    y.backward(retain_graph=True)
    queue = td.Queue("rows", 2, keep=0)
    queue.put([td.ones(500, device="fake:0"), td.ones(500)])
    td.sync()
    rows, counts = td.status("tensors"), {row["key"]: row["value"] for row in td.status()}
    for device, key in (("cpu", "bytes_used"), ("fake:0", "bytes_used_on_fake:0")):
        assert sum(row["bytes_used"] for row in rows if row["device"] == device) == counts[key], (device, rows)
    there = {row["kind"] for row in rows if row["device"] == "fake:0" and row["bytes_used"]}
    assert there == {"queue item", "tensor", "gradient", "graph"}, rows


SHARES = """
import multiprocessing, sys
import tensord as td

def used():
    return {row["key"]: row["value"] for row in td.status()}["bytes_used_on_fake:0"]

def other(queue, by_pipe):
    w, item, named = by_pipe.recv(), queue.get(timeout=30), td.open("loaded/w", timeout=30)
    places = {str(t.device) for t in (w, item["w"], item["n"][0], named)}
    w += 1
    by_pipe.send((places, item["w"].tolist(), item["n"][0].tolist(), named.tolist()))
    by_pipe.recv()  # the other has nothing of it any more
    by_pipe.send((w.tolist(), used() > 0))

if __name__ == "__main__":
    x = td.load(sys.argv[1], map_location="fake:0")
    queue = td.Queue("loaded/queue")
    for how in ("fork", "spawn"):
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context(how).Process(target=other, args=(queue, there))
        process.start()
        there.close()
        w = x["w"].clone()
        w.publish("loaded/w", replace=True)
        here.send(w)
        queue.put({"w": w, "n": x["n"]})
        print(here.recv(), w.tolist())
        del w
        here.send(None)
        print(here.recv())
        process.join()
        td.drop("loaded/w")
    del x
    while used():
        pass
    print(used())
"""


def test_what_was_loaded_there_is_shared_there(tmp_path):
    """By a pickle, a queue and a name; who gets it has the same memory, also when the one who loaded it has nothing of it any more."""
    td.save({"w": td.arange(4.0), "n": [td.ones(2, dtype=td.int64)]}, tmp_path / "x")
    (tmp_path / "shares.py").write_text(SHARES)
    out = subprocess.run([sys.executable, tmp_path / "shares.py", tmp_path / "x"], capture_output=True, text=True, timeout=120 * SLOW)
    shared = "({'fake:0'}, [1.0, 2.0, 3.0, 4.0], [1, 1], [0.0, 1.0, 2.0, 3.0]) [1.0, 2.0, 3.0, 4.0]\n([1.0, 2.0, 3.0, 4.0], True)\n"
    assert out.stdout == 2 * shared + "0\n", out.stdout + out.stderr


def test_asyncio():
    x = td.arange(4.0, device="fake")

    async def all_of_it():
        y = x * 2
        asked = [td.aio.tolist(y), td.aio.item(y.sum()), td.aio.numpy(y[1:3]), td.aio.tolist(td.nonzero(y > 3))]
        return (await td.aio.ready(y)) is y, [list(v) if isinstance(v, np.ndarray) else v for v in await asyncio.gather(*asked)]

    assert asyncio.run(all_of_it()) == (True, [[0, 2, 4, 6], 12, [2, 4], [[2], [3]]])
    with pytest.raises(IndexError):
        asyncio.run(td.aio.ready(td.index_select(x, 0, td.tensor([9], device="fake"))))
