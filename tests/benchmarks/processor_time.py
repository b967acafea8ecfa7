"""The share of the machine's processors that a program takes, and how much others wanted before."""

import os
from contextlib import suppress

import psutil


def spent(word: str) -> float:
    """Seconds that the processes whose arguments contain ``word`` have computed, with all that they started."""
    chosen: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if word in " ".join(process.cmdline()):
                chosen |= {process, *process.children(recursive=True)}
    seconds = 0.0
    for process in chosen:
        with suppress(psutil.Error):
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def load() -> str:
    """The load average of the last minute beside the number of processors: what a number was measured under."""
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
