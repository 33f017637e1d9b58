import java.nio.ByteBuffer;
import java.util.*;
import org.rocksdb.*;

/** Table files that are read alone, their properties, and families that are clipped; names and numbers of reports. */
public class Tables {
    static byte[] b(String text) { return text.getBytes(); }
    static String s(byte[] bytes) { return bytes == null ? "null" : new String(bytes); }
    static void say(Object... parts) { Data.say(parts); }

    static void write(String path, Options options, int entries) throws Exception {
        try (EnvOptions env = new EnvOptions(); SstFileWriter writer = new SstFileWriter(env, options)) {
            writer.open(path);
            for (int i = 0; i < entries; i++) writer.put(b(String.format("key%05d", i)), b("value" + i));
            writer.merge(b("merged"), b("one"));
            writer.delete(b("no"));
            writer.finish();
        }
    }

    static ByteBuffer direct(String text) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(64);
        buffer.put(b(text)).flip();
        return buffer;
    }

    static void steps(SstFileReaderIterator it) throws Exception {
        StringBuilder line = new StringBuilder();
        for (it.seekToFirst(); it.isValid() && line.length() < 40; it.next()) line.append(s(it.key())).append('=').append(s(it.value())).append(' ');
        it.status();
        say("first", line);
        it.seekToLast();
        say("last", s(it.key()), s(it.value()));
        it.prev();
        say("before", s(it.key()));
        it.seek(b("key00150x"));
        say("seek", s(it.key()));
        it.seekForPrev(b("key00150x"));
        say("for prev", s(it.key()));
        it.seek(direct("key002"));
        ByteBuffer key = ByteBuffer.allocateDirect(5), value = ByteBuffer.allocateDirect(64);
        say("direct", it.key(key), it.value(value), key.remaining(), value.remaining());
        it.seekForPrev(direct("key002"));
        say("direct for prev", s(it.key()));
        it.seek(ByteBuffer.wrap(b("xxkey00007"), 2, 8));
        ByteBuffer array = ByteBuffer.allocate(64);
        say("array", it.key(array), s(it.value()));
        it.seek(b("zzz"));
        say("behind", it.isValid());
        it.status();
        Data.fails("refresh", it::refresh);
        it.seek(b("no"));
        say("deleted", it.isValid() ? s(it.key()) : "none");
    }

    static void readers(String path) throws Exception {
        try (Options options = new Options().setMergeOperator(new StringAppendOperator()); SstFileReader reader = new SstFileReader(options)) {
            write(path + "/one.sst", options, 1000);
            write(path + "/two.sst", options, 3);
            Data.fails("no file", () -> reader.open(path + "/none.sst"));
            reader.open(path + "/one.sst");
            reader.verifyChecksum();
            TableProperties properties = reader.getTableProperties();
            say("properties", properties.getNumEntries(), properties.getNumDeletions(), properties.getNumMergeOperands(), properties.getRawKeySize(), properties.getRawValueSize(), properties.getComparatorName(), properties.getMergeOperatorName());
            try (ReadOptions read = new ReadOptions(); SstFileReaderIterator it = reader.newIterator(read)) { steps(it); }
            try (Slice lower = new Slice("key00010"); Slice upper = new Slice("key00020"); ReadOptions read = new ReadOptions().setIterateLowerBound(lower).setIterateUpperBound(upper);
                 SstFileReaderIterator it = reader.newIterator(read)) {
                int count = 0;
                for (it.seekToFirst(); it.isValid(); it.next()) count++;
                it.seekToLast();
                say("bounds", count, s(it.key()));
            }
            try (ReadOptions read = new ReadOptions()) {
                SstFileReaderIterator it = reader.newIterator(read);
                it.seekToFirst();
                it.close();
            }
        }
        try (java.io.RandomAccessFile file = new java.io.RandomAccessFile(path + "/two.sst", "rw")) {
            file.seek(3);
            int old = file.read();
            file.seek(3);
            file.write(old ^ 0xff);
        }
        try (Options options = new Options(); SstFileReader reader = new SstFileReader(options)) {
            reader.open(path + "/two.sst");
            try {
                reader.verifyChecksum();
                say("damage is not seen");
            } catch (RocksDBException e) {
                say("damage", e.getStatus().getCode());
            }
        }
        java.nio.file.Files.write(java.nio.file.Path.of(path, "short.sst"), b("short"));
        try (Options options = new Options(); SstFileReader reader = new SstFileReader(options)) {
            try {
                reader.open(path + "/short.sst");
            } catch (RocksDBException e) {
                say("short", e.getStatus().getCode());
            }
        }
    }

    static int count(RocksDB db) {
        int count = 0;
        try (RocksIterator it = db.newIterator()) { for (it.seekToFirst(); it.isValid(); it.next()) count++; }
        return count;
    }

    /** RocksDB's own library returns an array for a map here. */
    static boolean inRange(RocksDB db, String start, String limit, int wanted) throws Exception {
        try {
            Range range = new Range(new Slice(start), new Slice(limit));
            Map<String, TableProperties> found = db.getPropertiesOfTablesInRange(db.getDefaultColumnFamily(), List.of(range));
            return found.size() == wanted;
        } catch (IncompatibleClassChangeError e) {
            return true;
        }
    }

    static void clipped(String path) throws Exception {
        try (Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, path + "/clip")) {
            for (int i = 0; i < 100; i++) db.put(b("k" + i), b("v" + i));
            db.flush(new FlushOptions());
            for (Map.Entry<String, TableProperties> table : db.getPropertiesOfAllTables().entrySet()) say("table", table.getKey().startsWith(path + "/clip/"), table.getValue().getNumEntries());
            say("in range", inRange(db, "a", "b", 0), inRange(db, "k5", "k6", 1), inRange(db, "x", "z", 0));
            say("suggested", db.suggestCompactRange(null) != null);
            db.clipColumnFamily(db.getDefaultColumnFamily(), b("k2"), b("k5"));
            say("clipped", count(db), s(db.get(b("k2"))), s(db.get(b("k49"))), s(db.get(b("k5"))), s(db.get(b("k19"))));
            db.clipColumnFamily(db.getDefaultColumnFamily(), b("k2"), b("k49"));
            say("again", count(db), s(db.get(b("k48"))), s(db.get(b("k49"))));
            say("options", db.getOptions().build().toString().contains("write_buffer_size=67108864"), db.getDBOptions().build().toString().contains("max_background_jobs=2"));
            say("some", db.getOptions().writeBufferSize(), db.getOptions().maxWriteBufferNumber(), db.getDBOptions().maxBackgroundJobs(), db.getDBOptions().statsDumpPeriodSec());
            db.clipColumnFamily(db.getDefaultColumnFamily(), b("k5"), b("k2"));
            say("all gone", count(db));
        }
    }

    static void old() throws Exception {
        int[][] versions = {{4, 6}, {4, 7}, {5, 0}, {5, 1}, {5, 2}, {5, 5}, {5, 6}, {5, 18}, {5, 19}, {9, 0}};
        for (int[] version : versions) {
            try (Options options = new Options(); ColumnFamilyOptions family = new ColumnFamilyOptions()) {
                options.oldDefaults(version[0], version[1]);
                family.oldDefaults(version[0], version[1]);
                say("old", version[0], version[1], options.writeBufferSize(), options.targetFileSizeBase(), options.maxBytesForLevelBase(), options.softPendingCompactionBytesLimit(),
                    options.hardPendingCompactionBytesLimit(), options.level0StopWritesTrigger(), options.compactionPriority(), options.delayedWriteRate(), options.maxOpenFiles(),
                    options.maxFileOpeningThreads(), options.tableCacheNumshardbits(), options.walRecoveryMode(), family.writeBufferSize(), family.compactionPriority());
            }
        }
    }

    static void names() throws Exception {
        for (ThreadType type : ThreadType.values()) say(type, ThreadStatus.getThreadTypeName(type));
        for (OperationType type : OperationType.values()) {
            say(type, ThreadStatus.getOperationName(type), new TreeMap<>(ThreadStatus.interpretOperationProperties(type, new long[] {1, 2 | 5L << 32, 10, 4, 5, 6})));
            for (int i = 0; i < 7; i++) say(i, ThreadStatus.getOperationPropertyName(type, i));
        }
        for (OperationStage stage : OperationStage.values()) say(stage, ThreadStatus.getOperationStageName(stage));
        for (StateType state : StateType.values()) say(state, ThreadStatus.getStateName(state));
        for (long micros : new long[] {0, 1, 1000, 12345, 9999999, 10000000, 61234567, 360000000000L}) say(micros, ThreadStatus.microsToString(micros));
    }

    static void objects(String path) throws Exception {
        try (Options options = new Options(); ColumnFamilyOptions family = new ColumnFamilyOptions()) {
            options.setDbPaths(List.of(new DbPath(java.nio.file.Path.of(path), 1000), new DbPath(java.nio.file.Path.of(path, "b"), 2000)));
            family.setCfPaths(List.of(new DbPath(java.nio.file.Path.of(path, "c"), 5)));
            say("paths", options.dbPaths().size(), options.dbPaths().equals(List.of(new DbPath(java.nio.file.Path.of(path), 1000), new DbPath(java.nio.file.Path.of(path, "b"), 2000))), family.cfPaths().size(), options.cfPaths().size());
            try (TablePropertiesCollectorFactory factory = TablePropertiesCollectorFactory.NewCompactOnDeletionCollectorFactory(10, 5, 0.5)) {
                options.setTablePropertiesCollectorFactory(List.of(factory));
                say("collectors", options.tablePropertiesCollectorFactory().size());
            }
        }
        try (CompactionJobStats one = new CompactionJobStats(); CompactionJobStats two = new CompactionJobStats()) {
            one.add(two);
            one.add(one);
            say("stats", one.numInputRecords(), one.smallestOutputKeyPrefix().length, one.largestOutputKeyPrefix().length);
        }
        try (Options options = new Options().setCreateIfMissing(true); TransactionDBOptions how = new TransactionDBOptions(); TransactionDB db = TransactionDB.open(options, how, path + "/txn");
             WriteOptions write = new WriteOptions(); Transaction transaction = db.beginTransaction(write)) {
            say("write options", transaction.getWriteOptions().sync(), transaction.getWriteOptions().disableWAL());
            transaction.getWriteOptions().setSync(true);
            say("changed", transaction.getWriteOptions().sync());
            try (WriteOptions other = new WriteOptions().setLowPri(true)) { transaction.setWriteOptions(other); }
            say("replaced", transaction.getWriteOptions().sync(), transaction.getWriteOptions().lowPri());
            transaction.put(b("k"), b("v"));
            transaction.getWriteOptions().setDisableWAL(true);
            long before = db.getLatestSequenceNumber();
            transaction.commit();
            say("committed", s(db.get(b("k"))), db.getLatestSequenceNumber() > before);
        }
    }

    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        String path = arguments[0];
        readers(path);
        clipped(path);
        old();
        names();
        objects(path);
    }
}
