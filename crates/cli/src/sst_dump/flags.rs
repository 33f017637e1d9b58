//! The flags of `sst_dump`, and what its help says of them. Thread safety: constants.

use super::recompress;
use crate::arguments::Known;

pub const USAGE: &str = "\
sst_dump --file=<data_dir_OR_sst_file> [--command=check|scan|raw|verify|recompress|identify]
    --file=<data_dir_OR_sst_file>
      Path to SST file or directory containing SST files; more of them may follow as plain words

    --command=check|scan|raw|verify|recompress|identify|none
        check: Iterate over entries in files but don't print anything except if an error is
               encountered (default command)
        scan: Iterate over entries in files and print them to screen
        raw: Dump all the table contents to <file_name>_dump.txt
        verify: Iterate all the blocks in files verifying checksum to detect possible corruption
        recompress: Build the tables again in memory with other codecs and say how large they get
        identify: Say whether a file is a table, or which files of a directory are
        none: Only what the flags below ask for

    --output_hex        Keys and values as hexadecimal digits
    --json              With recompress: what is measured, as one JSON document
    --input_key_hex     --from, --to and --prefix are 0x and hexadecimal digits
    --from=<user_key>   Key to start reading from when executing check|scan
    --to=<user_key>     Key to stop reading before when executing check|scan
    --prefix=<user_key> Only keys with this prefix when executing check|scan; not beside --from
    --read_num=<num>    Maximum number of entries to read when executing check|scan
    --show_properties   Print table properties after iterating over the file
    --show_summary      Print the sums of all files
    --list_meta_blocks  Print names, offsets and sizes of the meta blocks
    --show_sequence_number_type  With raw: sequence number and type of each entry
    --decode_blob_index With scan: where values in blob files are, in words
    --require_property_regex=<regex>, --exclude_property_regex=<regex>
                        Only files whose properties, as --show_properties prints them, match, or
                        do not match
    --parse_internal_key=<0xKEY>  Print what an internal key is made of, and nothing else
    --verify_checksum   Verify checksums while reading (always done)
    --readahead_size=<bytes>  How much is read ahead when executing check|scan (2097152)
    --env_uri=<name>, --fs_uri=<name>  The environment or file system: posix is all there is

    With --command=recompress:
    --compression_types=<list>   Codecs to try, for instance kZSTD,kLZ4Compression
    --compression_level=<n>      Level of the codecs
    --compression_strategy=<n>   Strategy of zlib, 0 to 4; a hint that has no effect
    --compression_manager=<name> BuiltinV2, RoundRobinManager, AutoSkipCompressorManager or
                                 CostAwareCompressorManager
    --enable_index_compression=<bool>  Index blocks are compressed, too (true)
    --compression_level_from=<n> --compression_level_to=<n>
                                 Several levels of one codec
    --block_size=<bytes>, --set_block_size=<bytes>
                                 Size of data blocks (16384)
    --compression_max_dict_bytes, --compression_zstd_max_train_bytes,
    --compression_max_dict_buffer_bytes, --compression_use_zstd_finalize_dict
                                 Dictionaries
    --compression_parallel_threads=<n>  Threads that compress
    --compression_max_compressed_bytes_per_kb=<n>
                                 Blocks of 1024 bytes that do not get this small stay as they are
    --compression_auto_skip=<bool>  Data blocks are not tried while they do not get that small on
                                 average (false)
    --compression_auto_skip_min_sample_every=<n>
                                 One of so many is tried then; 0 is 64
    --block_based_table_options=<name=value;..>
                                 Options of the tables, as in an OPTIONS file
    --verify_compression         Decompress every block and compare
";

pub const KNOWN: Known<'_> = Known {
    switches: &[
        &[
            "output_hex",
            "input_key_hex",
            "show_properties",
            "show_summary",
            "json",
            "verify_checksum",
            "list_meta_blocks",
            "show_sequence_number_type",
            "decode_blob_index",
        ],
        recompress::SWITCHES,
    ],
    values: &[
        &[
            "file",
            "command",
            "env_uri",
            "fs_uri",
            "from",
            "to",
            "prefix",
            "read_num",
            "require_property_regex",
            "exclude_property_regex",
            "readahead_size",
        ],
        recompress::VALUES,
    ],
};
