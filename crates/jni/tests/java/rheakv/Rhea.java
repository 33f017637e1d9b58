import com.alipay.sofa.jraft.*;
import com.alipay.sofa.jraft.conf.Configuration;
import com.alipay.sofa.jraft.core.CliServiceImpl;
import com.alipay.sofa.jraft.entity.PeerId;
import com.alipay.sofa.jraft.option.CliOptions;
import com.alipay.sofa.jraft.rhea.client.DefaultRheaKVStore;
import com.alipay.sofa.jraft.rhea.options.*;
import com.alipay.sofa.jraft.rhea.options.configured.*;
import com.alipay.sofa.jraft.rhea.storage.StorageType;
import com.alipay.sofa.jraft.util.Endpoint;
import java.io.*;
import java.util.*;
import java.util.concurrent.atomic.*;

/**
 * node PORT FOLDER SERVERS: a RheaKV store, whose Raft log and data are in RocksDB's library.
 *
 * client SERVERS HISTORY SEED: threads that read and write, and write down what they asked and what came back: a line
 * "KEY CALL RETURN KIND VALUE", times in nanoseconds of one clock, RETURN "-" if nobody knows whether it happened.
 * Nothing is asked twice. Compare-and-put is left out: of two that RheaKV applies in one batch both may be true, with
 * RocksDB's library too. It prints "ops N" as it goes, and takes commands from its input: transfer, remove ADDRESS, add
 * ADDRESS, stop.
 */
public class Rhea {
    static final String CLUSTER = "pumice", GROUP = CLUSTER + "--1";
    static final int THREADS = 4, SLOTS = 6, OPS_OF_KEY = 150, TELL = 50, UNKNOWN_OF_KEY = 3;

    static RheaKVStoreOptions options(String servers, StoreEngineOptions engine) {
        var routes = MultiRegionRouteTableOptionsConfigured.newConfigured().withInitialServerList(-1L, servers).config();
        var driver = PlacementDriverOptionsConfigured.newConfigured().withFake(true).withRegionRouteTableOptionsList(routes).config();
        var options = RheaKVStoreOptionsConfigured.newConfigured().withClusterName(CLUSTER).withInitialServerList(servers)
            .withPlacementDriverOptions(driver).withFailoverRetries(0).withFutureTimeoutMillis(3000).withOnlyLeaderRead(true);
        if (engine != null) options.withStoreEngineOptions(engine);
        return options.config();
    }

    static void node(int port, String folder, String servers) throws Exception {
        var engine = StoreEngineOptionsConfigured.newConfigured().withStorageType(StorageType.RocksDB)
            .withRocksDBOptions(RocksDBOptionsConfigured.newConfigured().withDbPath(folder + "/data").config())
            .withRaftDataPath(folder + "/raft").withServerAddress(new Endpoint("127.0.0.1", port)).config();
        DefaultRheaKVStore store = new DefaultRheaKVStore();
        if (!store.init(options(servers, engine))) throw new IllegalStateException("the store does not start");
        System.out.println("up");
        Thread.sleep(Long.MAX_VALUE);
    }

    static final AtomicLong done = new AtomicLong(), unknown = new AtomicLong();
    static final AtomicLongArray epochs = new AtomicLongArray(SLOTS), asked = new AtomicLongArray(SLOTS), lost = new AtomicLongArray(SLOTS);
    static volatile boolean stop;

    static String text(byte[] value) { return value == null ? "nil" : new String(value); }

    /** Without retries nobody else asks who the leader is now. */
    static synchronized void find(DefaultRheaKVStore store) {
        try {
            Thread.sleep(20);
            store.getPlacementDriverClient().getLeader(-1L, true, 1000);
        } catch (Throwable e) {
            // There is none yet.
        }
    }

    static void load(DefaultRheaKVStore store, PrintWriter history, long seed, int thread) {
        Random random = new Random(seed * 31 + thread);
        long count = 0;
        while (!stop) {
            int slot = random.nextInt(SLOTS);
            String key = "k" + slot + "-" + epochs.get(slot);
            byte[] value = (thread + "." + count++).getBytes();
            boolean reads = random.nextBoolean();
            String line;
            long call = System.nanoTime();
            try {
                if (reads) {
                    line = "get " + text(store.bGet(key));
                } else {
                    line = "put " + text(value);
                    if (!store.bPut(key, value)) throw new IllegalStateException("put");
                }
                long end = System.nanoTime();
                synchronized (history) { history.println(key + " " + call + " " + end + " " + line); }
                long all = done.incrementAndGet();
                if (all % TELL == 0) System.out.println("ops " + all);
            } catch (Throwable e) {
                unknown.incrementAndGet();
                // A read that gave nothing says nothing.
                if (!reads) {
                    synchronized (history) { history.println(key + " " + call + " - put " + text(value)); }
                    lost.incrementAndGet(slot);
                }
                find(store);
            }
            // Short histories, with few that are open, are quickly judged.
            if (asked.incrementAndGet(slot) >= OPS_OF_KEY || lost.get(slot) >= UNKNOWN_OF_KEY) {
                asked.set(slot, 0);
                lost.set(slot, 0);
                epochs.incrementAndGet(slot);
            }
        }
    }

    static String command(CliService cli, Configuration servers, String[] words) {
        Configuration all = new Configuration(servers);
        switch (words[0]) {
            case "transfer": {
                PeerId leader = new PeerId();
                if (!cli.getLeader(GROUP, all, leader).isOk()) return "no leader";
                for (PeerId peer : cli.getAlivePeers(GROUP, all)) {
                    if (!peer.equals(leader)) return cli.transferLeader(GROUP, all, peer).isOk() ? "ok" : "refused";
                }
                return "nobody else";
            }
            case "remove": return cli.removePeer(GROUP, all, PeerId.parsePeer(words[1])).isOk() ? "ok" : "refused";
            case "add": return cli.addPeer(GROUP, all, PeerId.parsePeer(words[1])).isOk() ? "ok" : "refused";
            default: return "unknown command";
        }
    }

    static void client(String servers, String file, long seed) throws Exception {
        DefaultRheaKVStore store = new DefaultRheaKVStore();
        if (!store.init(options(servers, null))) throw new IllegalStateException("the client does not start");
        CliServiceImpl cli = new CliServiceImpl();
        cli.init(new CliOptions());
        Configuration conf = new Configuration();
        conf.parse(servers);
        PrintWriter history = new PrintWriter(new BufferedWriter(new FileWriter(file)));
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int thread = i;
            threads.add(new Thread(() -> load(store, history, seed, thread)));
            threads.get(i).start();
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null && !line.equals("stop"); line = input.readLine()) {
            String answer;
            try {
                answer = command(cli, conf, line.split(" "));
            } catch (Throwable e) {
                answer = "failed " + e.getClass().getSimpleName();
            }
            System.out.println("answer " + answer);
        }
        stop = true;
        for (Thread thread : threads) thread.join();
        history.close();
        System.out.println("end " + done.get() + " " + unknown.get());
        System.exit(0);
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("node")) node(Integer.parseInt(arguments[1]), arguments[2], arguments[3]);
        else client(arguments[1], arguments[2], Long.parseLong(arguments[3]));
    }
}
