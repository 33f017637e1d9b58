import java.util.*;
import org.rocksdb.*;

/** What transactions tell of their snapshots and write beside their updates, and batches that are logged in part. */
public class Phases {
    static byte[] b(String text) { return text.getBytes(); }
    static String s(byte[] bytes) { return bytes == null ? "null" : new String(bytes); }
    static void say(Object... parts) { Data.say(parts); }

    static class Hears extends AbstractTransactionNotifier {
        final RocksDB db;
        Transaction of;
        boolean throwing;
        Hears(RocksDB db) { this.db = db; }
        @Override public void snapshotCreated(Snapshot snapshot) {
            try (ReadOptions read = new ReadOptions().setSnapshot(snapshot)) {
                say("  snapshot", s(db.get(read, b("k"))), snapshot.getSequenceNumber() == of.getSnapshot().getSequenceNumber());
            } catch (RocksDBException e) {
                throw new IllegalStateException(e);
            }
            if (throwing) throw new IllegalStateException("told");
        }
    }

    static void notifiers(RocksDB db, Transaction it, ReadOptions read) throws Exception {
        try (Hears hears = new Hears(db)) {
            hears.of = it;
            db.put(b("k"), b("1"));
            it.setSnapshotOnNextOperation(hears);
            db.put(b("k"), b("2"));
            say("nothing yet", it.getSnapshot() == null);
            it.put(b("a"), b("1"));
            it.put(b("b"), b("1"));
            it.setSnapshotOnNextOperation(hears);
            it.setSnapshot();
            it.put(b("c"), b("1"));
            it.setSnapshotOnNextOperation(hears);
            it.clearSnapshot();
            it.put(b("d"), b("1"));
            it.setSnapshotOnNextOperation(hears);
            it.setSnapshotOnNextOperation();
            it.put(b("e"), b("1"));
            say("taken", it.getSnapshot() != null);
            it.setSnapshotOnNextOperation(hears);
            it.get(read, b("k"));
            say("read", s(it.getForUpdate(read, b("f"), true)));
            it.setSnapshotOnNextOperation(hears);
            it.delete(b("a"));
            it.setSnapshotOnNextOperation(hears);
            Data.fails("commit", it::commit);
        }
    }

    /** A save point keeps the wish for a snapshot, and who is to hear of it. */
    static void points(RocksDB db, Transaction it) throws Exception {
        try (Hears hears = new Hears(db)) {
            hears.of = it;
            it.setSavePoint();
            it.setSnapshotOnNextOperation(hears);
            it.rollbackToSavePoint();
            it.put(b("h"), b("1"));
            say("nobody asks", it.getSnapshot() == null);
            it.setSnapshotOnNextOperation(hears);
            it.setSavePoint();
            it.put(b("i"), b("1"));
            it.rollbackToSavePoint();
            say("again", it.getSnapshot() == null);
            it.put(b("i"), b("2"));
            say("twice", it.getSnapshot() != null);
        }
    }

    /** Uses what the transaction has, and ends it. */
    static class Ends extends AbstractTransactionNotifier {
        Transaction of;
        @Override public void snapshotCreated(Snapshot snapshot) {
            try (WriteOptions write = new WriteOptions()) {
                of.getCommitTimeWriteBatch().put(b("c"), b("1"));
                of.setWriteOptions(write);
                of.getWriteBatch().getWriteBatch();
            } catch (RocksDBException e) {
                throw new IllegalStateException(e);
            }
            of.close();
        }
    }

    static void ending(TransactionDB db, WriteOptions write) throws Exception {
        // RocksDB's library is in the middle of the transaction's call.
        if (!Transactions.isPumice(db)) return;
        for (int i = 0; i < 100; i++) {
            try (Ends ends = new Ends(); Transaction it = db.beginTransaction(write)) {
                ends.of = it;
                it.setSnapshotOnNextOperation(ends);
                it.put(b("ended"), b("1"));
            }
        }
        // Its lock is free, too.
        db.put(write, b("ended"), b("2"));
    }

