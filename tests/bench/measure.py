"""Run one command and tell what it took: JSON with wall and CPU seconds, the peak of resident memory, the status.

    python -S measure.py OUTPUT COMMAND...

A process of its own, and a small one: Linux counts what the parent held before `exec` into the peak that `wait4`
tells, so nothing below this program's own 10 MiB can be measured.
"""

import os
import sys
import time

output, *command = sys.argv[1:]
errors = os.open(os.devnull, os.O_WRONLY)
sink = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
begin = time.perf_counter()
child = os.posix_spawn(
    command[0],
    command,
    os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, sink, 1), (os.POSIX_SPAWN_DUP2, errors, 2)],
)
_, status, used = os.wait4(child, 0)
wall = time.perf_counter() - begin
print(
    f'{{"wall": {wall:.6f}, "cpu": {used.ru_utime + used.ru_stime:.6f}, "peak_kib": {used.ru_maxrss}, '
    f'"status": {os.waitstatus_to_exitcode(status)}}}'
)
