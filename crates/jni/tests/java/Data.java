import java.io.File;
import java.nio.ByteBuffer;
import java.util.*;
import org.rocksdb.*;

/** Reads, writes, batches, iterators, snapshots, column families, properties, statistics. */
public class Data {
    static byte[] b(String text) { return text.getBytes(); }
    static String s(byte[] bytes) { return bytes == null ? "null" : new String(bytes); }
    static void say(Object... parts) {
        StringBuilder line = new StringBuilder();
        for (Object part : parts) line.append(part).append(' ');
        System.out.println(line.toString().trim());
    }

    interface Call { void run() throws Exception; }

    /** Runs what must fail, and prints how. */
    static void fails(String what, Call call) {
        try {
            call.run();
            say(what, "does not fail");
        } catch (RocksDBException e) {
            Status status = e.getStatus();
            say(what, e.getMessage(), status == null ? "no status" : status.getCode() + " " + status.getSubCode());
        } catch (Throwable e) {
            say(what, e.getClass().getName());
        }
    }

    static ByteBuffer direct(String text) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(64);
        buffer.put(b(text)).flip();
        return buffer;
    }

    static void keys(RocksDB db) throws Exception {
        db.put(b("a"), b("1"));
        try (WriteOptions wal = new WriteOptions().setDisableWAL(true).setSync(false)) {
            db.put(wal, b("b"), b("22"));
        }
        db.put(b("xkeyx"), 1, 3, b("vvalue"), 1, 5);
        db.merge(b("m"), b("x"));
        db.merge(b("m"), b("y"));
        db.put(b("gone"), b("z"));
        db.delete(b("gone"));
        say("get", s(db.get(b("a"))), s(db.get(b("b"))), s(db.get(b("key"))), s(db.get(b("m"))), s(db.get(b("gone"))));
        byte[] value = new byte[1];
        say("into", db.get(b("b"), value), s(value), db.get(b("gone"), value));
        try (ReadOptions read = new ReadOptions().setFillCache(false); WriteOptions write = new WriteOptions()) {
            db.put(write, direct("d"), direct("direct"));
            ByteBuffer place = ByteBuffer.allocateDirect(3);
            say("direct", db.get(read, direct("d"), place), place.remaining());
            say("may", db.keyMayExist(b("a"), null), db.keyMayExist(b("nothing"), null));
            Holder<byte[]> holder = new Holder<>();
            say("holder", db.keyMayExist(b("a"), holder), s(holder.getValue()));
            say("exists", db.keyExists(b("a")), db.keyExists(b("gone")));
        }
        List<byte[]> many = db.multiGetAsList(Arrays.asList(b("a"), b("gone"), b("b")));
        say("many", s(many.get(0)), s(many.get(1)), s(many.get(2)));
        List<ByteBuffer> keys = Arrays.asList(direct("a"), direct("gone"));
        List<ByteBuffer> values = Arrays.asList(ByteBuffer.allocateDirect(8), ByteBuffer.allocateDirect(8));
        for (ByteBufferGetStatus found : db.multiGetByteBuffers(keys, values)) {
            say("buffers", found.status.getCode(), found.requiredSize);
        }
        db.put(b("r1"), b("1"));
        db.put(b("r2"), b("1"));
        db.deleteRange(b("r1"), b("r2"));
        say("range", s(db.get(b("r1"))), s(db.get(b("r2"))));
        db.singleDelete(b("r2"));
        byte[] large = new byte[100_000];
        Arrays.fill(large, (byte) 7);
        db.put(b("large"), large);
        say("large", Arrays.equals(large, db.get(b("large"))));
        db.put(b("empty"), new byte[0]);
        say("empty", db.get(b("empty")).length);
        db.delete(b("large"));
    }

    static void scan(RocksIterator it) throws Exception {
        StringBuilder line = new StringBuilder();
        for (it.seekToFirst(); it.isValid(); it.next()) line.append(s(it.key())).append('=').append(s(it.value())).append(' ');
        it.status();
        say("scan", line);
    }

    static void iterators(RocksDB db) throws Exception {
        Snapshot snapshot = db.getSnapshot();
        db.put(b("after"), b("snapshot"));
        try (ReadOptions read = new ReadOptions().setSnapshot(snapshot); RocksIterator it = db.newIterator(read)) {
            scan(it);
        }
        db.releaseSnapshot(snapshot);
        try (RocksIterator it = db.newIterator()) {
            scan(it);
            it.seek(b("b"));
            say("seek", s(it.key()));
            it.seekForPrev(b("az"));
            say("prev", s(it.key()));
            it.prev();
            say(s(it.key()));
            it.seekToLast();
            byte[] place = new byte[2];
            say("last", s(it.key()), it.key(place), it.value(place));
            it.seek(direct("m"));
            ByteBuffer buffer = ByteBuffer.allocateDirect(2);
            say("buffer", it.key(buffer), it.value(buffer));
            db.put(b("zz"), b("new"));
            it.refresh();
            it.seekToLast();
            say("refreshed", s(it.key()));
            it.next();
            say("end", it.isValid());
        }
        try (Slice lower = new Slice("b"); Slice upper = new Slice("e");
             ReadOptions read = new ReadOptions().setIterateLowerBound(lower).setIterateUpperBound(upper);
             RocksIterator it = db.newIterator(read)) {
            scan(it);
        }
    }

    static void batches(RocksDB db, ColumnFamilyHandle cf) throws Exception {
        try (WriteBatch batch = new WriteBatch(); WriteOptions write = new WriteOptions()) {
            batch.put(b("b1"), b("1"));
            batch.put(cf, b("b1"), b("in"));
            batch.merge(b("m"), b("z"));
            batch.setSavePoint();
            batch.delete(b("a"));
            batch.rollbackToSavePoint();
            batch.deleteRange(b("q"), b("r"));
            batch.putLogData(b("note"));
            batch.put(direct("dk"), direct("dv"));
            say("batch", batch.count(), batch.hasPut(), batch.hasDelete(), batch.hasMerge(), batch.hasDeleteRange(), batch.getDataSize(), batch.data().length);
            batch.iterate(new Walk());
            db.write(write, batch);
            fails("no save point", batch::rollbackToSavePoint);
            batch.clear();
            say("cleared", batch.count());
        }
        say(s(db.get(b("b1"))), s(db.get(cf, b("b1"))), s(db.get(b("m"))), s(db.get(b("a"))), s(db.get(b("dk"))));
        try (WriteBatchWithIndex batch = new WriteBatchWithIndex(true); WriteOptions write = new WriteOptions();
             DBOptions options = new DBOptions(); ReadOptions read = new ReadOptions()) {
            batch.put(b("i1"), b("new"));
            batch.delete(b("b1"));
            say("indexed", batch.count(), s(batch.getFromBatch(options, b("i1"))), s(batch.getFromBatchAndDB(db, read, b("a"))), s(batch.getFromBatchAndDB(db, read, b("b1"))));
            try (RocksIterator it = batch.newIteratorWithBase(db.newIterator())) {
                scan(it);
            }
            db.write(write, batch);
        }
        say(s(db.get(b("i1"))), s(db.get(b("b1"))));
    }

    /** Prints the records of a batch. */
    static class Walk extends WriteBatch.Handler {
        public void put(int cf, byte[] k, byte[] v) { say("put", cf > 0, s(k), s(v)); }
        public void put(byte[] k, byte[] v) { say("put", s(k), s(v)); }
        public void merge(int cf, byte[] k, byte[] v) { say("merge", cf, s(k), s(v)); }
        public void merge(byte[] k, byte[] v) { say("merge", s(k), s(v)); }
        public void delete(int cf, byte[] k) { say("delete", cf, s(k)); }
        public void delete(byte[] k) { say("delete", s(k)); }
        public void singleDelete(int cf, byte[] k) { say("single", cf, s(k)); }
        public void singleDelete(byte[] k) { say("single", s(k)); }
        public void deleteRange(int cf, byte[] k, byte[] e) { say("range", cf, s(k), s(e)); }
        public void deleteRange(byte[] k, byte[] e) { say("range", s(k), s(e)); }
        public void logData(byte[] d) { say("log", s(d)); }
        public void putBlobIndex(int cf, byte[] k, byte[] v) {}
        public void markBeginPrepare() {}
        public void markEndPrepare(byte[] x) {}
        public void markNoop(boolean e) {}
        public void markRollback(byte[] x) {}
        public void markCommit(byte[] x) {}
        public void markCommitWithTimestamp(byte[] x, byte[] t) {}
    }

    static void reports(RocksDB db, ColumnFamilyHandle cf, Statistics counts) throws Exception {
        say("keys", db.getLongProperty("rocksdb.estimate-num-keys") > 0, db.getAggregatedLongProperty("rocksdb.estimate-num-keys") > 0);
        fails("property", () -> db.getProperty("rocksdb.nothing"));
        fails("number", () -> db.getLongProperty("rocksdb.nothing"));
        try (FlushOptions flush = new FlushOptions().setWaitForFlush(true)) {
            db.flush(flush);
            db.flush(flush, cf);
        }
        say("files", db.getProperty("rocksdb.num-files-at-level0"), db.getLiveFilesMetaData().size(), db.numberLevels());
        for (LiveFileMetaData file : db.getLiveFilesMetaData()) {
            say(s(file.columnFamilyName()), file.level(), s(file.smallestKey()), s(file.largestKey()), file.numEntries());
        }
        ColumnFamilyMetaData family = db.getColumnFamilyMetaData();
        say(s(family.name()), family.fileCount(), family.levels().size(), family.levels().get(0).files().size());
        db.compactRange();
        say("compacted", db.getProperty("rocksdb.num-files-at-level0"));
        say("written", counts.getTickerCount(TickerType.NUMBER_KEYS_WRITTEN), counts.getTickerCount(TickerType.NUMBER_KEYS_READ) > 20);
        say("taken", counts.getAndResetTickerCount(TickerType.NUMBER_KEYS_WRITTEN), counts.getTickerCount(TickerType.NUMBER_KEYS_WRITTEN));
        say("histogram", counts.getHistogramData(HistogramType.DB_WRITE).getCount() > 0, counts.getHistogramData(HistogramType.BYTES_PER_READ).getCount() > 0);
        say("name", new File(db.getName()).getName().length() > 0, RocksDB.rocksdbVersion());
        say("number", db.getLatestSequenceNumber());
    }

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        String path = args[0] + "/data";
        try (Statistics counts = new Statistics(); StringAppendOperator append = new StringAppendOperator("|");
             LRUCache cache = new LRUCache(8 << 20); BloomFilter bloom = new BloomFilter(10, false);
             ColumnFamilyOptions families = new ColumnFamilyOptions().setMergeOperator(append)
                 .setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(cache).setFilterPolicy(bloom).setBlockSize(4096));
             DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true).setStatistics(counts)) {
            List<ColumnFamilyHandle> handles = new ArrayList<>();
            List<ColumnFamilyDescriptor> list = Arrays.asList(
                new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, families), new ColumnFamilyDescriptor(b("two"), families));
            try (RocksDB db = RocksDB.open(options, path, list, handles)) {
                say("families", s(handles.get(0).getName()), s(handles.get(1).getName()), handles.get(1).getID());
                keys(db);
                iterators(db);
                batches(db, handles.get(1));
                ColumnFamilyHandle three = db.createColumnFamily(new ColumnFamilyDescriptor(b("three"), families));
                db.put(three, b("k"), b("v"));
                say("three", s(db.get(three, b("k"))), three.getID());
                db.dropColumnFamily(three);
                three.close();
                reports(db, handles.get(1), counts);
                say("cache", cache.getUsage() >= 0, cache.getPinnedUsage() >= 0);
                for (ColumnFamilyHandle handle : handles) handle.close();
            }
            for (byte[] name : RocksDB.listColumnFamilies(new Options(), path)) say("listed", s(name));
            say("none", RocksDB.listColumnFamilies(new Options(), path + "-none").size());
            fails("missing family", () -> RocksDB.open(path));
            fails("no directory", () -> RocksDB.open(new Options().setCreateIfMissing(false), path + "-none"));
            handles.clear();
            try (RocksDB db = RocksDB.openReadOnly(options, path, list, handles)) {
                say("read only", s(db.get(b("a"))), s(db.get(handles.get(1), b("b1"))));
                fails("write", () -> db.put(b("k"), b("v")));
                for (ColumnFamilyHandle handle : handles) handle.close();
            }
        }
    }
}
