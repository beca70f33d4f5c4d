"""Loads: wrk, which asks for all a server can do, and hookonce-load, which keeps a schedule."""

import json
import os
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from .deliveries import SECRET
from .proc import Trouble, cpu_seconds, rss_kib, settle
from .servers import BENCH, Lab, Server


@dataclass(frozen=True)
class Figures:
    """Of one run, or the medians of several. Times in microseconds; `wrong` are answers that were not right, or missing."""

    rate: float
    p50: float
    p99: float
    cpu: float
    rss_mib: float
    wrong: int
    count: int
    p90: float = 0.0
    p999: float = 0.0
    max: float = 0.0
    sent_late_p99: float = 0.0


def median(runs: Sequence[Figures]) -> Figures:
    """Medians hide a bad round, so what was wrong, and what was done, is summed up."""
    middle = {name: statistics.median(asdict(run)[name] for run in runs) for name in asdict(runs[0])}
    return Figures(**{**middle, "wrong": sum(run.wrong for run in runs), "count": sum(run.count for run in runs)})


def wrk(server: Server, mode: str, run: str, seconds: float, connections: int, body: int, one_body: bool = False) -> Figures:
    env = {"MODE": mode, "RUN": run, "SECRET": SECRET, "BODY_BYTES": str(body), "ONE_BODY": "yes" if one_body else "no"}
    script, url = BENCH / "deliveries.lua", f"http://{server.address}/github"
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s", "-s", str(script), url]
    settle([server.process.pid])
    before = cpu_seconds(server.process.pid)
    done = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    used = cpu_seconds(server.process.pid) - before
    server.process.check()
    line = next((line for line in done.stdout.splitlines() if line.startswith("figures ")), None)
    if line is None:
        raise Trouble(f"wrk failed: {done.stdout}{done.stderr}")
    told = json.loads(line.removeprefix("figures "))
    refused = told["count"] - told["refused"] if mode == "forged" else told["refused"]
    return Figures(
        rate=told["count"] / told["seconds"],
        p50=told["p50"],
        p99=told["p99"],
        cpu=used / max(told["count"], 1) * 1e6,
        rss_mib=rss_kib(server.process.pid) / 1024,
        wrong=refused + told["errors"],
        count=told["count"],
    )


@dataclass(frozen=True)
class Pace:
    """What hookonce-load is asked for. A rate of 0 is all the connections can do."""

    run: str
    seconds: float = 3.0
    rate: int = 0
    connections: int = 64
    duplicates: int = 0
    body: int = 2048
    paths: int = 1
    count: int | None = None

    def words(self) -> list[str]:
        path = "/github" if self.paths == 1 else "/github-{}"
        named = {"run": self.run, "seconds": self.seconds, "rate": self.rate, "connections": self.connections}
        named |= {"duplicates": self.duplicates, "body": self.body, "paths": self.paths, "path": path, "secret": SECRET}
        named |= {"count": self.count} if self.count is not None else {}
        return [word for name, value in named.items() for word in (f"--{name}", str(value))]


def pace(lab: Lab, servers: Sequence[Server], asked: Pace) -> Figures:
    """The CPU and the memory are those of all the servers together."""
    pids = [server.process.pid for server in servers]
    to = ",".join(server.address for server in servers)
    settle(pids)
    before = sum(map(cpu_seconds, pids))
    done = subprocess.run([str(lab.load), "pace", "--to", to, *asked.words()], capture_output=True, text=True, check=False)
    used = sum(map(cpu_seconds, pids)) - before
    for server in servers:
        server.process.check()
    if done.returncode != 0:
        raise Trouble(done.stderr.strip())
    told = json.loads(done.stdout)
    return Figures(
        rate=told["rate"],
        p50=told["p50"],
        p99=told["p99"],
        cpu=used / (told["count"] + told["before"]) * 1e6,
        rss_mib=sum(map(rss_kib, pids)) / 1024,
        wrong=told["wrong"] + told["errors"],
        count=told["count"],
        p90=told["p90"],
        p999=told["p99.9"],
        max=told["max"],
        sent_late_p99=told["sent_late_p99"],
    )


@contextmanager
def hold(lab: Lab, server: Server, connections: int, run: str) -> Iterator[int]:
    """Holds connections that have had one delivery each, as long as the block lasts. Gives how many were answered wrongly."""
    words = ["--to", server.address, "--secret", SECRET, "--connections", str(connections), "--run", run]
    process = lab.start("hold", [lab.load, "hold", *words])
    try:
        told = json.loads(process.wait_for_line(r"\{.*held.*\}", patience=120)[0])
        settle([server.process.pid])
        yield told["wrong"]
    finally:
        process.kill()
