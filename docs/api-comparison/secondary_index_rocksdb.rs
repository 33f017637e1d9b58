//! Users by id and by e-mail address in one batch, with rust-rocksdb.

use rocksdb::{DB, Error, IteratorMode, Options, PrefixRange, ReadOptions, WriteBatch};

struct Users {
    db: DB,
}

impl Users {
    fn open(directory: std::ffi::OsString) -> Result<Users, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        Ok(Users { db: DB::open_cf(&options, directory, ["by_email"])? })
    }

    fn by_email(&self) -> &rocksdb::ColumnFamily {
        self.db.cf_handle("by_email").expect("opened with it")
    }

    fn set_email(&self, id: u32, email: &str) -> Result<(), Error> {
        let mut batch = WriteBatch::default();
        if let Some(old) = self.db.get(id.to_be_bytes())? {
            batch.delete_cf(self.by_email(), old);
        }
        batch.put(id.to_be_bytes(), email);
        batch.put_cf(self.by_email(), email, id.to_be_bytes());
        self.db.write(batch)
    }

    fn find(&self, email: &str) -> Result<Option<u32>, Error> {
        let id = self.db.get_cf(self.by_email(), email)?;
        Ok(id.and_then(|id| id.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))))
    }
}

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/rocksdb-secondary-index".into());
    let users = Users::open(directory)?;
    users.set_email(1, "ada@example.org")?;
    users.set_email(2, "grace@example.org")?;
    users.set_email(1, "lovelace@example.org")?;
    for email in ["ada@example.org", "grace@example.org", "lovelace@example.org"] {
        println!("{email}: {:?}", users.find(email)?);
    }
    let mut prefix = ReadOptions::default();
    prefix.set_iterate_range(PrefixRange("l"));
    let with_l = users.db.iterator_cf_opt(users.by_email(), prefix, IteratorMode::Start).count();
    println!("{with_l} address begins with l");
    Ok(())
}
