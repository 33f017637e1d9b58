import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.nio.file.attribute.FileTime;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.*;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.*;
import org.apache.spark.sql.streaming.Trigger;
import static org.apache.spark.sql.functions.*;

/**
 * Spark PART FOLDER: streaming queries of Spark's with their state in RocksDB and changelog checkpoints: sliding and
 * session windows, duplicates that are left out, a join of two streams. Part 1 reads the first half of the input; part 2
 * adds the other half and goes on from the checkpoints, so what it prints needs the state of part 1.
 *
 * It prints the batches of each query, and at last a digest of all that part 2 gave.
 */
public class Spark {
    private static final int FILES = 8;
    private static final int RECORDS = 600;
    private static final int KEYS = 150;
    private static final String SCHEMA = "id INT, key INT, at TIMESTAMP, value LONG";

    private final Path folder;
    private final SparkSession spark;
    private final MessageDigest digest = MessageDigest.getInstance("SHA-256");

    private Spark(Path folder) throws Exception {
        this.folder = folder;
        spark = SparkSession.builder().master("local[2]").appName("example")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toUri().toString())
            .config("spark.sql.streaming.stateStore.providerClass",
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
            .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
            // Some batches write a snapshot, most of them a changelog.
            .config("spark.sql.streaming.stateStore.minDeltasForSnapshot", "3")
            .getOrCreate();
    }

    /** Adds files of one stream: each is a batch, and time goes on with them, but for late records. */
    private void input(String stream, int from, int to) throws IOException {
        Path files = Files.createDirectories(folder.resolve(stream));
        for (int file = from; file < to; file++) {
            Random random = new Random(file * 31L + stream.hashCode());
            StringBuilder lines = new StringBuilder();
            for (int n = 0; n < RECORDS; n++) {
                int second = file * 20 + random.nextInt(30) - (random.nextInt(20) == 0 ? 40 : 0);
                Instant at = Instant.ofEpochSecond(1_000_000 + second);
                lines.append(String.format("{\"id\":%d,\"key\":%d,\"at\":\"%s\",\"value\":%d}%n",
                    file * 400 + random.nextInt(500), random.nextInt(KEYS), at, random.nextInt(1000)));
            }
            Path path = files.resolve("part-" + file + ".json");
            Files.writeString(path, lines);
            // The source reads them in this order.
            Files.setLastModifiedTime(path, FileTime.from(Instant.ofEpochSecond(1_700_000_000L + file)));
        }
    }

    private Dataset<Row> stream(String name) {
        return spark.readStream().schema(SCHEMA).option("maxFilesPerTrigger", 1)
            .json(folder.resolve(name).toString()).withWatermark("at", "10 seconds");
    }

    /** Runs a query over all input that is there. */
    private void run(String name, String mode, Dataset<Row> query) throws Exception {
        VoidFunction2<Dataset<Row>, Long> sink = (rows, batch) -> told(name, batch, rows);
        query.writeStream().outputMode(mode).foreachBatch(sink).queryName(name)
            .option("checkpointLocation", folder.resolve("checkpoint-" + name).toString())
            .trigger(Trigger.AvailableNow()).start().awaitTermination();
    }

    private void told(String name, long batch, Dataset<Row> rows) {
        List<String> lines = new ArrayList<>();
        rows.collectAsList().forEach(row -> lines.add(row.toString()));
        Collections.sort(lines);
        for (String line : lines) digest.update((name + line + "\n").getBytes(StandardCharsets.UTF_8));
        System.out.println("= " + name + ": batch " + batch + " has " + lines.size() + " rows");
    }

    private void queries() throws Exception {
        run("sliding", "update", stream("left").groupBy(window(col("at"), "10 seconds", "5 seconds"), col("key"))
            .agg(count("*"), sum("value"), max("value")));
        run("sessions", "append", stream("left").groupBy(session_window(col("at"), "5 seconds"), col("key"))
            .agg(count("*"), sum("value")));
        run("distinct", "append", stream("left").dropDuplicatesWithinWatermark("id"));
        Dataset<Row> left = stream("left").as("l");
        Dataset<Row> right = stream("right").as("r");
        Column near = expr("l.key = r.key AND r.at >= l.at AND r.at <= l.at + INTERVAL 5 SECONDS");
        run("joined", "append", left.join(right, near, "leftOuter"));
    }

    public static void main(String[] arguments) throws Exception {
        int part = Integer.parseInt(arguments[0]);
        Spark program = new Spark(Files.createDirectories(Path.of(arguments[1])));
        for (String stream : List.of("left", "right")) {
            program.input(stream, (part - 1) * FILES / 2, part * FILES / 2);
        }
        program.queries();
        program.spark.stop();
        if (part == 2) System.out.println("= digest " + HexFormat.of().formatHex(program.digest.digest()));
        System.exit(0);
    }
}
