//! The reads that every handle has, see [`forms`](super).

/// Reads of keys.
macro_rules! read_forms {
    () => {
        $crate::db::forms::forms! {
            /// The value of `key`, or None.
            ///
            /// # Errors
            /// Corruption and I/O errors of files that were read; Incomplete with `cache_only`;
            /// InvalidArgument for a snapshot or a column family of another database.
            get get_cf get_opt get_cf_opt: Store::get, ReadOptions = READ_DEFAULT;
            (key: impl AsRef<[u8]> => key.as_ref()) -> Result<Option<PinnedSlice>>
        }
        $crate::db::forms::forms_of_many! {
            /// The values of `keys`, all as of one moment, in their order. See [`Self::get`] for
            /// errors.
            multi_get multi_get_cf multi_get_opt multi_get_cf_opt: Store::multi_get;
            -> Result<Option<PinnedSlice>>
        }
        $crate::db::forms::forms! {
            /// The columns of `key`: those of an entity ([`Self::put_entity`]), or one, with the
            /// empty name, of a plain value.
            ///
            /// # Errors
            /// As [`Self::get`]; NotSupported for an entity with columns in blob files.
            get_entity get_entity_cf get_entity_opt get_entity_cf_opt:
            Store::get_entity, ReadOptions = READ_DEFAULT;
            (key: impl AsRef<[u8]> => key.as_ref()) -> Result<Option<PinnedColumns>>
        }
        $crate::db::forms::forms_of_many! {
            /// The columns of `keys`, all as of one moment, in their order. See
            /// [`Self::get_entity`] for errors.
            multi_get_entity multi_get_entity_cf multi_get_entity_opt multi_get_entity_cf_opt:
            Store::multi_get_entity;
            -> Result<Option<PinnedColumns>>
        }
        $crate::db::forms::forms! {
            /// What the value of `key` is to be merged from, in the order of application: the value
            /// below the operands, if there is one (the default column of an entity), then the
            /// operands, oldest first. Nothing is merged; what a flush or a compaction has merged
            /// already is one value or one operand. Empty if there is no such key.
            ///
            /// `number_of_operands` becomes the number found, also if that is more than `how`
            /// expects.
            ///
            /// # Errors
            /// Incomplete ([`crate::SubCode::MergeOperandsInsufficientCapacity`]) if there are more
            /// than `expected_max_number_of_operands`; InvalidArgument for operands without a merge
            /// operator; otherwise as [`Self::get`].
            get_merge_operands get_merge_operands_cf get_merge_operands_opt
            get_merge_operands_cf_opt:
            Store::get_merge_operands, ReadOptions = READ_DEFAULT;
            (
                key: impl AsRef<[u8]> => key.as_ref(),
                how: &GetMergeOperandsOptions<'_> => how,
                number_of_operands: &mut usize => number_of_operands
            ) -> Result<Vec<PinnedSlice>>
        }
        $crate::db::forms::forms! {
            /// False if `key` is certainly not there, as far as memory, filters and cached blocks
            /// show: no file is read. True means that the key may exist.
            ///
            /// # Errors
            /// As [`Self::get`], but for Incomplete, which is true.
            key_may_exist key_may_exist_cf key_may_exist_opt key_may_exist_cf_opt:
            $crate::db::forms::key_may_exist, ReadOptions = READ_DEFAULT;
            (key: impl AsRef<[u8]> => key.as_ref()) -> Result<bool>
        }
        $crate::db::forms::forms! {
            /// [`Self::key_may_exist`], and the value if it was found on the way: then the key
            /// exists.
            ///
            /// # Errors
            /// As [`Self::key_may_exist`].
            key_may_exist_value key_may_exist_cf_value key_may_exist_opt_value
            key_may_exist_cf_opt_value:
            $crate::db::forms::key_may_exist_value, ReadOptions = READ_DEFAULT;
            (key: impl AsRef<[u8]> => key.as_ref()) -> Result<(bool, Option<PinnedSlice>)>
        }
    };
}
pub(crate) use read_forms;

/// Reads of entries in their order.
macro_rules! cursor_forms {
    () => {
        $crate::db::forms::forms! {
            /// A cursor over the default column family, not yet positioned.
            ///
            /// # Errors
            /// I/O errors of opening table files; InvalidArgument for a snapshot or a column family
            /// of another database.
            cursor cursor_cf cursor_opt cursor_cf_opt: Store::cursor, ReadOptions = READ_DEFAULT;
            () -> Result<<Self as Store>::Cursor>
        }
        $crate::db::forms::forms! {
            /// The keys and values of the default column family in key order, from both ends,
            /// within the bounds of the options if they are given. An item may be an error, see
            /// [`Entries`].
            ///
            /// # Errors
            /// As [`Self::cursor`].
            iter iter_cf iter_opt iter_cf_opt:
            $crate::db::forms::entries, ReadOptions = READ_DEFAULT;
            () -> Result<Entries<<Self as Store>::Cursor>>
        }
        $crate::db::forms::forms! {
            /// [`Self::iter`] of the keys in `range`.
            ///
            /// # Errors
            /// As [`Self::cursor`]; InvalidArgument if there are bounds in the options, too.
            range range_cf range_opt range_cf_opt:
            $crate::db::forms::limited, ReadOptions = READ_DEFAULT, <K: AsRef<[u8]>>;
            (range: impl KeyBounds<K> => Limits::of(&range))
            -> Result<Entries<<Self as Store>::Cursor>>
        }
        $crate::db::forms::forms! {
            /// [`Self::iter`] of the keys that begin with `prefix`.
            ///
            /// # Errors
            /// As [`Self::range`]; NotSupported with a user's comparator, in whose order such keys
            /// may lie anywhere.
            prefix prefix_cf prefix_opt prefix_cf_opt:
            $crate::db::forms::with_prefix, ReadOptions = READ_DEFAULT;
            (prefix: impl AsRef<[u8]> => prefix.as_ref())
            -> Result<Entries<<Self as Store>::Cursor>>
        }
    };
}
pub(crate) use cursor_forms;
