import java.io.File;
import java.util.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeutils.base.*;
import org.apache.flink.runtime.state.*;
import org.apache.flink.state.rocksdb.*;

/** StateBench FOLDER KEYS CALLS: Flink's value, map and list state on its RocksDB backend with the settings of its own tests. */
public class StateBench {
    static <S extends State> S state(RocksDBKeyedStateBackend<Long> backend, StateDescriptor<S, ?> descriptor) throws Exception {
        return backend.getPartitionedState(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, descriptor);
    }

    public static void main(String[] arguments) throws Exception {
        int keys = Integer.parseInt(arguments[1]), calls = Integer.parseInt(arguments[2]);
        KeyGroupRange groups = new KeyGroupRange(0, 1);
        RocksDBKeyedStateBackend<Long> backend =
            RocksDBTestUtils.builderForTestDefaults(new File(arguments[0]), LongSerializer.INSTANCE, 2, groups, Collections.emptyList()).build();
        String text = "v".repeat(100);
        ValueState<String> value = state(backend, new ValueStateDescriptor<>("value", StringSerializer.INSTANCE));
        MapState<Long, String> map = state(backend, new MapStateDescriptor<>("map", LongSerializer.INSTANCE, StringSerializer.INSTANCE));
        ListState<Long> list = state(backend, new ListStateDescriptor<>("list", LongSerializer.INSTANCE));
        Random random = new Random(1);
        long[] key = random.longs(keys).toArray();
        int maps = Math.max(1, keys / 50);
        for (int i = 0; i < keys; i++) {
            backend.setCurrentKey(key[i]);
            value.update(text);
            backend.setCurrentKey(key[i % maps]);
            map.put((long) (i / maps), text);
        }
        Bench.measure("flink-value-get", calls, i -> {
            backend.setCurrentKey(key[(i * 7919) % keys]);
            if (value.value().length() != 100) throw new AssertionError("lost");
        });
        Bench.measure("flink-value-put", calls, i -> {
            backend.setCurrentKey(key[(i * 7919) % keys]);
            value.update(text);
        });
        Bench.measure("flink-map-get", calls, i -> {
            backend.setCurrentKey(key[(i * 7919) % maps]);
            if (map.get((long) (i % 50)) == null) throw new AssertionError("lost");
        });
        Bench.measure("flink-map-put", calls, i -> {
            backend.setCurrentKey(key[(i * 7919) % maps]);
            map.put((long) (i % 50), text);
        });
        Bench.measure("flink-map-scan50", calls / 20, i -> {
            backend.setCurrentKey(key[(i * 7919) % maps]);
            int count = 0;
            for (Map.Entry<Long, String> entry : map.entries()) count += entry.getValue().length();
            if (count != 50 * 100) throw new AssertionError("lost: " + count);
        });
        Bench.measure("flink-list-add", calls, i -> {
            backend.setCurrentKey(key[(i * 7919) % maps]);
            list.add((long) i);
        });
        Bench.measure("flink-list-get", calls / 20, i -> {
            backend.setCurrentKey(key[(i * 7919) % maps]);
            if (!list.get().iterator().hasNext()) throw new AssertionError("lost");
        });
        backend.dispose();
        System.exit(0);
    }
}
