"""How long hookonce takes from its start until /readyz says 200, on each store.

The clock runs from before the process is made, so that a millisecond or so is the lab's own. A file store with many events in it
is filled by deliveries first, then opened after a stop in good order, and after a kill.
"""

import argparse
import http.client
import statistics
import time
from collections.abc import Callable

from . import servers, stores
from .proc import Process, Trouble
from .report import Report
from .servers import Lab, Setup
from .table import Cell, Promise, progress, said, show

START_MS, LONG_START_MS = 50, 1000
LONG_KEYS = 10_000_000
PATIENCE = 120.0
# How often it is looked: much finer than what is measured.
STEP = 0.0005


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=9, help="how often each; the median counts (9)")
    parser.add_argument("--keys", type=int, default=1_000_000, help="events in the file store that is not empty; a million take some minutes to fill (1000000)")
    parser.add_argument("--long", action="store_true", help=f"{LONG_KEYS:,} events too, which take half an hour to fill")
    parser.add_argument("--workers", type=int, help="threads of hookonce; its own default otherwise")


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def start_once(lab: Lab, setup: Setup) -> tuple[float, Process]:
    """Milliseconds until it is ready, and the process."""
    began = time.perf_counter()
    process = servers.launch(lab, setup)
    admin = int(process.wait_for_line(servers.SERVING, PATIENCE, STEP)[2])
    while not is_ready(admin):
        if time.perf_counter() - began > PATIENCE:
            raise Trouble("hookonce was not ready in time")
        process.check()
        time.sleep(STEP)
    return (time.perf_counter() - began) * 1e3, process


def starts(lab: Lab, asked: argparse.Namespace, store: str, end: Callable[[Process], None]) -> list[float]:
    found = []
    with lab.scene() as scene:
        for _ in range(asked.times):
            took, process = start_once(scene, Setup(upstream=1, store=store, workers=asked.workers))
            found.append(took)
            end(process)
    return found


def run(lab: Lab, asked: argparse.Namespace) -> Report:
    redis = servers.redis(lab)
    report = Report()
    rows: list[list[Cell]] = []

    def note(state: str, store: str, promised: float, end: Callable[[Process], None] = Process.kill) -> None:
        progress(f"{asked.times} starts on {state}")
        found = starts(lab, asked, store, end)
        middle = statistics.median(found)
        rows.append([state, middle, min(found), max(found)])
        report.add(state=state, median_ms=middle, least_ms=min(found), most_ms=max(found))
        report.promises.append(Promise(f"start on {state}", middle, promised, " ms"))

    note("memory", "memory:", START_MS)
    note("redis", f"redis://127.0.0.1:{redis.port}", START_MS)
    note("file, empty", servers.store_url(lab, "file", 0), START_MS, Process.stop)
    for keys in [asked.keys] + ([LONG_KEYS] if asked.long else []):
        promised = START_MS if keys < LONG_KEYS else LONG_START_MS
        url = stores.filled_file(lab, keys)
        note(f"file, {said(keys)} events", url, promised, Process.stop)
        note(f"file, {said(keys)} events, killed", url, promised, Process.kill)
    show("From start to ready, in milliseconds", ["store", "median", "least", "most"], rows)
    return report
