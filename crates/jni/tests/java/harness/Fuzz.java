import java.nio.ByteBuffer;
import java.util.*;
import org.rocksdb.*;

/**
 * Fuzz FOLDER SEED STEPS: draws calls, with odd arguments among them, and prints what each gives. Both libraries must
 * print the same. Calls that end the process with RocksDB's library are not drawn: those on closed objects, steps of
 * an iterator that is at no entry.
 */
public class Fuzz {
    static Random random;
    static String path;
    static RocksDB db;
    static Options options;
    static DBOptions dbOptions;
    static ColumnFamilyOptions familyOptions;
    static final List<ColumnFamilyHandle> families = new ArrayList<>();
    static final List<Snapshot> snapshots = new ArrayList<>();
    static int step, named, copies;

    static void say(Object... parts) {
        StringBuilder line = new StringBuilder().append(step);
        for (Object part : parts) line.append(' ').append(part);
        System.out.println(line);
    }

    static String text(byte[] bytes) {
        if (bytes == null) return "null";
        if (bytes.length > 24) return bytes.length + "#" + Arrays.hashCode(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static byte[] key() {
        switch (random.nextInt(20)) {
            case 0: return new byte[0];
            case 1: return new byte[] {(byte) random.nextInt(256), 0};
            case 2: { byte[] key = new byte[200]; Arrays.fill(key, (byte) random.nextInt(4)); return key; }
            default: return ("k" + random.nextInt(60)).getBytes();
        }
    }

    static byte[] value() {
        byte[] value = new byte[random.nextInt(12) == 0 ? random.nextInt(20000) : random.nextInt(30)];
        random.nextBytes(value);
        return value;
    }

    static ByteBuffer direct(byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(bytes.length + 3);
        buffer.position(1).limit(bytes.length + 1);
        return buffer.put(bytes).position(1);
    }

    static ColumnFamilyHandle family() { return families.get(random.nextInt(families.size())); }

    static ReadOptions read() {
        ReadOptions read = new ReadOptions().setFillCache(random.nextBoolean()).setVerifyChecksums(random.nextBoolean());
        if (!snapshots.isEmpty() && random.nextInt(4) == 0) read.setSnapshot(snapshots.get(random.nextInt(snapshots.size())));
        return read;
    }

    static void open() throws Exception {
        List<byte[]> names;
        try (Options plain = new Options()) { names = RocksDB.listColumnFamilies(plain, path); }
        if (names.isEmpty()) names = List.of(RocksDB.DEFAULT_COLUMN_FAMILY);
        List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
        for (byte[] name : names) descriptors.add(new ColumnFamilyDescriptor(name, familyOptions));
        families.clear();
        db = RocksDB.open(dbOptions, path, descriptors, families);
        say("open", names.size(), db.getLatestSequenceNumber());
    }

    static void close() {
        for (Snapshot snapshot : snapshots) db.releaseSnapshot(snapshot);
        snapshots.clear();
        for (ColumnFamilyHandle family : families) family.close();
        db.close();
    }

    static void walk(RocksIterator it, String what) throws Exception {
        StringBuilder line = new StringBuilder(what);
        switch (random.nextInt(4)) {
            case 0: it.seekToFirst(); break;
            case 1: it.seekToLast(); break;
            case 2: it.seek(key()); break;
            default: it.seekForPrev(key()); break;
        }
        for (int i = 0; i < 8 && it.isValid(); i++) {
            line.append(' ').append(text(it.key())).append('=').append(text(it.value()));
            if (random.nextInt(3) == 0) it.prev(); else it.next();
        }
        it.status();
        say(line, it.isValid());
    }

    static void batch() throws Exception {
        try (WriteBatch batch = new WriteBatch(); WriteOptions write = new WriteOptions()) {
            int count = random.nextInt(8);
            for (int i = 0; i < count; i++) {
                switch (random.nextInt(7)) {
                    case 0: batch.delete(family(), key()); break;
                    case 1: batch.merge(family(), key(), value()); break;
                    case 2: batch.putLogData(value()); break;
                    case 3: batch.setSavePoint(); break;
                    case 4: try { batch.rollbackToSavePoint(); } catch (RocksDBException e) { say("savepoint", e.getMessage()); } break;
                    default: batch.put(family(), key(), value()); break;
                }
            }
            say("batch", batch.count(), batch.getDataSize(), batch.hasPut(), batch.hasMerge(), batch.hasDelete());
            db.write(write, batch);
        }
    }

    static void indexed() throws Exception {
        try (WriteBatchWithIndex batch = new WriteBatchWithIndex(true); ReadOptions read = new ReadOptions()) {
            for (int i = 0; i < 6; i++) {
                if (random.nextInt(3) == 0) batch.delete(key()); else batch.put(key(), value());
            }
            say("indexed", batch.count(), text(batch.getFromBatchAndDB(db, read, key())));
            try (RocksIterator it = batch.newIteratorWithBase(db.newIterator())) {
                StringBuilder line = new StringBuilder("over");
                int i = 0;
                for (it.seekToFirst(); i < 10 && it.isValid(); it.next(), i++) line.append(' ').append(text(it.key()));
                say(line);
            }
            if (random.nextBoolean()) try (WriteOptions write = new WriteOptions()) { db.write(write, batch); }
        }
    }

    static void call() throws Exception {
        int kind = random.nextInt(30);
        switch (kind) {
            case 0: case 1: case 2: case 3: { byte[] key = key(), value = value(); db.put(family(), key, value); say("put", text(key), text(value)); break; }
            case 4: { byte[] key = key(); db.delete(family(), key); say("delete", text(key)); break; }
            case 5: case 6: { byte[] key = key(), value = value(); db.merge(family(), key, value); say("merge", text(key), text(value)); break; }
            case 7: { byte[] one = key(), two = key();
                // After a range in the wrong order RocksDB's library writes no more.
                boolean ordered = Arrays.compareUnsigned(one, two) <= 0;
                byte[] from = ordered ? one : two, to = ordered ? two : one;
                say("delete range", text(from), text(to));
                db.deleteRange(family(), from, to);
                break; }
            case 8: case 9: try (ReadOptions read = read()) { byte[] key = key(); say("get", text(key), text(db.get(family(), read, key))); } break;
            case 10: { byte[] key = key(), place = new byte[random.nextInt(12)]; say("get into", db.get(family(), key, place), text(place)); break; }
            case 11: try (ReadOptions read = read()) { ByteBuffer place = ByteBuffer.allocateDirect(random.nextInt(20) + 1); say("get direct", db.get(family(), read, direct(key()), place), place.position(), place.limit()); } break;
            case 12: try (WriteOptions write = new WriteOptions().setDisableWAL(false)) { byte[] key = key(), value = value(); db.put(family(), write, direct(key), direct(value)); say("put direct", text(key)); } break;
            case 13: { List<ColumnFamilyHandle> which = new ArrayList<>(); List<byte[]> keys = new ArrayList<>(); for (int i = 0; i < 5; i++) { which.add(family()); keys.add(key()); }
                StringBuilder line = new StringBuilder("many"); for (byte[] value : db.multiGetAsList(which, keys)) line.append(' ').append(text(value)); say(line); break; }
            case 14: case 15: case 16: try (ReadOptions read = read(); RocksIterator it = db.newIterator(family(), read)) { walk(it, "walk"); } break;
            case 17: try (Slice lower = new Slice(key()); Slice upper = new Slice(key()); ReadOptions read = read().setIterateLowerBound(lower).setIterateUpperBound(upper); RocksIterator it = db.newIterator(family(), read)) {
                say("bounds", text(lower.data()), text(upper.data()));
                // RocksDB does not say what bounds in the wrong order show.
                if (Arrays.compareUnsigned(lower.data(), upper.data()) < 0) { int count = 0; for (it.seekToFirst(); it.isValid(); it.next()) count++; it.status(); say("bounded", count); }
                break; }
            case 18: try (FlushOptions flush = new FlushOptions()) { db.flush(flush, family()); say("flush"); } break;
            case 19: db.compactRange(family()); say("compact"); break;
            case 20: if (snapshots.size() < 4) snapshots.add(db.getSnapshot()); say("snapshot", snapshots.size()); break;
            case 21: if (!snapshots.isEmpty()) { Snapshot snapshot = snapshots.remove(random.nextInt(snapshots.size())); say("release", snapshot.getSequenceNumber()); db.releaseSnapshot(snapshot); } break;
            case 22: batch(); break;
            case 23: indexed(); break;
            case 24: if (families.size() < 5) { families.add(db.createColumnFamily(new ColumnFamilyDescriptor(("f" + named++).getBytes(), familyOptions))); say("family", families.get(families.size() - 1).getID()); } break;
            case 25: if (families.size() > 2) { ColumnFamilyHandle family = families.remove(1 + random.nextInt(families.size() - 1)); db.dropColumnFamily(family); say("drop", family.getID()); family.close(); } break;
            case 26: close(); open(); break;
            case 27: { String copy = path + "-copy" + copies++; try (Checkpoint checkpoint = Checkpoint.create(db)) { checkpoint.createCheckpoint(copy); }
                try (Options plain = new Options()) { say("checkpoint", RocksDB.listColumnFamilies(plain, copy).size()); } break; }
            case 28: { byte[] key = key(); db.singleDelete(families.get(0), ("s" + named).getBytes()); say("single", db.getLatestSequenceNumber()); break; }
            default: say("number", db.getLatestSequenceNumber(), db.getLongProperty(family(), "rocksdb.num-immutable-mem-table"), db.getLongProperty("rocksdb.num-snapshots"));
                try { db.getLongProperty("rocksdb.no-such-thing"); } catch (RocksDBException e) { say("property", e.getStatus().getCode()); }
        }
    }

    public static void main(String[] arguments) throws Exception {
        path = arguments[0] + "/fuzz";
        long seed = Long.parseLong(arguments[1]);
        random = new Random(seed);
        RocksDB.loadLibrary();
        dbOptions = new DBOptions().setCreateIfMissing(true).setInfoLogLevel(InfoLogLevel.ERROR_LEVEL);
        familyOptions = new ColumnFamilyOptions().setMergeOperator(new StringAppendOperator()).setWriteBufferSize(64 << 10).setDisableAutoCompactions(true);
        new java.io.File(path).mkdirs();
        try (Options first = new Options().setCreateIfMissing(true).setMergeOperator(new StringAppendOperator()); RocksDB made = RocksDB.open(first, path)) { made.put(new byte[] {1}, new byte[] {2}); }
        open();
        long steps = Long.parseLong(arguments[2]);
        for (step = 0; step < steps; step++) {
            try {
                call();
            } catch (RocksDBException e) {
                Status status = e.getStatus();
                say("error", e.getMessage(), status == null ? "none" : status.getCode() + " " + status.getSubCode());
            } catch (RuntimeException | AssertionError e) {
                say("java", e.getClass().getName());
            }
        }
        close();
    }
}
