// The figures at a glance, each provider's own, and the store's.

import { Chart } from "./chart.js";
import { find, make, mark, rows, say, sync } from "./dom.js";
import * as words from "./words.js";

/** What is known of a provider: what it was told last, and its bars by number. */
export class Provider {
  constructor(told) {
    this.bars = new Map();
    this.take(told);
  }

  take(told) {
    this.told = told;
    for (const [number, ...counts] of told.bars) this.bars.set(number, counts);
  }

  /** Forgets what is too old to be drawn. */
  forget(before) {
    for (const number of this.bars.keys()) if (number < before) this.bars.delete(number);
  }

  get deliveries() {
    return Object.values(this.told.outcomes).reduce((sum, number) => sum + number, 0);
  }
}

const tile = (id, name) => {
  const [value, under] = [make("p", { class: "value" }), make("p", { class: "under quiet" })];
  return { node: make("div", { class: "tile", id }, make("h3", {}, name), value, under), value, under };
};

const ALL_SHOWN = 6;
let tiles;
let chart;

function makeTiles(instance) {
  chart = new Chart(instance);
  tiles = {
    rate: tile("tile-rate", "Deliveries a second"),
    hits: tile("tile-hits", "Hit ratio, 5 min"),
    failed: tile("tile-failed", "Failed, 5 min"),
    overhead: tile("tile-overhead", "Overhead p99"),
    store: tile("tile-store", "Store"),
    queue: tile("tile-queue", "Queue"),
  };
  tiles.rate.node.append(chart.node);
  find("tiles").replaceChildren(...Object.values(tiles).map((one) => one.node));
}

const add = (providers, pick) => providers.reduce((sum, provider) => sum + pick(provider.told), 0);

/** Draws everything anew for a program that has just been met. */
export function begin(instance) {
  makeTiles(instance);
  find("providers").replaceChildren();
  find("providers").known = new Map();
}

export function show(instance, state, providers) {
  showTiles(instance, state, providers);
  const create = (provider) => makeProvider(provider, instance);
  // Of many, those that have had nothing are only named.
  const isShown = (provider) => providers.length <= ALL_SHOWN || provider.deliveries > 0;
  const shown = providers.filter(isShown);
  sync(
    find("providers"),
    shown,
    (provider) => provider.told.name,
    create,
    (part, provider) => part.show(provider, state),
  );
  const idle = providers.filter((provider) => !isShown(provider)).map((provider) => provider.told.name);
  find("idle").hidden = idle.length === 0;
  say(find("idle"), `No delivery since the start: ${idle.join(", ")}`);
  showStore(state.store, providers);
}

function showTiles(instance, state, providers) {
  const bars = new Map();
  for (const provider of providers) {
    for (const [number, counts] of provider.bars) {
      const sums = bars.get(number);
      bars.set(number, sums ? sums.map((sum, nth) => sum + counts[nth]) : counts);
    }
  }
  chart.show(bars, state.bar);
  const kind = (name) => instance.kinds.indexOf(name);
  const [failed, refused] = ["failed", "refused"].map((name) => add(providers, (told) => told.window.kinds[kind(name)]));
  const [hits, misses] = [add(providers, (told) => told.window.hits), add(providers, (told) => told.window.misses)];

  say(tiles.rate.value, words.rate(add(providers, (told) => told.rate)));
  say(tiles.rate.under, beside(state, providers));
  say(tiles.hits.value, words.share(hits, hits + misses));
  say(tiles.hits.under, hits + misses ? `${words.plural(hits, "hit", "hits")}, ${words.count(misses)} new` : "no event yet");
  say(tiles.failed.value, words.count(failed));
  mark(tiles.failed.node, "data-is", failed ? "bad" : null);
  say(tiles.failed.under, `${words.count(refused)} refused`);
  showOverhead(providers);

  const { up, claim, is_full: isFull } = state.store;
  const well = claim ? `claim p99 ${words.quantile(claim.p99)}` : state.store.url.split(":")[0];
  say(tiles.store.value, up ? (isFull ? "full" : "up") : "down");
  say(tiles.store.under, up ? well : `breaker ${state.store.breaker}`);
  mark(tiles.store.node, "data-is", up && !isFull ? null : "bad");

  const queues = providers.map((provider) => provider.told.queue).filter(Boolean);
  const [waiting, dead] = ["events", "dead"].map((name) => queues.reduce((sum, queue) => sum + queue[name], 0));
  tiles.queue.node.hidden = queues.length === 0;
  say(tiles.queue.value, words.count(waiting));
  mark(tiles.queue.under, "data-is", dead ? "bad" : null);
  say(tiles.queue.under, words.plural(dead, "dead letter", "dead letters"));
}

/** Claims that are held, and what never became a delivery. */
function beside(state, providers) {
  const parts = [
    `${words.plural(
      add(providers, (told) => told.in_flight),
      "claim",
      "claims",
    )} in flight`,
  ];
  if (state.unrouted) parts.push(`${words.count(state.unrouted)} for nobody: a wrong path?`);
  for (const [limit, number] of Object.entries(state.limited)) parts.push(`${words.count(number)} over a limit: ${limit}`);
  return parts.join(" · ");
}

/** Of the provider that has it worst. */
function showOverhead(providers) {
  const measured = providers.filter((provider) => provider.told.overhead);
  const worst = measured.sort((a, b) => b.told.overhead.p99[0] - a.told.overhead.p99[0])[0];
  say(tiles.overhead.value, worst ? words.quantile(worst.told.overhead.p99) : "–");
  say(tiles.overhead.under, worst ? `at worst, ${worst.told.name}` : "nothing to measure");
}

const figure = (name, title) => {
  const value = make("dd");
  return { node: make("div", { title }, make("dt", {}, name), value), value };
};

