import java.util.*;
import org.rocksdb.*;

/** Care for a database: compactions that are aborted, limited and reported, level 0 that moves, threads, logs of backups. */
public class Care {
    static byte[] b(String text) { return text.getBytes(); }
    static void say(Object... parts) { Data.say(parts); }

    static void fill(RocksDB db, int from, int to) throws Exception {
        for (int i = from; i < to; i++) db.put(b(String.format("key%04d", i)), b("value" + i));
        db.flush(new FlushOptions().setWaitForFlush(true));
    }

    static String levels(RocksDB db) {
        TreeMap<Integer, Integer> levels = new TreeMap<>();
        for (LiveFileMetaData file : db.getLiveFilesMetaData()) levels.merge(file.level(), 1, Integer::sum);
        return levels.toString();
    }

    static void aborts(String path) throws Exception {
        try (Options options = new Options().setCreateIfMissing(true).setDisableAutoCompactions(true); RocksDB db = RocksDB.open(options, path)) {
            fill(db, 0, 100);
            fill(db, 50, 150);
            db.abortAllCompactions();
            db.abortAllCompactions();
            Data.fails("aborted", db::compactRange);
            List<String> names = new ArrayList<>();
            for (LiveFileMetaData file : db.getLiveFilesMetaData()) names.add(file.fileName());
            Data.fails("aborted files", () -> db.compactFiles(new CompactionOptions(), names, 1, -1, null));
            fill(db, 100, 200);
            say("flushed", levels(db));
            db.resumeAllCompactions();
            Data.fails("aborted once more", db::compactRange);
            db.resumeAllCompactions();
            db.compactRange();
            say("compacted", levels(db));
            db.resumeAllCompactions();
            db.compactRange();
        }
    }

    static void refused(RocksDB db, int level) {
        // RocksDB's library says nothing.
        boolean silent = true;
        try {
            db.promoteL0(level);
        } catch (RocksDBException e) {
            silent = e.getStatus().getCode() != Status.Code.InvalidArgument;
        }
        if (silent && Transactions.isPumice(db)) say("not refused");
        say("stays", levels(db));
    }

    static void promotes(String path) throws Exception {
        try (Options options = new Options().setCreateIfMissing(true).setDisableAutoCompactions(true).setLevelCompactionDynamicLevelBytes(false);
             RocksDB db = RocksDB.open(options, path)) {
            for (int from : new int[] {200, 0, 100}) fill(db, from, from + 100);
            // RocksDB's library says nothing when it refuses.
            refused(db, 0);
            refused(db, 7);
            say("before", levels(db));
            db.promoteL0(db.getDefaultColumnFamily(), 3);
            say("promoted", levels(db));
            fill(db, 0, 10);
            refused(db, 3);
            fill(db, 5, 20);
            refused(db, 2);
            try (RocksIterator it = db.newIterator()) {
                int count = 0;
                for (it.seekToFirst(); it.isValid(); it.next()) count++;
                say("keys", count);
            }
        }
    }

    /** Until nothing is in level 0; a compaction that is never looked for again is a failure. */
    static void awaitMoved(RocksDB db, ConcurrentTaskLimiter limiter) throws Exception {
        for (int i = 0; levels(db).contains("0=") || limiter.outstandingTask() > 0; i++) {
            if (i == 12000) throw new IllegalStateException("still " + levels(db) + ", " + limiter.outstandingTask() + " run");
            Thread.sleep(10);
        }
    }

    static void limits(String path) throws Exception {
        try (ConcurrentTaskLimiterImpl limiter = new ConcurrentTaskLimiterImpl("limit", 0);
             Options options = new Options().setCreateIfMissing(true).setLevel0FileNumCompactionTrigger(2).setCompactionThreadLimiter(limiter);
             RocksDB db = RocksDB.open(options, path)) {
            say(limiter.name(), limiter.outstandingTask());
            for (int i = 0; i < 4; i++) fill(db, 0, 100);
            Thread.sleep(200);
            say("none may", levels(db), limiter.outstandingTask());
            limiter.setMaxOutstandingTask(1);
            awaitMoved(db, limiter);
            limiter.resetMaxOutstandingTask();
            for (int i = 0; i < 2; i++) fill(db, 0, 100);
            awaitMoved(db, limiter);
            say("all may", levels(db), limiter.outstandingTask());
        }
    }

    static class Reports extends AbstractEventListener {
        final List<String> lines = Collections.synchronizedList(new ArrayList<>());
        @Override public void onCompactionCompleted(RocksDB db, CompactionJobInfo info) {
            long entries = 0;
            for (TableProperties one : info.tableProperties().values()) entries += one.getNumEntries();
            TreeSet<String> paths = new TreeSet<>(info.inputFiles());
            lines.add(info.tableProperties().size() + " tables " + entries + " entries " + info.tableProperties().keySet().containsAll(paths));
        }
    }

    static void reports(String path) throws Exception {
        try (Reports reports = new Reports(); Options options = new Options().setCreateIfMissing(true).setListeners(List.of(reports));
             RocksDB db = RocksDB.open(options, path)) {
            fill(db, 0, 100);
            fill(db, 50, 150);
            db.compactRange();
            say("reports", reports.lines);
            // Names and numbers of threads differ; that there are some of each kind, idle, does not.
            TreeSet<String> kinds = new TreeSet<>();
            boolean named = false;
            for (ThreadStatus thread : Env.getDefault().getThreadList()) {
                kinds.add(thread.getThreadType() + " " + thread.getOperationType() + " " + thread.getOperationStage() + " " + thread.getStateType());
                named |= thread.getThreadId() == 0 || thread.getDbName() != null || thread.getCfName() != null;
            }
            kinds.removeIf(kind -> !kind.startsWith("HIGH") && !kind.startsWith("LOW"));
            say("threads", kinds, named);
        }
    }

    static class Lines extends Logger {
        int count;
        Lines() { super(InfoLogLevel.INFO_LEVEL); }
        @Override protected void log(InfoLogLevel level, String text) { count++; }
    }

    static void logs(String path) throws Exception {
        try (Lines lines = new Lines(); Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, path + "/db");
             BackupEngineOptions how = new BackupEngineOptions(new java.io.File(path, "backups") {{ mkdirs(); }}.getPath()).setInfoLog(lines)) {
            fill(db, 0, 10);
            try (BackupEngine engine = BackupEngine.open(Env.getDefault(), how)) {
                int before = lines.count;
                engine.createNewBackup(db, true);
                // RocksDB's library tells a logger of Java nothing.
                say("backup is noted", lines.count > before || !Transactions.isPumice(db));
                Data.fails("no backup", () -> engine.deleteBackup(7));
            }
        }
        try (Env memory = new RocksMemEnv(Env.getDefault()); Options options = new Options().setCreateIfMissing(true).setEnv(memory).setMaxOpenFiles(123);
             ConfigOptions config = new ConfigOptions().setEnv(memory)) {
            RocksDB.open(options, "/in-memory").close();
            DBOptions loaded = new DBOptions();
            OptionsUtil.loadLatestOptions(config, "/in-memory", loaded, new ArrayList<>());
            say("options in memory", loaded.maxOpenFiles());
            Data.fails("options on disk", () -> OptionsUtil.loadLatestOptions(new ConfigOptions(), "/in-memory", loaded, new ArrayList<>()));
        }
    }

    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        aborts(arguments[0] + "/aborts");
        promotes(arguments[0] + "/promotes");
        limits(arguments[0] + "/limits");
        reports(arguments[0] + "/reports");
        logs(arguments[0]);
        System.exit(0);
    }
}
