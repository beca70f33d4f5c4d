// The configuration as it runs, and, as long as nothing has come, what to send.

import { find, make } from "./dom.js";

async function read() {
  try {
    const response = await fetch("api/config", { cache: "no-store" });
    const said = await response.json();
    return response.ok ? said.sections : said.reason;
  } catch {
    return "hookonce does not answer";
  }
}

/** Read whenever it is opened, and anew when another one is taken up meanwhile. */
export function begin() {
  find("config").addEventListener("toggle", fill);
}

async function fill() {
  if (!find("config").open) return;
  const sections = await read();
  const refused = () => [make("p", { "data-is": "bad" }, `Not answered: ${sections}.`)];
  find("config-body").replaceChildren(...(typeof sections === "string" ? refused() : shown(sections)));
}

let taken = null;

/** How often another configuration has been taken up. */
export function reloaded(times) {
  if (taken !== null && taken !== times) fill();
  taken = times;
}

const isWritten = ({ origin }) => origin !== "default" && !origin.startsWith("preset ");

function shown(sections) {
  const only = make("input", { type: "checkbox" });
  const tables = sections.map(table);
  const filter = () => tables.forEach((part) => part.show(only.checked));
  only.addEventListener("input", filter);
  filter();
  const note = make("p", { class: "quiet" }, "Each value with where it was written. Secrets are never shown.");
  const choice = make("label", { class: "check" }, only, make("span", {}, "Only what was written by you"));
  return [make("div", { class: "bar" }, note, choice), ...tables.map((part) => part.node)];
}

function table({ name, settings }) {
  const title = name === "" ? "Top level" : `[${name}]`;
  const rows = settings.map(row);
  const head = make("tr", {}, ...["Key", "Value", "From"].map((text) => make("th", { scope: "col" }, text)));
  const body = make("tbody", {}, ...rows.map((one) => one.node));
  const whole = make("table", { class: "settings" }, make("caption", {}, title), make("thead", { class: "unseen" }, head), body);
  const node = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Settings, ${title}` }, whole);
  const show = (onlyWritten) => {
    for (const one of rows) one.node.hidden = onlyWritten && !one.isWritten;
    node.hidden = onlyWritten && !rows.some((one) => one.isWritten);
  };
  return { node, show };
}

function row(setting) {
  const { key, value, origin } = setting;
  const cells = [
    make("th", { scope: "row" }, make("code", {}, key)),
    make("td", {}, make("code", {}, value)),
    make("td", { class: "quiet" }, origin),
  ];
  return { isWritten: isWritten(setting), node: make("tr", { "data-written": isWritten(setting) ? "yes" : "no" }, ...cells) };
}

const SENDERS_MAX = 3;
let taught = "";

/** What to send, for each provider: with its own path, preset and the variable of its secret. */
export async function teach(instance, providers) {
  const box = find("empty");
  box.hidden = false;
  const key = JSON.stringify([instance.started, providers.map((provider) => provider.told.name)]);
  if (taught === key) return;
  taught = key;
  const sections = await read();
  const settings = (name) => {
    const section = Array.isArray(sections) && sections.find((one) => one.name === `providers.${name}`);
    return section ? section.settings : [];
  };
  const shown = ({ told }) => {
    const code = make("code", {}, command(instance, told, settings(told.name)));
    return make("pre", { tabindex: "0", role: "region", "aria-label": `How to send a delivery of ${told.name}` }, code);
  };
  const who = providers.length === 1 ? providers[0].told.name : "your providers";
  box.replaceChildren(
    make("p", { class: "headline" }, "No delivery has come yet."),
    make("p", {}, `Point ${who} at this instance, or play the provider: this signs a delivery as it would, and sends it twice.`),
    ...providers.slice(0, SENDERS_MAX).map(shown),
    make(
      "p",
      { class: "quiet" },
      "The first copy is forwarded to the consumer, the second is answered as a duplicate. Both appear here.",
    ),
  );
}

function command(instance, told, settings) {
  const colon = instance.listen.lastIndexOf(":");
  const [host, port] = [instance.listen.slice(0, colon), instance.listen.slice(colon + 1)];
  const isAny = host === "0.0.0.0" || host === "[::]";
  const to = `http://${isAny ? location.hostname : host}:${port}${told.path}`;
  const preset = told.preset ? `--preset ${told.preset}` : "--preset-file SCHEME.toml";
  const secret = settings.find(({ key }) => ["secret", "secrets", "public_key"].includes(key));
  const variable = secret?.value.match(/variable ([A-Za-z0-9_]+)/)?.[1];
  const key = secret?.key === "public_key" ? "--private-key KEY.pem" : `--secret-env ${variable ?? "VARIABLE"}`;
  return `hookonce send ${preset} ${key} \\\n    --to ${to} --times 2`;
}

/** Something has come. */
export function taughtEnough() {
  find("empty").hidden = true;
}
