"""redis-py against a server: `client.py PORT`. Ends with 1 at the first difference.

Runs the same steps over RESP2 and RESP3 on a server without data of its own, which it empties.
"""

import sys
import threading

import redis

checks = 0


def same(found, expected):
    global checks
    checks += 1
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def refused(call, kind, text):
    global checks
    checks += 1
    try:
        found = call()
    except kind as error:
        assert text in str(error), f"{error} does not say {text}"
        return
    raise AssertionError(f"{found!r} was not refused")


def strings(r):
    same(r.set("s", "v"), True)
    same(r.get("s"), "v")
    same(r.set("s", "w", nx=True), None)
    same(r.set("s", "w", get=True), "v")
    same(r.getrange("s", 0, -1), "w")
    same(r.append("s", "xyz"), 4)
    same(r.incrby("n", 5), 5)
    same(r.incrbyfloat("f", 1.5), 1.5)
    same(r.mset({"a": "1", "b": "2"}), True)
    same(r.mget("a", "nothing", "b"), ["1", None, "2"])
    same(r.set("t", "v", ex=100), True)
    same(0 < r.ttl("t") <= 100, True)
    same(r.persist("t"), True)
    same(r.ttl("t"), -1)
    same(r.exists("s", "nothing"), 1)
    same(r.type("s"), "string")
    same(r.delete("s", "n", "f", "a", "b", "t"), 6)
    refused(lambda: r.execute_command("NONESUCH", "x"), redis.ResponseError, "unknown command")


def hashes(r):
    same(r.hset("h", mapping={"f": "1", "g": "2"}), 2)
    same(r.hgetall("h"), {"f": "1", "g": "2"})
    same(r.hmget("h", "f", "x"), ["1", None])
    same(r.hincrby("h", "f", 2), 3)
    same(r.hdel("h", "g"), 1)
    same(r.hset("h", mapping={f"f{i}": i for i in range(500)}), 500)
    same(dict(r.hscan_iter("h", match="f49*", count=50)), {f"f{i}": str(i) for i in [49, *range(490, 500)]})
    refused(lambda: r.get("h"), redis.ResponseError, "WRONGTYPE")


def lists(r):
    same(r.rpush("l", *range(10)), 10)
    same(r.lrange("l", 2, 4), ["2", "3", "4"])
    same(r.lpop("l", 2), ["0", "1"])
    same(r.linsert("l", "BEFORE", "5", "x"), 9)
    same(r.lpos("l", "x"), 3)
    same(r.lmove("l", "m", "LEFT", "RIGHT"), "2")
    same(r.blpop(["none", "m"], timeout=1), ("m", "2") if r.resp == 2 else ["m", "2"])
    same(r.blpop("none", timeout=0.05), None)
    got = []
    waiting = threading.Thread(target=lambda: got.append(r.blmove("w", "v", timeout=60)))
    waiting.start()
    while r.info("clients")["blocked_clients"] == 0:
        pass
    same(r.rpush("w", "late"), 1)
    waiting.join()
    same(got, ["late"])
    same(r.lrange("v", 0, -1), ["late"])


def sets(r):
    same(r.sadd("e", "a", "b", "c"), 3)
    same(r.smembers("e"), {"a", "b", "c"})
    same(r.smismember("e", ["a", "x"]), [1, 0])
    same(r.sadd("d", "b", "c", "z"), 3)
    same(r.sinter("e", "d"), {"b", "c"})
    same(r.sunionstore("u", "e", "d"), 4)
    same(set(r.sscan_iter("u")), {"a", "b", "c", "z"})


def sorted_sets(r):
    same(r.zadd("z", {"one": 1, "two": 2, "half": 0.5}), 3)
    pairs = r.zrange("z", 0, -1, withscores=True)
    same([tuple(pair) for pair in pairs], [("half", 0.5), ("one", 1.0), ("two", 2.0)])
    same(r.zincrby("z", 2, "one"), 3.0)
    same(r.zscore("z", "one"), 3.0)
    same(r.zrangebyscore("z", "(0.5", "+inf"), ["two", "one"])
    same(r.zrank("z", "two"), 1)
    # RESP3 has pairs only where a count was given.
    popped = r.zpopmin("z", 1)
    same([tuple(pair) for pair in popped], [("half", 0.5)])
    same(dict(r.zscan_iter("z")), {"one": 3.0, "two": 2.0})


def transactions(r, other):
    with r.pipeline(transaction=True) as pipe:
        same(pipe.set("x", 1).incr("x").lpush("y", "a").execute(), [True, 2, 1])
    with r.pipeline() as pipe:
        pipe.watch("x")
        same(pipe.get("x"), "2")
        other.set("x", "other")
        pipe.multi()
        pipe.set("x", "lost")
        refused(pipe.execute, redis.WatchError, "Watched variable changed")
    same(r.get("x"), "other")
    with r.pipeline(transaction=False) as pipe:
        for i in range(2000):
            pipe.set(f"p{i}", i)
        for i in range(2000):
            pipe.get(f"p{i}")
        same(pipe.execute()[2000:], [str(i) for i in range(2000)])
    found = sorted(r.scan_iter(match="p*", count=100), key=lambda key: int(key[1:]))
    same(found, [f"p{i}" for i in range(2000)])


def channels(r, other):
    listener = r.pubsub()
    listener.subscribe("news")
    listener.psubscribe("n*")
    kinds = [listener.get_message(timeout=60)["type"] for _ in range(2)]
    same(kinds, ["subscribe", "psubscribe"])
    same(other.publish("news", "hello"), 2)
    messages = [listener.get_message(timeout=60) for _ in range(2)]
    same([(m["type"], m["channel"], m["data"]) for m in messages],
         [("message", "news", "hello"), ("pmessage", "news", "hello")])
    same(other.pubsub_numsub("news"), [("news", 1)])
    listener.close()


def users(r, connect):
    r.acl_setuser("alice", enabled=True, passwords=["+secret"], keys=["own:*"], commands=["+get", "+set", "+hello"], reset=True)
    same("alice" in r.acl_users(), True)
    alice = connect(username="alice", password="secret")
    same(alice.set("own:k", "v"), True)
    refused(lambda: alice.get("k"), redis.ResponseError, "no permissions")
    refused(lambda: alice.delete("own:k"), redis.ResponseError, "no permissions")
    alice.close()
    wrong = connect(username="alice", password="wrong")
    refused(lambda: wrong.get("own:k"), redis.AuthenticationError, "")
    same(r.acl_deluser("alice"), 1)


def main(port):
    for resp in [2, 3]:
        def connect(**more):
            client = redis.Redis(port=port, protocol=resp, decode_responses=True,
                                 socket_timeout=120, **more)
            client.resp = resp
            return client

        r, other = connect(client_name="first"), connect()
        same(r.ping(), True)
        same(r.client_getname(), "first")
        r.flushall()
        strings(r)
        hashes(r)
        lists(r)
        sets(r)
        sorted_sets(r)
        transactions(r, other)
        channels(r, other)
        users(r, connect)
        same(r.dbsize() > 2000, True)
        same(r.config_get("appendonly"), {"appendonly": "yes"})
        r.flushall()
        same(r.dbsize(), 0)
    print(f"redis-py {redis.__version__}: {checks} checks, no difference")


main(int(sys.argv[1]))
