// A small chart of the last minutes: what went well above the line, what did not below it.

import { draw, make, mark, say } from "./dom.js";
import { rate, span } from "./words.js";

const UP = ["forwarded", "duplicate", "queued"];
const DOWN = ["failed", "refused"];
const HEIGHT = 48;
const LINE = 36;
const STEP = 4;
const WIDTH = 3;
/** So much of a bar is always seen, however small its share. */
const LEAST = 1.5;

export class Chart {
  constructor(instance) {
    this.kinds = instance.kinds;
    this.bars = instance.bars;
    this.seconds = instance.bar_s;
    this.paths = new Map([...UP, ...DOWN].map((kind) => [kind, draw("path", { class: "bars", "data-kind": kind })]));
    const line = draw("path", { class: "line", d: `M0 ${LINE}H${this.bars * STEP}` });
    this.svg = draw(
      "svg",
      { class: "chart", viewBox: `0 0 ${this.bars * STEP} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      ...this.paths.values(),
      line,
    );
    this.caption = make("p", { class: "caption quiet" });
    this.node = make("div", { class: "chart-box" }, this.svg, this.caption);
    this.pointed = null;
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.point(null));
  }

  /** Draws bars by number, of which `current` is the last. */
  show(bars, current) {
    this.first = current - this.bars + 1;
    this.shown = new Map([...bars].filter(([number]) => number >= this.first && number <= current));
    const all = [...this.shown.values()];
    const sum = (counts, kinds) => kinds.reduce((total, kind) => total + counts[this.kinds.indexOf(kind)], 0);
    const highest = (kinds) => Math.max(0, ...all.map((counts) => sum(counts, kinds)));
    const [up, down] = [highest(UP), highest(DOWN)];
    this.peak = highest(this.kinds) / this.seconds;
    const unit = Math.min((LINE - 2) / Math.max(up, 1), (HEIGHT - LINE - 1) / Math.max(down, 0.001));
    const shapes = new Map([...this.paths.keys()].map((kind) => [kind, ""]));
    for (const [number, counts] of this.shown) {
      const x = (number - this.first) * STEP;
      this.stack(shapes, counts, x, UP, unit, -1);
      this.stack(shapes, counts, x, DOWN, unit, 1);
    }
    for (const [kind, path] of this.paths) mark(path, "d", shapes.get(kind));
    const total = this.kinds.map((kind) => `${all.reduce((number, counts) => number + sum(counts, [kind]), 0)} ${kind}`);
    mark(this.svg, "aria-label", `The last ${this.length}: ${total.join(", ")}`);
    this.tell();
  }

  get length() {
    return span(this.bars * this.seconds);
  }

  stack(shapes, counts, x, kinds, unit, direction) {
    let y = LINE + (direction > 0 ? 1 : 0);
    for (const kind of kinds) {
      const number = counts[this.kinds.indexOf(kind)];
      if (number === 0) continue;
      const height = Math.max(number * unit, LEAST) * direction;
      shapes.set(kind, `${shapes.get(kind)}M${x} ${y.toFixed(2)}v${height.toFixed(2)}h${WIDTH}v${(-height).toFixed(2)}z`);
      y += height;
    }
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const nth = event && Math.floor(((event.clientX - box.left) / box.width) * this.bars);
    this.pointed = event && Math.min(this.bars - 1, Math.max(0, nth));
    this.tell();
  }

  /** What is below the chart: the bar that is pointed at, or the highest. */
  tell() {
    if (!this.shown) return;
    if (this.pointed === null) {
      const whole = this.peak === 0 ? `nothing in ${this.length}` : `${this.length}, peak ${rate(this.peak)}/s`;
      return say(this.caption, whole);
    }
    const counts = this.shown.get(this.first + this.pointed) ?? [];
    const parts = this.kinds.map((kind, nth) => counts[nth] && `${counts[nth]} ${kind}`).filter(Boolean);
    const ago = span((this.bars - 1 - this.pointed) * this.seconds);
    say(this.caption, `${ago} ago: ${parts.join(", ") || "nothing"}`);
  }
}
