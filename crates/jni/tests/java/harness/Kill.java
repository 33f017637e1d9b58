import java.util.*;
import org.rocksdb.*;

/**
 * A store that is killed: it opens, checks what is there, says it, and writes on until it is killed.
 *
 * Write i sets key i modulo KEYS to i; behind every COMMIT writes the offset, in a family of its own, is set to i. So
 * what is found must be that of the first n writes for some n, and the offset the last multiple of COMMIT up to n, or
 * the one before if n is that multiple itself.
 *
 * kafka: as Kafka Streams 4.3 has its stores: no WAL, atomic flushes. wal: all writes go to the WAL, and none that was
 * told as done may be missing.
 */
public class Kill {
    static final int KEYS = 997, COMMIT = 100, TELL = 500;

    static byte[] key(long i) { return String.format("key%06d", i % KEYS).getBytes(); }
    static byte[] value(long i) {
        byte[] value = new byte[200];
        Arrays.fill(value, (byte) (i % 251));
        byte[] number = Long.toString(i).getBytes();
        System.arraycopy(number, 0, value, 0, number.length);
        value[number.length] = ' ';
        return value;
    }
    static long number(byte[] value) {
        int end = 0;
        while (end < value.length && value[end] != ' ') end++;
        return Long.parseLong(new String(value, 0, end));
    }
    static void require(boolean holds, String text) { if (!holds) throw new AssertionError(text); }

    /** The number of writes that are there. */
    static long check(RocksDB db, ColumnFamilyHandle data, ColumnFamilyHandle offsets) throws Exception {
        long newest = 0;
        int count = 0;
        try (RocksIterator it = db.newIterator(data)) {
            for (it.seekToFirst(); it.isValid(); it.next(), count++) newest = Math.max(newest, number(it.value()));
            it.status();
        }
        require(count == Math.min(newest, KEYS), newest + " writes but " + count + " keys");
        for (long i = Math.max(1, newest - KEYS + 1); i <= newest; i++) {
            require(Arrays.equals(db.get(data, key(i)), value(i)), "of " + newest + " writes, write " + i + " is not there");
        }
        byte[] found = db.get(offsets, "offset".getBytes());
        long offset = found == null ? 0 : Long.parseLong(new String(found));
        long committed = newest - newest % COMMIT;
        require(offset == committed || (committed == newest && offset == newest - COMMIT), "offset " + offset + " with " + newest + " writes");
        return newest;
    }

    public static void main(String[] arguments) throws Exception {
        boolean wal = arguments[0].equals("wal"), only = arguments[2].equals("check");
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        RocksDB.loadLibrary();
        try (DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true).setAtomicFlush(!wal)
                 .setInfoLogLevel(InfoLogLevel.ERROR_LEVEL);
             BloomFilter filter = new BloomFilter();
             ColumnFamilyOptions family = new ColumnFamilyOptions().setWriteBufferSize(64 << 10).setMaxWriteBufferNumber(3)
                 .setCompactionStyle(CompactionStyle.UNIVERSAL).setCompressionType(CompressionType.NO_COMPRESSION)
                 .setOptimizeFiltersForHits(true)
                 .setTableFormatConfig(new BlockBasedTableConfig().setFilterPolicy(filter));
             WriteOptions write = new WriteOptions().setDisableWAL(!wal);
             RocksDB db = RocksDB.open(options, arguments[1], Arrays.asList(
                 new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, family),
                 new ColumnFamilyDescriptor("offsets".getBytes(), family)), handles)) {
            ColumnFamilyHandle data = handles.get(0), offsets = handles.get(1);
            long done = check(db, data, offsets);
            System.out.println("found " + done);
            if (only) return;
            // The offset may be the one before: it is set again, as Kafka restores from it.
            if (done % COMMIT == 0 && done > 0) db.put(offsets, write, "offset".getBytes(), Long.toString(done).getBytes());
            while (true) {
                done++;
                db.put(data, write, key(done), value(done));
                if (done % COMMIT == 0) db.put(offsets, write, "offset".getBytes(), Long.toString(done).getBytes());
                if (done % TELL == 0) System.out.println("done " + done);
            }
        }
    }
}
