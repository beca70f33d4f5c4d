// Numbers, times and outcomes as people read them.

const plain = new Intl.NumberFormat("en");
const coarse = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => (number < 100000 ? plain : coarse).format(number);

export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;

export function rate(value) {
  if (value === 0) return "0";
  if (value < 0.1) return "<0.1";
  return value < 10 ? value.toFixed(1) : count(Math.round(value));
}

/** A share in per cent, "–" of nothing. Neither 0 nor 100 where there is an exception. */
export function share(part, whole) {
  if (whole === 0) return "–";
  const value = (100 * part) / whole;
  if (part > 0 && value < 1) return "<1 %";
  if (part < whole && value > 99) return ">99 %";
  return `${Math.round(value)} %`;
}

/** A length of time in seconds, in its two largest units. */
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 && s < 600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

/** Milliseconds, or seconds where they are many. */
export function took(ms) {
  return ms >= 10000 ? `${digits(ms / 1000)} s` : `${digits(ms)} ms`;
}

/** A quantile: seconds, and whether it lies below or above them. */
export function quantile(value) {
  if (!value) return "–";
  const [seconds, side] = value;
  return `${side}${took(seconds * 1000)}`;
}

/** Two of them, with their unit once where it is the same. */
export function quantiles(low, high) {
  const [first, second] = [quantile(low), quantile(high)];
  const unit = second.slice(second.indexOf(" "));
  return `${first.endsWith(unit) ? first.slice(0, -unit.length) : first} · ${second}`;
}

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let nth = 0;
  let value = number;
  while (value >= 1024 && nth < units.length - 1) {
    value /= 1024;
    nth += 1;
  }
  return `${nth === 0 ? value : value.toFixed(1)} ${units[nth]}`;
}

const two = (number) => String(number).padStart(2, "0");

/** The time of day here. */
export function clock(text) {
  const at = new Date(text);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The time of day, with its date where that is another one than today's. */
export function moment(text) {
  const at = new Date(text);
  const isToday = at.toDateString() === new Date().toDateString();
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `;
  return `${isToday ? "" : date}${clock(text)}`;
}

/** Every outcome: its kind in the charts, its word, and what it means. */
export const OUTCOMES = {
  forwarded: ["forwarded", "forwarded", "the consumer accepted it"],
  duplicate: ["duplicate", "duplicate", "the event was done before: nothing was forwarded"],
  waited: ["duplicate", "waited", "another copy was under way, and succeeded"],
  queued: ["queued", "queued", "it is in the queue, durably"],
  failed: ["failed", "failed", "the consumer refused it or could not be reached: the next copy is forwarded"],
  ambiguous: ["failed", "unknown", "it was sent, and no answer came"],
  in_flight: ["failed", "in flight", "another attempt at the event is under way"],
  store_down: ["failed", "store down", "the store could not be asked"],
  abandoned: ["failed", "abandoned", "the sender hung up before there was an answer"],
  rejected: ["refused", "rejected", "it did not verify, or was not a delivery"],
  limited: ["refused", "limited", "a limit was reached"],
  handshake: ["forwarded", "handshake", "a challenge, answered or passed on"],
  no_id: ["forwarded", "no id", "it carries no event id, and was not deduped"],
  conflict: ["forwarded", "conflict", "a known id with another body"],
};

/** Why a forward may be a second one. */
export const MARKS = {
  unknown: "an earlier attempt ended unknown",
  conflict: "the id was used with another body",
  "no-id": "it has no event id",
  observe: "dedupe only observes",
  forgotten: "an operator forgot the event",
  "store-down": "the store could not be asked",
  "store-reset": "the store has lost data",
  replay: "dedupe is bypassed, or it was tried again by hand",
};
