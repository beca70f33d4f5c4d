"""What hookonce says about itself on /metrics."""

import re
import urllib.request
from dataclasses import dataclass, field


@dataclass
class Histogram:
    """Counts up to each bound, in seconds; of all label sets that were asked for together."""

    buckets: dict[float, float] = field(default_factory=dict)

    def since(self, before: "Histogram") -> "Histogram":
        return Histogram({bound: count - before.buckets.get(bound, 0.0) for bound, count in self.buckets.items()})

    @property
    def count(self) -> float:
        return max(self.buckets.values(), default=0.0)

    def quantile(self, share: float) -> float:
        """Taken as even within a bucket, as Prometheus does."""
        wanted, low, below = share * self.count, 0.0, 0.0
        for bound, count in sorted(self.buckets.items()):
            if count >= wanted and count > below:
                return low if bound == float("inf") else low + (bound - low) * (wanted - below) / (count - below)
            low, below = bound, count
        return low


def histogram(admin: int, name: str, label: str = "") -> Histogram:
    """`label` is one of those the metric must have, as it is written: op="complete"."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = Histogram()
    for labels, bound, count in re.findall(rf'^{name}_bucket{{(.*?)le="([^"]+)"}} (\S+)$', text, re.MULTILINE):
        if label in labels:
            key = float(bound)
            found.buckets[key] = found.buckets.get(key, 0.0) + float(count)
    return found
