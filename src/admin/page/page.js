// The live page: one stream of events from the program, and what is made of it.

import * as config from "./config.js";
import * as deliveries from "./deliveries.js";
import { announce, find, make, mark, say, sync } from "./dom.js";
import * as events from "./events.js";
import * as lock from "./lock.js";
import * as figures from "./providers.js";
import * as queues from "./queues.js";
import * as words from "./words.js";

/** The program says something every second: after this long without a word, it is not there. */
const SILENCE_MS = 5000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];
/** A page that nobody sees gives its place to others. */
const HIDDEN_MS = 10000;

let instance = null;
let state = null;
let providers = new Map();
/** Whether the store refuses new events though it answers. An outage leaves word of that, too, until the next event. */
let isFull = false;
let upTurns = 0;
let refusals = 0;

// The stream.

let stream = null;
let heard = 0;
let tries = 0;
let retryAt = 0;
let lost = null;

async function connect() {
  const own = new AbortController();
  stream = own;
  heard = Date.now();
  try {
    const headers = { accept: "text/event-stream" };
    const response = await fetch("api/stream", { signal: own.signal, cache: "no-store", headers });
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).reason ?? `status ${response.status}`);
    await listen(response.body);
    throw new Error("it has ended the connection");
  } catch (error) {
    if (stream === own) lose(error);
  }
}

async function listen(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) take(part);
  }
}

/** One event: its name, and its data in one line. */
function take(text) {
  const field = (name) =>
    text
      .split("\n")
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2);
  const told = JSON.parse(field("data"));
  heard = Date.now();
  if (lost !== null) announce("The connection is back.");
  [lost, tries] = [null, 0];
  if (field("event") === "snapshot") begin(told);
  else goOn(told);
  render();
}

function lose(error) {
  stream?.abort();
  stream = null;
  if (lost === null) announce("The connection to hookonce is lost.");
  lost = error instanceof TypeError ? "it does not answer" : error.message;
  // Not all pages at once.
  retryAt = Date.now() + RETRY_MS[Math.min(tries, RETRY_MS.length - 1)] * (0.75 + Math.random() / 2);
  tries += 1;
  render();
}

function watch() {
  if (stream && Date.now() - heard > SILENCE_MS) lose(new Error("it says nothing"));
  if (!stream && lost !== null && Date.now() >= retryAt && !document.hidden) connect();
  if (lost !== null) render();
}

let hiding = 0;

function onVisibility() {
  clearTimeout(hiding);
  if (!document.hidden && !stream) return void connect();
  if (document.hidden) {
    hiding = setTimeout(() => {
      const own = stream;
      stream = null;
      own?.abort();
    }, HIDDEN_MS);
  }
}

// What was told.

function begin(told) {
  const isAnother = instance?.started !== told.instance.started || instance?.process !== told.instance.process;
  instance = told.instance;
  state = told.state;
  if (isAnother) figures.begin(instance);
  providers = new Map(told.providers.map((provider) => [provider.name, new figures.Provider(provider)]));
  if (isAnother) deliveries.restart(told.deliveries);
  else deliveries.take(told.deliveries, 0);
  lock.allow(instance.changes);
  fillChoices();
  if (isAnother) [isFull, upTurns, refusals] = [false, 0, 0];
  noteStore();
}

function goOn(told) {
  state = told.state;
  for (const provider of told.providers) {
    const known = providers.get(provider.name);
    if (known) known.take(provider);
  }
  for (const provider of providers.values()) provider.forget(state.bar - instance.bars + 1);
  deliveries.take(told.deliveries, told.skipped);
  noteStore();
}

function noteStore() {
  const before = refusals;
  refusals = [...providers.values()].reduce((sum, { told }) => sum + (told.outcomes.store_down ?? 0), 0);
  upTurns = state.store.up ? upTurns + 1 : 0;
  if (state.store.takes_no_new_events_for_s === null || upTurns === 0) isFull = false;
  else if (refusals > before && upTurns > 3) isFull = true;
  state.store.is_full = isFull;
}

/** The providers, where one is chosen; what is chosen stays. */
function fillChoices() {
  const names = [...providers.keys()];
  for (const id of ["filter-provider", "lookup-provider"]) {
    const [select, before] = [find(id), find(id).value];
    const first = id === "filter-provider" ? [make("option", { value: "" }, "all")] : [];
    select.replaceChildren(...first, ...names.map((name) => make("option", { value: name }, name)));
    if (names.includes(before)) select.value = before;
  }
}

