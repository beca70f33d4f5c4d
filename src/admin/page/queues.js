// The queue of each provider that has one, and its dead letters: tried again, or dropped.

import { find, make, rows, say, sync } from "./dom.js";
import { OFF, ask, canChange, change } from "./lock.js";
import * as words from "./words.js";

const LISTED = 50;

export function show(providers) {
  const queued = providers.filter((provider) => provider.told.queue);
  find("queue-section").hidden = queued.length === 0;
  sync(
    find("queues"),
    queued,
    (provider) => provider.told.name,
    makeQueue,
    (part, provider) => part.show(provider.told),
  );
}

function makeQueue({ told }) {
  const name = told.name;
  const figures = make("dl", { class: "figures" });
  const letters = make("tbody");
  const columns = ["Event", "Age", "Attempts", "Last answer", "Size", "What to do"];
  const head = make("tr", {}, ...columns.map((text) => make("th", { scope: "col" }, text)));
  const table = make(
    "table",
    { class: "letters" },
    make("caption", {}, `Dead letters of ${name}`),
    make("thead", {}, head),
    letters,
  );
  const region = { class: "scroll", hidden: true, tabindex: "0", role: "region", "aria-label": `Dead letters of ${name}` };
  const [box, answer] = [make("div", region, table), make("p", { class: "answer", role: "status" })];
  const [rest, off] = [make("p", { class: "quiet" }), make("p", { class: "quiet" })];
  const node = make("article", { class: "panel queue" }, make("h3", {}, name), figures, box, rest, answer, off);
  const list = { name, letters, answer, rest, box };
  let dead = 0;
  const show = ({ queue }) => {
    showFigures(figures, queue);
    say(off, queue.dead && !canChange ? OFF : "");
    for (const part of letters.known?.values() ?? []) part.grow();
    if (queue.dead !== dead) fill(list);
    dead = queue.dead;
  };
  return { node, show };
}

function showFigures(list, queue) {
  const attempts = Object.entries(queue.attempts).map(([result, number]) => `${words.count(number)} ${result}`);
  rows(list, [
    ["waiting", words.count(queue.events)],
    ["oldest", queue.events ? words.span(queue.oldest_s) : "–"],
    ["size", words.bytes(queue.bytes)],
    ["dead letters", words.count(queue.dead), queue.dead ? "bad" : null],
    ["attempts", attempts.join(" · ") || "none"],
  ]);
}

/** Reads the dead letters anew. */
async function fill(list) {
  const { isOk, said } = await ask("GET", `api/queue?provider=${encodeURIComponent(list.name)}&dead=1&limit=${LISTED}`);
  if (!isOk) return say(list.rest, `The dead letters cannot be read: ${said.reason}.`);
  const create = (letter) => makeLetter(list, letter);
  sync(
    list.letters,
    said.letters,
    (letter) => letter.letter,
    create,
    () => {},
  );
  list.box.hidden = said.letters.length === 0;
  const all = words.count(said.tally.dead);
  say(list.rest, said.next ? `The oldest ${LISTED} of ${all}: hookonce queue lists all of them.` : "");
}

const RETRY = {
  title: "Try it again?",
  text: 'It goes back into the queue with all its attempts, and is delivered now, marked "replay".',
  yes: "Try again",
};

const DROP = {
  title: "Drop this event?",
  text: "It will never be delivered: its content is lost. Copies of it are answered as duplicates.",
  yes: "Drop it",
};

function makeLetter(list, letter) {
  const path = `api/queue/${encodeURIComponent(list.name)}/${letter.letter}`;
  const subject = letter.event ?? letter.letter;
  const button = (text, method, target, question, told) => {
    const act = async () => {
      if (await change(method, target, { subject, ...question }, list.answer, told)) await fill(list);
    };
    const attributes = { type: "button", class: "act", disabled: !canChange, "aria-label": `${text} ${subject}`, onclick: act };
    return make("button", attributes, text);
  };
  const retried = `Tried again: ${subject} is on its way to the consumer.`;
  const retry = button("Try again…", "POST", `${path}/retry?dead=1`, RETRY, retried);
  const drop = button("Drop…", "DELETE", `${path}?dead=1`, DROP, `Dropped: ${subject} will not be delivered.`);
  const age = make("time", { datetime: letter.queued_at, title: letter.queued_at });
  const grow = () => say(age, words.span((Date.now() - Date.parse(letter.queued_at)) / 1000));
  grow();
  const unanswered = letter.doubt ? `unknown (${letter.doubt})` : "none";
  const cell = (label, ...content) => make("td", { "data-label": label }, ...content);
  const node = make(
    "tr",
    {},
    cell("Event", make("code", {}, subject)),
    cell("Age", age),
    cell("Attempts", String(letter.attempt)),
    cell("Last answer", letter.status === null ? unanswered : String(letter.status)),
    cell("Size", words.bytes(letter.bytes)),
    cell("What to do", retry, " ", drop),
  );
  return { node, grow };
}
