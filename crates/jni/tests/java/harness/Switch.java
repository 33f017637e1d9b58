import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.rocksdb.*;

/**
 * Says which library a virtual machine loads, and opens a database with it if a path is given: each run reads what
 * those before it wrote, adds an entry, and prints one line.
 */
public class Switch {
    static String loaded() throws Exception {
        for (String line : java.nio.file.Files.readAllLines(Paths.get("/proc/self/maps"))) {
            if (line.contains("librocksdbjni")) return line.substring(line.indexOf('/'));
        }
        return "none";
    }

    static String version(RocksDB db) {
        try {
            return db.getProperty("pumice.version");
        } catch (RocksDBException e) {
            return e.getStatus().getCode() == Status.Code.NotFound ? "none" : e.getMessage();
        }
    }

    /** Both libraries begin the file with a line that has their own version. */
    static boolean logIsOurs(String path) throws Exception {
        return java.nio.file.Files.readAllLines(Paths.get(path, "LOG"), StandardCharsets.ISO_8859_1).get(0).contains("Pumice version");
    }

    public static void main(String[] arguments) throws Exception {
        long begin = System.nanoTime();
        RocksDB.loadLibrary();
        long micros = (System.nanoTime() - begin) / 1000;
        StringBuilder line = new StringBuilder("micros=" + micros + " file=" + loaded());
        if (arguments.length > 0) {
            int runs = Integer.parseInt(arguments[1]);
            // Without options of tables: those that the RocksDB of these classes reads are written.
            try (Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, arguments[0])) {
                for (int run = 0; run < runs; run++) {
                    byte[] value = db.get(("run" + run).getBytes());
                    if (value == null || !new String(value).equals("value" + run)) throw new AssertionError("run " + run + " is lost");
                }
                db.put(("run" + runs).getBytes(), ("value" + runs).getBytes());
                line.append(" pumice=").append(version(db)).append(" log=").append(logIsOurs(arguments[0]));
            }
        }
        System.out.println(line);
    }
}
