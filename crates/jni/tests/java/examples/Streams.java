import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.query.*;
import org.apache.kafka.streams.state.*;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Streams PART FOLDER: a topology of Kafka Streams with windows, joins and versioned stores, all kept in RocksDB. Part 1
 * handles the first half of the records and leaves its stores in FOLDER, part 2 opens them and handles the rest. The
 * records are drawn with a fixed seed; some are late, and some of those too late. Lines that begin with "= " are the
 * results: how many records each topic got, and of each store how many rows its scans gave and the start of their digest.
 *
 * What goes on from FOLDER is what is in the stores. TopologyTestDriver restores nothing from changelogs, counts offsets
 * from 0 again, knows no stream time before its first record, and begins at the wall clock that it is given. Its close
 * deletes the folder of the state: part 1 closes only the stores, and ends without closing the driver.
 *
 * One thread. It reads no clock, and the library is the one that the virtual machine finds.
 */
public class Streams {
    static final int RECORDS = 2000, HALF = RECORDS / 2, BATCH = 100, KEYS = 200, REGIONS = 24;
    static final long START = 1_700_000_000_000L, STEP = 12_000, MINUTE = 60_000;
    static final Serde<String> TEXT = Serdes.String();
    static final Serde<Long> NUMBER = Serdes.Long();
    static final String[] OUTPUTS = {
        "out-counts", "out-tumbling", "out-hopping", "out-sliding", "out-sessions", "out-seen", "out-known", "out-placed", "out-priced", "out-before"
    };

    /** What all results go into, besides the digest of a part of them. */
    final MessageDigest all = sha(), part = sha();
    /** Rows in `part`. */
    int rows;
    /** With -Dtold=true every row goes to the other stream, to find where two libraries part. */
    static final boolean TOLD = Boolean.getBoolean("told");

