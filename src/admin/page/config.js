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

/** Read whenever it is opened. */
export function begin() {
  find("config").addEventListener("toggle", async () => {
    if (!find("config").open) return;
    const sections = await read();
    find("config-body").replaceChildren(...(typeof sections === "string" ? [make("p", { "data-is": "bad" }, `Not answered: ${sections}.`)] : shown(sections)));
  });
}

const isWritten = ({ origin }) => origin !== "default" && !origin.startsWith("preset ");

function shown(sections) {
  const only = make("input", { type: "checkbox" });
  const tables = sections.map(table);
  const filter = () => tables.forEach((part) => part.show(only.checked));
  only.addEventListener("input", filter);
  filter();
  const note = make("p", { class: "quiet" }, "Each value with where it was written. Secrets are never shown.");
  return [make("div", { class: "bar" }, note, make("label", { class: "check" }, only, make("span", {}, "Only what was written by you"))), ...tables.map((part) => part.node)];
}

function table({ name, settings }) {
  const rows = settings.map((setting) => ({
    isWritten: isWritten(setting),
    node: make("tr", { "data-written": isWritten(setting) ? "yes" : "no" }, make("th", { scope: "row" }, make("code", {}, setting.key)), make("td", {}, make("code", {}, setting.value)), make("td", { class: "quiet" }, setting.origin)),
  }));
  const head = make("tr", {}, ...["Key", "Value", "From"].map((text) => make("th", { scope: "col" }, text)));
  const caption = make("caption", {}, name === "" ? "Top level" : `[${name}]`);
  const whole = make("table", { class: "settings" }, caption, make("thead", { class: "unseen" }, head), make("tbody", {}, ...rows.map((row) => row.node)));
  const node = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Settings, ${name === "" ? "top level" : name}` }, whole);
  const show = (onlyWritten) => {
    for (const row of rows) row.node.hidden = onlyWritten && !row.isWritten;
    node.hidden = onlyWritten && !rows.some((row) => row.isWritten);
  };
  return { node, show };
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
  const settings = (name) => (Array.isArray(sections) ? (sections.find((section) => section.name === `providers.${name}`)?.settings ?? []) : []);
  const commands = providers.slice(0, SENDERS_MAX).map(({ told }) => make("pre", { tabindex: "0", "aria-label": `A delivery of ${told.name}` }, make("code", {}, command(instance, told, settings(told.name)))));
  box.replaceChildren(
    make("p", { class: "headline" }, "No delivery has come yet."),
    make("p", {}, `Point ${providers.length === 1 ? providers[0].told.name : "your providers"} at this instance, or play the provider: this signs a delivery as it would, and sends it twice.`),
    ...commands,
    make("p", { class: "quiet" }, "The first copy is forwarded to the consumer, the second is answered as a duplicate. Both appear here."),
  );
}

function command(instance, told, settings) {
  const [host, port] = [instance.listen.slice(0, instance.listen.lastIndexOf(":")), instance.listen.slice(instance.listen.lastIndexOf(":") + 1)];
  const isAny = host === "0.0.0.0" || host === "[::]";
  const to = `http://${isAny ? location.hostname : host}:${port}${told.path}`;
  const preset = told.preset ? `--preset ${told.preset}` : "--preset-file SCHEME.toml";
  const secret = settings.find(({ key }) => key === "secret" || key === "secrets" || key === "public_key");
  const variable = secret?.value.match(/variable ([A-Za-z0-9_]+)/)?.[1];
  const key = secret?.key === "public_key" ? "--private-key KEY.pem" : `--secret-env ${variable ?? "VARIABLE"}`;
  return `hookonce send ${preset} ${key} \\\n    --to ${to} --times 2`;
}

/** Something has come. */
export function taughtEnough() {
  find("empty").hidden = true;
}
