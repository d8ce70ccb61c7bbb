"""Windows for signals, with the names of torch.signal: tensord.signal.windows."""

from tensord.signal import windows as windows
