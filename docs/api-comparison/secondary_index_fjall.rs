//! Users by id and by e-mail address in one batch, with fjall.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, Result};

struct Users {
    db: Database,
    users: Keyspace,
    by_email: Keyspace,
}

impl Users {
    fn open(directory: std::ffi::OsString) -> Result<Users> {
        let db = Database::builder(directory).open()?;
        let users = db.keyspace("users", KeyspaceCreateOptions::default)?;
        let by_email = db.keyspace("by_email", KeyspaceCreateOptions::default)?;
        Ok(Users { db, users, by_email })
    }

    fn set_email(&self, id: u32, email: &str) -> Result<()> {
        let mut batch = self.db.batch();
        if let Some(old) = self.users.get(id.to_be_bytes())? {
            batch.remove(&self.by_email, old);
        }
        batch.insert(&self.users, id.to_be_bytes(), email);
        batch.insert(&self.by_email, email, id.to_be_bytes());
        batch.commit()
    }

    fn find(&self, email: &str) -> Result<Option<u32>> {
        let id = self.by_email.get(email)?;
        Ok(id.and_then(|id| id.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))))
    }
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("/tmp/fjall-secondary-index".into());
    let users = Users::open(directory)?;
    users.set_email(1, "ada@example.org")?;
    users.set_email(2, "grace@example.org")?;
    users.set_email(1, "lovelace@example.org")?;
    for email in ["ada@example.org", "grace@example.org", "lovelace@example.org"] {
        println!("{email}: {:?}", users.find(email)?);
    }
    let with_l = users.by_email.prefix("l").count();
    println!("{with_l} address begins with l");
    Ok(())
}
