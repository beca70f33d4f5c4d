"""hookonce beside what one would use instead, on the same signed deliveries.

  nginx-plain   passes on and does nothing else: what forwarding costs
  nginx-lua     verifies through OpenSSL, and takes the id with one SET NX EX
  express       the same in Node, as most would write it
  floor         what hookonce does to sockets, Redis and bodies, and nothing else: no limit, lease, second try, log or metric. Nothing
                that verifies and dedupes costs less, so it tells what is left to gain

Servers take turns, round by round, so that what else the machine does falls on all alike; figures are medians of the rounds.
CPU a request is what counts: it is the server's own, whatever the load and the consumer take. The last column is how much
more a peer costs than hookonce. "wrong" are answers that are not right, and events that reached the consumer too often or not at all.
hookonce runs with its defaults, and so writes a log line a delivery; the peers log nothing.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from . import servers
from .deliveries import probe
from .load import Figures, median, wrk
from .proc import Trouble
from .report import Report
from .servers import Lab, Server, Setup
from .table import Cell, Promise, progress, show

MODES = ("unique", "dup", "mix", "forged")
PEERS = ("nginx-plain", "nginx-lua", "express", "floor")
# What a peer must cost of what hookonce costs, at least.
PROMISED = {
    ("nginx-plain", "unique"): 1.0,
    ("nginx-lua", "unique"): 2.2,
    ("nginx-lua", "dup"): 3.5,
    ("nginx-lua", "forged"): 2.2,
}
# As in deliveries.lua.
MIX_EVERY, MIX_BACK = 20, 1000
HEADS = ["mode", "server", "req/s", "p50 ms", "p99 ms", "CPU us/req", "RSS MiB", "wrong", "CPU ratio"]


def names(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Reads a list with commas, of known names."""

    def read(text: str) -> list[str]:
        given = [name for name in text.split(",") if name]
        if unknown := [name for name in given if name not in known]:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}; known are {', '.join(known)}")
        return given

    return read


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=4, help="of one server in one round (4)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--connections", type=int, default=64, help="(64)")
    parser.add_argument("--body", type=int, default=2048, metavar="BYTES", help="(2048)")
    parser.add_argument("--one-body", action="store_true", help="all events have the same body: hookonce takes them for replays")
    parser.add_argument("--modes", type=names(MODES), default=list(MODES), help=f"of {','.join(MODES)} (all)")
    parser.add_argument("--peers", type=names(PEERS), default=list(PEERS), help=f"of {','.join(PEERS)} (all)")
    parser.add_argument("--workers", type=int, default=1, help="threads of hookonce; the peers have one (1)")
    parser.add_argument("--store", choices=["redis", "file", "memory"], default="redis", help="of hookonce (redis)")


def line_up(lab: Lab, asked: argparse.Namespace, consumer: Server) -> list[Server]:
    redis = servers.redis(lab)
    store = servers.store_url(lab, asked.store, redis.port)
    runners = [servers.hookonce(lab, Setup(consumer.port, store, asked.workers))]
    peers = [servers.peer(lab, name, consumer.port, redis.port) for name in asked.peers]
    return runners + [peer for peer in peers if peer]


def takes(server: Server, mode: str) -> bool:
    """Whoever verifies nothing and remembers nothing has only one mode."""
    return server.verifies or mode == "unique"


def new_events(mode: str, count: int) -> int:
    """How many of that many deliveries are to be forwarded; deliveries.lua says which."""
    match mode:
        case "unique":
            return count
        case "mix":
            return count - max(0, count // MIX_EVERY - MIX_BACK // MIX_EVERY)
    return 0


def misforwarded(mode: str, count: int, forwards: int, connections: int) -> int:
    """Forwards too many or too few. As many as there are connections may have been under way when the count ended."""
    slack = 0 if mode in ("dup", "forged") else connections
    return max(0, abs(forwards - new_events(mode, count)) - slack)


def measure(line: list[Server], consumer: Server, asked: argparse.Namespace) -> dict[tuple[str, str], Figures]:
    found: dict[tuple[str, str], list[Figures]] = {}
    count = servers.Count(consumer)
    for mode, number, server in product(asked.modes, range(asked.rounds), line):
        if not takes(server, mode):
            continue
        run = f"{mode}-{number}"
        progress(f"{mode}, round {number + 1} of {asked.rounds}: {server.name}")
        probe(server.name, server.port, run, asked.body, server.verifies)
        before = count.settled()
        figures = wrk(server, mode, run, asked.seconds, asked.connections, asked.body, asked.one_body)
        forwards = count.settled() - before
        amiss = misforwarded(mode, figures.count, forwards, asked.connections)
        found.setdefault((mode, server.name), []).append(replace(figures, wrong=figures.wrong + amiss))
    return {key: median(runs) for key, runs in found.items()}


def ratio(found: dict[tuple[str, str], Figures], mode: str, name: str) -> float | None:
    own, other = found.get((mode, "hookonce")), found.get((mode, name))
    return other.cpu / own.cpu if own and other and own.cpu > 0 else None


def run(lab: Lab, asked: argparse.Namespace) -> Report:
    if 0 < asked.body < 128:
        raise Trouble("--body: 0, or at least 128 bytes")
    consumer = servers.consumer(lab)
    found = measure(line_up(lab, asked, consumer), consumer, asked)
    report, rows = Report(), []
    for (mode, name), it in found.items():
        cells: list[Cell] = [mode, name, it.rate, it.p50 / 1e3, it.p99 / 1e3, it.cpu, it.rss_mib, it.wrong, ratio(found, mode, name)]
        rows.append(cells)
        report.add(**{**vars(it), "mode": mode, "server": name, "ratio": ratio(found, mode, name)})
    show(f"{asked.connections} connections, {asked.body:,} bytes a body, hookonce on {asked.store}", HEADS, rows)
    for (name, mode), least in PROMISED.items():
        if (value := ratio(found, mode, name)) is not None:
            report.promises.append(Promise(f"CPU of {name} / hookonce, {mode}", value, least, is_floor=True))
    return report
