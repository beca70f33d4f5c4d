// What an operator asks and changes: an event is looked up or forgotten, a dead letter is tried again or dropped.
//
// The token is a variable of this module: no storage, no cookie. It goes out only with a change, or to find out
// whether it is the right one.

import { announce, find, make, mark, say, sync } from "./dom.js";
import * as words from "./words.js";

let token = null;
let canChange = false;

/** Asks the program. What it says is always an object; `reason` is there where it refuses. */
async function ask(method, path, bearer = null) {
  // Beside a token nothing that the browser keeps is sent: were the token refused, it would take its password for refused.
  const [headers, credentials] = bearer === null ? [{}, "same-origin"] : [{ authorization: `Bearer ${bearer}` }, "omit"];
  try {
    const response = await fetch(path, { method, headers, credentials, cache: "no-store" });
    const said = await response.json().catch(() => ({}));
    return { status: response.status, isOk: response.ok, said };
  } catch {
    return { status: 0, isOk: false, said: { reason: "hookonce does not answer" } };
  }
}

/** An id as it stands in a path. It is shown with its percent signs encoded already. */
const inPath = (id) => id.replace(/[^A-Za-z0-9_.~:+%-]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);

// The lock.

export function begin() {
  find("lock").addEventListener("click", () => {
    if (token === null) unlock();
    else lock("Changes are locked.");
  });
  find("token-cancel").addEventListener("click", () => find("token-dialog").close());
  find("token-form").addEventListener("submit", tryToken);
  find("confirm-no").addEventListener("click", () => find("confirm").close());
  find("confirm-form").addEventListener("submit", (event) => {
    event.preventDefault();
    find("confirm").close("yes");
  });
  find("lookup").addEventListener("submit", (event) => {
    event.preventDefault();
    lookUp(find("lookup-provider").value, find("lookup-id").value.trim());
  });
}

/** Whether a token is configured at all. */
export function allow(changes) {
  canChange = changes;
  if (!canChange) token = null;
  find("lock").hidden = !canChange;
  mark(document.body, "data-changes", canChange ? "yes" : "no");
  showLock();
}

const OFF = "Changes are off: no admin_token is configured. Set one, for instance by the variable HOOKONCE__ADMIN_TOKEN, and restart.";

function showLock() {
  say(find("lock-state"), canChange ? (token === null ? "Changes are locked" : "Changes are unlocked") : "Changes are off: admin_token is not set");
  mark(find("lock-state"), "title", canChange ? null : OFF);
  say(find("lock"), token === null ? "Unlock changes" : "Lock");
}

function lock(why) {
  token = null;
  showLock();
  announce(why);
}

/** Asks for the token. Ends with whether there is one. */
function unlock() {
  const dialog = find("token-dialog");
  say(find("token-answer"), "");
  find("token").value = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(token !== null), { once: true }));
}

async function tryToken(event) {
  event.preventDefault();
  const given = find("token").value;
  // What cannot stand in a header is no token.
  if (!/^[\x21-\x7e]+$/.test(given)) return say(find("token-answer"), "This cannot be the token: it has a space or a letter that no header takes.");
  const { isOk, status, said } = await ask("GET", "api/bypass", given);
  if (!isOk) {
    find("token").select();
    return say(find("token-answer"), status === 401 ? "Wrong token: hookonce refuses it." : `Not unlocked: ${said.reason ?? status}.`);
  }
  token = given;
  find("token").value = "";
  showLock();
  announce("Changes are unlocked.");
  find("token-dialog").close();
}

