"""What is printed: tables to be read on standard output, progress on standard error."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | int | float | None


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def said(cell: Cell) -> str:
    """Three digits or so: more would not come out again in the next run."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def show(title: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Words to the left, numbers to the right."""
    texts = [[said(cell) for cell in row] for row in rows]
    widths = [max(len(line[at]) for line in [list(heads), *texts]) for at in range(len(heads))]
    is_word = [all(isinstance(row[at], str) for row in rows) for at in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        parts = [cell.ljust(width) if left else cell.rjust(width) for cell, width, left in zip(cells, widths, is_word)]
        return "  ".join(parts).rstrip()

    print(f"\n{title}\n\n{line(heads)}")
    for text in texts:
        print(line(text))
    sys.stdout.flush()


@dataclass(frozen=True)
class Promise:
    """A figure that we hold ourselves to."""

    what: str
    is_value: float
    promised: float
    unit: str = ""
    is_floor: bool = False

    @property
    def is_reached(self) -> bool:
        return self.is_value >= self.promised if self.is_floor else self.is_value <= self.promised

    def row(self) -> list[Cell]:
        bound = f"{'at least' if self.is_floor else 'at most'} {self.promised:g}{self.unit}"
        return [self.what, f"{said(self.is_value)}{self.unit}", bound, "reached" if self.is_reached else "NOT REACHED"]


def show_promises(promises: Sequence[Promise]) -> None:
    if promises:
        show("What we promise", ["figure", "is", "promised", ""], [promise.row() for promise in promises])
