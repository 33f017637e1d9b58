import java.lang.reflect.*;
import java.util.*;
import org.rocksdb.*;

/** Every setter with its getter, by reflection: the value of a fresh object, and what was set. */
public class OptionsOf {
    /** An object without a text; what RocksDB's library has no function for; what ours has not. */
    static final Set<String> LEFT_OUT = new HashSet<>(Arrays.asList(
        "getEnv", "failIfOptionsFileError", "tablePropertiesCollectorFactory", "fullHistoryTSLow"));

    static Object other(Class<?> type, Object value) {
        if (type == boolean.class) return !(Boolean) value;
        if (type == int.class) return (Integer) value == 7 ? 8 : 7;
        if (type == long.class) return (Long) value == 4096L ? 8192L : 4096L;
        if (type == double.class) return 0.5;
        if (type == byte.class) return (byte) 1;
        if (type == String.class) return "text";
        if (type.isEnum()) {
            Object[] members = type.getEnumConstants();
            return members[0] == value ? members[1] : members[0];
        }
        return null;
    }

    static Method getter(Class<?> c, String name, Class<?> type) {
        String own = Character.toLowerCase(name.charAt(0)) + name.substring(1);
        for (String form : new String[] {own, "get" + name, "is" + name}) {
            try {
                Method found = c.getMethod(form);
                if (found.getReturnType() == type) return found;
            } catch (NoSuchMethodException e) {
                // Another form.
            }
        }
        return null;
    }

    static void timestamps() {
        try (CompactRangeOptions compact = new CompactRangeOptions(); Slice time = new Slice("12345678"); ReadOptions read = new ReadOptions()) {
            System.out.println("low " + compact.fullHistoryTSLow());
            compact.setFullHistoryTSLow(new CompactRangeOptions.Timestamp(5, 7));
            System.out.println("low " + compact.fullHistoryTSLow().start + " " + compact.fullHistoryTSLow().range);
            System.out.println("times " + read.timestamp() + " " + read.iterStartTs());
            read.setTimestamp(time).setIterStartTs(time);
            System.out.println("times " + read.timestamp() + " " + read.iterStartTs());
            read.setTimestamp(null).setIterStartTs(null);
            System.out.println("times " + read.timestamp() + " " + read.iterStartTs());
        }
    }

    static String text(Throwable e) {
        Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }

    static void show(String title, Object object) {
        Method[] methods = object.getClass().getMethods();
        Arrays.sort(methods, Comparator.comparing(Method::toString));
        for (Method setter : methods) {
            if (!setter.getName().startsWith("set") || setter.getParameterCount() != 1 || setter.isBridge()) continue;
            String name = setter.getName().substring(3);
            Class<?> type = setter.getParameterTypes()[0];
            Method getter = getter(object.getClass(), name, type);
            if (getter == null || LEFT_OUT.contains(getter.getName())) continue;
            String line = title + "." + getter.getName();
            try {
                Object before = getter.invoke(object);
                line += " " + (before instanceof int[] ? Arrays.toString((int[]) before) : before);
                Object next = other(type, before);
                if (next != null) {
                    setter.invoke(object, next);
                    line += " " + getter.invoke(object);
                }
            } catch (Throwable e) {
                line += " " + text(e);
            }
            System.out.println(line);
        }
    }

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        show("Options", new Options());
        show("DBOptions", new DBOptions());
        show("ColumnFamilyOptions", new ColumnFamilyOptions());
        show("ReadOptions", new ReadOptions());
        show("WriteOptions", new WriteOptions());
        show("FlushOptions", new FlushOptions());
        show("CompactRangeOptions", new CompactRangeOptions());
        timestamps();
        show("CompactionOptions", new CompactionOptions());
        show("IngestExternalFileOptions", new IngestExternalFileOptions());
        show("CompactionOptionsUniversal", new CompactionOptionsUniversal());
        show("CompactionOptionsFIFO", new CompactionOptionsFIFO());
        show("CompressionOptions", new CompressionOptions());
        show("EnvOptions", new EnvOptions());
        show("TransactionOptions", new TransactionOptions());
        show("TransactionDBOptions", new TransactionDBOptions());
        show("OptimisticTransactionOptions", new OptimisticTransactionOptions());
        show("BackupEngineOptions", new BackupEngineOptions(args[0]));
        show("ComparatorOptions", new ComparatorOptions());
        Options both = new Options(new DBOptions().setMaxOpenFiles(77), new ColumnFamilyOptions().setWriteBufferSize(7777));
        System.out.println("both " + both.maxOpenFiles() + " " + both.writeBufferSize());
        Properties named = new Properties();
        named.setProperty("write_buffer_size", "112");
        System.out.println("text " + ColumnFamilyOptions.getColumnFamilyOptionsFromProps(named).writeBufferSize());
        named.setProperty("nothing", "1");
        System.out.println("no text " + ColumnFamilyOptions.getColumnFamilyOptionsFromProps(named));
    }
}
