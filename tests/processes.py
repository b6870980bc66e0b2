"""What the kernel shows of a process: for tests that compare those that start warm with those that start cold."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobs.runtime.processes import command_line, environment


def lasting_files(descriptors: Path) -> set[tuple[str, str]]:
    """The open files of a process, by descriptor, without those that it opens for a moment, such as its lease."""
    looks = []
    for _ in range(10):
        look = set()
        for entry in descriptors.iterdir():
            with suppress(FileNotFoundError):
                look.add((entry.name, os.readlink(entry)))
        looks.append(look)
        time.sleep(0.02)
    return set.intersection(*looks)


def as_the_kernel_sees_it(pid: int, job_id: str) -> dict[str, Any]:
    """What a process has beside its memory, without what differs from attempt to attempt."""

    def general(text: str) -> str:
        text = re.sub(r"HOROVOD_GLOO_RENDEZVOUS_PORT=\d+", "HOROVOD_GLOO_RENDEZVOUS_PORT=", text)
        return re.sub(r":\[\d+\]", "", text.replace(job_id, "JOB"))

    process = Path("/proc", str(pid))
    fields = ("Umask", "SigBlk", "SigIgn", "SigCgt", "CapEff", "CapPrm", "Groups", "NoNewPrivs", "Seccomp", "Uid")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    return {
        "command": [general(os.fsdecode(word)) for word in command_line(pid)],
        "environment": sorted(general(os.fsdecode(item)) for item in environment(pid) if item),
        "folder": general(os.readlink(process / "cwd")),
        "program": os.readlink(process / "exe"),
        "limits": (process / "limits").read_text(),
        "files": sorted(general(target) for _, target in lasting_files(process / "fd")),
        "cgroup": (process / "cgroup").read_text(),
        "oom_score_adj": (process / "oom_score_adj").read_text(),
        "nice": (process / "stat").read_text().rpartition(")")[2].split()[16],
        **{name: status[name] for name in fields},
    }


def knows(pid: int, secret: str) -> bool:
    """Whether a secret is anywhere in the memory of a process."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(address, 16) for address in line.split()[0].split("-"))
            with suppress(OSError, OverflowError):  # the kernel's own pages, or what has just been freed
                if secret.encode() in os.pread(memory.fileno(), end - start, start):
                    return True
    return False
