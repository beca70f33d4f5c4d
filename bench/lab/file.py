"""The file store beside Redis: what a new event costs, and how soon its completion is on the disk.

CPU is that of hookonce; beside it stands what it is together with its Redis, which is a process of its own. Both take turns.

A completion on files is answered to hookonce once the journal was flushed, so `hookonce_store_seconds{op="complete"}` says how long
that takes; it is looked at under all the load there can be, and at a quiet rate. Redis answers it from memory. Where strace is there,
the flushes themselves are counted, in a run of its own that nothing else is taken from.
"""

import argparse
import shutil
from itertools import product
from pathlib import Path

from . import servers
from .load import Figures, Pace, median, pace
from .metrics import histogram
from .proc import cpu_seconds
from .report import Report
from .servers import Lab, Server, Setup
from .table import Cell, progress, show

STORE_SECONDS, COMPLETE = "hookonce_store_seconds", 'op="complete"'


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=5, help="of one store in one round (5)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--connections", type=int, default=64, help="(64)")
    parser.add_argument("--rate", type=int, default=500, help="the quiet rate, in deliveries a second (500)")
    parser.add_argument("--workers", type=int, default=1, help="threads of hookonce (1)")


def cost(lab: Lab, pair: dict[str, Server], redis: Server, asked: argparse.Namespace) -> dict[str, tuple[Figures, float]]:
    """Figures by store, and CPU a new event with the Redis that stands beside it."""
    found: dict[str, list[Figures]] = {name: [] for name in pair}
    beside: dict[str, float] = {name: 0.0 for name in pair}
    for number, (name, server) in product(range(asked.rounds), pair.items()):
        progress(f"round {number + 1} of {asked.rounds}: {name}")
        before = cpu_seconds(redis.process.pid)
        found[name].append(pace(lab, [server], Pace(f"cost-{number}", asked.seconds, connections=asked.connections)))
        beside[name] += cpu_seconds(redis.process.pid) - before if name == "redis" else 0.0
    middle = {name: median(runs) for name, runs in found.items()}
    return {name: (it, it.cpu + beside[name] / max(it.count, 1) * 1e6) for name, it in middle.items()}


def durable(lab: Lab, server: Server, wanted: Pace) -> tuple[Figures, float, float]:
    """What came of the load, and how long completions took to be stored: p50 and p99 in milliseconds."""
    before = histogram(server.admin, STORE_SECONDS, COMPLETE)
    figures = pace(lab, [server], wanted)
    stored = histogram(server.admin, STORE_SECONDS, COMPLETE).since(before)
    return figures, stored.quantile(0.5) * 1e3, stored.quantile(0.99) * 1e3


def flushes(lab: Lab, consumer: int, wanted: Pace, workers: int) -> tuple[float, float] | None:
    """Flushes a second, and new events for each; None where strace is missing or may not look."""
    if not shutil.which("strace"):
        return None
    with lab.scene() as scene:
        trace = scene.folder / "flushes"
        # With this filter the program stops for a flush alone, and not for every call to the kernel.
        watcher: list[str | Path] = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=fdatasync,fsync", "-o", trace]
        server = servers.hookonce(scene, Setup(consumer, servers.store_url(scene, "file", 0), workers), watcher)
        before = _flushed(trace)
        figures = pace(scene, [server], wanted)
        calls = _flushed(trace) - before
    return (calls / wanted.seconds, figures.count / calls) if calls else None


def _flushed(trace: Path) -> int:
    return sum("sync(" in line for line in trace.read_text().splitlines())


def run(lab: Lab, asked: argparse.Namespace) -> Report:
    redis, consumer = servers.redis(lab), servers.consumer(lab)
    urls = {kind: servers.store_url(lab, kind, redis.port) for kind in ("file", "redis")}
    pair = {kind: servers.hookonce(lab, Setup(consumer.port, url, asked.workers)) for kind, url in urls.items()}
    report = Report()
    rows: list[list[Cell]] = []
    for name, (it, together) in cost(lab, pair, redis, asked).items():
        rows.append([name, it.rate, it.p50 / 1e3, it.p99 / 1e3, it.cpu, together, it.wrong])
        report.add(**{**vars(it), "store": name, "cpu_with_redis": together})
    heads = ["store", "req/s", "p50 ms", "p99 ms", "CPU us/event", "with Redis", "wrong"]
    show(f"New events, as fast as {asked.connections} connections can", heads, rows)

    rows = []
    loads = {"all it can": 0, f"{asked.rate:,} a second": asked.rate}
    for (load, rate), (name, server) in product(loads.items(), pair.items()):
        progress(f"completions: {name}, {load}")
        wanted = Pace(f"durable-{rate}", asked.seconds, rate, asked.connections)
        it, p50, p99 = durable(lab, server, wanted)
        counted = flushes(lab, consumer.port, wanted, asked.workers) if name == "file" else None
        rows.append([name, load, it.rate, p50, p99, *(counted or (None, None)), it.wrong])
        told = {"flushes_a_second": counted and counted[0], "events_a_flush": counted and counted[1]}
        report.add(it.wrong, store=name, load=load, rate=it.rate, stored_p50_ms=p50, stored_p99_ms=p99, **told)
    heads = ["store", "load", "req/s", "stored p50 ms", "stored p99 ms", "flushes/s", "events/flush", "wrong"]
    show("How long until a completion is stored: flushed to the disk on files, in memory at Redis", heads, rows)
    return report
