"""Passes over a loader: answers of one are never another's, workers that are kept go on where they stand, and a state goes on only where it is right."""
import functools
import itertools
import os
import pickle
import random
import select
import signal

import pytest

import tensord as td
import tensord.data
import tensord.utils.data

pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
KINDS = [pytest.param(tensord.data, id="data"), pytest.param(tensord.utils.data, id="utils")]
try:
    import tensord.torch
    import torch

    class _Torch:
        DataLoader, IterableDataset, get_worker_info = tensord.torch.DataLoader, torch.utils.data.IterableDataset, staticmethod(torch.utils.data.get_worker_info)

    KINDS.append(pytest.param(_Torch, id="torch"))
    pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
except ImportError:
    pass

each_kind = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def shards(kind):
    """An iterable data set: each worker has every so many-th of the shards."""

    class Shards(kind.IterableDataset):
        def __init__(self, sizes, die_at=None, told=None):
            self.sizes, self.die_at, self.told = sizes, die_at, told

        def __iter__(self):
            info = kind.get_worker_info()
            for s in range(len(self.sizes))[info.id :: info.num_workers] if info else range(len(self.sizes)):
                for k in range(self.sizes[s]):
                    if self.die_at == s * 100 + k and not os.path.exists(self.told):
                        open(self.told, "w").close()
                        os.kill(os.getpid(), signal.SIGKILL)
                    yield s * 100 + k

    return Shards


def whole(sizes):
    return [s * 100 + k for s, n in enumerate(sizes) for k in range(n)]


def values(batch):
    return [int(x) for x in batch]


def epoch(loader):
    return sorted(x for b in loader for x in values(b))


def let_all_arrive(pool):
    """Until every worker has answered all that it was asked, and its answers are here."""
    for m in pool.members:
        while m.pending:
            assert select.select([m.link], [], [], 60)[0]
            pool._take_messages(m)


@each_kind
@pytest.mark.parametrize("more", [{}, {"in_order": False}, {"pool": "passes"}, {"on_worker_death": "respawn"}, {"batch_size": None}], ids=str)
def test_what_came_too_late_is_not_the_next_ones(kind, more):
    """A worker whose share is over has been asked for more: those answers come when the pass is over, or behind the beginning of the next."""
    for sizes, workers in (([1], 1), ([5], 3), ([1, 40], 2), ([], 2)):
        loader = kind.DataLoader(shards(kind)(sizes), num_workers=workers, persistent_workers=True, **{"batch_size": 4, **more})
        pids = None
        for turn in range(12):
            if batches := [b if more.get("batch_size", 4) else [b] for b in loader]:
                assert sorted(x for b in batches for x in values(b)) == whole(sizes), turn
            else:
                assert not sizes, turn
            now = [w["pid"] for w in loader.stats()["workers"]]
            assert pids in (None, now)  # they were kept
            pids = now
            if turn % 3 == 0:
                let_all_arrive(loader._record.pool)
        loader.close()


@each_kind
def test_answers_of_a_pass_that_was_left_are_not_the_next_ones(kind):
    loader = kind.DataLoader(list(range(100)), batch_size=25, num_workers=2, prefetch_factor=4, persistent_workers=True)
    order = iter(loader)
    let_all_arrive(order.pool)
    assert values(next(order)) == list(range(25))
    del order  # nothing is under way, and three batches lie here
    loader.batch_sampler.sampler.__class__.__iter__, was = (lambda self: iter(range(99, -1, -1))), loader.batch_sampler.sampler.__class__.__iter__
    try:
        assert [x for b in loader for x in values(b)] == list(range(99, -1, -1))
    finally:
        loader.batch_sampler.sampler.__class__.__iter__ = was
        loader.close()


