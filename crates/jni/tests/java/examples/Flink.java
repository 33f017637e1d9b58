import java.io.File;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.configuration.*;
import org.apache.flink.core.execution.*;
import org.apache.flink.runtime.jobgraph.*;
import org.apache.flink.runtime.minicluster.*;
import org.apache.flink.runtime.state.*;
import org.apache.flink.runtime.state.ttl.TtlTimeProvider;
import org.apache.flink.state.rocksdb.*;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.*;
import org.rocksdb.*;

/**
 * Flink PART FOLDER: a Flink job with keyed state of every kind on the RocksDB backend: with a time to live, timers and windows, and
 * incremental checkpoints. It is run in legs, each of which goes on where the one before it stopped: part 1 is the first leg, part 2
 * the others. Between legs the parallelism changes, so that state is cut and joined; in most legs a task fails once and the job goes
 * back to its last checkpoint. Part 2 then runs the whole in one go, without a failure, which must give the same. What every key and
 * every window comes to does not depend on when checkpoints are taken: each part prints counts and a digest of it, in lines that
 * begin with "= ". Which library has the state is told on stderr.
 *
 * <p>The time to live is measured in the time of the records, so that the same state has expired in every run, also for the filter of
 * compactions: each task has a clock, which its records and watermarks set.
 */
public class Flink {
    static final int RECORDS = 30_000, KEYS = 2_000, PAUSE = 2_000, STEP = 10;
    /** When all timers but those of the end have fired. */
    static final long END = (long) RECORDS * STEP + 10_000;
    static final OutputTag<String> FINAL = new OutputTag<>("final", Types.STRING);

    // What the tasks, which run in this virtual machine, tell the program.
    static final Map<String, String> WINDOWS = new ConcurrentHashMap<>(), STATES = new ConcurrentHashMap<>();
    static final Map<String, AtomicInteger> LEFT = new ConcurrentHashMap<>();
    static final AtomicInteger FAILURES = new AtomicInteger();
    static volatile Throwable wrong;
    static volatile CountDownLatch arrived;

    /** A name, a tab and what it comes to: a task that is done again must say what it said before. */
    static void told(Map<String, String> all, String line) {
        int tab = line.indexOf('\t');
        String key = line.substring(0, tab), value = line.substring(tab + 1);
        String before = all.put(key, value);
        if (before != null && !before.equals(value)) wrong = new AssertionError(key + ": " + before + ", then " + value);
    }

    /** Time of a task: of the record or the watermark it is at. Compactions ask from other threads. */
    static class Clock implements TtlTimeProvider {
        /** That of the keyed state which was made last in this thread. */
        static final ThreadLocal<Clock> OF_TASK = new ThreadLocal<>();
        volatile long now;
        RocksDBKeyedStateBackend<?> backend;

        @Override
        public long currentTimestamp() {
            return now;
        }
    }

    /** The RocksDB backend, with clocks. */
    public static class Backend implements StateBackend {
        final EmbeddedRocksDBStateBackend inner;

        Backend(EmbeddedRocksDBStateBackend inner) {
            this.inner = inner;
        }

        @Override
        public <K> CheckpointableKeyedStateBackend<K> createKeyedStateBackend(KeyedStateBackendParameters<K> parameters) throws Exception {
            Clock clock = new Clock();
            AbstractKeyedStateBackend<K> made =
                (AbstractKeyedStateBackend<K>) inner.createKeyedStateBackend(new KeyedStateBackendParametersImpl<>(parameters).setTtlTimeProvider(clock));
            clock.backend = (RocksDBKeyedStateBackend<?>) made;
            Clock.OF_TASK.set(clock);
            RocksDB db = (RocksDB) field(RocksDBKeyedStateBackend.class, "db", made);
            String library;
            try {
                library = "Pumice " + db.getProperty("pumice.version");
            } catch (RocksDBException e) {
                library = "RocksDB's library";
            }
            System.err.println("state of " + parameters.getOperatorIdentifier() + ": " + library + ", " + parameters.getKeyGroupRange()
                + " from " + parameters.getStateHandles().size() + " handles");
            return made;
        }

