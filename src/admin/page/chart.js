// A small chart of the last minutes: what went well above the line, what did not below it.

import { draw, make, mark, say } from "./dom.js";
import { plural, rate, span } from "./words.js";

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
    this.shown = bars;
    this.current = current;
    const first = current - this.bars + 1;
    const sum = (counts, kinds) => kinds.reduce((total, kind) => total + counts[this.kinds.indexOf(kind)], 0);
    let [up, down, total] = [0, 0, Array(this.kinds.length).fill(0)];
    for (const [number, counts] of bars) {
      if (number < first || number > current) continue;
      up = Math.max(up, sum(counts, UP));
      down = Math.max(down, sum(counts, DOWN));
      total = total.map((value, nth) => value + counts[nth]);
    }
    const unit = Math.min((LINE - 2) / Math.max(up, 1), (HEIGHT - LINE - 1) / Math.max(down, 0.001));
    const shapes = new Map([...this.paths.keys()].map((kind) => [kind, ""]));
    for (const [number, counts] of bars) {
      if (number < first || number > current) continue;
      const x = (number - first) * STEP;
      this.stack(shapes, counts, x, UP, unit, -1);
      this.stack(shapes, counts, x, DOWN, unit, 1);
    }
    for (const [kind, path] of this.paths) mark(path, "d", shapes.get(kind));
    this.peak = up + down === 0 ? 0 : Math.max(...[...bars.values()].map((counts) => counts.reduce((a, b) => a + b))) / this.seconds;
    const words = this.kinds.map((kind, nth) => `${total[nth]} ${kind}`).join(", ");
    mark(this.svg, "aria-label", `The last ${span(this.bars * this.seconds)}: ${words}`);
    this.tell();
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
    this.pointed = event && Math.min(this.bars - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * this.bars)));
    this.tell();
  }

  /** What is below the chart: the bar that is pointed at, or the highest. */
  tell() {
    if (this.current === undefined) return;
    if (this.pointed === null) {
      say(this.caption, this.peak === 0 ? `nothing in ${span(this.bars * this.seconds)}` : `${span(this.bars * this.seconds)}, peak ${rate(this.peak)}/s`);
      return;
    }
    const number = this.current - this.bars + 1 + this.pointed;
    const counts = this.shown.get(number);
    const ago = span((this.current - number) * this.seconds);
    const words = counts && this.kinds.map((kind, nth) => counts[nth] && `${counts[nth]} ${kind}`).filter(Boolean).join(", ");
    say(this.caption, `${ago} ago: ${words ?? plural(0, "delivery", "deliveries")}`);
  }
}
