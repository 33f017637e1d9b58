import java.util.*;
import org.rocksdb.*;

/** Files that are deleted by their names, which the classes of RocksDB 10 and later cannot. */
public class DeletedFiles {
    static void say(String text) { System.out.println(text); }

    /** RocksDB's library says nothing when it refuses: what is there afterwards does. */
    static void delete(RocksDB db, String what, String name, Status.Code expected) throws Exception {
        Status.Code code = Status.Code.Ok;
        try {
            db.deleteFile(name);
        } catch (RocksDBException e) {
            code = e.getStatus().getCode();
        }
        if (code != expected && isPumice(db)) say("it is " + code);
        say(what + ": " + count(db) + " keys, " + db.getSortedWalFiles().size() + " logs");
    }

    static boolean isPumice(RocksDB db) {
        try {
            return !db.getProperty("pumice.version").isEmpty();
        } catch (RocksDBException e) {
            return false;
        }
    }

    static void fill(RocksDB db, int from) throws Exception {
        for (int i = from; i < from + 10; i++) db.put(("key" + i).getBytes(), ("value" + i).getBytes());
        try (FlushOptions flush = new FlushOptions()) {
            db.flush(flush);
        }
    }

    static String name(RocksDB db, int first) {
        for (LiveFileMetaData file : db.getLiveFilesMetaData()) {
            if (new String(file.smallestKey()).equals("key" + first)) return file.fileName();
        }
        return "none";
    }

    static int count(RocksDB db) {
        int count = 0;
        try (RocksIterator it = db.newIterator()) {
            for (it.seekToFirst(); it.isValid(); it.next()) count++;
        }
        return count;
    }

    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        try (Options options = new Options().setCreateIfMissing(true).setDisableAutoCompactions(true).setWalTtlSeconds(1000)) {
            try (RocksDB db = RocksDB.open(options, arguments[0])) {
                fill(db, 10);
                db.compactRange();
                fill(db, 20);
                fill(db, 30);
                delete(db, "not the last level", name(db, 20), Status.Code.InvalidArgument);
                delete(db, "the last level", name(db, 10), Status.Code.Ok);
                delete(db, "not the oldest", name(db, 30), Status.Code.InvalidArgument);
                delete(db, "the oldest", name(db, 20), Status.Code.Ok);
                delete(db, "not there", "/999999.sst", Status.Code.InvalidArgument);
                delete(db, "no name", "nothing", Status.Code.InvalidArgument);
                delete(db, "a manifest", "MANIFEST-000005", Status.Code.InvalidArgument);
                String live = null, archived = null;
                for (LogFile log : db.getSortedWalFiles()) {
                    if (log.pathName().startsWith("/archive")) archived = log.pathName();
                }
                db.put("more".getBytes(), "1".getBytes());
                for (LogFile log : db.getSortedWalFiles()) {
                    if (!log.pathName().startsWith("/archive")) live = log.pathName();
                }
                delete(db, "a table in the archive", "/archive" + name(db, 30), Status.Code.InvalidArgument);
                delete(db, "a live log", live, Status.Code.NotSupported);
                delete(db, "a log in the archive", archived, Status.Code.Ok);
                say("keys " + count(db));
            }
            try (RocksDB db = RocksDB.open(options, arguments[0])) {
                say("keys " + count(db));
            }
        }
    }
}
