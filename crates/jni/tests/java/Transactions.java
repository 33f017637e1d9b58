import java.util.*;
import org.rocksdb.*;

/** Databases with transactions of both kinds. */
public class Transactions {
    static byte[] b(String text) { return text.getBytes(); }
    static String s(byte[] bytes) { return bytes == null ? "null" : new String(bytes); }
    static void say(Object... parts) { Data.say(parts); }

    static void both(RocksDB db, Transaction one, Transaction two, ReadOptions read) throws Exception {
        one.put(b("k"), b("1"));
        say("inside", s(one.get(read, b("k"))), s(db.get(b("k"))));
        Data.fails("conflict", () -> {
            two.put(b("k"), b("2"));
            one.commit();
            two.commit();
        });
        one.rollback();
        two.rollback();
        one.put(b("x"), b("1"));
        one.setSavePoint();
        one.put(b("y"), b("1"));
        one.delete(b("k"));
        say("numbers", one.getNumKeys(), one.getNumPuts(), one.getNumDeletes(), one.getNumMerges());
        one.rollbackToSavePoint();
        try (RocksIterator it = one.getIterator(read)) {
            StringBuilder line = new StringBuilder();
            for (it.seekToFirst(); it.isValid(); it.next()) line.append(s(it.key())).append(' ');
            say("sees", line);
        }
        Data.fails("no save point", one::rollbackToSavePoint);
        one.commit();
        say(s(db.get(b("x"))), s(db.get(b("y"))));
    }

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        try (Options options = new Options().setCreateIfMissing(true); WriteOptions write = new WriteOptions(); ReadOptions read = new ReadOptions()) {
            try (OptimisticTransactionDB db = OptimisticTransactionDB.open(options, args[0] + "/optimistic");
                 Transaction one = db.beginTransaction(write); Transaction two = db.beginTransaction(write)) {
                both(db, one, two, read);
                one.rollback();
                Transaction again = db.beginTransaction(write, one);
                say("again", again == one);
                again.setSnapshot();
                say("for update", s(again.getForUpdate(read, b("x"), true)));
                db.put(b("x"), b("other"));
                Data.fails("changed", again::commit);
            }
            try (TransactionDBOptions how = new TransactionDBOptions().setDefaultLockTimeout(1).setTransactionLockTimeout(1);
                 TransactionDB db = TransactionDB.open(options, how, args[0] + "/locking");
                 Transaction one = db.beginTransaction(write); Transaction two = db.beginTransaction(write)) {
                both(db, one, two, read);
                try (Transaction named = db.beginTransaction(write)) {
                    named.setName("name");
                    say(named.getName());
                    named.put(b("p"), b("1"));
                    named.prepare();
                    say("prepared", db.getAllPreparedTransactions().size());
                    named.commit();
                }
                say(s(db.get(b("p"))));
                try (Transaction locks = db.beginTransaction(write)) {
                    say("locked", s(locks.getForUpdate(read, b("p"), true)));
                    Data.fails("locked", () -> db.put(b("p"), b("2")));
                    locks.rollback();
                }
                db.put(b("p"), b("2"));
                say(s(db.get(b("p"))));
            }
        }
    }
}
