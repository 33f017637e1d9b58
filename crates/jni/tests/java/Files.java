import java.io.File;
import java.util.*;
import java.util.concurrent.ConcurrentSkipListSet;
import org.rocksdb.*;

/** Checkpoints, ingested tables, backups, logs, TTL, and what the engine calls in Java. */
public class Files {
    static byte[] b(String text) { return text.getBytes(); }
    static String s(byte[] bytes) { return bytes == null ? "null" : new String(bytes); }
    static void say(Object... parts) { Data.say(parts); }

    /** The order of texts from behind. */
    static class Backwards extends AbstractComparator {
        Backwards(ComparatorOptions options) { super(options); }
        @Override public String name() { return "Backwards"; }
        @Override public int compare(java.nio.ByteBuffer x, java.nio.ByteBuffer y) { return y.compareTo(x); }
    }

    static class DropEmpty extends AbstractCompactionFilterFactory<RemoveEmptyValueCompactionFilter> {
        @Override public RemoveEmptyValueCompactionFilter createCompactionFilter(AbstractCompactionFilter.Context context) {
            say("filter", context.isFullCompaction(), context.isManualCompaction());
            return new RemoveEmptyValueCompactionFilter();
        }
        @Override public String name() { return "DropEmpty"; }
    }

    static void comparators(String path) throws Exception {
        for (boolean direct : new boolean[] {true, false}) {
            String own = path + "/order-" + direct;
            try (ComparatorOptions how = new ComparatorOptions().setUseDirectBuffer(direct); Backwards order = new Backwards(how);
                 Options options = new Options().setCreateIfMissing(true).setComparator(order)) {
                try (RocksDB db = RocksDB.open(options, own)) {
                    for (int i = 0; i < 300; i++) db.put(b("key" + i), b("v" + i));
                    db.flush(new FlushOptions());
                    for (int i = 0; i < 300; i += 2) db.put(b("key" + i), b("w" + i));
                    db.compactRange();
                    StringBuilder line = new StringBuilder();
                    try (RocksIterator it = db.newIterator()) {
                        it.seekToFirst();
                        for (int i = 0; i < 5; i++, it.next()) line.append(s(it.key())).append('=').append(s(it.value())).append(' ');
                    }
                    say("order", direct, line, s(db.get(b("key7"))));
                }
            }
            Data.fails("another order", () -> RocksDB.open(new Options(), own).close());
        }
    }

