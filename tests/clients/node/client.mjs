// ioredis and node-redis against a server: `client.mjs PORT`. Ends with 1 at the first difference.
//
// The server has no data of its own; it is emptied. ioredis speaks RESP2 and RESP3, node-redis RESP3.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import Redis from "ioredis";
import { createClient } from "redis";

const port = Number(process.argv[2]);
let checks = 0;

function same(found, expected) {
  checks += 1;
  // Some replies are objects without a prototype.
  assert.deepEqual(JSON.parse(JSON.stringify(found)), expected);
}

async function refused(promise, text) {
  checks += 1;
  await assert.rejects(promise, (error) => String(error).includes(text));
}

function version(name) {
  return JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, import.meta.url))).version;
}

async function collect(stream) {
  const all = [];
  for await (const some of stream) all.push(...some);
  return all.sort();
}

const names = (count, make) => Array.from({ length: count }, (_, i) => make(i));

async function ioredis(protocol) {
  const connect = (more) => new Redis({ port, protocol, lazyConnect: true, retryStrategy: null, ...more });
  const r = connect();
  const other = connect();
  await r.flushall();
  // Strings.
  same(await r.set("s", "v"), "OK");
  same(await r.get("s"), "v");
  same(await r.set("s", "w", "NX"), null);
  same(await r.set("s", "w", "GET"), "v");
  same(await r.incrby("n", 5), 5);
  same(await r.incrbyfloat("f", 1.5), "1.5");
  same(await r.mset({ a: 1, b: 2 }), "OK");
  same(await r.mget("a", "nothing", "b"), ["1", null, "2"]);
  same(await r.getBuffer("s").then((b) => b.toString("hex")), "77");
  await refused(r.call("NONESUCH", "x"), "unknown command");
  // Hashes.
  same(await r.hset("h", { f: 1, g: 2 }), 2);
  same(await r.hgetall("h"), { f: "1", g: "2" });
  same(await r.hmget("h", "f", "x"), ["1", null]);
  same(await r.hincrby("h", "f", 2), 3);
  await refused(r.get("h"), "WRONGTYPE");
  // Lists, with a client that waits.
  same(await r.rpush("l", ...names(10, String)), 10);
  same(await r.lrange("l", 2, 4), ["2", "3", "4"]);
  same(await r.lmove("l", "m", "LEFT", "RIGHT"), "0");
  same(await r.blpop("none", "m", 1), ["m", "0"]);
  same(await r.blpop("none", 0.05), null);
  const waits = other.blpop("w", 60);
  while (!(await r.info("clients")).includes("blocked_clients:1"));
  same(await r.rpush("w", "late"), 1);
  same(await waits, ["w", "late"]);
  // Sets and sorted sets.
  same(await r.sadd("e", "a", "b", "c"), 3);
  same((await r.smembers("e")).sort(), ["a", "b", "c"]);
  same(await r.sadd("d", "b", "c", "z"), 3);
  same((await r.sinter("e", "d")).sort(), ["b", "c"]);
  same(await r.zadd("z", 1, "one", 2, "two", 0.5, "half"), 3);
  same(await r.zrange("z", 0, -1), ["half", "one", "two"]);
  same(await r.zscore("z", "half"), "0.5");
  same(await r.zrangebyscore("z", "(0.5", "+inf"), ["one", "two"]);
  // Transactions, pipelines, iterators.
  same(await r.multi().set("x", 1).incr("x").lpush("y", "a").exec(), [[null, "OK"], [null, 2], [null, 1]]);
  await r.watch("x");
  await other.set("x", "other");
  same(await r.multi().set("x", "lost").exec(), null);
  same(await r.get("x"), "other");
  const pipeline = r.pipeline();
  names(2000, (i) => pipeline.set(`p${i}`, i));
  names(2000, (i) => pipeline.get(`p${i}`));
  same((await pipeline.exec()).slice(2000), names(2000, (i) => [null, String(i)]));
  same(await collect(r.scanStream({ match: "p*", count: 100 })), names(2000, (i) => `p${i}`).sort());
  await r.hset("many", Object.fromEntries(names(500, (i) => [`f${i}`, i])));
  same((await collect(r.hscanStream("many", { count: 50 }))).length, 1000);
  // Channels.
  const listener = connect();
  const heard = new Promise((resolve) => listener.on("message", (channel, text) => resolve([channel, text])));
  const matched = new Promise((resolve) => listener.on("pmessage", (...all) => resolve(all)));
  same(await listener.subscribe("news"), 1);
  same(await listener.psubscribe("n*"), 2);
  same(await other.publish("news", "hello"), 2);
  same(await heard, ["news", "hello"]);
  same(await matched, ["n*", "news", "hello"]);
  // Users.
  same(await r.acl("SETUSER", "alice", "reset", "on", ">secret", "~own:*", "+get", "+set", "+info"), "OK");
  const alice = connect({ username: "alice", password: "secret", enableReadyCheck: false });
  same(await alice.set("own:k", "v"), "OK");
  await refused(alice.get("k"), "NOPERM");
  await refused(alice.del("own:k"), "NOPERM");
  same(await r.acl("DELUSER", "alice"), 1);
  [r, other, listener, alice].forEach((client) => client.disconnect());
}

