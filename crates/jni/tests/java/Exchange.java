import java.nio.ByteBuffer;
import java.util.*;
import org.rocksdb.*;

/** Column families that go to another database as files; filters of logs and tables; what cuts tables. */
public class Exchange {
    static byte[] b(String text) { return text.getBytes(); }
    static String s(byte[] bytes) { return bytes == null ? "null" : new String(bytes); }
    static void say(Object... parts) { Data.say(parts); }

    static String all(RocksDB db, ColumnFamilyHandle family, ReadOptions read) throws Exception {
        StringBuilder line = new StringBuilder();
        int count = 0;
        try (RocksIterator it = db.newIterator(family, read)) {
            for (it.seekToFirst(); it.isValid(); it.next()) {
                if (count++ < 6) line.append(s(it.key())).append('=').append(s(it.value())).append(' ');
            }
            it.status();
        }
        return count + ": " + line;
    }

    /** As Flink rescales: families of two databases, whose keys do not overlap, become one of a third. */
    static void exports(String path) throws Exception {
        List<ExportImportFilesMetaData> exported = new ArrayList<>();
        try (Options options = new Options().setCreateIfMissing(true); ColumnFamilyOptions family = new ColumnFamilyOptions()) {
            for (int half = 0; half < 2; half++) {
                try (RocksDB db = RocksDB.open(options, path + "/half" + half);
                     ColumnFamilyHandle state = db.createColumnFamily(new ColumnFamilyDescriptor(b("state"), family));
                     Checkpoint checkpoint = Checkpoint.create(db)) {
                    for (int i = 0; i < 50; i++) db.put(state, b(half + "key" + i), b("v" + i));
                    db.delete(state, b(half + "key3"));
                    exported.add(checkpoint.exportColumnFamily(state, path + "/export" + half));
                    String again = path + "/export" + half;
                    Data.fails("export again", () -> checkpoint.exportColumnFamily(state, again));
                    // What comes later is not in it.
                    db.put(state, b(half + "late"), b("x"));
                }
            }
            try (RocksDB db = RocksDB.open(options, path + "/whole"); ImportColumnFamilyOptions how = new ImportColumnFamilyOptions().setMoveFiles(true);
                 ColumnFamilyHandle state = db.createColumnFamilyWithImport(new ColumnFamilyDescriptor(b("state"), family), how, exported);
                 ReadOptions read = new ReadOptions()) {
                say("imported", s(state.getName()), all(db, state, read));
                say("one", s(db.get(state, b("1key49"))), s(db.get(state, b("0key3"))), s(db.get(state, b("0late"))));
                Data.fails("import again", () -> db.createColumnFamilyWithImport(new ColumnFamilyDescriptor(b("state"), family), how, exported));
                db.put(state, b("0key3"), b("again"));
                db.compactRange(state);
                say("written", s(db.get(state, b("0key3"))), all(db, state, read));
            }
            for (ExportImportFilesMetaData metadata : exported) metadata.close();
        }
    }

    static class Records extends AbstractWalFilter {
        int records = 0;
        @Override public void columnFamilyLogNumberMap(Map<Integer, Long> numbers, Map<String, Integer> names) {
            say("families", new TreeSet<>(numbers.keySet()), new TreeMap<>(names));
        }
        @Override public LogRecordFoundResult logRecordFound(long number, String file, WriteBatch batch, WriteBatch changed) {
            records++;
            try {
                if (number <= 0 || !file.endsWith(".log")) throw new IllegalStateException(number + " " + file);
                say("record", records, batch.count());
                if (records == 2) return new LogRecordFoundResult(WalProcessingOption.IGNORE_CURRENT_RECORD, false);
                if (records == 3) {
                    changed.put(b("changed"), b("by the filter"));
                    return new LogRecordFoundResult(WalProcessingOption.CONTINUE_PROCESSING, true);
                }
                if (records == 5) return new LogRecordFoundResult(WalProcessingOption.STOP_REPLAY, false);
            } catch (RocksDBException e) {
                throw new IllegalStateException(e);
            }
            return LogRecordFoundResult.CONTINUE_UNCHANGED;
        }
        @Override public String name() { return "Records"; }
    }

    static void walFilters(String path) throws Exception {
        String own = path + "/wal";
        try (Options options = new Options().setCreateIfMissing(true); ReadOptions read = new ReadOptions(); Records filter = new Records()) {
            // The log stays: nothing is flushed at the end.
            try (RocksDB db = RocksDB.open(options.setAvoidFlushDuringShutdown(true), own)) {
                for (int i = 0; i < 7; i++) db.put(b("key" + i), b("v" + i));
            }
            options.setWalFilter(filter);
            try (RocksDB db = RocksDB.open(options, own)) {
                say("filtered", filter.records, all(db, db.getDefaultColumnFamily(), read));
            }
        }
    }