@each_kind
@pytest.mark.parametrize("at", [0, 2, 120, 200])
def test_a_worker_that_dies_in_a_later_pass(kind, at, tmp_path):
    sizes = [3, 40, 1]
    data = shards(kind)(sizes, die_at=at, told=str(tmp_path / "died"))
    (tmp_path / "died").touch()
    loader = kind.DataLoader(data, batch_size=2, num_workers=3, persistent_workers=True, on_worker_death="respawn")
    for turn in range(12):
        assert epoch(loader) == whole(sizes), turn
        died = sum(w["respawned"] for w in loader.stats()["workers"])
        assert died == (turn % 4 == 3)
        if turn % 4 == 2:
            os.unlink(tmp_path / "died")
    loader.close()


@each_kind
def test_killed_between_and_within_passes(kind):
    sizes, rng = [1, 30, 0, 8], random.Random(4)
    loader = kind.DataLoader(shards(kind)(sizes), batch_size=2, num_workers=4, persistent_workers=True, on_worker_death="respawn")
    for turn in range(12):
        seen, it = [], iter(loader)
        for n, b in enumerate(it):
            seen += values(b)
            if n == turn:
                os.kill(rng.choice(it.stats()["workers"])["pid"], signal.SIGKILL)
        assert sorted(seen) == whole(sizes), turn
        if turn % 2:
            os.kill(rng.choice(it.stats()["workers"])["pid"], signal.SIGKILL)
    loader.close()


class Drawn:
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return [i, random.randrange(1 << 30)]


@each_kind
@pytest.mark.parametrize("stop", [0, 1, 3, 5])
def test_the_state_of_workers_that_were_kept(kind, stop):
    """The random numbers of those that had not given a batch in this pass, too."""
    first = kind.DataLoader(Drawn(), batch_size=4, num_workers=3, persistent_workers=True)
    list(first)
    it = iter(first)
    head = [next(it) for _ in range(stop)]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    rest = [list(map(values, b)) for b in it]
    again = kind.DataLoader(Drawn(), batch_size=4, num_workers=3, persistent_workers=True)
    again.load_state_dict(state)
    assert [list(map(values, b)) for b in again] == rest and len(head) + len(rest) == 6
    for loader in (first, again):
        loader.close()


@each_kind
def test_an_older_pass_says_nothing_of_the_newer(kind):
    loader = kind.DataLoader(list(range(12)), batch_size=2, num_workers=1, persistent_workers=True)
    old = iter(loader)
    next(old)
    new = iter(loader)
    for _ in range(3):
        next(new)
    state, rest = loader.state_dict(), [values(b) for b in new]
    del new
    del old
    assert loader.state_dict()["finished"] and loader.stats()["batches"] == 6
    pids = [w["pid"] for w in loader.stats()["workers"]]
    assert epoch(loader) == list(range(12)) and [w["pid"] for w in loader.stats()["workers"]] == pids
    loader.load_state_dict(state)
    assert [values(b) for b in loader] == rest and len(rest) == 3
    loader.close()


# ---- a state in another loader --------------------------------------------------------------------------------------