// What is shown.

function render() {
  const isLive = lost === null && state !== null;
  say(find("link"), isLive ? "live" : lost === null ? "connecting" : "not connected");
  mark(find("link"), "data-is", isLive ? "good" : lost === null ? "wait" : "bad");
  mark(document.body, "data-stale", lost === null ? null : "yes");
  showBanners();
  if (!state) return;
  say(find("version"), instance.version);
  say(find("listen"), instance.listen);
  say(find("admin"), instance.admin);
  say(find("uptime"), words.span(state.uptime_s));
  mark(find("uptime"), "title", `since ${words.moment(instance.started)}`);
  say(find("serving"), lost !== null ? "" : state.draining ? "draining" : "serving");
  mark(find("serving"), "data-is", state.draining ? "warn" : null);
  config.reloaded(state.reload.taken);
  const all = [...providers.values()];
  figures.show(instance, state, all);
  queues.show(all);
  if (all.every((provider) => provider.deliveries === 0)) config.teach(instance, all);
  else config.taughtEnough();
}

/** What is out of the ordinary: a key, how bad it is, what is said once to those who listen, and the rest. */
function conditions() {
  const found = [];
  if (lost !== null) {
    const since = state ? ` The figures are those of ${words.clock(state.at)}.` : "";
    const left = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
    const next = stream ? "Trying now." : `Trying again in ${left} s.`;
    found.push(["lost", "bad", "The connection to hookonce is lost", `: ${lost}.${since} ${next}`]);
  }
  if (!state) return found;
  if (state.draining) {
    found.push(["draining", "warn", "This instance is stopping", ": it is not ready any more, and finishes what is under way."]);
  }
  found.push(...storeConditions(state.store));
  for (const { provider, left_s: left } of state.bypasses) {
    const rest = ` for another ${words.span(left)}: done events that are delivered again are forwarded, marked replay.`;
    found.push([`bypass-${provider}`, "warn", `Dedupe of ${provider} is bypassed`, rest]);
  }
  if (state.reload.refused) {
    const rest = `: ${state.reload.refused} The one before it goes on.`;
    found.push(["reload", "warn", "The configuration that was last read is refused", rest]);
  }
  return found;
}

function storeConditions(store) {
  const found = [];
  const length = (seconds) => (seconds === null ? "" : ` for ${words.span(seconds)}`);
  if (!store.up) {
    const rest = ". Each provider's on_store_down decides: refused, or forwarded and marked store-down.";
    found.push(["down", "bad", "The store does not answer", `${length(store.down_for_s)}${rest}`]);
  } else if (store.is_full) {
    const rest = ": its memory or disk is full, or it lets nobody write.";
    found.push(["full", "bad", "The store takes no new events", `${length(store.takes_no_new_events_for_s)}${rest}`]);
  }
  if (store.clock_off_for.length) {
    const rest = `: timestamps of ${store.clock_off_for.join(", ")} cannot be judged.`;
    found.push([
      "clock",
      "bad",
      "This machine's clock and the store's lie apart",
      ` by ${Math.abs(store.skew_s).toFixed(1)} s${rest}`,
    ]);
  }
  return found;
}

let said = new Set();

function showBanners() {
  const found = conditions();
  const create = ([, , title]) => {
    const rest = make("span");
    return { rest, node: make("p", { class: "banner" }, make("i", { class: "sign" }), make("b", {}, title), rest) };
  };
  sync(
    find("banners"),
    found,
    ([key]) => key,
    create,
    (part, [, is, , rest]) => {
      mark(part.node, "data-is", is);
      say(part.rest, rest);
    },
  );
  for (const [key, , title] of found) if (!said.has(key)) announce(`${title}.`);
  said = new Set(found.map(([key]) => key));
  const title = found.some(([, is]) => is === "bad") ? `! ${found[0][2]} – hookonce` : "hookonce";
  if (document.title !== title) document.title = title;
}

lock.begin();
events.begin();
config.begin();
deliveries.begin(async (provider, id) => {
  await events.lookUp(provider, id);
  find("found").focus();
});
document.addEventListener("visibilitychange", onVisibility);
setInterval(watch, 500);
connect();
