//! The writes that every handle has, see [`forms`](super).

macro_rules! write_forms {
    () => {
        $crate::db::forms::forms! {
            /// Sets `key` to `value`.
            ///
            /// # Errors
            /// As [`Self::write`].
            put put_cf put_opt put_cf_opt: Store::put, WriteOptions = WRITE_DEFAULT;
            (key: impl AsRef<[u8]> => key.as_ref(), value: impl AsRef<[u8]> => value.as_ref())
            -> Result<()>
        }
        $crate::db::forms::forms! {
            /// Sets `key` to the entity with these `columns`, names and values in any order. The
            /// column with the empty name is the default one, which [`Self::get`] returns; see
            /// [`Self::get_entity`].
            ///
            /// # Errors
            /// As [`Self::write`]; Corruption, as in RocksDB, if two columns have one name.
            put_entity put_entity_cf put_entity_opt put_entity_cf_opt:
            Store::put_encoded_entity, WriteOptions = WRITE_DEFAULT,
            <N: AsRef<[u8]>, V: AsRef<[u8]>>;
            (
                key: impl AsRef<[u8]> => key.as_ref(),
                columns: impl IntoIterator<Item = (N, V)> => &encode_pairs(columns)?
            ) -> Result<()>
        }
        $crate::db::forms::forms! {
            /// Deletes `key`; it need not exist.
            ///
            /// # Errors
            /// As [`Self::write`].
            delete delete_cf delete_opt delete_cf_opt: Store::delete, WriteOptions = WRITE_DEFAULT;
            (key: impl AsRef<[u8]> => key.as_ref()) -> Result<()>
        }
        $crate::db::forms::forms! {
            /// Deletes `key`, which was put once and not merged since it was last deleted.
            ///
            /// # Errors
            /// As [`Self::write`].
            single_delete single_delete_cf single_delete_opt single_delete_cf_opt:
            Store::single_delete, WriteOptions = WRITE_DEFAULT;
            (key: impl AsRef<[u8]> => key.as_ref()) -> Result<()>
        }
        $crate::db::forms::forms! {
            /// Adds a merge operand to `key`.
            ///
            /// # Errors
            /// As [`Self::write`]; NotSupported without a merge operator.
            merge merge_cf merge_opt merge_cf_opt: Store::merge, WriteOptions = WRITE_DEFAULT;
            (key: impl AsRef<[u8]> => key.as_ref(), operand: impl AsRef<[u8]> => operand.as_ref())
            -> Result<()>
        }
        $crate::db::forms::forms! {
            /// Deletes every key in `[begin, end)`.
            ///
            /// # Errors
            /// As [`Self::write`]; InvalidArgument if `end` sorts before `begin`.
            delete_range delete_range_cf delete_range_opt delete_range_cf_opt:
            Store::delete_range, WriteOptions = WRITE_DEFAULT;
            (begin: impl AsRef<[u8]> => begin.as_ref(), end: impl AsRef<[u8]> => end.as_ref())
            -> Result<()>
        }
        /// Applies a batch atomically.
        ///
        /// # Errors
        /// InvalidArgument for an invalid batch, including one with updates for handles of another
        /// database; Incomplete if `no_slowdown` and writes are stalled; IoError of the log, after
        /// which writes fail until [`Db::resume`](crate::Db::resume); ShutdownInProgress while
        /// closing. On error the batch is not applied at all, unless the log device failed while
        /// syncing: then a reopen decides.
        pub fn write(&self, updates: &mut WriteBatch) -> Result<()> {
            Store::write(self, &WRITE_DEFAULT, updates)
        }
        /// [`Self::write`] with options.
        ///
        /// # Errors
        /// As there.
        pub fn write_opt(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
            Store::write(self, options, updates)
        }
    };
}
pub(crate) use write_forms;
