"""What the kernel grants this process's container, and whether it ever had to kill for want of memory.

Both layouts of control groups are read. Outside of a container there is mostly no limit, and the files may be missing.
The count of kills tells what an exit code cannot: the kernel kills the process that holds the rows, which Spark then
only knows to have vanished.
"""

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60  # the first layout writes a huge number


def processors(cgroups: Path = CGROUPS) -> int:
    usable = len(os.sched_getaffinity(0))
    quota = _quota(cgroups)
    return usable if quota is None else max(1, min(usable, math.ceil(quota)))


def memory_limit(cgroups: Path = CGROUPS) -> int | None:
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _read(cgroups / name)
        if text.isdigit():
            return int(text) if int(text) < _NO_LIMIT else None
    return None


def kills_for_memory(cgroups: Path = CGROUPS) -> int:
    for name in ("memory.events", "memory/memory.oom_control"):
        for line in _read(cgroups / name).splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
    return 0


def _quota(cgroups: Path) -> float | None:
    quota, _, period = _read(cgroups / "cpu.max").partition(" ")
    if not period:
        quota, period = _read(cgroups / "cpu/cpu.cfs_quota_us"), _read(cgroups / "cpu/cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
