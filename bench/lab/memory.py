"""What hookonce keeps resident: idle, under a thousand busy connections, and for connections on which nothing happens.

Busy are a thousand deliveries under way at once, for a consumer that takes 100 ms. Idle connections have had one delivery each, as
those of a provider's pool have; what one costs is the growth over the same program without them, which has served some
deliveries before.
"""

import argparse
import threading

from . import servers
from .load import Pace, hold, pace
from .proc import rss_at_rest_kib, rss_kib, settle
from .report import Report
from .servers import Lab, Server, Setup
from .table import Promise, progress, show

CONSUMER_DELAY = "100ms"
IDLE_MIB, BUSY_MIB, CONNECTION_KIB = 15, 64, 12


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--busy", type=int, default=1000, help="connections with a delivery under way (1000)")
    parser.add_argument("--idle", type=int, nargs="+", default=[1000, 10_000], help="connections that are only held (1000 10000)")
    parser.add_argument("--seconds", type=float, default=8, help="of the busy ones (8)")
    parser.add_argument("--workers", type=int, help="threads of hookonce; its own default otherwise")
    parser.add_argument("--store", choices=["redis", "file", "memory"], default="redis", help="(redis)")


class Watch(threading.Thread):
    """Looks at the memory ten times a second, and keeps the most it saw."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.pid = server.process.pid
        self.most_kib = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            self.most_kib = max(self.most_kib, rss_kib(self.pid))

    def end(self) -> int:
        self.over.set()
        self.join()
        return self.most_kib


def fresh(lab: Lab, asked: argparse.Namespace, is_slow: bool = False) -> Server:
    """A program of its own for each figure: memory that was used once is not given back at once."""
    redis = servers.redis(lab)
    consumer = servers.slow_consumer(lab, CONSUMER_DELAY) if is_slow else servers.consumer(lab)
    return servers.hookonce(lab, Setup(consumer.port, servers.store_url(lab, asked.store, redis.port), asked.workers))


def idle(lab: Lab, asked: argparse.Namespace) -> float:
    progress("idle")
    with lab.scene() as scene:
        server = fresh(scene, asked)
        settle([server.process.pid])
        return rss_kib(server.process.pid) / 1024


def busy(lab: Lab, asked: argparse.Namespace) -> tuple[float, float, int]:
    """The most memory in MiB, requests a second, and wrong answers."""
    progress(f"{asked.busy:,} busy connections")
    with lab.scene() as scene:
        server = fresh(scene, asked, is_slow=True)
        watch = Watch(server)
        watch.start()
        figures = pace(scene, [server], Pace("busy", asked.seconds, connections=asked.busy))
        return watch.end() / 1024, figures.rate, figures.wrong


def held(lab: Lab, asked: argparse.Namespace, connections: int) -> tuple[float, float, int]:
    """Memory in MiB with so many idle connections, KiB for each of them, and wrong answers."""
    progress(f"{connections:,} idle connections")
    with lab.scene() as scene:
        server = fresh(scene, asked)
        pace(scene, [server], Pace("before", seconds=10, count=1000))
        before = rss_at_rest_kib(server.process.pid)
        with hold(scene, server, connections, "held") as wrong:
            after = rss_at_rest_kib(server.process.pid)
        return after / 1024, (after - before) / connections, wrong


def run(lab: Lab, asked: argparse.Namespace) -> Report:
    report = Report()
    idle_mib = idle(lab, asked)
    report.add(state="idle", rss_mib=idle_mib)
    report.promises.append(Promise("memory, idle", idle_mib, IDLE_MIB, " MiB"))
    rows: list[list[str | float | int | None]] = [["idle", idle_mib, None, None, 0]]

    busy_mib, rate, wrong = busy(lab, asked)
    state = f"{asked.busy:,} busy connections"
    report.add(wrong, state=state, rss_mib=busy_mib, rate=rate)
    report.promises.append(Promise(f"memory, {state}", busy_mib, BUSY_MIB, " MiB"))
    rows.append([state, busy_mib, None, rate, wrong])

    for connections in asked.idle:
        mib, kib, wrong = held(lab, asked, connections)
        state = f"{connections:,} idle connections"
        report.add(wrong, state=state, rss_mib=mib, kib_a_connection=kib)
        report.promises.append(Promise(f"a connection of {state}", kib, CONNECTION_KIB, " KiB"))
        rows.append([state, mib, kib, None, wrong])
    show(f"Resident memory of hookonce on {asked.store}", ["state", "RSS MiB", "KiB/connection", "req/s", "wrong"], rows)
    return report
