import java.nio.ByteBuffer;
import java.util.*;
import org.rocksdb.*;

/** What is in a batch with index, direct slices, descriptors of open families, iterators that go to a snapshot. */
public class Updates {
    static byte[] b(String text) { return text.getBytes(); }
    static String s(byte[] bytes) { return bytes == null ? "null" : new String(bytes); }
    static void say(Object... parts) { Data.say(parts); }

    static void show(String what, WBWIRocksIterator it) throws Exception {
        it.status();
        if (!it.isValid()) {
            say(what, "nothing");
            return;
        }
        WBWIRocksIterator.WriteEntry entry = it.entry();
        boolean deletes = entry.getType() == WBWIRocksIterator.WriteType.DELETE || entry.getType() == WBWIRocksIterator.WriteType.SINGLE_DELETE;
        say(what, entry.getType(), entry.getKey(), deletes ? "" : entry.getValue());
    }

    static void walk(WriteBatchWithIndex batch, ColumnFamilyHandle two) throws Exception {
        batch.put(b("c"), b("1"));
        batch.put(b("a"), b("1"));
        batch.merge(b("c"), b("2"));
        batch.delete(b("a"));
        batch.singleDelete(b("b"));
        batch.put(two, b("k"), b("in two"));
        batch.put(b("c"), b("3"));
        batch.put(b(""), b("empty key"));
        try (WBWIRocksIterator it = batch.newIterator()) {
            show("not placed", it);
            int forward = 0;
            for (it.seekToFirst(); it.isValid(); it.next()) show("forward " + forward++, it);
            show("behind", it);
            int back = 0;
            for (it.seekToLast(); it.isValid(); it.prev()) show("back " + back++, it);
            it.seek(b("b"));
            show("seek", it);
            it.next();
            it.next();
            it.prev();
            show("there and back", it);
            it.seek(b("bb"));
            show("between", it);
            it.seekForPrev(b("bb"));
            show("before", it);
            it.seekForPrev(b("c"));
            show("last of a key", it);
            ByteBuffer key = ByteBuffer.allocateDirect(8);
            key.put(b("a")).flip();
            it.seek(key);
            show("direct", it);
            it.next();
            show("next", it);
            it.seek(b("x"));
            show("after all", it);
            it.seek(b("b"));
            batch.put(b("bz"), b("later"));
            it.next();
            show("written since", it);
        }
        try (WBWIRocksIterator it = batch.newIterator(two)) {
            for (it.seekToFirst(); it.isValid(); it.next()) show("two", it);
        }
    }

    static void slices() throws Exception {
        ByteBuffer text = ByteBuffer.allocateDirect(16);
        text.put(b("some text")).put((byte) 0);
        try (DirectSlice whole = new DirectSlice(text); DirectSlice part = new DirectSlice(text, 4); DirectSlice of = new DirectSlice("some text")) {
            say("slices", whole, whole.size(), part, part.size(), of, whole.compare(of), whole.equals(of), whole.startsWith(part));
            ByteBuffer data = of.data();
            say("data", data.isDirect(), data.capacity(), (char) data.get(3), (char) of.get(2));
            of.removePrefix(5);
            say("without prefix", of, of.size(), of.empty(), of.toString(true));
            part.setLength(2);
            say("shorter", part, part.size());
            of.clear();
            say("cleared", of.size(), of.empty());
            of.clear();
        }
        Data.fails("heap", () -> new DirectSlice(ByteBuffer.allocate(4)).close());
    }

    static void descriptors(RocksDB db, ColumnFamilyHandle two) throws Exception {
        for (ColumnFamilyHandle family : new ColumnFamilyHandle[] {db.getDefaultColumnFamily(), two}) {
            ColumnFamilyDescriptor found = family.getDescriptor();
            ColumnFamilyOptions options = found.getOptions();
            say("descriptor", s(found.getName()), options.writeBufferSize(), options.numLevels(), options.compressionType(), options.level0FileNumCompactionTrigger());
            options.close();
        }
        db.setOptions(two, MutableColumnFamilyOptions.builder().setWriteBufferSize(3 << 20).build());
        say("changed", two.getDescriptor().getOptions().writeBufferSize());
    }

    static void refreshed(RocksDB db) throws Exception {
        db.put(b("r1"), b("1"));
        Snapshot then = db.getSnapshot();
        db.put(b("r1"), b("2"));
        db.put(b("r2"), b("2"));
        try (RocksIterator it = db.newIterator()) {
            it.seek(b("r1"));
            say("now", s(it.value()));
            it.refresh(then);
            it.seek(b("r1"));
            say("then", s(it.value()));
            it.next();
            say("no more", it.isValid());
            it.refresh();
            it.seek(b("r2"));
            say("now", s(it.value()));
        }
        db.releaseSnapshot(then);
    }

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (ColumnFamilyOptions one = new ColumnFamilyOptions(); ColumnFamilyOptions other = new ColumnFamilyOptions()
                 .setWriteBufferSize(2 << 20).setNumLevels(3).setCompressionType(CompressionType.NO_COMPRESSION).setLevel0FileNumCompactionTrigger(9);
             DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
             RocksDB db = RocksDB.open(options, args[0] + "/updates", Arrays.asList(
                 new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, one), new ColumnFamilyDescriptor(b("two"), other)), handles)) {
            for (boolean overwrite : new boolean[] {false, true}) {
                try (WriteBatchWithIndex batch = new WriteBatchWithIndex(overwrite)) {
                    say("overwrite", overwrite);
                    walk(batch, handles.get(1));
                }
            }
            slices();
            descriptors(db, handles.get(1));
            refreshed(db);
            for (ColumnFamilyHandle handle : handles) handle.close();
        }
    }
}