    static void filters(String path) throws Exception {
        // As RocksDB's own test does it; with Options instead, RocksDB's library crashes.
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (ColumnFamilyOptions families = new ColumnFamilyOptions().setCompactionFilterFactory(new DropEmpty());
             DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
             RocksDB db = RocksDB.open(options, path + "/filter", Arrays.asList(
                 new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY), new ColumnFamilyDescriptor(b("two"), families)), handles)) {
            ColumnFamilyHandle two = handles.get(1);
            db.put(two, b("full"), b("1"));
            db.put(two, b("empty"), new byte[0]);
            db.flush(new FlushOptions(), two);
            db.compactRange(two);
            say("filtered", s(db.get(two, b("full"))), s(db.get(two, b("empty"))));
            for (ColumnFamilyHandle handle : handles) handle.close();
        }
    }

    static void listeners(String path) throws Exception {
        Set<String> seen = new ConcurrentSkipListSet<>();
        AbstractEventListener listener = new AbstractEventListener() {
            @Override public void onFlushBegin(RocksDB db, FlushJobInfo info) { seen.add("begin " + info.getColumnFamilyName()); }
            @Override public void onFlushCompleted(RocksDB db, FlushJobInfo info) {
                seen.add("flushed " + info.getSmallestSeqno() + " " + info.getLargestSeqno() + " " + info.getFlushReason());
            }
            @Override public void onMemTableSealed(MemTableInfo info) { seen.add("sealed " + info.getNumEntries() + " " + info.getNumDeletes()); }
            @Override public void onCompactionCompleted(RocksDB db, CompactionJobInfo info) {
                seen.add("compacted " + s(info.columnFamilyName()) + " " + info.outputLevel() + " " + info.status().getCode());
            }
        };
        List<String> lines = Collections.synchronizedList(new ArrayList<>());
        Logger logger = new Logger(InfoLogLevel.INFO_LEVEL) {
            @Override protected void log(InfoLogLevel level, String line) { lines.add(level + " " + line); }
        };
        try (Options options = new Options().setCreateIfMissing(true).setListeners(Arrays.asList(listener)).setLogger(logger)) {
            say("listeners", options.listeners().size());
            try (RocksDB db = RocksDB.open(options, path + "/listener")) {
                db.put(b("a"), b("1"));
                db.delete(b("b"));
                db.flush(new FlushOptions());
                db.put(b("a"), b("2"));
                db.flush(new FlushOptions());
                db.compactRange();
            }
        }
        for (String event : seen) say(event);
        say("logged", !lines.isEmpty(), logger.infoLogLevel());
        listener.close();
        logger.close();
    }

    static void tables(String path) throws Exception {
        String sst = path + "/one.sst";
        try (Options options = new Options().setCreateIfMissing(true); EnvOptions env = new EnvOptions()) {
            try (SstFileWriter writer = new SstFileWriter(env, options)) {
                writer.open(sst);
                writer.put(b("a"), b("1"));
                writer.put(b("b"), b("2"));
                Data.fails("not in order", () -> writer.put(b("a"), b("3")));
                writer.delete(b("c"));
                writer.finish();
                say("size", writer.fileSize() > 0);
            }
            try (RocksDB db = RocksDB.open(options, path + "/ingest"); IngestExternalFileOptions how = new IngestExternalFileOptions()) {
                db.put(b("c"), b("old"));
                db.ingestExternalFile(Arrays.asList(sst), how);
                say("ingested", s(db.get(b("a"))), s(db.get(b("b"))), s(db.get(b("c"))));
                try {
                    db.ingestExternalFile(Arrays.asList(path + "/none.sst"), how);
                } catch (RocksDBException e) {
                    // The texts name other operations.
                    say("no table", e.getStatus().getCode(), e.getStatus().getSubCode());
                }
                try (Checkpoint checkpoint = Checkpoint.create(db)) {
                    checkpoint.createCheckpoint(path + "/checkpoint");
                    Data.fails("twice", () -> checkpoint.createCheckpoint(path + "/checkpoint"));
                }
                db.put(b("later"), b("1"));
                try (TransactionLogIterator log = db.getUpdatesSince(0)) {
                    int batches = 0;
                    for (; log.isValid(); log.next()) {
                        log.getBatch().writeBatch().close();
                        batches++;
                    }
                    say("log", batches > 0);
                }
                new File(path + "/backup").mkdirs();
                try (BackupEngineOptions where = new BackupEngineOptions(path + "/backup");
                     BackupEngine engine = BackupEngine.open(Env.getDefault(), where); RestoreOptions restore = new RestoreOptions(false)) {
                    engine.createNewBackup(db, true);
                    engine.createNewBackup(db, true);
                    say("backups", engine.getBackupInfo().size(), engine.getCorruptedBackups().length);
                    engine.purgeOldBackups(1);
                    say("backups", engine.getBackupInfo().size(), engine.getBackupInfo().get(0).backupId());
                    File left = new File(path + "/backup/private/77");
                    left.mkdirs();
                    engine.garbageCollect();
                    say("garbage", left.exists(), engine.getBackupInfo().size());
                    engine.restoreDbFromLatestBackup(path + "/restored", path + "/restored", restore);
                }
                java.nio.file.Files.write(new File(path + "/backup/meta/2").toPath(), "no backup".getBytes());
                try (BackupEngineOptions where = new BackupEngineOptions(path + "/backup"); BackupEngine engine = BackupEngine.open(Env.getDefault(), where)) {
                    say("damaged", engine.getBackupInfo().size(), java.util.Arrays.toString(engine.getCorruptedBackups()));
                }
                say("wal", db.getSortedWalFiles().size() > 0);
            }
            for (String copy : new String[] {"/checkpoint", "/restored"}) {
                try (RocksDB db = RocksDB.open(options, path + copy)) {
                    say(copy, s(db.get(b("a"))), s(db.get(b("later"))));
                }
            }
        }
        try (Options options = new Options().setCreateIfMissing(true); TtlDB db = TtlDB.open(options, path + "/ttl", 1000, false)) {
            db.put(b("k"), b("v"));
            say("ttl", s(db.get(b("k"))));
        }
        RocksDB.destroyDB(path + "/restored", new Options());
        say("destroyed", new File(path + "/restored/CURRENT").exists());
    }

    static void persistent(String path) throws Exception {
        try (Logger log = new Logger(InfoLogLevel.FATAL_LEVEL) { protected void log(InfoLogLevel level, String text) { } };
             PersistentCache cache = new PersistentCache(Env.getDefault(), path + "/blocks", 256 << 20, log, false);
             Options options = new Options().setCreateIfMissing(true)) {
            options.setTableFormatConfig(new BlockBasedTableConfig().setNoBlockCache(true).setPersistentCache(cache));
            try (RocksDB db = RocksDB.open(options, path + "/persistent")) {
                for (int i = 0; i < 1000; i++) {
                    db.put(b("k" + i), b("v" + i));
                }
                db.flush(new FlushOptions());
                int found = 0;
                for (int round = 0; round < 3; round++) {
                    for (int i = 0; i < 1000; i++) {
                        found += ("v" + i).equals(s(db.get(b("k" + i)))) ? 1 : 0;
                    }
                }
                say("persistent", found, new File(path + "/blocks/cache").isDirectory());
            }
            try {
                new PersistentCache(Env.getDefault(), path + "/small", 1, log, false).close();
                say("too small", "made");
            } catch (RocksDBException error) {
                say("too small", error.getMessage());
            }
        }
    }

    static void shared(String path) throws Exception {
        try (LRUCache cache = new LRUCache(1 << 20); WriteBufferManager buffers = new WriteBufferManager(4 << 20, cache);
             RateLimiter limiter = new RateLimiter(100 << 20); SstFileManager files = new SstFileManager(Env.getDefault());
             Options options = new Options().setCreateIfMissing(true).setWriteBufferManager(buffers).setRateLimiter(limiter).setSstFileManager(files)
                 .setCompactionStyle(CompactionStyle.UNIVERSAL).setCompressionType(CompressionType.NO_COMPRESSION)) {
            options.setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(cache).setCacheIndexAndFilterBlocks(true));
            try (RocksDB one = RocksDB.open(options, path + "/one"); RocksDB two = RocksDB.open(options, path + "/two")) {
                for (int i = 0; i < 1000; i++) {
                    one.put(b("k" + i), new byte[100]);
                    two.put(b("k" + i), new byte[100]);
                }
                one.flush(new FlushOptions());
                say("limiter", limiter.getBytesPerSecond(), limiter.getTotalBytesThrough() > 0);
                say("managed", files.getTotalSize() > 0, files.isMaxAllowedSpaceReached());
                Map<String, Long> tracked = files.getTrackedFiles();
                long sum = 0;
                for (Map.Entry<String, Long> file : tracked.entrySet()) {
                    sum += file.getValue();
                    say("tracked", new File(file.getKey()).length() == file.getValue(), new File(file.getKey()).getParentFile().getName());
                }
                say("tracked", tracked.size(), sum == files.getTotalSize(), Env.getDefault().getThreadPoolQueueLen(Priority.LOW));
                say("cache", cache.getUsage() > 0);
                one.deleteFilesInRanges(one.getDefaultColumnFamily(), Arrays.asList(b("a"), b("z")), true);
                say("deleted", one.get(b("k1")) == null, two.get(b("k1")).length);
                Map<MemoryUsageType, Long> memory = MemoryUtil.getApproximateMemoryUsageByType(Arrays.asList(one, two), new HashSet<>(Arrays.asList(cache)));
                say("memory", memory.get(MemoryUsageType.kMemTableTotal) > 0, memory.size());
            }
        }
    }

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        comparators(args[0]);
        filters(args[0]);
        listeners(args[0]);
        tables(args[0]);
        shared(args[0]);
        persistent(args[0]);
    }
}