/** Asks whether it is meant. */
function confirm({ title, text, subject, yes }) {
  const dialog = find("confirm");
  say(find("confirm-title"), title);
  say(find("confirm-text"), text);
  say(find("confirm-subject"), subject);
  say(find("confirm-yes"), yes);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

/** Makes a change, once it is allowed and meant. Tells in words what came of it in `answer`; gives what was said, or nothing. */
async function change(method, path, question, answer, told) {
  if (!canChange) return void say(answer, OFF);
  if (token === null && !(await unlock())) return void say(answer, "Nothing was changed: changes are locked.");
  if (!(await confirm(question))) return void say(answer, "Nothing was changed.");
  const { isOk, status, said } = await ask(method, path, token);
  mark(answer, "data-is", isOk ? "good" : "bad");
  if (status === 401) lock("The token is refused.");
  const words = isOk ? told(said) : status === 401 ? "Not done: hookonce refuses the token." : `Not done: ${said.reason ?? `status ${status}`}.`;
  say(answer, words);
  return isOk ? said : undefined;
}

// Events.

/** Shows what the store knows of an event; where it knows none of this id, of those that begin so. */
export async function lookUp(provider, id) {
  find("lookup-provider").value = provider;
  find("lookup-id").value = id;
  const box = find("found");
  if (!id) return box.replaceChildren();
  const one = await ask("GET", `api/events/${encodeURIComponent(provider)}/${inPath(id)}`);
  if (one.isOk) return box.replaceChildren(shown(provider, id, one.said));
  if (one.status !== 404 && one.status !== 400) return box.replaceChildren(refused(one));
  const many = await ask("GET", `api/events?provider=${encodeURIComponent(provider)}&id=${encodeURIComponent(id)}`);
  if (!many.isOk) return box.replaceChildren(refused(many));
  const events = many.said.events;
  if (events.length === 0) return box.replaceChildren(make("p", {}, "The store knows no event of this id, nor one that begins so: it never came, or its retention is over."));
  const button = ({ id: other }) => make("button", { type: "button", class: "id", onclick: () => lookUp(provider, other) }, other);
  const items = events.map((event) => make("li", {}, button(event), make("span", { class: "quiet" }, ` ${event.state}, ${words.moment(event.at)}`)));
  const cut = events.length >= many.said.limit ? " or more" : "";
  box.replaceChildren(make("p", {}, `No event has exactly this id; ${events.length}${cut} begin so:`), make("ul", { class: "ids" }, ...items));
}

const refused = ({ said, status }) => make("p", { "data-is": "bad" }, `Not answered: ${said.reason ?? `status ${status}`}.`);

const STATES = {
  done: "done: copies are answered as duplicates",
  claimed: "claimed: the consumer is at work on it, or its lease has to run out",
  failed: "failed: the next delivery is forwarded",
  queued: "in the queue, or a dead letter",
};

/** The id is shown as it was asked for: the store may know it by a digest. */
function shown(provider, id, event) {
  const state = event.dropped ? "dropped by an operator: copies are answered as duplicates" : (STATES[event.state] ?? event.state);
  const rows = [
    ["Event", make("code", {}, id)],
    ["State", state],
    ["Attempts", String(event.attempt)],
    ["Consumer's answer", event.status === null ? "none" : String(event.status)],
    ["In doubt", event.doubt ? `${event.doubt}: ${words.MARKS[event.doubt] ?? ""}` : "no"],
    ["At", words.moment(event.at)],
    ["Remembered until", event.remembered_until ? `${words.moment(event.remembered_until)}, ${words.span(event.forgotten_in_s)} more` : "for ever"],
    ["Lease left", event.lease_left_ms === null ? null : words.took(event.lease_left_ms)],
    ["Key", make("code", { class: "quiet" }, event.key)],
  ].filter(([, value]) => value !== null);
  const answer = make("p", { class: "answer", role: "status" });
  const question = {
    title: "Forget this event?",
    text: `The next delivery of it is forwarded to the consumer again, marked "forgotten". ${provider} has to deliver it once more: nothing is sent by itself.`,
    subject: id,
    yes: "Forget it",
  };
  const act = async () => {
    const done = await change("DELETE", `api/events/${encodeURIComponent(provider)}/${inPath(id)}`, question, answer, () => "Forgotten: the next delivery of it is forwarded again.");
    button.focus();
    if (done) say(list.querySelector("[data-row=State] dd"), "forgotten: the next delivery is forwarded, marked");
  };
  const button = make("button", { type: "button", class: "act", disabled: !canChange, onclick: act }, "Forget…");
  const list = make("dl", { class: "rows" }, ...rows.map(([name, value]) => make("div", { "data-row": name }, make("dt", {}, name), make("dd", {}, value))));
  return make("div", {}, list, make("div", { class: "act-row" }, button, answer, canChange ? null : make("p", { class: "quiet" }, OFF)));
}

// The queue.

export function showQueues(providers) {
  const queued = providers.filter((provider) => provider.told.queue);
  find("queue-section").hidden = queued.length === 0;
  sync(find("queues"), queued, (provider) => provider.told.name, makeQueue, (part, provider) => part.show(provider.told));
}

function makeQueue({ told }) {
  const name = told.name;
  const rows = make("dl", { class: "figures" });
  const letters = make("tbody");
  const head = ["Event", "Age", "Attempts", "Last answer", "Size", "What to do"].map((text) => make("th", { scope: "col" }, text));
  const caption = make("caption", {}, `Dead letters of ${name}`);
  const table = make("table", { class: "letters" }, caption, make("thead", {}, make("tr", {}, ...head)), letters);
  const box = make("div", { class: "scroll", hidden: true, tabindex: "0", role: "region", "aria-label": `Dead letters of ${name}` }, table);
  const answer = make("p", { class: "answer", role: "status" });
  const rest = make("p", { class: "quiet" });
  const off = make("p", { class: "quiet" });
  const node = make("article", { class: "panel queue" }, make("h3", {}, name), rows, box, rest, answer, off);
  const list = { name, letters, answer, rest, box };
  let dead = 0;
  const show = (now) => {
    const queue = now.queue;
    showFigures(rows, [
      ["waiting", words.count(queue.events)],
      ["oldest", queue.events ? words.span(queue.oldest_s) : "–"],
      ["size", words.bytes(queue.bytes)],
      ["dead letters", words.count(queue.dead), queue.dead ? "bad" : null],
      ["attempts", Object.entries(queue.attempts).map(([result, number]) => `${words.count(number)} ${result}`).join(" · ") || "none"],
    ]);
    say(off, queue.dead && !canChange ? OFF : "");
    for (const part of letters.known?.values() ?? []) part.age();
    if (queue.dead !== dead) fill(list);
    dead = queue.dead;
  };
  return { node, show };
}

function showFigures(list, rows) {
  const create = ([name]) => {
    const value = make("dd");
    return { value, node: make("div", {}, make("dt", {}, name), value) };
  };
  sync(list, rows, ([name]) => name, create, (part, [, text, is]) => {
    say(part.value, text);
    mark(part.value, "data-is", is ?? null);
  });
}

const LISTED = 50;

/** Reads the dead letters anew. */
async function fill(list) {
  const { isOk, said } = await ask("GET", `api/queue?provider=${encodeURIComponent(list.name)}&dead=1&limit=${LISTED}`);
  if (!isOk) return say(list.rest, `The dead letters cannot be read: ${said.reason}.`);
  sync(list.letters, said.letters, (letter) => letter.letter, (letter) => makeLetter(list, letter), () => {});
  list.box.hidden = said.letters.length === 0;
  say(list.rest, said.next ? `The oldest ${LISTED} of ${words.count(said.tally.dead)}; hookonce queue lists all of them.` : "");
}

function makeLetter(list, letter) {
  const path = `api/queue/${encodeURIComponent(list.name)}/${letter.letter}`;
  const subject = letter.event ?? letter.letter;
  const act = (method, target, question, told) => async () => {
    const done = await change(method, target, { subject, ...question }, list.answer, told);
    if (done) await fill(list);
  };
  const retry = act("POST", `${path}/retry?dead=1`, { title: "Try it again?", text: "It goes back into the queue with all its attempts, and is delivered now, marked \"replay\".", yes: "Try again" }, () => `Tried again: ${subject} is on its way to the consumer.`);
  const drop = act("DELETE", `${path}?dead=1`, { title: "Drop this event?", text: "It will never be delivered: its content is lost. Copies of it are answered as duplicates.", yes: "Drop it" }, () => `Dropped: ${subject} will not be delivered.`);
  const button = (text, onclick) => make("button", { type: "button", class: "act", disabled: !canChange, "aria-label": `${text} ${subject}`, onclick }, text);
  const cell = (label, ...content) => make("td", { "data-label": label }, ...content);
  const age = make("time", { datetime: letter.queued_at, title: letter.queued_at });
  const grow = () => say(age, words.span((Date.now() - Date.parse(letter.queued_at)) / 1000));
  grow();
  const node = make(
    "tr",
    {},
    cell("Event", make("code", {}, subject)),
    cell("Age", age),
    cell("Attempts", String(letter.attempt)),
    cell("Last answer", letter.status === null ? (letter.doubt ? `unknown (${letter.doubt})` : "none") : String(letter.status)),
    cell("Size", words.bytes(letter.bytes)),
    cell("What to do", button("Try again…", retry), " ", button("Drop…", drop)),
  );
  return { node, age: grow };
}
