// What an operator does with the page, and what is kept from everybody else.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { World, eventually, open, startBrowser } from "./support.mjs";

let browser;
before(async () => (browser = await startBrowser()));
after(() => browser.close());

const lookUp = async (page, id) => {
  await page.selectOption("#lookup-provider", "stripe");
  await page.fill("#lookup-id", id);
  await page.getByRole("button", { name: "Look up", exact: true }).click();
};

const stateOf = async (world, id) => {
  const headers = world.token ? { authorization: `Bearer ${world.token}` } : {};
  return (await fetch(`${world.url}api/events/stripe/${id}`, { headers })).json();
};

test("an event is looked up and forgotten, with the token alone", async () => {
  const world = await World.start();
  const { page, witness } = await open(browser, world);
  try {
    await world.send("stripe", "evt_1", { times: 2 });
    await world.send("stripe", "evt_2");
    await lookUp(page, "evt_1");
    const found = page.locator("#found");
    await found.getByText("done: copies are answered as duplicates").waitFor();
    await found.getByText("page:stripe:evt_1").waitFor();

    // Nothing without a token.
    await found.getByRole("button", { name: "Forget…" }).click();
    await page.keyboard.press("Escape");
    await found.getByText("Nothing was changed: changes are locked.").waitFor();
    // Nothing with a wrong one.
    await found.getByRole("button", { name: "Forget…" }).click();
    await page.fill("#token", "not-the-token");
    await page.keyboard.press("Enter");
    await page.getByText("Wrong token: hookonce refuses it.").waitFor();
    await page.fill("#token", "not a header");
    await page.keyboard.press("Enter");
    await page.getByText("This cannot be the token").waitFor();
    // Nothing that is not meant.
    await page.fill("#token", world.token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Forget this event?" }).waitFor();
    await page.locator("#confirm-no").click();
    await found.getByText("Nothing was changed.").waitFor();
    assert.equal((await stateOf(world, "evt_1")).state, "done");

    assert.equal(await page.locator("#lock-state").innerText(), "Changes are unlocked");
    await found.getByRole("button", { name: "Forget…" }).click();
    await page.getByRole("button", { name: "Forget it" }).click();
    await found.getByText("Forgotten: the next delivery of it is forwarded again.").waitFor();
    assert.equal((await stateOf(world, "evt_1")).state, "failed");
    await world.send("stripe", "evt_1");
    await page.locator("#list tr", { hasText: "forgotten" }).waitFor();
    assert.deepEqual(
      world.consumer.seen.filter(({ id }) => id === "evt_1").map(({ mark }) => mark),
      [null, "forgotten"],
    );

    // By how it begins, and what is not there.
    await lookUp(page, "evt");
    await found.getByText("No event has exactly this id; 2 begin so:").waitFor();
    await found.getByRole("button", { name: "evt_2" }).click();
    await found.getByText("page:stripe:evt_2").waitFor();
    await lookUp(page, "nothing");
    await found.getByText("The store knows no event of this id").waitFor();

    // The token is nowhere but in the page.
    const kept = await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]);
    assert.deepEqual(kept, [0, 0, ""]);
    await page.reload();
    await page.locator("#lock-state", { hasText: "Changes are locked" }).waitFor();
    assert.deepEqual(witness.but(/status of 401/, /status of 404/), []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("where no token is configured, the page says why nothing can be changed, and what to set", async () => {
  const world = await World.start({ token: null });
  world.consumer.answer = ({ id }) => (id === "msg_dead" ? 500 : 200);
  const { page, witness } = await open(browser, world);
  try {
    await world.send("stripe", "evt_1");
    await world.send("orders", "msg_dead");
    await lookUp(page, "evt_1");
    const forget = page.locator("#found").getByRole("button", { name: "Forget…" });
    await forget.waitFor();
    assert.equal(await forget.isDisabled(), true);
    assert.match(
      await page.locator("#found").innerText(),
      /no admin_token is configured\. Set one, for instance by the variable HOOKONCE__ADMIN_TOKEN/,
    );
    const retry = page.getByRole("button", { name: "Try again… msg_dead" });
    await retry.waitFor();
    assert.equal(await retry.isDisabled(), true);
    assert.equal(await page.locator("#lock").isVisible(), false);
    // Not by a script of the page either.
    const answer = await page.evaluate(async () => (await fetch("api/events/stripe/evt_1", { method: "DELETE" })).status);
    assert.equal(answer, 403);
    assert.equal((await stateOf(world, "evt_1")).state, "done");
    assert.deepEqual(witness.but(/status of 403/), []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("a dead letter is tried again, and another one dropped", async () => {
  const world = await World.start();
  world.consumer.answer = () => 500;
  const { page, witness } = await open(browser, world);
  try {
    for (const id of ["msg_1", "msg_2"]) await world.send("orders", id);
    const letters = page.locator(".letters tbody tr");
    await eventually("two dead letters", async () => (await letters.count()) === 2);
    const queue = page.locator("article.queue");
    await page.locator("#tile-queue", { hasText: "2 dead letters" }).waitFor();
    assert.match(await letters.filter({ hasText: "msg_1" }).innerText(), /msg_1\s+\d+ s\s+2\s+500/);

    world.consumer.answer = () => 200;
    await page.getByRole("button", { name: "Try again… msg_1" }).click();
    await page.fill("#token", world.token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Try it again?" }).waitFor();
    await page.getByRole("button", { name: "Try again", exact: true }).click();
    await queue.getByText("Tried again: msg_1 is on its way to the consumer.").waitFor();
    await eventually("msg_1 at the consumer", () => world.consumer.times("msg_1") === 3);
    await eventually("one dead letter", async () => (await letters.count()) === 1);

    await page.getByRole("button", { name: "Drop… msg_2" }).click();
    await page.getByRole("button", { name: "Drop it" }).click();
    await queue.getByText("Dropped: msg_2 will not be delivered.").waitFor();
    await eventually("no dead letter", async () => (await letters.count()) === 0);
    await page.locator("#tile-queue", { hasText: "0 dead letters" }).waitFor();
    assert.equal(world.consumer.times("msg_2"), 2);
    assert.deepEqual(witness.faults, []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("everything can be done by keyboard", async () => {
  const world = await World.start();
  const { page, witness } = await open(browser, world);
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent.trim());
  /** Presses Tab until this has the focus, and fails where it cannot be reached or cannot be seen to have it. */
  const reach = async (name) => {
    for (let presses = 0; presses < 60; presses += 1) {
      await page.keyboard.press("Tab");
      if ((await focused()) !== name) continue;
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.equal(outline, "solid", `${name} is not seen to have the focus`);
      return;
    }
    assert.fail(`${name} cannot be reached`);
  };
  try {
    await world.send("stripe", "evt_keys", { times: 2 });
    await page.locator("#list tr").first().waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "Skip to the figures");
    await page.keyboard.press("Enter");
    assert.equal(await focused(), "main");
    // By the list: its newest delivery.
    await reach("evt_keys");
    await page.keyboard.press("Enter");
    await page.locator("#found").getByText("page:stripe:evt_keys").waitFor();
    assert.equal(await focused(), "found");
    // By the form.
    await page.locator("#lookup-provider").focus();
    await page.keyboard.type("stripe");
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "lookup-id");
    await page.keyboard.press("Control+a");
    await page.keyboard.type("evt_keys");
    await page.keyboard.press("Enter");
    await page.locator("#found:not([aria-busy])").getByText("page:stripe:evt_keys").waitFor();
    await reach("Forget…");
    await page.keyboard.press("Enter");
    assert.equal(await focused(), "token");
    await page.keyboard.type(world.token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Forget this event?" }).waitFor();
    // The first choice is the one that does nothing.
    assert.equal(await focused(), "confirm-no");
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "confirm-yes");
    await page.keyboard.press("Enter");
    await page.locator("#found").getByText("Forgotten: the next delivery of it is forwarded again.").waitFor();
    assert.equal(await focused(), "Forget…");
    assert.equal((await stateOf(world, "evt_keys")).state, "failed");
    assert.deepEqual(witness.faults, []);
  } finally {
    await page.context().close();
    await world.end();
  }
});

test("without the password there is no page, and with it nothing can be changed", async () => {
  const world = await World.start();
  try {
    // A browser that can ask nobody for the password gives up; one that has a wrong one shows what was said.
    const [without, wrong] = await Promise.all(
      [{}, { httpCredentials: { username: "me", password: "wrong" } }].map((options) => browser.newContext(options)),
    );
    await assert.rejects((await without.newPage()).goto(world.url), /ERR_INVALID_AUTH_CREDENTIALS/);
    const refused = await wrong.newPage();
    assert.equal((await refused.goto(world.url)).status(), 401);
    assert.match(await refused.locator("body").innerText(), /the admin token: log in with it as the password/);
    await Promise.all([without.close(), wrong.close()]);
    // What the browser sends by itself opens no change.
    await world.send("stripe", "evt_1");
    const { page: own } = await open(browser, world);
    const status = await own.evaluate(async () => (await fetch("api/events/stripe/evt_1", { method: "DELETE" })).status);
    assert.equal(status, 401);
    assert.equal((await stateOf(world, "evt_1")).state, "done");
    await own.context().close();
  } finally {
    await world.end();
  }
});