function makeProvider({ told }, instance) {
  const own = new Chart(instance);
  const id = `provider-${told.name}`;
  const mode = make("span", { class: "tag" });
  const bypass = make("span", { class: "tag", "data-is": "warn", hidden: true });
  const title = make("h3", { id }, told.name);
  const preset = make("span", { class: "quiet" });
  const route = make(
    "p",
    { class: "route" },
    make("code", {}, told.path),
    make("span", { class: "quiet" }, " to ", make("code", {}, told.upstream)),
  );
  const figures = {
    rate: figure("a second", "Deliveries a second, over the last ten seconds"),
    hits: figure("hit ratio", "Answered as duplicates, of all events claimed or answered, in the last five minutes"),
    upstream: figure("consumer p50 · p99", "Time to the head of the consumer's answer, over the last minute"),
    overhead: figure("hookonce p50 · p99", "What hookonce itself adds, over the last minute"),
  };
  const outcomes = make("ul", { class: "outcomes", "aria-label": `Outcomes of ${told.name} since the start` });
  const more = make("ul", { class: "more quiet" });
  const node = make(
    "article",
    { class: "provider", "aria-labelledby": id },
    make("div", { class: "who" }, make("div", { class: "name" }, title, preset, mode, bypass), route),
    own.node,
    make("dl", { class: "figures" }, ...Object.values(figures).map((one) => one.node)),
    outcomes,
    more,
  );
  const show = (provider, state) => {
    const now = provider.told;
    say(preset, now.preset && now.preset !== now.name ? now.preset : "");
    say(mode, now.mode);
    const active = state.bypasses.find((one) => one.provider === now.name);
    bypass.hidden = !active;
    say(bypass, active ? `bypassed for ${words.span(active.left_s)}` : "");
    own.show(provider.bars, state.bar);
    say(figures.rate.value, words.rate(now.rate));
    say(figures.hits.value, words.share(now.window.hits, now.window.hits + now.window.misses));
    say(figures.upstream.value, pair(now.upstream_time));
    say(figures.overhead.value, pair(now.overhead));
    showOutcomes(outcomes, now);
    showMore(more, now);
  };
  return { node, show };
}

const pair = (latency) => (latency ? words.quantiles(latency.p50, latency.p99) : "–");

function showOutcomes(list, told) {
  const order = Object.keys(words.OUTCOMES).filter((outcome) => told.outcomes[outcome]);
  const create = (outcome) => {
    const [kind, word, meaning] = words.OUTCOMES[outcome];
    const number = make("b");
    return { number, node: make("li", { title: meaning }, make("i", { class: "sign", "data-kind": kind }), number, ` ${word}`) };
  };
  sync(
    list,
    order,
    (outcome) => outcome,
    create,
    (part, outcome) => say(part.number, words.count(told.outcomes[outcome])),
  );
  list.hidden = order.length === 0;
}

/** Secrets by slot, marks, and why deliveries did not verify. */
function showMore(list, told) {
  const lines = told.secrets.map(({ matches, last }, slot) => {
    const when = last ? `, last at ${words.moment(last)}` : "";
    return [
      `secret ${slot}`,
      matches
        ? `secret ${slot}: ${words.plural(matches, "match", "matches")}${when}`
        : `secret ${slot}: no match since the start`,
    ];
  });
  for (const [mark, number] of Object.entries(told.marks)) {
    lines.push([mark, `${words.count(number)} marked ${mark}: ${words.MARKS[mark] ?? ""}`]);
  }
  for (const [reason, number] of Object.entries(told.disproofs))
    lines.push([`d-${reason}`, `${words.count(number)} did not verify: ${reason.replaceAll("_", " ")}`]);
  if (told.conflicts) lines.push(["conflicts", words.plural(told.conflicts, "conflict", "conflicts")]);
  const create = () => ({ node: make("li") });
  sync(
    list,
    lines,
    ([key]) => key,
    create,
    (part, [, text]) => say(part.node, text),
  );
}

function clockWords(ahead) {
  if (Math.abs(ahead) < 0.05) return "as this machine's";
  return `${Math.abs(ahead).toFixed(1)} s ${ahead > 0 ? "ahead of" : "behind"} this machine's`;
}

function showStore(store, providers) {
  const none = store.takes_no_new_events_for_s;
  const silent = `does not answer${store.down_for_s ? `, for ${words.span(store.down_for_s)}` : ""}`;
  const isOpen = store.breaker === "open";
  const hasQueue = providers.some((provider) => provider.told.queue);
  const items = [
    ["Where", store.url],
    ["Namespace", store.namespace],
    ["State", store.up ? "answers" : silent, store.up ? null : "bad"],
    ["Breaker", isOpen ? "open: deliveries do not wait for the store" : "closed", isOpen ? "bad" : null],
    ["New events", none === null ? "taken" : `none taken for ${words.span(none)}`, store.is_full ? "bad" : null],
    ["Claim p50 · p99", pair(store.claim)],
    ["Resets seen", store.resets ? words.count(store.resets) : "none"],
    ["Last reset", store.last_reset ? words.moment(store.last_reset) : "none known", store.last_reset ? "warn" : null],
    ["Clock", clockWords(store.skew_s), store.clock_off_for.length ? "bad" : null],
  ];
  if (store.evicted) items.push(["Evicted keys", words.count(store.evicted), "bad"]);
  if (store.to_write_back) items.push(["To write back", words.plural(store.to_write_back, "event", "events"), "warn"]);
  if (hasQueue) items.push(["Durability", store.may_lose ?? "as the queue needs it", store.may_lose ? "warn" : null]);
  rows(find("store").firstElementChild ?? find("store").appendChild(make("dl", { class: "rows" })), items);
}
