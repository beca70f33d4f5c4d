// The list of the latest deliveries: filtered, paused, and held while somebody is at work in it.

import { find, make, mark, say, sync } from "./dom.js";
import * as words from "./words.js";

/** What did not verify has a share of its own, here as in the program: it pushes out nothing else. */
const VERIFIED_MAX = 200;
const UNVERIFIED_MAX = 50;

let all = [];
let newest = 0;
let skipped = 0;
let isPaused = false;
let isPointedAt = false;
/** What is shown: all of them, but for those that came since the list is held. */
let held = [];
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
  for (const id of FILTERS) find(id).addEventListener("input", () => render(true));
  const choices = Object.entries(words.OUTCOMES).map(([outcome, [, word]]) => make("option", { value: outcome }, word));
  find("filter-outcome").append(...choices);
  find("pause").addEventListener("click", () => {
    isPaused = !isPaused;
    mark(find("pause"), "aria-pressed", String(isPaused));
    render();
  });
}

/** Forgets everything: another program counts its deliveries from one again. */
export function restart(deliveries) {
  [all, held, newest, skipped] = [[], [], 0, 0];
  showRows();
  take(deliveries, 0);
}

/** Takes what is new; the newest comes first from here on. */
export function take(deliveries, more) {
  const fresh = deliveries.filter((delivery) => delivery.n > newest);
  if (fresh.length) newest = fresh[fresh.length - 1].n;
  let [verified, unverified] = [0, 0];
  const isKept = (delivery) => (delivery.verified ? ++verified <= VERIFIED_MAX : ++unverified <= UNVERIFIED_MAX);
  all = [...fresh.reverse(), ...all].filter(isKept);
  skipped += more;
  render();
}

const isHeld = () => isPaused || isPointedAt || find("list").contains(document.activeElement);

const FILTERS = ["filter-provider", "filter-outcome", "filter-id"];

function matches(delivery) {
  const [provider, outcome, id] = FILTERS.map((name) => find(name).value.trim());
  const isOfProvider = !provider || delivery.provider === provider;
  const isOfOutcome = !outcome || delivery.outcome === outcome;
  return isOfProvider && isOfOutcome && (!id || (delivery.event ?? "").includes(id));
}

function render(isFiltered = false) {
  const isHolding = isHeld() && held.length > 0;
  if (!isHolding) held = all;
  // A new filter is wanted at once, of what is shown and not of what came since.
  if (!isHolding || isFiltered) showRows();
  const fresh = held.length ? all.filter((delivery) => delivery.n > held[0].n).length : 0;
  note(isHolding, fresh);
  find("list-box").hidden = find("filter").hidden = all.length === 0;
}

function showRows() {
  const keyOf = (delivery) => delivery.n;
  sync(find("list"), held.filter(matches), keyOf, makeRow, () => {});
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
  const cell = (name, ...content) => make("td", { class: `c-${name}` }, ...content);
  const sign = make("i", { class: "sign", "data-kind": kind });
  const took = { title: `the consumer's part: ${words.took(delivery.upstream_ms)}` };
  const node = make(
    "tr",
    {},
    cell("time", make("time", { datetime: delivery.at, title: delivery.at }, words.clock(delivery.at))),
    cell("provider", delivery.provider),
    cell("event", eventOf(delivery)),
    cell("outcome", make("span", { title: meaning }, sign, word)),
    cell("status", String(delivery.status)),
    cell("attempt", delivery.attempt === null ? "" : String(delivery.attempt)),
    cell("took", make("span", took, words.took(delivery.ms))),
    cell("reason", ...markOf(delivery), delivery.reason),
  );
  return { node };
}

/** Its id, to be looked up where all of it is known. */
function eventOf({ provider, event, cut, verified }) {
  if (!event) return make("span", { class: "quiet" }, verified ? "no id" : "not verified");
  if (cut) return make("span", { class: "id quiet" }, `${event}…`);
  const onclick = () => lookUp(provider, event);
  return make("button", { type: "button", class: "id", title: `Look up ${event}`, onclick }, event);
}

function markOf({ mark: why }) {
  if (!why) return [];
  return [make("span", { class: "tag", "data-is": "warn", title: `May be a second one: ${words.MARKS[why] ?? ""}` }, why), " "];
}
