"""The benchmark lab of hookonce: `scripts/bench` runs it."""
