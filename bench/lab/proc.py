"""Processes: started in a session of their own, watched through /proc, and ended with all that they started."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 15.0


class Trouble(Exception):
    """Something that whoever runs the lab has to know, and that ends it."""


class Process:
    """A program that writes what it says into a file, as in production."""

    def __init__(self, name: str, argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as out:
            self.child = subprocess.Popen(
                [str(word) for word in argv],
                env={**os.environ, **(env or {})},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.child.pid

    def check(self) -> None:
        """Raises with the last words of a program that has ended."""
        if self.child.poll() is not None:
            words = self.log.read_text(errors="replace")[-800:]
            raise Trouble(f"{self.name} ended with {self.child.returncode}:\n{words}")

    def wait_for_line(self, pattern: str, patience: float = PATIENCE, step: float = 0.01) -> re.Match[str]:
        """Waits until the program says something of this form, and looks once a step."""
        compiled, end = re.compile(pattern), time.monotonic() + patience
        while time.monotonic() < end:
            if match := compiled.search(self.log.read_text(errors="replace")):
                return match
            self.check()
            time.sleep(step)
        raise Trouble(f"{self.name} has not said {pattern!r} in {patience:.0f} s")

    def wait_for_port(self, port: int) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            self.check()
            time.sleep(0.01)
        raise Trouble(f"{self.name} does not listen on {port}")

    def kill(self) -> None:
        """Ends it at once, with all that it started. Nothing is lost by that: what it kept is removed anyway."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Lets it end as it does in production, for the sake of what it keeps on disk."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.child.poll() is None:
            os.killpg(self.pid, how)
        if self.child.stdin:
            self.child.stdin.close()
        try:
            self.child.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self.child.wait()


def free_port() -> int:
    """A port that was free a moment ago, for programs that cannot tell which one they were given."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def family(pid: int) -> list[int]:
    """The process and all that descend from it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [member for child in task.read_text().split() for member in family(int(child))]
        except OSError:
            continue
    return found


def cpu_seconds(pid: int) -> float:
    """What the family has used so far, in user and kernel mode."""
    ticks = 0
    for member in family(pid):
        try:
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


def thread_seconds(pid: int) -> dict[str, float]:
    """What each thread of the process has used so far, by its name."""
    used: dict[str, float] = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, nanoseconds = (thread / "comm").read_text().strip(), int((thread / "schedstat").read_text().split()[0])
        except OSError:
            continue
        used[name] = used.get(name, 0.0) + nanoseconds / 1e9
    return used


def settle(pids: Iterable[int], patience: float = 10.0) -> None:
    """Waits until they do nothing: what is left of one run, closing connections or tidying a store, is not the next one's."""
    watched, end = list(pids), time.monotonic() + patience
    before = sum(map(cpu_seconds, watched))
    while time.monotonic() < end:
        time.sleep(0.1)
        now = sum(map(cpu_seconds, watched))
        if now - before <= 1 / TICKS:
            return
        before = now


def rss_at_rest_kib(pid: int, still: float = 2.0, patience: float = 15.0) -> int:
    """Resident memory once it has not changed for a while: connections give theirs back a second after their last request."""
    end = time.monotonic() + patience
    since, known = time.monotonic(), rss_kib(pid)
    while (now := time.monotonic()) < min(end, since + still):
        time.sleep(0.1)
        rss = rss_kib(pid)
        if rss != known:
            since, known = now, rss
    return known


def rss_kib(pid: int) -> int:
    """Resident memory of the family. Pages that its members share count for each of them."""
    total = 0
    for member in family(pid):
        try:
            match = re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{member}/status").read_text(), re.MULTILINE)
        except OSError:
            continue
        total += int(match[1]) if match else 0
    return total
