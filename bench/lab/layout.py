"""How the work is shared between cores, and whether what is large holds up what is small.

  sharing   a few connections that are kept, a hundred of them too, to two runtimes of a program that was started anew in each round, as
            after a restart. A runtime has the connections that it was given: what the busiest one does of all the work is between
            half and everything.
  large     deliveries of 2 KiB at an easy pace to one runtime, alone and beside bodies of 25 MiB that come one after the other on a
            connection of their own; the same through an nginx that only passes on. Latency is from when a delivery was due, and
            "sent late" is what the load itself was late by: a large body keeps the other cores busy too.
"""

import argparse
import statistics
from concurrent.futures import ThreadPoolExecutor

from . import servers
from .load import Figures, Pace, median, pace
from .proc import thread_seconds
from .report import Report
from .servers import Lab, Server, Setup
from .table import Cell, progress, said, show

MIB = 1024 * 1024
RUNTIMES = 2
# Below what any of them can do, with room for the large ones.
EASY = 500
SMALL_CONNECTIONS = 16


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, nargs="+", default=[2, 4, 8, 100], help="that are kept (2 4 8 100)")
    parser.add_argument("--body", type=int, default=25, metavar="MIB", help="of a large delivery (25)")
    parser.add_argument("--seconds", type=float, default=3, help="of one case in one round (3)")
    parser.add_argument("--rounds", type=int, default=5, help="(5)")


def busiest(lab: Lab, connections: int, seconds: float, run: str) -> tuple[float, int]:
    """What the busiest runtime does of all that the runtimes do, in percent; and how many answers were wrong."""
    with lab.scene() as scene:
        redis, consumer = servers.redis(scene), servers.consumer(scene)
        setup = Setup(consumer.port, servers.store_url(scene, "redis", redis.port), workers=RUNTIMES)
        server = servers.hookonce(scene, setup)
        before = thread_seconds(server.process.pid)
        found = pace(scene, [server], Pace(run, seconds, connections=connections))
        after = thread_seconds(server.process.pid)
    used = [after[name] - before[name] for name in (f"hookonce-{number}" for number in range(RUNTIMES))]
    return 100 * max(used) / sum(used), found.wrong


def sharing(lab: Lab, asked: argparse.Namespace, report: Report) -> None:
    rows: list[list[Cell]] = []
    for connections in asked.connections:
        shares, wrong = [], 0
        for number in range(asked.rounds):
            progress(f"round {number + 1} of {asked.rounds}: {said(connections)} connections")
            share, missed = busiest(lab, connections, min(asked.seconds, 1), f"sharing-{number}")
            shares.append(share)
            wrong += missed
        rows.append([connections, statistics.median(shares), max(shares), wrong])
        report.add(wrong, table="sharing", connections=connections, busiest_percent=shares)
    show(f"What the busier of {RUNTIMES} runtimes does", ["connections", "median %", "most %", "wrong"], rows)


def beside(lab: Lab, server: Server, asked: argparse.Namespace, number: int, is_beside: bool) -> tuple[Figures, Figures | None]:
    """What small deliveries take, and the large ones that went beside them."""
    easy = Pace(f"small-{is_beside}-{number}", asked.seconds, EASY, SMALL_CONNECTIONS)
    if not is_beside:
        return pace(lab, [server], easy), None
    with ThreadPoolExecutor(1) as other:
        # Before the small ones begin and until after they have ended.
        large = Pace(f"large-{number}", asked.seconds + 1, connections=1, body=asked.body * MIB)
        going = other.submit(pace, lab, [server], large)
        return pace(lab, [server], easy), going.result()


def large(lab: Lab, asked: argparse.Namespace, report: Report) -> None:
    redis, consumer = servers.redis(lab), servers.consumer(lab)
    setup = Setup(consumer.port, servers.store_url(lab, "redis", redis.port), workers=1, max_body=f"{asked.body + 1}MiB")
    both = [servers.hookonce(lab, setup), servers.nginx(lab, "nginx-plain", consumer.port)]
    cases = [(server, is_beside) for is_beside in (False, True) for server in both]
    found: dict[tuple[str, bool], list[tuple[Figures, Figures | None]]] = {}
    for number in range(asked.rounds):
        for server, is_beside in cases:
            progress(f"round {number + 1} of {asked.rounds}: {server.name}{', beside large ones' if is_beside else ''}")
            found.setdefault((server.name, is_beside), []).append(beside(lab, server, asked, number, is_beside))
    rows: list[list[Cell]] = []
    for (name, is_beside), rounds in found.items():
        it, others = median([small for small, _ in rounds]), [other for _, other in rounds if other]
        rate, wrong = (statistics.median(other.rate for other in others) if others else None), sum(other.wrong for other in others)
        what = f"beside {asked.body} MiB" if is_beside else "alone"
        rows.append([name, what, it.p50, it.p90, it.p99, it.max, it.sent_late_p99, rate, it.wrong + wrong])
        report.add(**{**vars(it), "wrong": it.wrong + wrong, "table": "large", "server": name, "beside": is_beside, "large_rate": rate})
    heads = ["server", "", "p50 us", "p90 us", "p99 us", "max us", "sent late us", "large/s", "wrong"]
    show(f"{EASY} deliveries of 2 KiB a second on {SMALL_CONNECTIONS} connections", heads, rows)


def run(lab: Lab, asked: argparse.Namespace) -> Report:
    report = Report()
    sharing(lab, asked, report)
    large(lab, asked, report)
    return report