async function nodeRedis() {
  const url = `redis://127.0.0.1:${port}`;
  const connect = (more) => createClient({ url, RESP: 3, ...more }).on("error", () => {}).connect();
  const r = await connect();
  const other = await connect();
  await r.flushAll();
  same(await r.set("s", "v"), "OK");
  same(await r.get("s"), "v");
  same(await r.incrByFloat("f", 1.5), "1.5");
  same(await r.hSet("h", { f: 1, g: 2 }), 2);
  same(await r.hGetAll("h"), { f: "1", g: "2" });
  same(await r.rPush("l", ["a", "b"]), 2);
  same(await r.blPop("l", 1), { key: "l", element: "a" });
  same(await r.blPop("none", 0.05), null);
  same(await r.sAdd("e", ["a", "b"]), 2);
  same([...(await r.sMembers("e"))].sort(), ["a", "b"]);
  same(await r.zAdd("z", [{ value: "half", score: 0.5 }, { value: "one", score: 1 }]), 2);
  same(await r.zScore("z", "half"), 0.5);
  same(await r.zRangeWithScores("z", 0, -1), [{ value: "half", score: 0.5 }, { value: "one", score: 1 }]);
  same(await r.multi().set("x", 1).incr("x").exec(), ["OK", 2]);
  await r.watch("x");
  await other.set("x", "other");
  await refused(r.multi().set("x", "lost").exec(), "watched keys");
  // Commands of one turn are sent as a pipeline.
  same((await Promise.all(names(1000, (i) => r.set(`p${i}`, i)))).length, 1000);
  const found = [];
  for await (const keys of r.scanIterator({ MATCH: "p*", COUNT: 100 })) found.push(...keys);
  same(found.sort(), names(1000, (i) => `p${i}`).sort());
  const listener = await connect();
  let tell;
  const heard = new Promise((resolve) => (tell = resolve));
  await listener.subscribe("news", (text, channel) => tell([channel, text]));
  same(await other.publish("news", "hello"), 1);
  same(await heard, ["news", "hello"]);
  same(await r.pubSubNumSub(["news"]), { news: 1 });
  same(await r.aclSetUser("bob", ["reset", "on", ">secret", "~own:*", "+get", "+set"]), "OK");
  const bob = await connect({ username: "bob", password: "secret" });
  same(await bob.set("own:k", "v"), "OK");
  await refused(bob.get("k"), "NOPERM");
  same(await r.aclDelUser(["bob"]), 1);
  [r, other, listener, bob].forEach((client) => client.destroy());
}

try {
  await ioredis(2);
  await ioredis(3);
  await nodeRedis();
} catch (error) {
  console.error(error);
  process.exit(1);
}
console.log(`ioredis ${version("ioredis")}, node-redis ${version("redis")}: ${checks} checks, no difference`);
process.exit(0);
