"""Takes hookonce through what it does most: new events, duplicates and forgeries on each store, a mix of them at an easy pace, and a
stop in good order.

It measures nothing. A program that was built to count which ways through it are taken writes that down when it ends:
`scripts/static --trained` builds with what was learned.
"""

import argparse

from . import servers
from .load import Pace, pace, wrk
from .report import Report
from .servers import Lab, Setup
from .table import progress

MODES = ("unique", "dup", "forged")
CONNECTIONS, BODY = 64, 2048
# Well below what one worker can do, so that it waits between deliveries as it does in most places.
EASY = 2000


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=3, help="of each kind of delivery (3)")
    parser.add_argument("--stores", nargs="+", choices=["redis", "file", "memory"], default=["redis", "file", "memory"], help="(all)")


def run(lab: Lab, asked: argparse.Namespace) -> Report:
    redis, consumer, report = servers.redis(lab), servers.consumer(lab), Report()
    for store in asked.stores:
        progress(f"deliveries on {store}")
        server = servers.hookonce(lab, Setup(consumer.port, servers.store_url(lab, store, redis.port)))
        found = [wrk(server, mode, f"{store}-{mode}", asked.seconds, CONNECTIONS, BODY) for mode in MODES]
        found.append(pace(lab, [server], Pace(f"{store}-easy", asked.seconds, rate=EASY, duplicates=20)))
        server.process.stop()
        count = sum(figures.count for figures in found)
        report.add(sum(figures.wrong for figures in found), store=store, count=count)
        print(f"{store}: {count:,} deliveries")
    return report
