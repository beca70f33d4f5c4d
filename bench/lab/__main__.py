"""Reads the command line, runs one part, writes its figures."""

import argparse
import json
import os
import platform
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from . import compare, exercise, file, growth, layout, memory, pace, smoke, start
from .proc import Trouble
from .report import Report
from .servers import Lab, open_lab


@dataclass(frozen=True)
class Part:
    """A subcommand: how it is asked for, and what it does."""

    help: str
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Lab, argparse.Namespace], Report]


PARTS = {
    name: Part(module.__doc__ or "", module.options, module.run)
    for name, module in {
        "compare": compare,
        "pace": pace,
        "growth": growth,
        "layout": layout,
        "memory": memory,
        "start": start,
        "file": file,
        "exercise": exercise,
        "smoke": smoke,
    }.items()
}


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="scripts/bench")
    parts = whole.add_subparsers(dest="part", required=True)
    for name, part in PARTS.items():
        one = parts.add_parser(name, description=part.help, formatter_class=argparse.RawDescriptionHelpFormatter)
        one.add_argument("--binary", type=Path, metavar="PATH", help="a hookonce that is built already")
        one.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
        one.add_argument("--load", type=Path, help=argparse.SUPPRESS)
        one.add_argument("--target", type=Path, help=argparse.SUPPRESS)
        part.options(one)
    return whole


def machine() -> dict[str, object]:
    """What a figure means little without."""
    load = os.getloadavg()[0]
    return {"cores": os.cpu_count(), "kernel": platform.release(), "architecture": platform.machine(), "load_before": load}


def end(_signal: int, _frame: FrameType | None) -> NoReturn:
    """As an exception, so that what was started is ended on the way out."""
    sys.exit("ended")


def main() -> int:
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, end)
    where = machine()
    print(f"{where['cores']} cores, load {where['load_before']:.1f} before the run; a machine that does other things measures those too")
    try:
        with open_lab(options.binary.resolve(), options.load.resolve(), options.target.resolve()) as lab:
            report = PARTS[options.part].run(lab, options)
    except Trouble as trouble:
        print(f"bench: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    report.show_end()
    if options.json:
        told = {"part": options.part, "machine": where, **report.told()}
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
