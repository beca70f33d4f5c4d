"""Every part for a second, with small sizes: shows that the lab works, and that what it measures answers rightly. Its figures mean
nothing. Ends with 1 if an answer was wrong; takes less than a minute.
"""

import argparse
import time
from collections.abc import Callable
from types import ModuleType

from . import compare, exercise, file, growth, layout, memory, pace, start
from .report import Report
from .servers import Lab
from .table import progress

SMALL = growth.Sizes(
    bodies=(0, 2048, 25 * growth.MIB),
    providers=(1, 20),
    connections=(1, 200),
    duplicates=(0, 50, 100),
    keys=(500,),
)


def options(_parser: argparse.ArgumentParser) -> None:
    """There is nothing to choose."""


def defaults(part: ModuleType, *words: str) -> argparse.Namespace:
    """What the part would be asked for with these words."""
    parser = argparse.ArgumentParser()
    part.options(parser)
    return parser.parse_args(words)


def run(lab: Lab, _asked: argparse.Namespace) -> Report:
    began = time.monotonic()
    parts: dict[str, Callable[[Lab], Report]] = {
        "compare": lambda scene: compare.run(scene, defaults(compare, "--seconds", "1", "--rounds", "1", "--connections", "8")),
        "pace": lambda scene: pace.run(scene, defaults(pace, "--seconds", "1", "--rounds", "1", "--connections", "8")),
        "growth": lambda scene: growth.grow(scene, list(growth.TABLES), SMALL, 0.3, 1),
        "layout": lambda scene: layout.run(scene, defaults(layout, "--seconds", "0.5", "--rounds", "1", "--connections", "4")),
        "memory": lambda scene: memory.run(scene, defaults(memory, "--seconds", "1", "--busy", "100", "--idle", "100")),
        "start": lambda scene: start.run(scene, defaults(start, "--times", "2", "--keys", "500")),
        "file": lambda scene: file.run(scene, defaults(file, "--seconds", "0.5", "--rounds", "1")),
        "exercise": lambda scene: exercise.run(scene, defaults(exercise, "--seconds", "1", "--stores", "memory")),
    }
    whole = Report()
    for name, part in parts.items():
        progress(f"smoke: {name}")
        with lab.scene() as scene:
            report = part(scene)
        whole.add(report.wrong, part=name)
        if not report.figures:
            whole.wrong += 1
    print(f"\n{len(parts)} parts in {time.monotonic() - began:.0f} s; {'all answers were right' if not whole.wrong else 'FAILED'}")
    return whole
