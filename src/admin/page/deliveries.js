// The list of the latest deliveries: filtered, paused, and held while somebody is at work in it.

import { find, make, mark, say, sync } from "./dom.js";
import * as words from "./words.js";

const SHOWN_MAX = 200;

let all = [];
let newest = 0;
let skipped = 0;
let isPaused = false;
let isPointedAt = false;
let lookUp = () => {};

/** What is done with an event whose id is chosen. */
export function begin(choose) {
  lookUp = choose;
  const box = find("list-box");
  box.addEventListener("pointerenter", (event) => {
    isPointedAt = event.pointerType === "mouse";
    render();
  });
  box.addEventListener("pointerleave", () => {
    isPointedAt = false;
    render();
  });
  box.addEventListener("focusout", () => setTimeout(render));
  find("filter").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["filter-provider", "filter-outcome", "filter-id"]) find(id).addEventListener("input", () => render(true));
  for (const [outcome, [, word]] of Object.entries(words.OUTCOMES)) find("filter-outcome").append(make("option", { value: outcome }, word));
  find("pause").addEventListener("click", () => {
    isPaused = !isPaused;
    mark(find("pause"), "aria-pressed", String(isPaused));
    render();
  });
}

/** Forgets everything: another program, or all of it again. */
export function restart(deliveries) {
  [all, newest, skipped] = [[], 0, 0];
  take(deliveries, 0);
}

/** Takes what is new; the newest comes first from here on. */
export function take(deliveries, more) {
  const fresh = deliveries.filter((delivery) => delivery.n > newest);
  if (fresh.length) newest = fresh[fresh.length - 1].n;
  all = [...fresh.reverse(), ...all].slice(0, SHOWN_MAX);
  skipped += more;
  render();
}

const isHeld = () => isPaused || isPointedAt || (find("list").contains(document.activeElement) && document.activeElement !== document.body);

function matches(delivery) {
  const [provider, outcome, id] = ["filter-provider", "filter-outcome", "filter-id"].map((name) => find(name).value);
  return (!provider || delivery.provider === provider) && (!outcome || delivery.outcome === outcome) && (!id || (delivery.event ?? "").includes(id.trim()));
}

let held = [];

function render(isFiltered = false) {
  const isHolding = isHeld();
  // A new filter is wanted at once, of what is shown and not of what came since.
  if (!isHolding || held.length === 0) held = all;
  if (!isHolding || isFiltered) sync(find("list"), held.filter(matches), (delivery) => delivery.n, makeRow, () => {});
  const waiting = held.length && all.length ? Math.min(SHOWN_MAX, all.findIndex((delivery) => delivery.n === held[0].n)) : 0;
  const fresh = waiting === -1 ? SHOWN_MAX : waiting;
  note(isHolding, fresh);
  const isEmpty = all.length === 0;
  find("list-box").hidden = isEmpty;
  find("filter").hidden = isEmpty;
}

function note(isHolding, fresh) {
  const shown = find("list").childElementCount;
  say(find("pause"), isPaused ? `Go on${fresh ? ` (${fresh} new)` : ""}` : "Pause");
  const parts = [words.plural(shown, "delivery", "deliveries")];
  if (shown < held.length) parts.push(`of ${held.length}, by the filter`);
  if (isHolding && !isPaused && fresh) parts.push(`held while you are in the list, ${fresh} new`);
  if (skipped) parts.push(`${words.count(skipped)} more came than are kept here`);
  say(find("list-note"), held.length ? parts.join(" · ") : "");
}

function makeRow(delivery) {
  const [kind, word, meaning] = words.OUTCOMES[delivery.outcome] ?? ["failed", delivery.outcome, ""];
  const event = delivery.event;
  const known = event && !delivery.cut && delivery.verified;
  const id = known
    ? make("button", { type: "button", class: "id", title: `Look up ${event}`, onclick: () => lookUp(delivery.provider, event) }, event)
    : make("span", { class: "quiet" }, event ? `${event}…` : delivery.verified ? "no id" : "not verified");
  const maybe = delivery.mark && make("span", { class: "tag", "data-is": "warn", title: `May be a second one: ${words.MARKS[delivery.mark] ?? ""}` }, delivery.mark);
  const cell = (name, label, ...content) => make("td", { class: `c-${name}`, "data-label": label }, ...content);
  const node = make(
    "tr",
    { "data-kind": kind },
    cell("time", "Time", make("time", { datetime: delivery.at, title: delivery.at }, words.clock(delivery.at))),
    cell("provider", "Provider", delivery.provider),
    cell("event", "Event", id),
    cell("outcome", "Outcome", make("span", { title: meaning }, make("i", { class: "sign", "data-kind": kind }), word)),
    cell("status", "Status", String(delivery.status)),
    cell("attempt", "Attempt", delivery.attempt === null ? "" : String(delivery.attempt)),
    cell("took", "Took", make("span", { title: `the consumer's part: ${words.took(delivery.upstream_ms)}` }, words.took(delivery.ms))),
    cell("reason", "In words", maybe ?? "", maybe ? " " : "", delivery.reason),
  );
  return { node };
}