    /** What a notifier throws is printed, and is not the result of the call. */
    static void throwing(RocksDB db, Transaction it) throws Exception {
        try (Hears hears = new Hears(db)) {
            hears.of = it;
            hears.throwing = true;
            it.setSnapshotOnNextOperation(hears);
            boolean threw = false;
            try {
                it.put(b("g"), b("1"));
            } catch (IllegalStateException e) {
                threw = e.getMessage().equals("told");
            }
            say("throws", threw, it.getNumPuts());
        }
    }

    static void beside(TransactionDB db, WriteOptions write) throws Exception {
        try (Transaction it = db.beginTransaction(write)) {
            say("no log", it.getLogNumber());
            it.setName("one");
            it.put(b("k"), b("own"));
            it.getCommitTimeWriteBatch().put(b("beside"), b("1"));
            it.getCommitTimeWriteBatch().put(b("k"), b("beside"));
            it.prepare();
            say("a log", it.getLogNumber() > 0, s(db.get(b("beside"))), it.getCommitTimeWriteBatch().count());
            it.commit();
            say("committed", s(db.get(b("beside"))), s(db.get(b("k"))));
            say("empty", it.getCommitTimeWriteBatch().count(), it.getLogNumber() > 0);
            it.setLogNumber(77);
            say("its log", it.getLogNumber());
        }
        try (Transaction it = db.beginTransaction(write)) {
            it.getCommitTimeWriteBatch().put(b("dropped"), b("1"));
            it.put(b("l"), b("1"));
            Data.fails("not prepared", it::commit);
            it.getCommitTimeWriteBatch().clear();
            it.commit();
            say("committed", s(db.get(b("dropped"))), s(db.get(b("l"))));
        }
        try (Transaction it = db.beginTransaction(write)) {
            it.setName("two");
            it.put(b("l"), b("2"));
            it.getCommitTimeWriteBatch().put(b("dropped"), b("2"));
            it.prepare();
            it.rollback();
            say("rolled back", s(db.get(b("dropped"))), s(db.get(b("l"))));
        }
    }

    static void point(String what, WriteBatch batch) {
        WriteBatch.SavePoint point = batch.getWalTerminationPoint();
        say(what, point.getSize(), point.getCount(), point.getContentFlags(), point.isCleared());
    }

    static void parts(String path) throws Exception {
        try (Options options = new Options().setCreateIfMissing(true); WriteOptions write = new WriteOptions()) {
            try (RocksDB db = RocksDB.open(options, path); WriteBatch batch = new WriteBatch()) {
                point("none", batch);
                batch.put(b("a"), b("1"));
                batch.delete(b("gone"));
                batch.singleDelete(b("single"));
                batch.deleteRange(b("x"), b("y"));
                batch.markWalTerminationPoint();
                batch.put(b("a"), b("2"));
                batch.put(b("b"), b("2"));
                batch.merge(b("c"), b("2"));
                point("marked", batch);
                batch.markWalTerminationPoint();
                point("later", batch);
                batch.clear();
                point("cleared", batch);
                batch.put(b("a"), b("1"));
                batch.markWalTerminationPoint();
                batch.put(b("a"), b("2"));
                batch.put(b("b"), b("2"));
                db.write(write, batch);
                say("written", s(db.get(b("a"))), s(db.get(b("b"))), db.getLatestSequenceNumber());
                db.put(write, b("d"), b("3"));
            }
            try (RocksDB db = RocksDB.open(options, path)) {
                say("logged", s(db.get(b("a"))), s(db.get(b("b"))), s(db.get(b("d"))), db.getLatestSequenceNumber());
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        try (Options options = new Options().setCreateIfMissing(true); WriteOptions write = new WriteOptions(); ReadOptions read = new ReadOptions();
             TransactionDBOptions how = new TransactionDBOptions()) {
            try (TransactionDB db = TransactionDB.open(options, how, arguments[0] + "/locks")) {
                try (Transaction it = db.beginTransaction(write)) {
                    notifiers(db, it, read);
                }
                try (Transaction it = db.beginTransaction(write)) {
                    throwing(db, it);
                }
                try (Transaction it = db.beginTransaction(write)) {
                    points(db, it);
                }
                ending(db, write);
                beside(db, write);
            }
            try (OptimisticTransactionDB db = OptimisticTransactionDB.open(options, arguments[0] + "/checks"); Transaction it = db.beginTransaction(write)) {
                notifiers(db, it, read);
            }
        }
        parts(arguments[0] + "/parts");
    }
}
