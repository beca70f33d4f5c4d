"""What a delivery costs as something grows: CPU a request should stay where it is, or grow with the bytes and no faster.

  body          bytes a delivery
  providers     that are configured, all of them used
  connections   64 of them busy, the rest idle
  duplicates    percent of the deliveries
  keys          events that the store remembers, for each store
  distance      Redis next to it, and a round trip of 1 ms away
  replicas      on one Redis, the CPU of both together

Name some of them, or all are run. Cases of one table take turns, round by round; deliveries are sent as fast as their connections
can, so that p50 and p99 are those of a full load.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from . import servers, stores
from .load import Figures, Pace, hold, median, pace
from .report import Report
from .servers import Lab, Server, Setup
from .table import Cell, progress, said, show

KIB, MIB = 1024, 1024 * 1024
BUSY = 64
HEADS = ["", "connections", "req/s", "p50 ms", "p99 ms", "CPU us/req", "RSS MiB", "wrong"]


@dataclass(frozen=True)
class Sizes:
    """How far things grow. A smoke test has its own."""

    bodies: Sequence[int] = (0, 2 * KIB, 64 * KIB, MIB, 25 * MIB)
    providers: Sequence[int] = (1, 10, 100, 500)
    connections: Sequence[int] = (1, 8, 64, 1000, 10_000)
    duplicates: Sequence[int] = (0, 5, 50, 100)
    keys: Sequence[int] = (1000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Case:
    """One row of a table: what is loaded, with what."""

    label: str
    targets: list[Server]
    pace: Pace
    idle: int = 0


@dataclass(frozen=True)
class Bench:
    """What all tables need."""

    lab: Lab
    sizes: Sizes
    seconds: float

    def redis(self) -> str:
        return f"redis://{servers.redis(self.lab).address}"

    def setup(self, store: str | None = None) -> Setup:
        return Setup(servers.consumer(self.lab).port, store or self.redis())

    def asked(self) -> Pace:
        return Pace("growth", self.seconds)


def body(bench: Bench) -> list[Case]:
    """Bytes a body"""
    server = servers.hookonce(bench.lab, replace(bench.setup(), max_body="26MiB"))

    def case(size: int) -> Case:
        # One address may have a quarter of all that is buffered under way; more is refused, and rightly. Twice this is below it.
        connections = max(1, min(BUSY, 25 * MIB // max(size, 1)))
        return Case(_bytes(size), [server], replace(bench.asked(), body=size, connections=connections))

    return [case(size) for size in bench.sizes.bodies]


def plural(count: int) -> str:
    return "" if count == 1 else "s"


def _bytes(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


def providers(bench: Bench) -> list[Case]:
    """Providers that are configured"""
    setup = bench.setup()

    def case(count: int) -> Case:
        server = servers.hookonce(bench.lab, replace(setup, providers=count))
        return Case(f"{count} provider{plural(count)}", [server], replace(bench.asked(), paths=count))

    return [case(count) for count in bench.sizes.providers]


def connections(bench: Bench) -> list[Case]:
    """Open connections, 64 of them busy"""
    server = servers.hookonce(bench.lab, bench.setup())

    def case(count: int) -> Case:
        busy = min(count, BUSY)
        return Case(f"{said(count)} connection{plural(count)}", [server], replace(bench.asked(), connections=busy), idle=count - busy)

    return [case(count) for count in bench.sizes.connections]


def duplicates(bench: Bench) -> list[Case]:
    """Percent that are duplicates"""
    server = servers.hookonce(bench.lab, bench.setup())
    return [Case(f"{share} %", [server], replace(bench.asked(), duplicates=share)) for share in bench.sizes.duplicates]


def keys(bench: Bench) -> list[Case]:
    """Events that the store remembers"""
    upstream = servers.consumer(bench.lab).port

    def case(kind: str, count: int) -> Case:
        redis = servers.redis(bench.lab) if kind == "redis" else None
        store = servers.store_url(bench.lab, kind, redis.port if redis else 0)
        server = servers.hookonce(bench.lab, Setup(upstream, store))
        if redis:
            stores.fill_redis(redis, count)
        else:
            stores.fill_through(bench.lab, server, count)
        return Case(f"{kind}, {said(count)} events", [server], bench.asked())

    return [case(kind, count) for kind in ("memory", "file", "redis") for count in bench.sizes.keys]


def distance(bench: Bench) -> list[Case]:
    """How far away Redis is"""
    upstream, redis = servers.consumer(bench.lab).port, servers.redis(bench.lab)
    away = servers.relay(bench.lab, redis, "1ms")
    places = {"Redis beside it": redis, "Redis 1 ms away": away}
    line = {label: servers.hookonce(bench.lab, Setup(upstream, f"redis://{place.address}")) for label, place in places.items()}
    return [Case(label, [server], bench.asked()) for label, server in line.items()]


def replicas(bench: Bench) -> list[Case]:
    """Replicas on one Redis"""
    setup = bench.setup()
    both = [servers.hookonce(bench.lab, setup), servers.hookonce(bench.lab, setup)]
    return [Case("1 replica", both[:1], bench.asked()), Case("2 replicas", both, bench.asked())]


TABLES: dict[str, Callable[[Bench], list[Case]]] = {
    "body": body,
    "providers": providers,
    "connections": connections,
    "duplicates": duplicates,
    "keys": keys,
    "distance": distance,
    "replicas": replicas,
}


def table(name: str) -> str:
    if name not in TABLES:
        raise argparse.ArgumentTypeError(f"there is no {name!r}; known are {', '.join(TABLES)}")
    return name


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", type=table, help=f"of {', '.join(TABLES)} (all)")
    parser.add_argument("--seconds", type=float, default=3, help="of one case in one round (3)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--keys", type=int, nargs="+", help="other numbers of events than 1,000, 100,000 and 1,000,000")
    parser.add_argument("--long", action="store_true", help="10,000,000 events too, which take an hour to fill")


def once(lab: Lab, case: Case, run: str) -> Figures:
    with ExitStack() as held:
        wrong = held.enter_context(hold(lab, case.targets[0], case.idle, f"{run}-idle")) if case.idle else 0
        figures = pace(lab, case.targets, replace(case.pace, run=run))
    return replace(figures, wrong=figures.wrong + wrong)


def measure(lab: Lab, cases: list[Case], rounds: int) -> list[Figures]:
    found: list[list[Figures]] = [[] for _ in cases]
    for number in range(rounds):
        for at, case in enumerate(cases):
            progress(f"round {number + 1} of {rounds}: {case.label}")
            found[at].append(once(lab, case, f"growth-{number}-{at}"))
    return [median(runs) for runs in found]


def grow(lab: Lab, names: Sequence[str], sizes: Sizes, seconds: float, rounds: int) -> Report:
    report = Report()
    for name in names:
        progress(name)
        with lab.scene() as scene:
            cases = TABLES[name](Bench(scene, sizes, seconds))
            figures = measure(scene, cases, rounds)
        rows: list[list[Cell]] = []
        for case, it in zip(cases, figures):
            open_connections = case.pace.connections + case.idle
            rows.append([case.label, open_connections, it.rate, it.p50 / 1e3, it.p99 / 1e3, it.cpu, it.rss_mib, it.wrong])
            report.add(**{**vars(it), "table": name, "case": case.label})
        show(TABLES[name].__doc__ or name, HEADS, rows)
    return report


def run(lab: Lab, asked: argparse.Namespace) -> Report:
    sizes = replace(Sizes(), keys=asked.keys) if asked.keys else Sizes()
    if asked.long:
        sizes = replace(sizes, keys=[*sizes.keys, 10_000_000])
    return grow(lab, asked.names or list(TABLES), sizes, asked.seconds, asked.rounds)
