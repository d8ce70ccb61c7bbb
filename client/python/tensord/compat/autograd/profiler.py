"""tensord.profiler by the older names of torch.autograd.profiler."""

from tensord import profiler as _new
from tensord.profiler import EventList as EventList, FunctionEvent as FunctionEvent, record_function as record_function

__all__ = ["EventList", "FunctionEvent", "profile", "record_function"]


class profile(_new.profile):
    """tensord.profiler.profile() without a schedule; enabled=False: nothing is recorded. table() and total_average() are those of its blocks."""

    def __init__(self, enabled=True, *, record_shapes=False, with_flops=False, profile_memory=False, with_stack=False, with_modules=False, use_cuda=False):
        super().__init__(use_cuda=use_cuda)
        self.enabled = enabled

    def start(self):
        if self.enabled:
            super().start()

    @property
    def function_events(self):
        return self.events()

    @property
    def self_cpu_time_total(self):
        return self.events().self_cpu_time_total

    def table(self, *args, **kwargs):
        return self.events().table(*args, **kwargs)

    def total_average(self):
        return self.events().total_average()