class Own:
    """An order that no loader's generator knows."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __iter__(self):
        return iter(random.Random(self.seed).sample(range(self.n), self.n))

    def __len__(self):
        return self.n


class Again(Own):
    """Another one each time."""

    def __iter__(self):
        return iter(random.SystemRandom().sample(range(self.n), self.n))


ORDERS = {"as it is": {}, "shuffled": {"shuffle": True}, "backwards": {"sampler": range(49, -1, -1)}, "of one's own": {"sampler": Own(50, 3)},
          "another": {"sampler": Own(50, 4)}, "again": {"sampler": Again(50, 0)}}


def made(kind, order="as it is", n=50, workers=0, batch_size=4, **more):
    return kind.DataLoader(list(range(n)), batch_size=batch_size, num_workers=workers, **ORDERS[order], **more)


def begun(loader, batches):
    """What so many batches held, and the state behind them."""
    it = iter(loader)
    seen = [x for b in itertools.islice(it, batches) for x in values(b)]
    return seen, pickle.loads(pickle.dumps(loader.state_dict()))


def follows(loader, state):
    loader.load_state_dict(state)
    return [x for b in loader for x in values(b)]


@each_kind
@pytest.mark.parametrize("in_order", [True, False])
def test_a_state_with_other_workers(kind, in_order):
    """Each sample once, also when it is taken and loaded again before what was under way is done."""
    for first, second, third in ((2, 0, 3), (4, 1, 2), (1, 4, 2), (0, 3, 1), (4, 2, 0)):
        for stop in (1, 6):
            seen, state = begun(made(kind, "shuffled", workers=first, in_order=in_order), stop)
            loader = made(kind, "shuffled", workers=second, in_order=in_order)
            loader.load_state_dict(state)
            more, state = begun(loader, 2)
            rest = follows(made(kind, "shuffled", workers=third, in_order=in_order), state)
            assert sorted(seen + more + rest) == list(range(50)), (first, second, third, stop)


@each_kind
@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_of_another_order_is_refused(kind, workers):
    for then, now in itertools.product(ORDERS, ORDERS):
        seen, state = begun(made(kind, then, workers=workers), 3)
        loader = made(kind, now, workers=workers)
        if then == now != "again":
            assert sorted(seen + follows(loader, state)) == list(range(50))
        else:
            with pytest.raises(ValueError, match="the first .* batches are of other samples here than in the pass that the state is of.*Make this loader as that one was made"):
                follows(loader, state)
    with pytest.raises(ValueError, match=r"sampler \w*SequentialSampler there, \w*RandomSampler here"):
        follows(made(kind, "shuffled"), begun(made(kind), 3)[1])


@each_kind
def test_a_state_of_another_length(kind):
    for order in ("as it is", "shuffled"):
        for then, now in ((50, 60), (50, 40), (50, 12)):
            seen, state = begun(made(kind, order, then), 5)
            loader = made(kind, order, now)
            if order == "as it is" and now >= 40:
                assert seen + follows(loader, state) == list(range(now))
            else:
                with pytest.raises(ValueError, match=f"samples {then} there, {now} here"):
                    follows(loader, state)
    with pytest.raises(ValueError, match="batch_size 4 there, 8 here"):
        follows(made(kind, batch_size=8), begun(made(kind), 3)[1])


@each_kind
def test_indices_of_other_kinds_are_told_apart(kind):
    np = pytest.importorskip("numpy")
    for wrap in (lambda x: x, np.int64, lambda x: np.arange(50)[x], td.tensor, lambda x: (x, str(x))):
        def loader(order):
            return kind.DataLoader(AnyIndex(), batch_size=4, sampler=[wrap(x) for x in order])

        seen, state = begun(loader(range(50)), 3)
        assert seen + follows(loader(range(50)), state) == list(range(50))
        with pytest.raises(ValueError, match="of other samples"):
            follows(loader(range(49, -1, -1)), state)


class AnyIndex:
    """Samples by whatever says their number."""

    def __len__(self):
        return 50

    def __getitem__(self, i):
        return int(i[0] if isinstance(i, tuple) else i)


@each_kind
@pytest.mark.parametrize("workers", [0, 1])
def test_a_shorter_stream_is_refused(kind, workers):
    _, state = begun(kind.DataLoader(shards(kind)([30]), batch_size=4, num_workers=workers), 5)
    with pytest.raises(ValueError, match="ends after 2 batches, but the pass to go on with had 5 of it"):
        follows(kind.DataLoader(shards(kind)([8]), batch_size=4, num_workers=workers), state)


def test_a_state_of_the_other_loaders_or_of_a_part():
    state = begun(made(tensord.data, "shuffled"), 3)[1]
    for missing in ("finished", "rng", "tasks"):
        with pytest.raises(ValueError, match=f"is not whole: {missing} is missing"):
            made(tensord.data).load_state_dict({k: v for k, v in state.items() if k != missing})
    assert len(follows(made(tensord.data), {"version": 1, "finished": True})) == 50
    if len(KINDS) < 3:
        pytest.skip("torch is not there (Debian: python3-torch)")
    for one, other in ((tensord.data, _Torch), (_Torch, tensord.utils.data)):
        with pytest.raises(ValueError, match="the state is of a loader of tensord.*their random numbers are not the same ones"):
            follows(made(other, "shuffled"), begun(made(one, "shuffled"), 3)[1])