        @Override
        public OperatorStateBackend createOperatorStateBackend(OperatorStateBackendParameters parameters) throws Exception {
            return inner.createOperatorStateBackend(parameters);
        }

        @Override
        public boolean useManagedMemory() {
            return inner.useManagedMemory();
        }

        @Override
        public boolean supportsNoClaimRestoreMode() {
            return inner.supportsNoClaimRestoreMode();
        }

        @Override
        public boolean supportsSavepointFormat(SavepointFormatType format) {
            return inner.supportsSavepointFormat(format);
        }
    }

    /** Makes it from a configuration. */
    public static class Factory implements StateBackendFactory<Backend> {
        @Override
        public Backend createFromConfig(ReadableConfig config, ClassLoader loader) {
            return new Backend(new EmbeddedRocksDBStateBackend().configure(config, loader));
        }
    }

    static Object field(Class<?> type, String name, Object object) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }

    /** Bits that look random, the same in every run. */
    static int mix(int number) {
        long bits = (number + 1) * 0x9E3779B97F4A7C15L;
        bits = (bits ^ (bits >>> 30)) * 0xBF58476D1CE4E5B9L;
        return (int) (bits >>> 33);
    }

    /** Numbers of records and their keys. Waits for a checkpoint now and then, and at the end of a leg until it is cancelled. */
    static class Source implements SourceFunction<Tuple2<Integer, Integer>>, CheckpointedFunction, CheckpointListener {
        final int until;
        transient ListState<Integer> kept;
        transient Map<Long, Integer> taken;
        int position;
        volatile int covered;
        volatile boolean cancelled;

        Source(int until) {
            this.until = until;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            taken = new HashMap<>();
            kept = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("position", Types.INT));
            for (int number : kept.get()) position = number;
            System.err.println("source: from " + position + " until " + until);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            kept.update(List.of(position));
            taken.put(context.getCheckpointId(), position);
        }

        @Override
        public void notifyCheckpointComplete(long id) {
            covered = taken.getOrDefault(id, 0);
        }

        @Override
        public void run(SourceContext<Tuple2<Integer, Integer>> context) throws Exception {
            while (!cancelled && position < until) {
                synchronized (context.getCheckpointLock()) {
                    long time = (long) position * STEP;
                    int draw = mix(position);
                    // Half of the records have one key of sixteen.
                    int key = draw % 2 == 0 ? draw / 2 % (KEYS / 16) : draw / 2 % KEYS;
                    context.collectWithTimestamp(Tuple2.of(position, key), time);
                    if (++position % 100 == 0) context.emitWatermark(new Watermark(time));
                }
                while (!cancelled && position % PAUSE == 0 && covered < position && position < RECORDS) Thread.sleep(2);
            }
            if (!cancelled && until == RECORDS) {
                context.emitWatermark(new Watermark(END));
                return;
            }
            if (!cancelled) arrived.countDown();
            while (!cancelled) Thread.sleep(2);
        }

        @Override
        public void cancel() {
            cancelled = true;
        }
    }

    /** State of every kind for a key. Gives sums of a few seconds of it, and at the end everything. */
    static class Account extends KeyedProcessFunction<Integer, Tuple2<Integer, Integer>, Tuple3<Integer, Long, Integer>> {
        final int failure;
        transient Clock clock;
        transient boolean hasEnded;
        transient ValueState<Long> chain;
        transient ReducingState<Long> total;
        transient ListState<Integer> waiting;
        transient MapState<Integer, Long> sums;
        transient ValueState<Integer> lately;
        transient MapState<String, Integer> kinds;
        transient ListState<String> trail;
        transient List<StateDescriptor<?, ?>> expiring;

        Account(int failure) {
            this.failure = failure;
        }

        <D extends StateDescriptor<?, ?>> D expiring(D descriptor, Duration life, StateTtlConfig.UpdateType update) {
            descriptor.enableTimeToLive(StateTtlConfig.newBuilder(life).setUpdateType(update)
                .setStateVisibility(StateTtlConfig.StateVisibility.NeverReturnExpired).cleanupInRocksdbCompactFilter(10).build());
            expiring.add(descriptor);
            return descriptor;
        }

        @Override
        public void open(OpenContext context) {
            clock = Clock.OF_TASK.get();
            expiring = new ArrayList<>();
            var states = getRuntimeContext();
            chain = states.getState(new ValueStateDescriptor<>("chain", Types.LONG));
            total = states.getReducingState(new ReducingStateDescriptor<>("total", Long::sum, Types.LONG));
            waiting = states.getListState(new ListStateDescriptor<>("waiting", Types.INT));
            sums = states.getMapState(new MapStateDescriptor<>("sums", Types.INT, Types.LONG));
            var write = StateTtlConfig.UpdateType.OnCreateAndWrite;
            var read = StateTtlConfig.UpdateType.OnReadAndWrite;
            lately = states.getState(expiring(new ValueStateDescriptor<>("lately", Types.INT), Duration.ofSeconds(20), write));
            kinds = states.getMapState(expiring(new MapStateDescriptor<>("kinds", Types.STRING, Types.INT), Duration.ofSeconds(60), read));
            trail = states.getListState(expiring(new ListStateDescriptor<>("trail", Types.STRING), Duration.ofSeconds(60), write));
        }

        @Override
        public void processElement(Tuple2<Integer, Integer> record, Context context, Collector<Tuple3<Integer, Long, Integer>> out) throws Exception {
            int index = record.f0, draw = mix(~index);
            if (index == failure && getRuntimeContext().getTaskInfo().getAttemptNumber() == 0) {
                FAILURES.incrementAndGet();
                throw new IllegalStateException("record " + index + " fails once");
            }
            clock.now = context.timestamp();
            int times = lately.value() == null ? 1 : lately.value() + 1;
            lately.update(times);
            String kind = "kind " + draw % 6;
            int same = kinds.contains(kind) ? kinds.get(kind) + 1 : 1;
            kinds.put(kind, same);
            trail.add(index + " " + "x".repeat(draw % 40));
            long length = 0;
            if (draw % 4 == 0) for (String step : trail.get()) length += step.length();
            // All that was read has its part in what comes out, and so has the order of the records.
            long link = chain.value() == null ? 1 : chain.value();
            chain.update(((link * 31 + index) * 31 + times) * 31 + same * 1000 + length);
            total.add((long) index);
            waiting.add(index);
            context.timerService().registerEventTimeTimer((clock.now / 5000 + 1) * 5000 + record.f1 % 1000);
            context.timerService().registerEventTimeTimer(END);
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<Tuple3<Integer, Long, Integer>> out) throws Exception {
            clock.now = Math.min(context.timerService().currentWatermark(), END);
            int key = context.getCurrentKey();
            if (time == END) {
                if (!hasEnded) countLeft();
                hasEnded = true;
                context.output(FINAL, key + "\t" + chain.value() + " " + total.get() + " " + list(waiting.get()) + sorted(sums.entries()) + " "
                    + lately.value() + " " + sorted(kinds.entries()) + list(trail.get()));
                return;
            }
            long sum = 0;
            int count = 0;
            for (int index : waiting.get()) {
                sum += index;
                count++;
            }
            waiting.clear();
            int slot = (int) (time / 5000);
            sums.put(slot, sum);
            for (int old : new ArrayList<>(keys(sums))) if (old < slot - 8) sums.remove(old);
            out.collect(Tuple3.of(key % 97, sum, count));
        }

        /** Compactions take away all that has expired, which no read shows. */
        void countLeft() throws Exception {
            RocksDB db = (RocksDB) field(RocksDBKeyedStateBackend.class, "db", clock.backend);
            Map<?, ?> families = (Map<?, ?>) field(RocksDBKeyedStateBackend.class, "kvStateInformation", clock.backend);
            for (StateDescriptor<?, ?> descriptor : expiring) {
                var family = ((RocksDBKeyedStateBackend.RocksDbKvStateInfo) families.get(descriptor.getName())).columnFamilyHandle;
                int stored = entries(db, family);
                // The first joins what was added to lists.
                for (int times = 0; times < 2; times++) clock.backend.compactState(descriptor);
                int left = entries(db, family);
                System.err.println(descriptor.getName() + ": of " + stored + " entries " + left + " are left");
                LEFT.computeIfAbsent("left of " + descriptor.getName(), name -> new AtomicInteger()).addAndGet(left);
            }
        }

        static int entries(RocksDB db, ColumnFamilyHandle family) {
            int count = 0;
            try (RocksIterator entries = db.newIterator(family)) {
                for (entries.seekToFirst(); entries.isValid(); entries.next()) count++;
            }
            return count;
        }

        static <K> List<K> keys(MapState<K, ?> map) throws Exception {
            return list(map.keys());
        }

        static <T> List<T> list(Iterable<T> all) {
            List<T> list = new ArrayList<>();
            if (all != null) all.forEach(list::add);
            return list;
        }

        static <K, V> Map<K, V> sorted(Iterable<Map.Entry<K, V>> entries) {
            Map<K, V> map = new TreeMap<>();
            if (entries != null) for (Map.Entry<K, V> entry : entries) map.put(entry.getKey(), entry.getValue());
            return map;
        }
    }

    /** A window's line: what names it, a tab, its sums. */
    static class Line extends ProcessWindowFunction<Tuple3<Integer, Long, Integer>, String, Integer, TimeWindow> {
        @Override
        public void process(Integer key, Context context, Iterable<Tuple3<Integer, Long, Integer>> sums, Collector<String> out) {
            for (var sum : sums) out.collect(key + " " + context.window().getStart() + "\t" + sum.f1 + " " + sum.f2);
        }
    }

    static class Sink implements SinkFunction<String> {
        final boolean isFinal;

        Sink(boolean isFinal) {
            this.isFinal = isFinal;
        }

        @Override
        public void invoke(String line, SinkFunction.Context context) {
            told(isFinal ? STATES : WINDOWS, line);
        }
    }

    /** The job from where `from` was taken, if that is given, until a record; what it leaves. */
    static String leg(MiniCluster cluster, File folder, String from, int parallelism, int until, int failure, boolean savepoint,
        Map<String, String> more) throws Exception {
        long begin = System.nanoTime();
        File checkpoints = new File(folder, "until-" + until);
        Map<String, String> settings = new HashMap<>(Map.of(
            "state.backend.type", Factory.class.getName(),
            "execution.checkpointing.dir", checkpoints.toURI().toString(),
            "execution.checkpointing.interval", "100 ms",
            "execution.checkpointing.incremental", "true",
            "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION",
            "state.storage.fs.memory-threshold", "0 b",
            "state.backend.rocksdb.writebuffer.size", "64 kb"));
        settings.putAll(Map.of("restart-strategy.type", "fixed-delay", "restart-strategy.fixed-delay.attempts", "1",
            "restart-strategy.fixed-delay.delay", "10 ms"));
        if (from != null) settings.putAll(Map.of("execution.state-recovery.path", from, "execution.state-recovery.claim-mode", "CLAIM"));
        settings.putAll(more);
        Configuration config = Configuration.fromMap(settings);
        var environment = StreamExecutionEnvironment.getExecutionEnvironment(config);
        environment.setParallelism(parallelism);
        environment.setMaxParallelism(64);
        SingleOutputStreamOperator<Tuple3<Integer, Long, Integer>> sums =
            environment.addSource(new Source(until), "source", Types.TUPLE(Types.INT, Types.INT)).setParallelism(1).uid("source")
                .keyBy(record -> record.f1, Types.INT).process(new Account(failure), Types.TUPLE(Types.INT, Types.LONG, Types.INT)).uid("account");
        sums.getSideOutput(FINAL).addSink(new Sink(true)).uid("states");
        sums.keyBy(sum -> sum.f0, Types.INT).window(TumblingEventTimeWindows.of(Duration.ofSeconds(20)))
            .reduce((one, other) -> Tuple3.of(one.f0, one.f1 + other.f1, one.f2 + other.f2), new Line(), Types.STRING).uid("windows")
            .addSink(new Sink(false)).uid("lines");
        arrived = new CountDownLatch(1);
        JobGraph graph = environment.getStreamGraph().getJobGraph();
        graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(config));
        cluster.submitJob(graph).get();
        JobClient job = new MiniClusterJobClient(graph.getJobID(), cluster, Flink.class.getClassLoader(),
            MiniClusterJobClient.JobFinalizationBehavior.NOTHING);
        String left = null;
        if (until == RECORDS) {
            job.getJobExecutionResult().get();
        } else {
            while (!arrived.await(10, TimeUnit.MILLISECONDS)) {
                // It can only have failed, which this throws.
                if (job.getJobExecutionResult().isDone()) job.getJobExecutionResult().get();
            }
            if (savepoint) left = job.triggerSavepoint(new File(folder, "savepoint").toURI().toString(), SavepointFormatType.CANONICAL).get();
            job.cancel().get();
            job.getJobExecutionResult().handle((result, cancelled) -> result).get();
            if (!savepoint) left = newest(checkpoints);
        }
        if (wrong != null) throw new AssertionError(wrong);
        System.err.printf("leg until %d: %.1f s, left %s%n", until, (System.nanoTime() - begin) / 1e9, left);
        return left;
    }

    static String newest(File checkpoints) throws Exception {
        try (Stream<Path> all = Files.walk(checkpoints.toPath(), 3)) {
            return all.filter(path -> path.endsWith("_metadata")).map(Path::getParent)
                .max(Comparator.comparingInt(path -> Integer.parseInt(path.getFileName().toString().substring("chk-".length()))))
                .orElseThrow().toUri().toString();
        }
    }

    /** All results, sorted; forgets them. */
    static Map<String, String> results() {
        Map<String, String> all = new TreeMap<>();
        WINDOWS.forEach((name, sums) -> all.put("window " + name, sums));
        STATES.forEach((key, state) -> all.put("key " + key, state));
        LEFT.forEach((what, count) -> all.put(what, count.toString()));
        Stream.of(WINDOWS, STATES, LEFT).forEach(Map::clear);
        return all;
    }

    static void print(Map<String, String> all) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (var entry : all.entrySet()) digest.update((entry.getKey() + "\t" + entry.getValue() + "\n").getBytes(StandardCharsets.UTF_8));
        System.out.println("= failures " + FAILURES);
        for (String kind : List.of("window ", "key ")) {
            System.out.println("= " + kind + all.keySet().stream().filter(name -> name.startsWith(kind)).count());
        }
        all.forEach((name, value) -> {
            if (name.startsWith("left")) System.out.println("= " + name + " " + value);
        });
        System.out.println("= digest " + HexFormat.of().formatHex(digest.digest()));
    }

    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[1]);
        Path handed = folder.toPath().resolve("handed.txt"), windows = folder.toPath().resolve("windows.txt");
        var cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setNumTaskManagers(1).setNumSlotsPerTaskManager(4).build());
        cluster.start();
        if (arguments[0].equals("1")) {
            String at = leg(cluster, folder, null, 2, 12_000, 7_700, false, Map.of());
            Files.writeString(handed, at);
            Files.write(windows, WINDOWS.entrySet().stream().map(entry -> entry.getKey() + "\t" + entry.getValue()).toList());
            print(results());
        } else {
            Files.readAllLines(windows).forEach(line -> told(WINDOWS, line));
            String at = leg(cluster, folder, Files.readString(handed), 2, 18_000, 16_100, false, Map.of());
            at = leg(cluster, folder, at, 3, 22_000, -1, false, Map.of());
            at = leg(cluster, folder, at, 2, 26_000, 24_500, true, Map.of("state.backend.rocksdb.use-ingest-db-restore-mode", "true",
                "state.backend.rocksdb.incremental-restore-async-compact-after-rescale", "true"));
            leg(cluster, folder, at, 4, RECORDS, -1, false, Map.of());
            Map<String, String> results = results();
            leg(cluster, folder, null, 1, RECORDS, -1, false, Map.of());
            Map<String, String> straight = results();
            for (var entry : straight.entrySet()) {
                String other = results.get(entry.getKey());
                if (!entry.getValue().equals(other)) throw new AssertionError(entry + " in one go, in legs " + other);
            }
            if (!results.equals(straight)) throw new AssertionError("legs gave more than one go");
            print(results);
        }
        System.exit(0);
    }
}
