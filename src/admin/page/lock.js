// Asking the program, and changing something: only with the token, and only what is meant.
//
// The token is a variable of this module: no storage, no cookie. It goes out only with a change, or to find out
// whether it is the right one.

import { announce, find, mark, say } from "./dom.js";

let token = null;
/** Whether a token is configured at all. */
export let canChange = false;

/** Asks the program. What it says is always an object; `reason` is there where it refuses. */
export async function ask(method, path, bearer = null) {
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
export const inPath = (id) => id.replace(/[^A-Za-z0-9_.~:+%-]/gu, encodeURIComponent);

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
}

export function allow(changes) {
  canChange = changes;
  if (!canChange) token = null;
  find("lock").hidden = !canChange;
  showLock();
}

export const OFF =
  "Changes are off: no admin_token is configured. Set one, for instance by the variable HOOKONCE__ADMIN_TOKEN, and restart.";

function showLock() {
  const state = token === null ? "Changes are locked" : "Changes are unlocked";
  say(find("lock-state"), canChange ? state : "Changes are off: admin_token is not set");
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
  if (!/^[\x21-\x7e]+$/.test(given)) {
    return say(find("token-answer"), "This cannot be the token: it has a space, or a letter that no header takes.");
  }
  const { isOk, status, said } = await ask("GET", "api/bypass", given);
  if (!isOk) {
    find("token").select();
    const why = status === 401 ? "Wrong token: hookonce refuses it." : `Not unlocked: ${said.reason ?? status}.`;
    return say(find("token-answer"), why);
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

/** Makes a change, once it is allowed and meant. Says in `answer` what came of it: `told` where it is done. */
export async function change(method, path, question, answer, told) {
  const nothing = (why) => {
    mark(answer, "data-is", null);
    say(answer, why);
    return false;
  };
  if (!canChange) return nothing(OFF);
  if (token === null && !(await unlock())) return nothing("Nothing was changed: changes are locked.");
  if (!(await confirm(question))) return nothing("Nothing was changed.");
  const { isOk, status, said } = await ask(method, path, token);
  mark(answer, "data-is", isOk ? "good" : "bad");
  if (status === 401) lock("The token is refused.");
  if (isOk) say(answer, told);
  else say(answer, status === 401 ? "Not done: hookonce refuses the token." : `Not done: ${said.reason ?? `status ${status}`}.`);
  return isOk;
}
