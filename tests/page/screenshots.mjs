// Pictures of the page after some minutes of ordinary traffic: node screenshots.mjs FOLDER [SECONDS]

import { join } from "node:path";
import { World, open, startBrowser } from "./support.mjs";

const [folder, seconds = "310"] = process.argv.slice(2);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// Dice that fall the same way each time.
let seed = 7;
const chance = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const hex = (length) => Array.from({ length }, () => Math.floor(chance() * 16).toString(16)).join("");

const world = await World.start();
const isBad = ({ id }) => id !== null && (id.endsWith("00") || id.startsWith("msg_f"));
world.consumer.answer = (event) => ({ status: isBad(event) ? 502 : 200, ms: 8 + chance() ** 4 * 180 });

/** Sends event after event of a provider, at a pace that swells and ebbs, and some of them again. */
async function deliver(provider, name, everyMs, period) {
  const [began, sent] = [Date.now(), []];
  while (Date.now() - began < Number(seconds) * 1000) {
    const swell = 1 + 0.6 * Math.sin(((Date.now() - began) / 1000 / period) * 2 * Math.PI);
    const isAgain = sent.length > 3 && chance() < 0.22;
    const id = isAgain ? sent[Math.floor(chance() * sent.length)] : name();
    if (!isAgain) sent.push(id);
    sent.splice(0, Math.max(0, sent.length - 12));
    await Promise.all([world.send(provider, id, { times: !isAgain && chance() < 0.1 ? 2 : 1 }), pause(everyMs / swell)]);
    if (provider === "stripe" && chance() < 0.03) await world.forge("stripe");
  }
}

await Promise.all([
  deliver("stripe", () => `evt_1${hex(22)}`, 150, 140),
  deliver("github", () => `${hex(8)}-${hex(4)}-11f0-${hex(4)}-${hex(12)}`, 400, 80),
  deliver("orders", () => `msg_${hex(20)}`, 1200, 200),
]);

const browser = await startBrowser();
const picture = async (name, options) => {
  const { page } = await open(browser, world, { viewport: { width: 1280, height: 1180 }, ...options });
  await page.locator("#list tr").first().waitFor();
  await page.screenshot({ path: join(folder, `page-${name}.png`) });
  await page.context().close();
};
await picture("light", { colorScheme: "light" });
await picture("dark", { colorScheme: "dark" });
await picture("phone", { colorScheme: "light", viewport: { width: 390, height: 1000 }, deviceScaleFactor: 1.5 });
await browser.close();
await world.end();
