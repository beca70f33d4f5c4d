// What a team with a Node service tends to write first: middleware that verifies and asks Redis, and then passes the delivery on.
// As in once.lua, an id is taken for good.
import { createHmac, timingSafeEqual } from "node:crypto";
import { Agent, request } from "node:http";
import express from "express";
import Redis from "ioredis";

const { WEBHOOK_SECRET, REDIS_PORT, CONSUMER_PORT } = process.env;
const RETENTION_SECONDS = 259200;
const redis = new Redis({ host: "127.0.0.1", port: Number(REDIS_PORT) });
const agent = new Agent({ keepAlive: true, maxSockets: 512 });

function verify(req, res, next) {
  const body = Buffer.isBuffer(req.body) ? req.body : Buffer.alloc(0);
  const right = Buffer.from(`sha256=${createHmac("sha256", WEBHOOK_SECRET).update(body).digest("hex")}`);
  const given = Buffer.from(req.get("X-Hub-Signature-256") ?? "");
  if (given.length === right.length && timingSafeEqual(given, right)) return next();
  res.sendStatus(401);
}

async function once(req, res, next) {
  const answer = await redis.set(`express:${req.get("X-GitHub-Delivery")}`, "1", "EX", RETENTION_SECONDS, "NX");
  if (answer === "OK") return next();
  res.json({ status: "duplicate" });
}

function forward(req, res) {
  const to = { host: "127.0.0.1", port: CONSUMER_PORT, method: req.method, path: req.originalUrl, headers: req.headers, agent };
  const call = request(to, (answer) => {
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
  });
  call.on("error", () => res.sendStatus(502));
  call.end(req.body);
}

const app = express();
app.post("/github", express.raw({ type: () => true, limit: "26mb" }), verify, once, forward);
const listener = app.listen(0, "127.0.0.1", () => console.log(`listening on 127.0.0.1:${listener.address().port}`));
