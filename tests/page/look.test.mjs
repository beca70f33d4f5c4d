// What the page shows, and what it never does.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { HOOKONCE, World, axe, eventually, open, startBrowser } from "./support.mjs";

const run = promisify(execFile);

let browser;
before(async () => (browser = await startBrowser()));
after(() => browser.close());

const text = (page, selector) => page.locator(selector).innerText();

/** A figure of `/metrics`. */
async function metric(world, name, labels) {
  const scraped = await (await fetch(`${world.url}metrics`)).text();
  const line = scraped.split("\n").find((one) => one.startsWith(`${name}{`) && labels.every((label) => one.includes(label)));
  return Number(line.split(" ").at(-1));
}

async function isWithinItsWidth(page) {
  return page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);
}

test("an instance that has seen nothing says what to send, and that works as it is written", async () => {
  const world = await World.start({ token: null, providers: ["stripe"] });
  const { page, witness } = await open(browser, world);
  try {
    const empty = page.locator("#empty");
    await empty.getByText("No delivery has come yet.").waitFor();
    assert.equal(await text(page, "#tile-rate .value"), "0");
    assert.equal(await text(page, "#tile-hits .value"), "–");
    assert.equal(await page.locator("#list-box").isVisible(), false);
    assert.equal(await page.locator("#queue-section").isVisible(), false);
    assert.match(await text(page, "#lock-state"), /Changes are off/);
    const command = (await empty.locator("code").innerText()).replace(/^hookonce /, `${HOOKONCE} `);
    assert.ok(
      command.includes(`--preset stripe --secret-env STRIPE_SECRET`) && command.includes(`:${world.listen}/webhooks/stripe`),
      command,
    );
    const sent = await run("sh", ["-c", command], { env: { STRIPE_SECRET: "page-test-secret-0123456789abcdef" } });
    assert.match(sent.stdout, /1 x 200 forwarded/);
    await page.locator("#list tr").nth(1).waitFor();
    assert.equal(await empty.isVisible(), false);
    assert.equal(await text(page, "#tile-hits .value"), "50 %");
    assert.deepEqual(witness.faults, []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("a busy instance: figures, charts and the list follow without a reload", async () => {
  const world = await World.start();
  world.consumer.answer = ({ id }) => (id?.startsWith("bad") ? 500 : { status: 200, ms: 5 });
  const { page, witness } = await open(browser, world);
  try {
    await page.evaluate(() => (window.isSamePage = true));
    for (let round = 0; round < 8; round += 1) {
      await Promise.all([
        world.send("stripe", `evt_${round}`, { times: 20 }),
        world.send("github", `push-${round}`, { times: 5 }),
        world.send("github", `bad-${round}`),
        world.send("orders", `msg_${round}`, { times: 2 }),
        world.forge("stripe", 8),
      ]);
    }
    const stripe = page.locator("article.provider", { hasText: "stripe" });
    await stripe.getByText("8 forwarded").waitFor();
    await stripe.getByText("64 rejected").waitFor();
    await page.locator("article.provider", { hasText: "github" }).getByText("8 failed").waitFor();
    await page.locator("article.provider", { hasText: "orders" }).getByText("8 queued").waitFor();
    // What is shown is what is counted.
    const hits = await metric(world, "hookonce_dedup_hits_total", ['provider="stripe"']);
    const [duplicates, waited] = await Promise.all(
      ["duplicate", "waited"].map((outcome) =>
        metric(world, "hookonce_deliveries_total", ['provider="stripe"', `outcome="${outcome}"`]),
      ),
    );
    assert.equal(hits, duplicates + waited);
    assert.equal(await stripe.locator(".figures dd").nth(1).innerText(), `${Math.round((100 * hits) / (hits + 8))} %`);
    assert.match(await text(page, "#tile-rate .value"), /^[\d.]+$/);
    assert.match(await stripe.locator(".figures dd").nth(3).innerText(), /^<?[\d.]+ · [<>]?[\d.]+ ms$/);
    assert.match(
      await stripe.locator("svg").getAttribute("aria-label"),
      /8 forwarded, 152 duplicate, 0 queued, 0 failed, 64 refused/,
    );
    assert.ok((await stripe.locator("path[data-kind=refused]").getAttribute("d")).startsWith("M"));
    await stripe.getByText(/secret 0: 160 matches, last at/).waitFor();
    await stripe.getByText("secret 1: no match since the start").waitFor();
    await stripe.getByText(/64 did not verify/).waitFor();
    // Of 224 that verified 200 are kept, of 64 that did not 50; and these name no event.
    assert.equal(await page.locator("#list tr").count(), 250);
    assert.equal(await page.locator("#list tr", { hasText: "not verified" }).count(), 50);
    assert.equal(await page.getByText("forged-id").count(), 0);
    assert.equal(await page.evaluate(() => window.isSamePage), true);
    assert.deepEqual(witness.faults, []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("the list is filtered and paused, and does not move under the reader", async () => {
  const world = await World.start();
  world.consumer.answer = ({ id }) => (id?.startsWith("bad") ? 500 : 200);
  const { page, witness } = await open(browser, world);
  try {
    const rows = page.locator("#list tr");
    for (const [provider, id] of [
      ["stripe", "evt_a"],
      ["stripe", "evt_b"],
      ["github", "bad-c"],
    ])
      await world.send(provider, id);
    await rows.nth(2).waitFor();
    await page.selectOption("#filter-provider", "stripe");
    await eventually("stripe alone", async () => (await rows.count()) === 2);
    await page.fill("#filter-id", "vt_b");
    await eventually("one id", async () => (await rows.count()) === 1);
    await page.fill("#filter-id", "");
    await page.selectOption("#filter-provider", "");
    await page.selectOption("#filter-outcome", "failed");
    await eventually("failed ones", async () => (await rows.count()) === 1);
    assert.match(await rows.first().innerText(), /bad-c[\s\S]*failed[\s\S]*500[\s\S]*released: the consumer answered 500/);
    await page.selectOption("#filter-outcome", "");
    await eventually("all", async () => (await rows.count()) === 3);

    await page.getByRole("button", { name: "Pause" }).click();
    const first = await rows.first().innerText();
    await world.send("stripe", "evt_d");
    await page.getByRole("button", { name: "Go on (1 new)" }).waitFor();
    assert.equal(await rows.first().innerText(), first);
    await page.getByRole("button", { name: /Go on/ }).click();
    await rows.filter({ hasText: "evt_d" }).waitFor();

    // Somebody points at a row, and another one comes.
    await rows.nth(1).hover();
    await world.send("stripe", "evt_e");
    await page.getByText("held while you are in the list, 1 new").waitFor();
    assert.equal(await rows.filter({ hasText: "evt_e" }).count(), 0);
    await page.mouse.move(5, 5);
    await rows.filter({ hasText: "evt_e" }).waitFor();
    assert.deepEqual(witness.faults, []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("an event id that is markup is text", async () => {
  const world = await World.start();
  const { page, witness } = await open(browser, world);
  const hostile = `<img src=x onerror="window.hit=1">'"><script>window.hit=1</script>&amp;`;
  const shown = hostile.replaceAll(" ", "%20");
  try {
    await world.send("github", hostile, { times: 2 });
    const button = page.locator("#list button.id").first();
    await button.waitFor();
    assert.equal(await button.innerText(), shown);
    assert.equal(await button.getAttribute("title"), `Look up ${shown}`);
    await button.click();
    const found = page.locator("#found");
    await found.getByText("done: copies are answered as duplicates").waitFor();
    assert.equal(await found.locator("code").first().innerText(), shown);
    await found.getByRole("button", { name: "Forget…" }).click();
    await page.fill("#token", world.token);
    await page.getByRole("button", { name: "Unlock", exact: true }).click();
    await page.getByRole("heading", { name: "Forget this event?" }).waitFor();
    assert.equal(await text(page, "#confirm-subject"), shown);
    await page.getByRole("button", { name: "Forget it" }).click();
    await found.getByText("Forgotten: the next delivery of it is forwarded again.").waitFor();
    assert.equal(await page.evaluate(() => window.hit), undefined);
    assert.equal(await page.locator("main img, main script").count(), 0);
    await world.send("github", hostile);
    await eventually("the event again", () => world.consumer.times(shown) === 2);
    assert.deepEqual(witness.faults, []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("it fits a phone, and passes the rules of accessibility in light and dark", async () => {
  const world = await World.start();
  world.consumer.answer = ({ id }) => (id?.includes("bad") ? 500 : 200);
  const { page, witness } = await open(browser, world);
  const rules = await axe();
  const check = async (what) => {
    const { violations } = await page.evaluate(`${rules}; axe.run(document, { resultTypes: ["violations"] })`);
    const told = violations.map(
      (one) => `${one.id}: ${one.nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n")}`,
    );
    assert.deepEqual(told, [], what);
  };
  try {
    await page.setViewportSize({ width: 360, height: 740 });
    await page.locator("#empty").waitFor();
    assert.ok(await isWithinItsWidth(page), "empty");
    await Promise.all([
      world.send("stripe", `evt_${"long".repeat(40)}`, { times: 3 }),
      world.send("github", "bad-1"),
      world.send("orders", "bad-order"),
      world.forge("stripe", 2),
    ]);
    await page.getByRole("button", { name: "Drop… bad-order" }).waitFor();
    await page.locator("#lookup-id").fill("evt_");
    await page.getByRole("button", { name: "Look up", exact: true }).click();
    await page.locator("#config summary").click();
    await page.locator("#config-body table").first().waitFor();
    for (const [width, colorScheme] of [
      [360, "light"],
      [360, "dark"],
      [1280, "light"],
      [1280, "dark"],
    ]) {
      await page.setViewportSize({ width, height: 740 });
      await page.emulateMedia({ colorScheme });
      assert.ok(await isWithinItsWidth(page), `${width}`);
      await check(`${width} ${colorScheme}`);
    }
    await page.getByRole("button", { name: "Unlock changes" }).click();
    await check("the dialog");
    await page.keyboard.press("Escape");
    await world.redis.end();
    await page.locator(".banner", { hasText: "The store does not answer" }).waitFor();
    await check("a banner");
    assert.deepEqual(witness.but(/status of 404/), []);
  } finally {
    await page.context().close();
    await world.end();
  }
});
