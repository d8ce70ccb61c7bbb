"""What calls of a process group return."""

import torch
import torch.distributed as dist


class Done(dist._Work if hasattr(dist, "_Work") else dist.Work):
    """A call that is over, and these are its results."""

    def __init__(self, results):
        super().__init__()
        self._results = results

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def is_success(self):
        return True

    def exception(self):
        return None

    def result(self):
        return self._results

    def synchronize(self):
        self.wait()

    def get_future(self):
        self.wait()
        future = torch.futures.Future()
        future.set_result(self._results)
        return future


class Sent(Done):
    """A tensor that is on its way: it may be written again. wait() waits while too much is."""

    def __init__(self, group, letter, tensors):
        super().__init__(tensors)
        self._group, self._letter = group, letter

    def wait(self, timeout=None):
        self._group.sent(self._letter, timeout)
        return True


class Received(Done):
    """A tensor to come: it comes in wait(), or is seen to have come by is_completed()."""

    def __init__(self, group, asked, out, fill, tensors):
        super().__init__(tensors)
        self._group, self._asked, self._out, self._fill = group, asked, out, fill

    def wait(self, timeout=None):
        self._group.received(self._asked, timeout)
        self._take()
        return True

    def _take(self):
        if self._fill is not None:  # it lies with gaps
            self._out.detach().copy_(self._fill)
            self._fill = None

    def is_completed(self):
        there = self._group.has_come(self._asked)
        if there and not self._asked.failed:
            self._take()
        return there

    def is_success(self):
        return self.is_completed() and self._asked.failed is None

    def exception(self):
        return self._asked.failed

    def _source_rank(self):
        return self._asked.sender

    source_rank = _source_rank
