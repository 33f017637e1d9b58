import java.nio.ByteBuffer;
import java.util.*;
import org.rocksdb.*;

/** Cassandra's rows: the merge operator and the compaction filter that know their format. */
public class Rows {
    static void say(Object... parts) { Data.say(parts); }

    static byte[] row(byte[]... columns) {
        int size = 12;
        for (byte[] column : columns) size += column.length;
        ByteBuffer row = ByteBuffer.allocate(size).putInt(Integer.MAX_VALUE).putLong(Long.MIN_VALUE);
        for (byte[] column : columns) row.put(column);
        return row.array();
    }

    static byte[] rowTombstone(int seconds, long micros) { return ByteBuffer.allocate(12).putInt(seconds).putLong(micros).array(); }

    static byte[] column(int index, long micros, String value) {
        byte[] bytes = value.getBytes();
        return ByteBuffer.allocate(14 + bytes.length).put((byte) 0).put((byte) index).putLong(micros).putInt(bytes.length).put(bytes).array();
    }

    static byte[] expiring(int index, long micros, String value, int seconds) {
        byte[] bytes = value.getBytes();
        return ByteBuffer.allocate(18 + bytes.length).put((byte) 2).put((byte) index).putLong(micros).putInt(bytes.length).put(bytes).putInt(seconds).array();
    }

    static byte[] tombstone(int index, int seconds, long micros) {
        return ByteBuffer.allocate(14).put((byte) 1).put((byte) index).putInt(seconds).putLong(micros).array();
    }

    static String hex(byte[] bytes) {
        if (bytes == null) return "null";
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) text.append(String.format("%02x", one));
        return text.toString();
    }

    static void show(String what, RocksDB db, String... keys) throws Exception {
        for (String key : keys) say(what, key, hex(db.get(key.getBytes())));
    }

    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        long long_ago = 1_000_000_000_000L, future = 4_000_000_000_000_000L;
        int never = Integer.MAX_VALUE;
        for (boolean purge : new boolean[] {false, true}) {
            // The grace of the filter is over, that of the operator is not.
            try (CassandraCompactionFilter filter = new CassandraCompactionFilter(purge, 1); MergeOperator merge = new CassandraValueMergeOperator(1_900_000_000, 0);
                 Options options = new Options().setCreateIfMissing(true).setMergeOperator(merge).setCompactionFilter(filter);
                 RocksDB db = RocksDB.open(options, arguments[0] + "/" + purge)) {
                String[] keys = {"columns", "deleted", "expired", "put", "tombs", "young"};
                db.merge("columns".getBytes(), row(column(0, 10, "old"), column(1, 30, "new")));
                db.merge("columns".getBytes(), row(column(0, 20, "newer"), column(2, 5, "alone")));
                db.merge("columns".getBytes(), row(column(1, 20, "late")));
                db.put("deleted".getBytes(), row(column(0, 10, "a"), column(1, 40, "b")));
                db.merge("deleted".getBytes(), rowTombstone(5, 20));
                db.merge("deleted".getBytes(), row(column(3, 50, "after")));
                db.put("expired".getBytes(), row(expiring(0, long_ago, "gone", 10), column(1, 60, "stays")));
                db.put("put".getBytes(), row(column(-3, 1, "negative"), expiring(4, future, "later", 10)));
                db.put("tombs".getBytes(), row(tombstone(0, 1, 100), tombstone(1, never, 100), column(2, 9, "x")));
                db.put("young".getBytes(), row(expiring(0, long_ago, "all of it", 1)));
                show("memory", db, keys);
                db.flush(new FlushOptions());
                db.compactRange();
                show("compacted", db, keys);
                db.merge("put".getBytes(), row(tombstone(-3, never, 2)));
                db.merge("put".getBytes(), row(column(4, 3, "older")));
                db.flush(new FlushOptions());
                show("again", db, "put");
            }
        }
    }
}
