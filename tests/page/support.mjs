// What a test needs around the page: Redis, a consumer, the program itself, deliveries that are signed, a browser.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const run = promisify(execFile);

/** The program under test. */
export const HOOKONCE = process.env.HOOKONCE ?? new URL("../../target/debug/hookonce", import.meta.url).pathname;
export const TOKEN = "page-test-token-0123456789";
const SECRET = "page-test-secret-0123456789abcdef";
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** The longest a test waits for something that must come. */
export const PATIENCE = 15000;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until `condition` gives something; fails, naming it, when it never does. */
export async function eventually(what, condition) {
  const until = Date.now() + PATIENCE;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > until) throw new Error(`this never came: ${what}`);
    await pause(50);
  }
}

/** A port that is free now. */
async function freePort() {
  const server = createSocket();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Those that must not outlive the tests, whatever becomes of these. */
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** A process of our own. */
class Process {
  constructor(command, args, options = {}) {
    this.child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
    this.log = "";
    this.child.stdout.on("data", (data) => (this.log += data));
    this.child.stderr.on("data", (data) => (this.log += data));
    running.add(this.child);
    this.ended = once(this.child, "exit").then(() => running.delete(this.child));
  }

  async end(signal = "SIGKILL") {
    this.child.kill(signal);
    await this.ended;
  }
}

/** A consumer that answers as it is told, and remembers what it got. */
class Consumer {
  static async start() {
    const own = new Consumer();
    own.seen = [];
    own.answer = () => 200;
    own.server = createServer((request, response) => {
      const chunks = [];
      request.on("data", (chunk) => chunks.push(chunk));
      request.on("end", () => {
        const event = {
          id: request.headers["hookonce-event-id"] ?? null,
          path: request.url,
          mark: request.headers["hookonce-maybe-duplicate"] ?? null,
        };
        own.seen.push(event);
        const decided = own.answer(event);
        const { status, ms } = typeof decided === "number" ? { status: decided, ms: 0 } : decided;
        setTimeout(() => response.writeHead(status).end("ok"), ms);
      });
    });
    own.server.listen(0, "127.0.0.1");
    await once(own.server, "listening");
    return own;
  }

  get url() {
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  times(id) {
    return this.seen.filter((event) => event.id === id).length;
  }
}

/** Each provider: its preset, path and keys. */
const PROVIDERS = {
  stripe: {
    preset: "stripe",
    path: "/webhooks/stripe",
    keys: `secrets = [{ env = "STRIPE_SECRET" }, { env = "STRIPE_SECRET_OLD" }]\n`,
  },
  github: { preset: "github", path: "/webhooks/github", keys: `secret = { env = "GITHUB_SECRET" }\n` },
  orders: {
    preset: "standard-webhooks",
    path: "/webhooks/orders",
    keys: `preset = "standard-webhooks"\nsecret = { env = "ORDERS_SECRET" }\nmode = "queue"\n`,
  },
};

const ORDERS_SECRET = `whsec_${Buffer.from(SECRET).toString("base64")}`;
const VARIABLES = {
  STRIPE_SECRET: SECRET,
  STRIPE_SECRET_OLD: "old-secret-0123456789abcdef",
  GITHUB_SECRET: SECRET,
  ORDERS_SECRET,
};

/** Everything behind the page. */
export class World {
  static async start({ token = TOKEN, providers = ["stripe", "github", "orders"], drain = "0s" } = {}) {
    const own = new World();
    own.folder = await mkdtemp(join(tmpdir(), "hookonce-page-"));
    own.consumer = await Consumer.start();
    [own.listen, own.admin, own.redisPort] = [await freePort(), await freePort(), await freePort()];
    own.token = token;
    await own.startRedis();
    own.config = join(own.folder, "hookonce.toml");
    await writeFile(own.config, own.configuration(providers, drain));
    await own.startProgram();
    return own;
  }

  get url() {
    return `http://127.0.0.1:${this.admin}/`;
  }

  configuration(providers, drain) {
    const provider = (name) => `[providers.${name}]\npath = "${PROVIDERS[name].path}"\n${PROVIDERS[name].keys}`;
    return `listen = "127.0.0.1:${this.listen}"
admin = "127.0.0.1:${this.admin}"
upstream = "${this.consumer.url}"
workers = 2
${this.token ? 'admin_token = { env = "ADMIN_TOKEN" }' : ""}
[store]
url = "redis://:redis-password@127.0.0.1:${this.redisPort}"
namespace = "page"
timeout = "3s"
[drain]
delay = "${drain}"
timeout = "5s"
[queue]
schedule = ["0s", "100ms"]
accept_loss = true
${providers.map(provider).join("\n")}`;
  }

  /** Writes another configuration in place of the one that is run. */
  async rewrite(change) {
    const text = await readFile(this.config, "utf8");
    await writeFile(`${this.config}.new`, change(text));
    await rename(`${this.config}.new`, this.config);
  }

  async startRedis() {
    const args = [
      "--port",
      String(this.redisPort),
      "--bind",
      "127.0.0.1",
      "--save",
      "",
      "--appendonly",
      "no",
      "--dir",
      this.folder,
      "--requirepass",
      "redis-password",
    ];
    this.redis = new Process("redis-server", args);
    await eventually("Redis", () => this.redis.log.includes("Ready to accept connections"));
  }

  async startProgram() {
    this.program = new Process(HOOKONCE, ["run", "--config", this.config], {
      env: { PATH: process.env.PATH, ...VARIABLES, ADMIN_TOKEN: this.token ?? "" },
    });
    await eventually("a program that serves", async () => {
      if (this.program.child.exitCode !== null) throw new Error(this.program.log);
      return fetch(`${this.url}readyz`).then(
        (answer) => answer.ok,
        () => false,
      );
    });
  }

  /** Plays the provider: so many copies of one event. Gives what was said. */
  async send(provider, id, { times = 1, concurrency = times, headers = [] } = {}) {
    const { preset, path } = PROVIDERS[provider];
    const args = [
      "send",
      "--preset",
      preset,
      "--secret-env",
      "SECRET",
      "--event-id",
      id,
      "--to",
      `http://127.0.0.1:${this.listen}${path}`,
      "--times",
      String(times),
      "--concurrency",
      String(concurrency),
    ];
    const env = { PATH: process.env.PATH, SECRET: provider === "orders" ? ORDERS_SECRET : SECRET };
    // Copies of an event have one body, whenever they are sent.
    args.push(
      "--data",
      JSON.stringify(provider === "stripe" ? { id, object: "event", type: "invoice.paid" } : { action: "opened" }),
    );
    // A delivery that is refused ends it with 1: that is not for the sender to judge.
    const said = await run(HOOKONCE, [...args, ...headers.flatMap((header) => ["--header", header])], { env }).catch(
      (error) => error,
    );
    return said.stdout;
  }

  /** A delivery that nobody has signed. */
  async forge(provider, count = 1) {
    const url = `http://127.0.0.1:${this.listen}${PROVIDERS[provider].path}`;
    const headers = {
      "content-type": "application/json",
      "stripe-signature": "t=1,v1=00",
      "x-hub-signature-256": `sha256=${"0".repeat(64)}`,
      "x-github-delivery": "forged-id",
    };
    await Promise.all(
      Array.from({ length: count }, () =>
        fetch(url, { method: "POST", headers, body: `{"id":"forged-id"}` }).then((answer) => answer.text()),
      ),
    );
  }

  async end() {
    for (const one of [this.program, this.redis]) await one?.end();
    this.consumer.server.closeAllConnections();
    this.consumer.server.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A browser that speaks to nobody but the pages it is shown. */
export async function startBrowser() {
  const quiet = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ];
  return chromium.launch({ executablePath: CHROMIUM, args: quiet });
}

/** Everything that a page must not do, as it happens. */
export class Witness {
  constructor(page, url) {
    this.faults = [];
    const origin = new URL(url).origin;
    page.on("request", (request) => {
      const isOwn = request.url().startsWith(`${origin}/`) || request.url().startsWith("data:");
      if (!isOwn) this.faults.push(`a request to ${request.url()}`);
    });
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") this.faults.push(`${message.type()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.faults.push(`an error: ${error.stack}`));
  }

  /** What there was, but for what a test has brought about itself. */
  but(...expected) {
    return this.faults.filter((fault) => !expected.some((pattern) => pattern.test(fault)));
  }
}

/** Opens the page as its users do. */
export async function open(browser, world, { token = world.token, ...options } = {}) {
  const credentials = token ? { httpCredentials: { username: "me", password: token } } : {};
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...credentials, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const witness = new Witness(page, world.url);
  await page.goto(world.url);
  await page.locator("#link[data-is=good]").waitFor();
  return { page, context, witness };
}

export const axe = () => readFile(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