    static class Large extends AbstractTableFilter {
        @Override public boolean filter(TableProperties properties) { return properties.getNumEntries() > 10; }
    }

    static void tableFilters(String path) throws Exception {
        try (Options options = new Options().setCreateIfMissing(true).setDisableAutoCompactions(true); RocksDB db = RocksDB.open(options, path + "/gate");
             Large large = new Large(); ReadOptions gated = new ReadOptions().setTableFilter(large); ReadOptions read = new ReadOptions();
             FlushOptions flush = new FlushOptions()) {
            for (int i = 0; i < 20; i++) db.put(b("large" + i), b("v"));
            db.flush(flush);
            for (int i = 0; i < 5; i++) db.put(b("small" + i), b("v"));
            db.flush(flush);
            say("gated", all(db, db.getDefaultColumnFamily(), gated));
            say("all", all(db, db.getDefaultColumnFamily(), read));
            say("point", s(db.get(gated, b("small1"))));
        }
    }

    static void partitions(String path) throws Exception {
        try (SstPartitionerFixedPrefixFactory factory = new SstPartitionerFixedPrefixFactory(2);
             Options options = new Options().setCreateIfMissing(true).setSstPartitionerFactory(factory);
             RocksDB db = RocksDB.open(options, path + "/parts"); FlushOptions flush = new FlushOptions()) {
            for (int i = 0; i < 100; i++) db.put(b(String.format("%02d%02d", i % 5, i)), b("v" + i));
            db.flush(flush);
            for (int i = 0; i < 100; i += 3) db.put(b(String.format("%02d%02d", i % 5, i)), b("w" + i));
            db.flush(flush);
            db.compactRange();
            StringBuilder line = new StringBuilder();
            TreeSet<String> ranges = new TreeSet<>();
            for (LiveFileMetaData file : db.getLiveFilesMetaData()) ranges.add(s(file.smallestKey()) + "-" + s(file.largestKey()));
            say("parts", ranges);
            RocksDB.LiveFiles files = db.getLiveFiles(true);
            TreeSet<String> names = new TreeSet<>();
            for (String name : files.files) names.add(name.replaceAll("[0-9]+", "N"));
            say("files", files.manifestFileSize > 0, names);
        }
    }

    static void limits() throws Exception {
        try (WriteBatch batch = new WriteBatch()) {
            batch.setMaxBytes(60);
            batch.put(b("first"), b("fits"));
            Data.fails("max bytes of a batch", () -> batch.put(b("second"), new byte[100]));
            say("count", batch.count(), batch.getDataSize());
            batch.setMaxBytes(0);
            batch.put(b("second"), new byte[100]);
            say("count", batch.count());
        }
        try (WriteBatchWithIndex batch = new WriteBatchWithIndex(true)) {
            batch.setMaxBytes(60);
            batch.put(b("first"), b("fits"));
            Data.fails("max bytes", () -> batch.put(b("second"), new byte[100]));
            say("count", batch.count());
        }
    }

    static byte[][] parts(String... texts) {
        byte[][] parts = new byte[texts.length][];
        for (int i = 0; i < texts.length; i++) parts[i] = b(texts[i]);
        return parts;
    }

    static void parts(String path) throws Exception {
        try (StringAppendOperator append = new StringAppendOperator(); TransactionDBOptions how = new TransactionDBOptions();
             Options options = new Options().setCreateIfMissing(true).setMergeOperator(append);
             TransactionDB db = TransactionDB.open(options, how, path + "/tx"); WriteOptions write = new WriteOptions(); ReadOptions read = new ReadOptions()) {
            for (String key : new String[] {"ab", "cd", "ef"}) db.put(b(key), b("old"));
            try (Transaction tx = db.beginTransaction(write)) {
                tx.putUntracked(parts("a", "b"), parts("ne", "w"));
                tx.deleteUntracked(parts("c", "d"));
                tx.singleDelete(parts("e", "f"));
                ByteBuffer key = Data.direct("ab"), value = Data.direct("more");
                tx.mergeUntracked(key, value);
                ByteBuffer place = ByteBuffer.allocateDirect(20);
                GetStatus found = tx.getForUpdate(read, db.getDefaultColumnFamily(), Data.direct("ab"), place, true);
                say("update", found.status.getCode(), found.requiredSize, place.remaining());
                tx.commit();
            }
            say("parts", all(db, db.getDefaultColumnFamily(), read));
        }
    }

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        exports(args[0]);
        walFilters(args[0]);
        tableFilters(args[0]);
        partitions(args[0]);
        limits();
        parts(args[0]);
    }
}
