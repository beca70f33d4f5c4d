"""Latency at half load, side by side with an nginx that only passes on.

Finds out what either can do at most, takes half of the smaller, and sends deliveries at that rate, each when it is due and not
when the last was answered: a server that stalls is asked all the same, and what waits meanwhile counts. Latency is from when a
delivery was due. The difference is what hookonce adds for verifying, claiming and completing, with the way to Redis.

`hookonce_overhead_seconds` is what hookonce says of itself: its own time, without store and consumer. "sent late" is by how much the
load itself was late at p99: where it is not small beside p99, the machine is too busy for these figures.
"""

import argparse
import statistics

from . import servers
from .deliveries import probe
from .load import Figures, Pace, median, pace, wrk
from .metrics import Histogram, histogram
from .report import Report
from .servers import Lab, Server, Setup
from .table import Cell, progress, show

HEADS = ["server", "req/s", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us", "CPU us/req", "sent late us", "wrong"]
OVERHEAD = "hookonce_overhead_seconds"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=10, help="of one server in one round (10)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--connections", type=int, default=64, help="(64)")
    parser.add_argument("--body", type=int, default=2048, metavar="BYTES", help="(2048)")
    parser.add_argument("--rate", type=int, help="requests a second, instead of half the load")
    parser.add_argument("--workers", type=int, default=1, help="threads of hookonce (1)")
    parser.add_argument("--store", choices=["redis", "file", "memory"], default="redis", help="of hookonce (redis)")


def half_load(pair: list[Server], asked: argparse.Namespace) -> int:
    most = []
    for server in pair:
        progress(f"what {server.name} can do at most")
        probe(server.name, server.port, "most", asked.body, server.verifies)
        most.append(wrk(server, "unique", "most", min(asked.seconds, 3), asked.connections, asked.body).rate)
    return max(1, round(min(most) / 2))


def measure(lab: Lab, pair: list[Server], rate: int, asked: argparse.Namespace) -> tuple[dict[str, list[Figures]], Histogram]:
    found: dict[str, list[Figures]] = {}
    own = Histogram()
    for number in range(asked.rounds):
        for server in pair:
            progress(f"round {number + 1} of {asked.rounds}: {server.name} at {rate} a second")
            before = histogram(server.admin, OVERHEAD) if server.admin else Histogram()
            wanted = Pace(f"pace-{number}", asked.seconds, rate, asked.connections, body=asked.body)
            found.setdefault(server.name, []).append(pace(lab, [server], wanted))
            if server.admin:
                spent = histogram(server.admin, OVERHEAD).since(before)
                own = Histogram({bound: count + own.buckets.get(bound, 0.0) for bound, count in spent.buckets.items()})
    return found, own


def row(name: str, it: Figures) -> list[Cell]:
    return [name, it.rate, it.p50, it.p90, it.p99, it.p999, it.max, it.cpu, it.sent_late_p99, it.wrong]


def run(lab: Lab, asked: argparse.Namespace) -> Report:
    redis, consumer = servers.redis(lab), servers.consumer(lab)
    plain = servers.nginx(lab, "nginx-plain", consumer.port)
    store = servers.store_url(lab, asked.store, redis.port)
    pair = [plain, servers.hookonce(lab, Setup(consumer.port, store, asked.workers))]
    rate = asked.rate or half_load(pair, asked)
    found, own = measure(lab, pair, rate, asked)

    report, rows = Report(), []
    for name, runs in found.items():
        rows.append(row(name, median(runs)))
        report.add(**{**vars(median(runs)), "server": name})
    differences: list[Cell] = ["difference", None]
    for field in ("p50", "p90", "p99", "p999", "max", "cpu"):
        rounds = zip(found["hookonce"], found["nginx-plain"])
        differences.append(statistics.median(getattr(ours, field) - getattr(theirs, field) for ours, theirs in rounds))
    rows.append([*differences, None, None])
    show(f"{rate:,} deliveries a second on {asked.connections} connections, hookonce on {asked.store}", HEADS, rows)
    overhead = {"p50_us": own.quantile(0.5) * 1e6, "p99_us": own.quantile(0.99) * 1e6, "count": own.count}
    print(f"\n{OVERHEAD}: p50 {overhead['p50_us']:.0f} us, p99 {overhead['p99_us']:.0f} us, of {own.count:,.0f} deliveries")
    report.add(overhead=overhead, rate=rate, difference=dict(zip(HEADS[2:8], differences[2:])))
    return report
