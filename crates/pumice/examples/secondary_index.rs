//! Users by id, and an index by e-mail address in a column family of its own: one batch writes
//! both, so that neither is ever without the other.
//!
//! `cargo run --release -p pumice --example secondary_index [DIRECTORY]`

use pumice::{ColumnFamily, Db, Error, Result, WriteBatch};

struct Users {
    db: Db,
    by_email: ColumnFamily,
}

impl Users {
    fn open(directory: std::ffi::OsString) -> Result<Users> {
        let db = Db::builder(directory).create(true).column_families(["by_email"]).open()?;
        let by_email = db.column_family("by_email").ok_or(Error::corruption("no index"))?;
        Ok(Users { db, by_email })
    }

    /// Sets the address of a user; the index loses the one before.
    fn set_email(&self, id: u32, email: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        if let Some(old) = self.db.get(id.to_be_bytes())? {
            batch.delete_cf(&self.by_email, old);
        }
        batch.put(id.to_be_bytes(), email);
        batch.put_cf(&self.by_email, email, id.to_be_bytes());
        self.db.write(&mut batch)
    }

    fn find(&self, email: &str) -> Result<Option<u32>> {
        let id = self.db.get_cf(&self.by_email, email)?;
        Ok(id.and_then(|id| id.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))))
    }
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/pumice-secondary-index".into());
    let users = Users::open(directory)?;
    users.set_email(1, "ada@example.org")?;
    users.set_email(2, "grace@example.org")?;
    users.set_email(1, "lovelace@example.org")?;
    for email in ["ada@example.org", "grace@example.org", "lovelace@example.org"] {
        println!("{email}: {:?}", users.find(email)?);
    }
    let with_l = users.db.prefix_cf(&users.by_email, "l")?.count();
    println!("{with_l} address begins with l");
    users.db.close()
}
