import java.nio.file.*;
import java.util.*;
import org.rocksdb.*;

/**
 * Leaks FOLDER opens N | iterators N | batches N: does something N times, and prints how much memory the process has
 * behind the first half and at the end, and the threads of the library that are left. The Java heap has one size.
 */
public class Leaks {
    static byte[] b(String text) { return text.getBytes(); }

    static long resident() throws Exception {
        for (String line : java.nio.file.Files.readAllLines(Paths.get("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) return Long.parseLong(line.replaceAll("[^0-9]", ""));
        }
        throw new IllegalStateException("no VmRSS");
    }

    /**
     * Threads of the library, which have its names; without those that the pools of the environment may have: they stay
     * for the next database, as with RocksDB's library.
     */
    static List<String> threads() throws Exception {
        List<String> names = new ArrayList<>();
        try (DirectoryStream<Path> tasks = java.nio.file.Files.newDirectoryStream(Paths.get("/proc/self/task"))) {
            for (Path task : tasks) {
                try {
                    String name = java.nio.file.Files.readString(task.resolve("comm")).trim();
                    if (name.startsWith("pumice") || name.startsWith("rocksdb")) names.add(name);
                } catch (NoSuchFileException e) {
                    // It has just ended.
                }
            }
        }
        Env env = Env.getDefault();
        for (Priority priority : Priority.values()) {
            String pool = priority.name().toLowerCase();
            for (int i = 0; i < env.getBackgroundThreads(priority); i++) {
                if (!names.remove("pumice:" + pool)) names.remove("rocksdb:" + pool);
            }
        }
        Collections.sort(names);
        return names;
    }

    interface Step { void run(long i) throws Exception; }

    static void repeat(long count, Step step) throws Exception {
        long half = 0;
        for (long i = 0; i < count; i++) {
            step.run(i);
            if (i == count / 2) {
                System.gc();
                half = resident();
            }
        }
        System.gc();
        System.out.println("grown " + (resident() - half) + " of " + half + " KiB");
    }

    static void open(String path, long i) throws Exception {
        try (LRUCache cache = new LRUCache(1 << 20); BloomFilter filter = new BloomFilter(10); Statistics statistics = new Statistics();
             Options options = new Options().setCreateIfMissing(true).setStatistics(statistics).setWriteBufferSize(256 << 10)
                 .setInfoLogLevel(InfoLogLevel.ERROR_LEVEL).setMaxManifestFileSize(1 << 16)
                 .setMergeOperator(new StringAppendOperator())
                 .setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(cache).setFilterPolicy(filter));
             RocksDB db = RocksDB.open(options, path)) {
            db.put(b("key" + i % 100), b("value" + i));
            db.merge(b("merged" + i % 100), b("x"));
            if (db.get(b("key" + i % 100)) == null) throw new AssertionError("lost");
            if (i % 50 == 0) {
                try (FlushOptions flush = new FlushOptions()) { db.flush(flush); }
                db.deleteRange(b("merged"), b("mergee"));
            }
            try (RocksIterator it = db.newIterator()) { it.seekToFirst(); }
        }
    }

    public static void main(String[] arguments) throws Exception {
        String path = arguments[0] + "/leaks-" + arguments[1];
        long count = Long.parseLong(arguments[2]);
        RocksDB.loadLibrary();
        if (arguments[1].equals("opens")) {
            repeat(count, i -> open(path, i));
        } else {
            try (Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, path)) {
                for (int i = 0; i < 1000; i++) db.put(b("key" + i), b("value" + i));
                try (WriteOptions write = new WriteOptions().setDisableWAL(true); ReadOptions read = new ReadOptions()) {
                    if (arguments[1].equals("iterators")) {
                        repeat(count, i -> {
                            try (RocksIterator it = db.newIterator(read)) {
                                it.seek(b("key" + i % 1000));
                                if (!it.isValid() || it.value().length == 0) throw new AssertionError("lost");
                            }
                            if (i % 1000 == 0) {
                                Snapshot snapshot = db.getSnapshot();
                                try (ReadOptions at = new ReadOptions().setSnapshot(snapshot)) { db.get(at, b("key1")); }
                                db.releaseSnapshot(snapshot);
                            }
                        });
                    } else {
                        repeat(count, i -> {
                            try (WriteBatch batch = new WriteBatch()) {
                                batch.put(b("key" + i % 1000), b("value"));
                                batch.delete(b("gone"));
                                // The memtable is no leak, but grows: most batches are not written.
                                if (i % 1000 == 0) db.write(write, batch);
                            }
                        });
                    }
                }
            }
        }
        List<String> left = threads();
        for (int tries = 0; tries < 600 && !left.isEmpty() && left.get(0).startsWith("pumice"); tries++, left = threads()) Thread.sleep(100);
        System.out.println("threads " + left.size() + " " + left);
    }
}
