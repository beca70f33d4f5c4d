// What the store knows of an event: looked up by its id or by how it begins, and forgotten.

import { find, make, mark, say } from "./dom.js";
import { OFF, ask, canChange, change, inPath } from "./lock.js";
import * as words from "./words.js";

export function begin() {
  find("lookup").addEventListener("submit", (event) => {
    event.preventDefault();
    lookUp(find("lookup-provider").value, find("lookup-id").value.trim());
  });
}

const NOTHING = "The store knows no event of this id, nor one that begins so: it never came, or its retention is over.";

/** Shows what the store knows of an event. */
export async function lookUp(provider, id) {
  find("lookup-provider").value = provider;
  find("lookup-id").value = id;
  const box = find("found");
  mark(box, "aria-busy", "true");
  const found = id ? await known(provider, id) : [];
  box.replaceChildren(...found);
  mark(box, "aria-busy", null);
}

/** The event of this id; where the store knows none, those that begin so. */
async function known(provider, id) {
  const one = await ask("GET", `api/events/${encodeURIComponent(provider)}/${inPath(id)}`);
  if (one.isOk) return [shown(provider, id, one.said)];
  if (one.status !== 404 && one.status !== 400) return [refused(one)];
  const many = await ask("GET", `api/events?provider=${encodeURIComponent(provider)}&id=${encodeURIComponent(id)}`);
  if (!many.isOk) return [refused(many)];
  const { events, limit } = many.said;
  if (events.length === 0) return [make("p", {}, NOTHING)];
  const item = ({ id: other, state, at }) => {
    const button = make("button", { type: "button", class: "id", onclick: () => lookUp(provider, other) }, other);
    return make("li", {}, button, make("span", { class: "quiet" }, ` ${state}, ${words.moment(at)}`));
  };
  const number = `${events.length}${events.length >= limit ? " or more" : ""}`;
  const title = make("p", {}, `No event has exactly this id; ${number} begin so:`);
  return [title, make("ul", { class: "ids" }, ...events.map(item))];
}

const refused = ({ said, status }) => make("p", { "data-is": "bad" }, `Not answered: ${said.reason ?? `status ${status}`}.`);

const STATES = {
  done: "done: copies are answered as duplicates",
  claimed: "claimed: the consumer is at work on it, or its lease has to run out",
  failed: "failed: the next delivery is forwarded",
  queued: "in the queue, or a dead letter",
};

const DROPPED = "dropped by an operator: copies are answered as duplicates";

/** The id is shown as it was asked for: the store may know it by a digest. */
function shown(provider, id, event) {
  const until = event.remembered_until;
  const rows = [
    ["Event", make("code", {}, id)],
    ["State", event.dropped ? DROPPED : (STATES[event.state] ?? event.state)],
    ["Attempts", String(event.attempt)],
    ["Consumer's answer", event.status === null ? "none" : String(event.status)],
    ["In doubt", event.doubt ? `${event.doubt}: ${words.MARKS[event.doubt] ?? ""}` : "no"],
    ["At", words.moment(event.at)],
    ["Remembered until", until ? `${words.moment(until)}, ${words.span(event.forgotten_in_s)} more` : "for ever"],
    ["Lease left", event.lease_left_ms === null ? null : words.took(event.lease_left_ms)],
    ["Key", make("code", { class: "quiet" }, event.key)],
  ].filter(([, value]) => value !== null);
  const row = ([name, value]) => make("div", { "data-row": name }, make("dt", {}, name), make("dd", {}, value));
  const list = make("dl", { class: "rows" }, ...rows.map(row));
  const off = canChange ? null : make("p", { class: "quiet" }, OFF);
  return make("div", {}, list, make("div", { class: "act-row" }, ...forgetting(provider, id, list), off));
}

/** The button, and where its answer is said. */
function forgetting(provider, id, list) {
  const answer = make("p", { class: "answer", role: "status" });
  const question = {
    title: "Forget this event?",
    text:
      'The next delivery of it is forwarded to the consumer again, marked "forgotten". ' +
      `Nothing is sent by itself: ${provider} has to deliver it once more.`,
    subject: id,
    yes: "Forget it",
  };
  const path = `api/events/${encodeURIComponent(provider)}/${inPath(id)}`;
  const act = async () => {
    const isDone = await change("DELETE", path, question, answer, "Forgotten: the next delivery of it is forwarded again.");
    button.focus();
    if (isDone) say(list.querySelector("[data-row=State] dd"), "forgotten: the next delivery is forwarded, marked");
  };
  const button = make("button", { type: "button", class: "act", disabled: !canChange, onclick: act }, "Forget…");
  return [button, answer];
}
