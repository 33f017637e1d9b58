import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;

/** StoreBench FOLDER KEYS CALLS: puts, gets and ranges of Kafka Streams' persistent store with its defaults. */
public class StoreBench {
    static class Nothing implements Processor<Bytes, byte[], Void, Void> {
        @Override public void process(Record<Bytes, byte[]> record) { }
    }

    public static void main(String[] arguments) throws Exception {
        int keys = Integer.parseInt(arguments[1]), calls = Integer.parseInt(arguments[2]);
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "bench");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[0] + "/state");
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("store"), Serdes.Bytes(), Serdes.ByteArray()).withLoggingDisabled());
        builder.stream("topic", Consumed.with(Serdes.Bytes(), Serdes.ByteArray())).process(Nothing::new, "store");
        byte[] value = new byte[100];
        Bytes[] key = new Bytes[keys];
        Random random = new Random(1);
        for (int i = 0; i < keys; i++) {
            byte[] bytes = new byte[16];
            random.nextBytes(bytes);
            key[i] = Bytes.wrap(bytes);
        }
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties)) {
            KeyValueStore<Bytes, byte[]> store = driver.getKeyValueStore("store");
            for (int i = 0; i < keys; i++) store.put(key[i], value);
            Bench.measure("kafka-get", calls, i -> { if (store.get(key[(i * 7919) % keys]).length != 100) throw new AssertionError("lost"); });
            Bench.measure("kafka-put", calls, i -> store.put(key[(i * 7919) % keys], value));
            Bench.measure("kafka-batch100", calls / 50, i -> {
                List<KeyValue<Bytes, byte[]>> batch = new ArrayList<>();
                for (int n = 0; n < 100; n++) batch.add(KeyValue.pair(key[(i * 100 + n) % keys], value));
                store.putAll(batch);
            });
            Bench.measure("kafka-range50", calls / 20, i -> {
                try (KeyValueIterator<Bytes, byte[]> it = store.range(key[(i * 7919) % keys], null)) {
                    for (int n = 0; n < 50 && it.hasNext(); n++) it.next();
                }
            });
        }
        System.exit(0);
    }
}
