"""Programs, which the daemon runs by itself: functions and modules as sources, traces, their names and files. tensord.jit is the door.

Modules and optimizers become programs, so this room stands above nn and optim, and neither of them imports it.
"""
