// Jedis against a server: `java -cp 'DEPENDENCIES/*' Client.java PORT`. Ends with 1 at the first
// difference.
//
// The server has no data of its own; it is emptied. Speaks RESP2 and RESP3.

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.Tuple;

public class Client {
    static int port;
    static int checks = 0;

    static void same(Object found, Object expected) {
        checks += 1;
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(found + " is not " + expected);
        }
    }

    static void refused(Runnable call, String text) {
        checks += 1;
        try {
            call.run();
        } catch (RuntimeException error) {
            if (String.valueOf(error.getMessage()).contains(text)) return;
            throw error;
        }
        throw new AssertionError("it was not refused with " + text);
    }

    static Jedis connect(RedisProtocol protocol, String user, String password) {
        var config = DefaultJedisClientConfig.builder().protocol(protocol).timeoutMillis(120_000);
        if (user != null) config.user(user).password(password);
        return new Jedis(new HostAndPort("127.0.0.1", port), config.build());
    }

    static void data(Jedis r, Jedis other) throws Exception {
        same(r.set("s", "v"), "OK");
        same(r.get("s"), "v");
        same(r.set("s", "w", SetParams.setParams().nx()), null);
        same(r.incrBy("n", 5), 5L);
        same(r.incrByFloat("f", 1.5), 1.5);
        same(r.mget("s", "nothing", "n"), java.util.Arrays.asList("v", null, "5"));
        same(r.hset("h", Map.of("f", "1", "g", "2")), 2L);
        same(r.hgetAll("h"), Map.of("f", "1", "g", "2"));
        same(r.hincrBy("h", "f", 2), 3L);
        refused(() -> r.get("h"), "WRONGTYPE");
        same(r.rpush("l", "a", "b", "c", "d"), 4L);
        same(r.lrange("l", 1, 2), List.of("b", "c"));
        same(r.lmove("l", "m", ListDirection.LEFT, ListDirection.RIGHT), "a");
        same(r.blpop(1, "none", "m"), List.of("m", "a"));
        same(r.blpop(1, "none"), null);
        var waits = CompletableFuture.supplyAsync(() -> other.blpop(60, "w"));
        while (!r.info("clients").contains("blocked_clients:1")) {}
        same(r.rpush("w", "late"), 1L);
        same(waits.get(), List.of("w", "late"));
        same(r.sadd("e", "a", "b", "c"), 3L);
        same(r.smembers("e"), Set.of("a", "b", "c"));
        same(r.sadd("d", "c", "z"), 2L);
        same(r.sinter("e", "d"), Set.of("c"));
        same(r.zadd("z", Map.of("half", 0.5, "one", 1.0, "two", 2.0)), 3L);
        same(r.zrangeWithScores("z", 0, 1), List.of(new Tuple("half", 0.5), new Tuple("one", 1.0)));
        same(r.zscore("z", "half"), 0.5);
        same(r.zpopmin("z"), new Tuple("half", 0.5));
        same(r.zrangeByScore("z", "(1", "+inf"), List.of("two"));
    }

    static void transactions(Jedis r, Jedis other) {
        Transaction multi = r.multi();
        multi.set("x", "1");
        Response<Long> number = multi.incr("x");
        same(multi.exec(), List.of("OK", 2L));
        same(number.get(), 2L);
        r.watch("x");
        other.set("x", "other");
        multi = r.multi();
        multi.set("x", "lost");
        same(multi.exec(), null);
        same(r.get("x"), "other");
        Pipeline pipeline = r.pipelined();
        var expected = new TreeSet<String>();
        for (int i = 0; i < 2000; i++) {
            pipeline.set("p" + i, "" + i);
            expected.add("p" + i);
        }
        same(Collections.frequency(pipeline.syncAndReturnAll(), "OK"), 2000);
        var found = new ArrayList<String>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> some = r.scan(cursor, new ScanParams().match("p*").count(100));
            found.addAll(some.getResult());
            cursor = some.getCursor();
        } while (!cursor.equals("0"));
        same(found.size(), 2000);
        same(new TreeSet<>(found), expected);
    }

    static void channelsAndUsers(Jedis r, Jedis other, RedisProtocol protocol) throws Exception {
        var heard = new CompletableFuture<String>();
        var told = new CompletableFuture<Long>();
        var listener = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                CompletableFuture.runAsync(() -> told.complete(r.publish("news", "hello")));
            }

            @Override
            public void onMessage(String channel, String text) {
                heard.complete(channel + " " + text);
                unsubscribe();
            }
        };
        other.subscribe(listener, "news");
        // The message may be here before the reply, and the connection is for one at a time.
        same(told.get(), 1L);
        same(heard.get(), "news hello");
        same(r.pubsubNumSub("news"), Map.of("news", 0L));
        same(r.aclSetUser("alice", "reset", "on", ">secret", "~own:*", "+get", "+set", "+del"), "OK");
        try (Jedis alice = connect(protocol, "alice", "secret")) {
            same(alice.set("own:k", "v"), "OK");
            refused(() -> alice.get("k"), "NOPERM");
            refused(() -> alice.incr("own:k"), "NOPERM");
        }
        refused(() -> connect(protocol, "alice", "wrong").get("own:k"), "WRONGPASS");
        same(r.aclDelUser("alice"), 1L);
    }

    public static void main(String[] args) throws Exception {
        port = Integer.parseInt(args[0]);
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            try (Jedis r = connect(protocol, null, null); Jedis other = connect(protocol, null, null)) {
                same(r.flushAll(), "OK");
                data(r, other);
                transactions(r, other);
                channelsAndUsers(r, other, protocol);
            }
        }
        System.out.println("Jedis: " + checks + " checks, no difference");
        System.exit(0);
    }
}