    static MessageDigest sha() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new AssertionError(e);
        }
    }

    public static void main(String[] arguments) throws Exception {
        // Kafka warns of every record that is too late.
        System.setProperty("log4j2.level", "ERROR");
        new Streams().run(Integer.parseInt(arguments[0]), arguments[1]);
        System.out.flush();
        // The driver stays open, as its close deletes the state.
        Runtime.getRuntime().halt(0);
    }

    void run(int half, String folder) {
        int from = half == 1 ? 0 : HALF, to = half == 1 ? HALF : RECORDS;
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "streams");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        TopologyTestDriver driver = new TopologyTestDriver(topology(), properties, Instant.ofEpochMilli(START + from * STEP));
        if (half == 2) stores(driver, "opened", START + from * STEP);
        pipe(driver, from, to);
        for (String topic : OUTPUTS) topic(driver, topic);
        stores(driver, "store", START + to * STEP);
        for (StateStore store : new TreeMap<>(driver.getAllStateStores()).values()) {
            store.flush();
            store.close();
        }
        if (half == 2) System.out.println("= digest " + HexFormat.of().formatHex(all.digest()));
    }

    // The topology.

    static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> records = builder.<String, String>stream("batches").processValues(Split::new);
        KStream<String, String> clicks = kind(records, 'c'), views = kind(records, 'v');
        windows(clicks.groupByKey());

        // What has no other side yet waits in a third store, of lists.
        clicks.outerJoin(views, (click, view) -> click + "+" + view, JoinWindows.ofTimeDifferenceAndGrace(minutes(2), minutes(4)),
            StreamJoined.<String, String, String>as("seen").withStoreName("seen")).to("out-seen");

        KTable<String, String> users = kind(records, 'u').toTable(Materialized.as("users"));
        KTable<String, String> regions = kind(records, 'r').toTable(Materialized.as("regions"));
        clicks.join(users, (click, user) -> click + "@" + user).to("out-known");
        // The other table's key is in the value: subscriptions are found by a prefix.
        users.leftJoin(regions, user -> user.split("/")[1], (user, region) -> user + ":" + region, TableJoined.as("placed"), Materialized.as("placed"))
            .toStream().to("out-placed");

        KTable<String, String> prices = kind(records, 'p').toTable(Materialized.as(Stores.persistentVersionedKeyValueStore("prices", minutes(90))));
        // Records wait in a store of their own until they are as old as the grace, and get the price of their time.
        clicks.leftJoin(prices, (click, price) -> click + "=" + price,
            Joined.<String, String, String>as("priced").withGracePeriod(minutes(3))).to("out-priced");
        clicks.process(Before::new, "prices").to("out-before");
        return builder.build();
    }

    /** Those of a kind; one that has nothing but its kind is a deletion. */
    static KStream<String, String> kind(KStream<String, String> records, char kind) {
        return records.filter((key, value) -> value.charAt(0) == kind).mapValues(value -> value.length() > 1 ? value : null);
    }

    /**
     * Makes records of a batch. The driver commits after each record of a topic, and a commit makes every store write a file:
     * so many records of ours are one of the driver's. Keys change, which needs no new partitions, as there is one.
     */
    static class Split implements FixedKeyProcessor<String, String, String> {
        private FixedKeyProcessorContext<String, String> context;

        @Override public void init(FixedKeyProcessorContext<String, String> context) {
            this.context = context;
        }

        @Override public void process(FixedKeyRecord<String, String> batch) {
            for (String line : batch.value().split("\n")) {
                String[] columns = line.split("\t");
                context.forward(InternalFixedKeyRecordFactory.create(new Record<>(columns[0], columns[1], Long.parseLong(columns[2]))));
            }
        }
    }

    static void windows(KGroupedStream<String, String> clicks) {
        clicks.count(Materialized.<String, Long>as(Stores.persistentTimestampedKeyValueStore("counts")).withKeySerde(TEXT).withValueSerde(NUMBER))
            .toStream().mapValues(String::valueOf).to("out-counts");
        // Short retention, so that segments expire in both parts.
        clicks.windowedBy(TimeWindows.ofSizeAndGrace(minutes(5), minutes(10)))
            .count(Materialized.<String, Long>as(Stores.persistentTimestampedWindowStore("tumbling", minutes(40), minutes(5), false))
                .withValueSerde(NUMBER).withCachingDisabled())
            .toStream().map((key, value) -> KeyValue.pair(key.toString(), "" + value)).to("out-tumbling");
        clicks.windowedBy(TimeWindows.ofSizeAndGrace(minutes(10), minutes(5)).advanceBy(Duration.ofSeconds(150))).emitStrategy(EmitStrategy.onWindowClose())
            .reduce(Streams::joined, plain("hopping"))
            .toStream().map((key, value) -> KeyValue.pair(key.toString(), value)).to("out-hopping");
        clicks.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(minutes(8), minutes(5))).reduce(Streams::joined, plain("sliding"))
            .toStream().map((key, value) -> KeyValue.pair(key.toString(), value)).to("out-sliding");
        clicks.windowedBy(SessionWindows.ofInactivityGapAndGrace(minutes(12), minutes(10)))
            .aggregate(() -> "", (key, click, sum) -> joined(sum, click), (key, one, other) -> joined(one, other), plain("sessions"))
            .toStream().map((key, value) -> KeyValue.pair(key.toString(), "" + value)).to("out-sessions");
    }

    /**
     * A store without Kafka's cache, which goes through all segments since 1970 where a scan has no first time, and whose sessions
     * cannot be scanned backwards from 0 (4.3.1).
     */
    static <S extends StateStore> Materialized<String, String, S> plain(String name) {
        return Materialized.<String, String, S>as(name).withCachingDisabled();
    }

    /** Both, and no more than the last forty characters of it. */
    static String joined(String one, String other) {
        String both = one + "," + other;
        return both.substring(Math.max(0, both.length() - 40));
    }

    static Duration minutes(long minutes) {
        return Duration.ofMinutes(minutes);
    }

    /** Tells for each click what its price is, was before, and was long ago. */
    static class Before implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private VersionedKeyValueStore<String, String> prices;

        @Override public void init(ProcessorContext<String, String> context) {
            this.context = context;
            prices = context.getStateStore("prices");
        }

        @Override public void process(Record<String, String> click) {
            StringBuilder found = new StringBuilder().append(prices.get(click.key()));
            for (int ago : new int[] {0, 1, 7, 30, 80, 100}) found.append(' ').append(prices.get(click.key(), click.timestamp() - ago * MINUTE));
            context.forward(click.withValue(found.toString()));
        }
    }

    // The records.

    static String key(Random random) {
        // Some keys are met far oftener than others.
        return String.format("key%03d", (int) (KEYS * Math.pow(random.nextDouble(), 2)));
    }

    /** A record: key, value, time. It is drawn from a seed of its own, so that part 2 need not draw those of part 1. */
    static String record(int number) {
        Random random = new Random(number * 7919L + 42);
        long time = START + number * STEP + random.nextInt((int) STEP);
        int late = random.nextInt(100);
        if (late < 12) time -= random.nextInt((int) (8 * MINUTE));
        else if (late < 16) time -= random.nextInt((int) (70 * MINUTE));
        int percent = random.nextInt(100);
        char kind = percent < 50 ? 'c' : percent < 72 ? 'v' : percent < 80 ? 'u' : percent < 82 ? 'r' : 'p';
        String key = kind == 'r' ? "region" + random.nextInt(REGIONS) : key(random);
        boolean deletes = "urp".indexOf(kind) >= 0 && random.nextInt(8) == 0;
        String value = deletes ? "" : kind == 'u' ? number + "/region" + random.nextInt(REGIONS) : "" + number;
        return key + "\t" + kind + value + "\t" + time;
    }

    static void pipe(TopologyTestDriver driver, int from, int to) {
        TestInputTopic<String, String> topic = driver.createInputTopic("batches", TEXT.serializer(), TEXT.serializer());
        for (int first = from; first < to; first += BATCH) {
            StringJoiner batch = new StringJoiner("\n");
            for (int i = first; i < first + BATCH; i++) batch.add(record(i));
            topic.pipeInput("batch", batch.toString(), START + first * STEP);
            // Windows are emitted, and joins without another side, at most once a second of this clock.
            driver.advanceWallClockTime(Duration.ofMillis(BATCH * STEP));
        }
    }

    // The results.

    void row(String kind, Object... columns) {
        StringBuilder line = new StringBuilder(kind);
        for (Object column : columns) line.append('\t').append(column);
        byte[] bytes = line.append('\n').toString().getBytes(StandardCharsets.UTF_8);
        all.update(bytes);
        part.update(bytes);
        rows++;
        if (TOLD) System.err.print(line);
    }

    void end(String name, String unit) {
        System.out.println("= " + name + " " + rows + " " + unit + " " + HexFormat.of().formatHex(part.digest(), 0, 4));
        rows = 0;
    }

    void topic(TopologyTestDriver driver, String topic) {
        for (TestRecord<String, String> record : driver.createOutputTopic(topic, TEXT.deserializer(), TEXT.deserializer()).readRecordsToList()) {
            row(topic, record.timestamp(), record.key(), record.value());
        }
        end(topic, "records");
    }

    /** All that the stores hold; `now` is about the time of the newest record. */
    @SuppressWarnings("unchecked")
    void stores(TopologyTestDriver driver, String what, long now) {
        for (var named : new TreeMap<>(driver.getAllStateStores()).entrySet()) {
            StateStore store = named.getValue();
            if (store instanceof VersionedKeyValueStore<?, ?> versions) versions((VersionedKeyValueStore<String, String>) versions, now);
            else if (store instanceof WindowStore<?, ?> windows) windows((WindowStore<String, Object>) windows, now);
            else if (store instanceof SessionStore<?, ?> sessions) sessions((SessionStore<String, Object>) sessions, now);
            else if (store instanceof KeyValueStore<?, ?> values) values(named.getKey(), (KeyValueStore<Object, Object>) values);
            // What waits for the versioned table has no scan: what it gives back is in the topic.
            else row("unread", named.getKey(), store.isOpen());
            end(what + " " + named.getKey(), "rows");
        }
    }

    <K, V> void scan(String name, KeyValueIterator<K, V> rows) {
        try (rows) {
            while (rows.hasNext()) {
                KeyValue<K, V> row = rows.next();
                row(name, row.key, row.value);
            }
        }
    }

    void values(String name, KeyValueStore<Object, Object> store) {
        scan("all", store.all());
        // The keys of stores that joins keep for themselves are no texts.
        if (!List.of("counts", "users", "regions", "placed").contains(name)) return;
        scan("reverse", store.reverseAll());
        scan("range", store.range("key017", "key120x"));
        scan("back", store.reverseRange("key017", "key120x"));
        scan("above", store.range("key150", null));
        scan("below", store.reverseRange(null, "key030"));
        scan("prefix", ((KeyValueStore<Object, Object>) store).prefixScan("key04", new StringSerializer()));
        for (int n = 0; n < KEYS; n += 3) row("get", store.get(String.format("key%03d", n)));
    }

    void windows(WindowStore<String, Object> store, long now) {
        Instant old = Instant.ofEpochMilli(now - 20 * MINUTE), recent = Instant.ofEpochMilli(now - 6 * MINUTE), end = Instant.ofEpochMilli(now + MINUTE);
        scan("all", store.all());
        scan("backwards", store.backwardAll());
        scan("times", store.fetchAll(old, recent));
        scan("times back", store.backwardFetchAll(old, recent));
        scan("keys", store.fetch("key010", "key040", old, end));
        scan("keys back", store.backwardFetch("key010", "key040", old, end));
        for (int n = 0; n < KEYS; n += 5) {
            String key = String.format("key%03d", n);
            scan(key, store.fetch(key, old, end));
            scan(key, store.backwardFetch(key, old, recent));
            row("one", store.fetch(key, (now - 10 * MINUTE) / (5 * MINUTE) * (5 * MINUTE)));
        }
    }

    void sessions(SessionStore<String, Object> store, long now) {
        Instant old = Instant.ofEpochMilli(now - 40 * MINUTE), end = Instant.ofEpochMilli(now + MINUTE);
        scan("keys", store.fetch("key000", "key999"));
        scan("keys back", store.backwardFetch("key000", "key999"));
        scan("some", store.findSessions("key020", "key090", old, end));
        scan("some back", store.backwardFindSessions("key020", "key090", old, end));
        for (int n = 0; n < KEYS; n += 5) {
            String key = String.format("key%03d", n);
            scan(key, store.fetch(key));
            scan(key, store.findSessions(key, old, end));
            scan(key, store.backwardFindSessions(key, old, end));
        }
    }

    void versions(VersionedKeyValueStore<String, String> store, long now) {
        PositionBound unbounded = PositionBound.unbounded();
        for (int n = 0; n < KEYS; n++) {
            String key = String.format("key%03d", n);
            row(key, store.get(key));
            for (int ago : new int[] {0, 5, 15, 40, 70, 89}) row(key, ago, store.get(key, now - ago * MINUTE));
            if (n % 4 > 0) continue;
            var versions = MultiVersionedKeyQuery.<String, String>withKey(key);
            versions = n % 8 == 0 ? versions.withAscendingTimestamps() : versions.fromTime(Instant.ofEpochMilli(now - 50 * MINUTE)).withDescendingTimestamps();
            try (VersionedRecordIterator<String> found = store.query(versions, unbounded, new QueryConfig(false)).getResult()) {
                while (found.hasNext()) row(key, found.next());
            }
        }
    }
}
