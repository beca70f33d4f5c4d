"""What a part has found, for people and for machines."""

from dataclasses import dataclass, field

from .table import Promise, show_promises


@dataclass
class Report:
    figures: list[dict[str, object]] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    """Answers that were not right, or missing, in all that was measured."""
    wrong: int = 0

    def add(self, wrong: int = 0, **figure: object) -> None:
        self.figures.append({**figure, "wrong": wrong})
        self.wrong += wrong

    def show_end(self) -> None:
        show_promises(self.promises)
        if self.wrong:
            print(f"\n{self.wrong:,} answers were wrong or missing: the figures beside them mean nothing.")

    def told(self) -> dict[str, object]:
        promises = [
            {"what": promise.what, "is": promise.is_value, "promised": promise.promised, "is_reached": promise.is_reached}
            for promise in self.promises
        ]
        return {"figures": self.figures, "promises": promises, "wrong": self.wrong}
