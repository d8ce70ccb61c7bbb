"""Tensors: what their methods and the functions of tensors do beyond one op of the daemon, and how tensors are made, laid out, shown and pickled.

The lowest room of the package: it imports nothing of the other folders but tensord.linalg and tensord.fft, which are the doors to more of its functions.
"""
