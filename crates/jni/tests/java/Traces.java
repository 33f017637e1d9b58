import java.nio.ByteBuffer;
import java.util.*;
import org.rocksdb.*;

/** Traces to a writer of Java: one that keeps records, one that fails. */
public class Traces {
    static byte[] b(String text) { return text.getBytes(); }
    static void say(Object... parts) { Data.say(parts); }

    /** Says what types of records it gets. */
    static class Kept extends AbstractTraceWriter {
        final List<String> types = new ArrayList<>();
        long size = 0;
        int left;

        Kept(int left) { this.left = left; }

        @Override public void write(Slice data) throws RocksDBException {
            byte[] record = data.data();
            types.add(record[8] + ":" + (record[8] == 4 ? new String(record, 26, record.length - 26) : ""));
            size += record.length;
            if (left-- == 0) throw new RocksDBException("full", new Status(Status.Code.IOError, Status.SubCode.NoSpace, "full"));
        }
        @Override public void closeWriter() throws RocksDBException { types.add("closed"); }
        @Override public long getFileSize() { return size; }
    }

    static void run(RocksDB db, Kept kept) throws Exception {
        db.startTrace(new TraceOptions(), kept);
        db.put(b("a"), b("1"));
        db.get(b("a"));
        db.get(b("none"));
        try (RocksIterator it = db.newIterator()) {
            it.seek(b("a"));
            it.seekForPrev(b("a"));
        }
        db.multiGetAsList(List.of(b("a"), b("b")));
    }

    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        try (Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, arguments[0] + "/traced")) {
            try {
                db.endTrace();
                say("ended nothing");
            } catch (RocksDBException e) {
                say("no trace", e.getMessage());
            }
            Kept all = new Kept(1000);
            run(db, all);
            db.endTrace();
            db.put(b("after"), b("1"));
            all.types.remove("closed");
            say("records", all.types, all.size > 100);
            Kept none = new Kept(1000);
            db.startTrace(new TraceOptions(50), none);
            for (int i = 0; i < 5; i++) db.put(b("a"), b("1"));
            db.endTrace();
            none.types.remove("closed");
            say("a full file", none.types);
        }
    }
}
