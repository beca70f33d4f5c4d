// What the page says when something behind it does not answer.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { World, eventually, open, startBrowser } from "./support.mjs";

let browser;
before(async () => (browser = await startBrowser()));
after(() => browser.close());

test("a store that is down is said at once, and that it is back", async () => {
  const world = await World.start();
  const { page, witness } = await open(browser, world);
  try {
    await world.send("stripe", "evt_1");
    await page.locator("#tile-store .value", { hasText: "up" }).waitFor();
    assert.match(await page.locator("#store").innerText(), /redis:\/\/\*\*\*@127\.0\.0\.1/);
    await world.redis.end();
    await page.locator(".banner", { hasText: "The store does not answer" }).waitFor();
    await page.locator("#tile-store .value", { hasText: "down" }).waitFor();
    assert.match(await page.title(), /^! The store does not answer/);
    assert.equal(await page.locator("#announce").innerText(), "The store does not answer.");
    await world.send("stripe", "evt_2");
    await page.locator("#list tr", { hasText: "store down" }).first().waitFor();
    await page.locator("#store", { hasText: "open: deliveries do not wait for the store" }).waitFor();

    await world.startRedis();
    await eventually("no banner", async () => (await page.locator(".banner").count()) === 0);
    await page.locator("#tile-store .value", { hasText: "up" }).waitFor();
    // It came back empty, and that is known.
    await page.locator("#store dd", { hasText: /^1$/ }).waitFor();
    assert.equal(await page.title(), "hookonce");
    assert.deepEqual(witness.faults, []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("a lost connection is said, and mends itself", async () => {
  const world = await World.start();
  const { page, witness } = await open(browser, world);
  try {
    await world.send("stripe", "evt_1");
    await page.locator("#list tr", { hasText: "evt_1" }).waitFor();
    await page.evaluate(() => (window.isSamePage = true));
    await world.program.end();
    await page.locator(".banner", { hasText: "The connection to hookonce is lost" }).waitFor();
    await page.locator(".banner", { hasText: /The figures are those of \d\d:\d\d:\d\d/ }).waitFor();
    assert.equal(await page.locator("#link").innerText(), "not connected");
    // What was known stays to be read.
    assert.equal(await page.locator("#list tr", { hasText: "evt_1" }).count(), 1);
    await world.startProgram();
    await page.locator("#link[data-is=good]").waitFor();
    await eventually("no banner", async () => (await page.locator(".banner").count()) === 0);
    // Another process: what the one before has counted is not its own.
    await page.locator("#empty").waitFor();
    await world.send("stripe", "evt_1");
    await page.locator("#list tr", { hasText: "duplicate" }).waitFor();
    // And once more, while the page is away: it finds a delivery of the same number, which is another one.
    await page.context().setOffline(true);
    await world.program.end();
    await page.locator(".banner", { hasText: "The connection to hookonce is lost" }).waitFor();
    await world.startProgram();
    await world.send("stripe", "evt_2");
    await page.context().setOffline(false);
    await page.locator("#list tr", { hasText: "evt_2" }).waitFor();
    assert.equal(await page.locator("#list tr").count(), 1);
    assert.equal(await page.evaluate(() => window.isSamePage), true);
    assert.deepEqual(
      witness.but(
        /ERR_CONNECTION_REFUSED/,
        /ERR_INCOMPLETE_CHUNKED_ENCODING/,
        /ERR_CONNECTION_RESET/,
        /ERR_INTERNET_DISCONNECTED/,
      ),
      [],
    );
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("an instance that stops says so as long as it can, and a bypass is said", async () => {
  const world = await World.start({ drain: "3s" });
  const { page } = await open(browser, world);
  try {
    const headers = { authorization: `Bearer ${world.token}` };
    await fetch(`${world.url}api/bypass/stripe`, { method: "PUT", headers, body: `{"for":"30m"}` });
    await page.locator(".banner", { hasText: /Dedupe of stripe is bypassed for another (29|30) min/ }).waitFor();
    await page
      .locator("article.provider", { hasText: "stripe" })
      .getByText(/bypassed for/)
      .waitFor();
    world.program.child.kill("SIGTERM");
    await page.locator(".banner", { hasText: "This instance is stopping" }).waitFor();
    assert.equal(await page.locator("#serving").innerText(), "draining");
    await page.locator(".banner", { hasText: "The connection to hookonce is lost" }).waitFor();
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("a configuration that is refused is said with the reason, and one that is taken is shown", async () => {
  const world = await World.start();
  const { page, witness } = await open(browser, world);
  try {
    await page.locator("#config summary").click();
    await page.locator("#config-body tr", { hasText: "lease" }).first().waitFor();
    await world.rewrite((text) => `${text}\nleese = "20s"\n`);
    await page.locator(".banner", { hasText: "The configuration that was last read is refused" }).waitFor();
    await page.locator(".banner", { hasText: "providers.orders.leese: is not a known key; did you mean `lease`?" }).waitFor();
    await world.rewrite((text) => text.replace("leese", "lease"));
    await eventually("no banner", async () => (await page.locator(".banner").count()) === 0);
    await page.locator("#config-body tr", { hasText: '"20s"' }).first().waitFor();

    // A provider that comes is there without a reload of the page.
    await world.rewrite((text) => `${text}\n[providers.late]\npath = "/late"\npreset = "github"\nsecret = { env = "GITHUB_SECRET" }\n`);
    await page.locator("#providers", { hasText: "/late" }).waitFor();
    assert.deepEqual(witness.faults, []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("a page that nobody sees gives up its place, and takes it again", async () => {
  const world = await World.start();
  const { page, witness } = await open(browser, world);
  const streams = [];
  page.on("request", (request) => request.url().endsWith("/api/stream") && streams.push("asked"));
  page.on("requestfailed", (request) => request.url().endsWith("/api/stream") && streams.push("left"));
  const hide = (isHidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
  try {
    await hide(true);
    await eventually("the stream is left", () => streams.includes("left"));
    await world.send("stripe", "evt_unseen");
    assert.deepEqual(streams, ["left"]);
    await hide(false);
    await page.locator("#list tr", { hasText: "evt_unseen" }).waitFor();
    assert.deepEqual(streams, ["left", "asked"]);
    assert.equal(await page.locator(".banner").count(), 0);
    assert.deepEqual(witness.faults, []);
  } finally {
    await page.context().close();
    await world.end();
  }
});
