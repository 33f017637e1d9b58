import java.lang.management.ManagementFactory;
import java.util.*;
import org.rocksdb.*;

/**
 * Bench FOLDER KEYS CALLS: puts, gets, batches, scans and merges through the classes, one thread; prints
 * "NAME calls per second, CPU nanoseconds per call, bytes of the Java heap per call" of each. CPU is that of the
 * process, background work included.
 */
public class Bench {
    static final com.sun.management.OperatingSystemMXBean SYSTEM = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    static final com.sun.management.ThreadMXBean THREADS = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();

    interface Call { void run(int i) throws Exception; }

    static void measure(String name, int calls, Call call) throws Exception {
        for (int i = 0; i < calls / 10; i++) call.run(i);
        long heap = THREADS.getThreadAllocatedBytes(Thread.currentThread().getId());
        long cpu = SYSTEM.getProcessCpuTime(), time = System.nanoTime();
        for (int i = 0; i < calls; i++) call.run(i);
        time = System.nanoTime() - time;
        cpu = SYSTEM.getProcessCpuTime() - cpu;
        heap = THREADS.getThreadAllocatedBytes(Thread.currentThread().getId()) - heap;
        System.out.println(name + " " + calls * 1_000_000_000L / time + " " + cpu / calls + " " + heap / calls);
    }

    public static void main(String[] arguments) throws Exception {
        int keys = Integer.parseInt(arguments[1]), calls = Integer.parseInt(arguments[2]);
        Random random = new Random(1);
        byte[][] key = new byte[keys][16];
        for (byte[] one : key) random.nextBytes(one);
        byte[] value = new byte[100], operand = new byte[8];
        random.nextBytes(value);
        RocksDB.loadLibrary();
        // No compaction that one library does and the other leaves for later.
        try (Options options = new Options().setCreateIfMissing(true).setMergeOperator(new UInt64AddOperator()).setInfoLogLevel(InfoLogLevel.ERROR_LEVEL);
             WriteOptions write = new WriteOptions().setDisableWAL(true); ReadOptions read = new ReadOptions();
             FlushOptions flush = new FlushOptions();
             RocksDB db = RocksDB.open(options, arguments[0] + "/bench")) {
            for (int i = 0; i < keys; i++) db.put(write, key[i], value);
            db.flush(flush);
            db.compactRange();
            try (RocksIterator it = db.newIterator(read)) {
                it.seekToFirst();
                measure("crossing", calls * 10, i -> it.isValid());
            }
            measure("get", calls, i -> { if (db.get(read, key[(i * 7919) % keys]).length != 100) throw new AssertionError("lost"); });
            measure("scan50", calls / 20, i -> {
                try (RocksIterator it = db.newIterator(read)) {
                    it.seek(key[(i * 7919) % keys]);
                    for (int n = 0; n < 50 && it.isValid(); n++, it.next()) {
                        if (it.key().length + it.value().length != 116) throw new AssertionError("lost");
                    }
                }
            });
            measure("put", calls, i -> db.put(write, key[(i * 7919) % keys], value));
            measure("batch100", calls / 50, i -> {
                try (WriteBatch batch = new WriteBatch()) {
                    for (int n = 0; n < 100; n++) batch.put(key[(i * 100 + n) % keys], value);
                    db.write(write, batch);
                }
            });
            byte[] counter = "counter-".getBytes();
            measure("merge", calls, i -> { counter[7] = (byte) (i % 100); db.merge(write, counter, operand); });
        }
        // The threads' pools do not keep the process.
        System.exit(0);
    }
}
