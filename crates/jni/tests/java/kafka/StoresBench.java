import java.io.File;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;

/**
 * StoresBench FOLDER STORES MEGABYTES: the memory of many small stores of Kafka Streams with its defaults, and how long it takes to put back one
 * of that size, in batches of 1,000 records as a restore does it. Prints "NAME NUMBER": KiB of the process, KiB a second.
 */
public class StoresBench {
    static class Nothing implements Processor<Bytes, byte[], Void, Void> {
        @Override public void process(Record<Bytes, byte[]> record) { }
    }

    static TopologyTestDriver open(String folder, int stores) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "stores");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        StreamsBuilder builder = new StreamsBuilder();
        String[] names = new String[stores];
        for (int i = 0; i < stores; i++) {
            names[i] = "store" + i;
            builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(names[i]), Serdes.Bytes(), Serdes.ByteArray()).withLoggingDisabled());
        }
        builder.stream("topic", Consumed.with(Serdes.Bytes(), Serdes.ByteArray())).process(Nothing::new, names);
        return new TopologyTestDriver(builder.build(), properties);
    }

    static long resident() throws Exception {
        System.gc();
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("RssAnon:")) return Long.parseLong(line.replaceAll("\\D", ""));
        }
        throw new AssertionError("no RssAnon");
    }

    public static void main(String[] arguments) throws Exception {
        int stores = Integer.parseInt(arguments[1]);
        long records = Long.parseLong(arguments[2]) * (1 << 20) / 116;
        Random random = new Random(1);
        byte[] value = new byte[100];
        // What is loaded once is no part of it.
        open(arguments[0] + "/first", 1).close();
        long before = resident();
        try (TopologyTestDriver driver = open(arguments[0] + "/many", stores)) {
            for (int i = 0; i < stores; i++) {
                KeyValueStore<Bytes, byte[]> store = driver.getKeyValueStore("store" + i);
                for (int n = 0; n < 1000; n++) {
                    byte[] key = new byte[16];
                    random.nextBytes(key);
                    store.put(Bytes.wrap(key), value);
                    if (store.get(Bytes.wrap(key)) == null) throw new AssertionError("lost");
                }
            }
            System.out.println("small-stores " + (resident() - before));
        }
        try (TopologyTestDriver driver = open(arguments[0] + "/one", 1)) {
            KeyValueStore<Bytes, byte[]> store = driver.getKeyValueStore("store0");
            long time = System.nanoTime();
            List<KeyValue<Bytes, byte[]>> batch = new ArrayList<>();
            for (long n = 0; n < records; n++) {
                byte[] key = new byte[16];
                random.nextBytes(key);
                random.nextBytes(value);
                batch.add(KeyValue.pair(Bytes.wrap(key), value.clone()));
                if (batch.size() == 1000 || n + 1 == records) {
                    store.putAll(batch);
                    batch.clear();
                }
            }
            store.flush();
            System.out.println("restore " + records * 116 * 1_000_000_000L / 1024 / (System.nanoTime() - time));
        }
        System.exit(0);
    }
}
