import java.io.File;
import java.util.*;
import org.rocksdb.*;

/** Options that are read back from the OPTIONS files of a database. */
public class Loaded {
    static byte[] b(String text) { return text.getBytes(); }
    static void say(Object... parts) { Data.say(parts); }

    static void show(DBOptions db, List<ColumnFamilyDescriptor> families) throws Exception {
        say("database", db.createIfMissing(), db.maxOpenFiles(), db.maxBackgroundJobs(), db.bytesPerSync(), db.maxTotalWalSize());
        for (ColumnFamilyDescriptor family : families) {
            ColumnFamilyOptions options = family.getOptions();
            say("family", new String(family.getName()), options.writeBufferSize(), options.numLevels(), options.compressionType(), options.compactionStyle());
            BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
            say("table", table.blockSize(), table.formatVersion(), table.indexType(), table.checksumType(), table.blockRestartInterval(),
                table.cacheIndexAndFilterBlocks(), table.pinL0FilterAndIndexBlocksInCache(), table.dataBlockIndexType(),
                table.dataBlockHashTableUtilRatio(), table.metadataBlockSize(), table.partitionFilters(), table.wholeKeyFiltering(),
                table.filterPolicy() == null ? "no filter" : table.filterPolicy().getClass().getSimpleName(), table.indexShortening(), table.useDeltaEncoding());
        }
    }

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        String path = args[0] + "/loaded";
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        BlockBasedTableConfig table = new BlockBasedTableConfig().setBlockSize(8192).setFormatVersion(5).setIndexType(IndexType.kTwoLevelIndexSearch)
            .setChecksumType(ChecksumType.kxxHash64).setBlockRestartInterval(9).setCacheIndexAndFilterBlocks(true).setPinL0FilterAndIndexBlocksInCache(true)
            .setDataBlockIndexType(DataBlockIndexType.kDataBlockBinaryAndHash).setDataBlockHashTableUtilRatio(0.5).setMetadataBlockSize(2048)
            .setPartitionFilters(true).setFilterPolicy(new BloomFilter(12.5)).setUseDeltaEncoding(false);
        try (ColumnFamilyOptions one = new ColumnFamilyOptions(); ColumnFamilyOptions other = new ColumnFamilyOptions()
                 .setWriteBufferSize(2 << 20).setNumLevels(3).setCompressionType(CompressionType.NO_COMPRESSION)
                 .setCompactionStyle(CompactionStyle.UNIVERSAL).setTableFormatConfig(table);
             DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true).setMaxOpenFiles(77)
                 .setMaxBackgroundJobs(3).setBytesPerSync(4096).setMaxTotalWalSize(1 << 20);
             RocksDB db = RocksDB.open(options, path, Arrays.asList(
                 new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, one), new ColumnFamilyDescriptor(b("two"), other)), handles)) {
            db.put(handles.get(1), b("k"), b("v"));
            for (ColumnFamilyHandle handle : handles) handle.close();
        }
        List<ColumnFamilyDescriptor> families = new ArrayList<>();
        try (ConfigOptions how = new ConfigOptions(); DBOptions found = new DBOptions()) {
            OptionsUtil.loadLatestOptions(how, path, found, families);
            show(found, families);
            String name = OptionsUtil.getLatestOptionsFileName(path, Env.getDefault());
            say("name", name.startsWith("OPTIONS-"), new File(path, name).isFile());
            List<ColumnFamilyDescriptor> again = new ArrayList<>();
            try (DBOptions same = new DBOptions()) {
                OptionsUtil.loadOptionsFromFile(how, path + "/" + name, same, again);
                show(same, again);
            }
            handles.clear();
            try (RocksDB db = RocksDB.open(found, path, families, handles)) {
                say("opened", new String(db.get(handles.get(1), b("k"))));
                for (ColumnFamilyHandle handle : handles) handle.close();
            }
            String empty = args[0] + "/empty";
            new File(empty).mkdirs();
            Data.fails("no file", () -> OptionsUtil.loadLatestOptions(how, empty, new DBOptions(), new ArrayList<>()));
            Data.fails("no name", () -> OptionsUtil.getLatestOptionsFileName(empty, Env.getDefault()));
            Data.fails("no directory", () -> OptionsUtil.loadLatestOptions(how, empty + "/none", new DBOptions(), new ArrayList<>()));
            Data.fails("missing file", () -> OptionsUtil.loadOptionsFromFile(how, empty + "/OPTIONS-000001", new DBOptions(), new ArrayList<>()));
        }
    }
}
