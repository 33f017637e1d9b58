// Users by id and by e-mail address in one batch, with RocksDB.

#include <endian.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "rocksdb/db.h"

using namespace rocksdb;

class Users {
 public:
  static Status Open(const std::string& directory, Users* users) {
    DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> families = {
        {kDefaultColumnFamilyName, ColumnFamilyOptions()}, {"by_email", ColumnFamilyOptions()}};
    return DB::Open(options, directory, families, &users->families_, &users->db_);
  }

  Status Close() {
    for (ColumnFamilyHandle* family : families_) Check(db_->DestroyColumnFamilyHandle(family));
    return db_->Close();
  }

  Status SetEmail(uint32_t id, const std::string& email) {
    WriteBatch batch;
    std::string old;
    Status status = db_->Get(ReadOptions(), Id(id), &old);
    if (status.ok()) {
      Check(batch.Delete(by_email(), old));
    } else if (!status.IsNotFound()) {
      return status;
    }
    Check(batch.Put(Id(id), email));
    Check(batch.Put(by_email(), email, Id(id)));
    return db_->Write(WriteOptions(), &batch);
  }

  Status Find(const std::string& email, std::optional<uint32_t>* id) {
    id->reset();
    std::string value;
    Status status = db_->Get(ReadOptions(), by_email(), email, &value);
    if (status.ok() && value.size() == sizeof(uint32_t)) {
      uint32_t bytes;
      std::memcpy(&bytes, value.data(), sizeof(bytes));
      *id = be32toh(bytes);
    }
    return status.IsNotFound() ? Status::OK() : status;
  }

  Status CountPrefix(const Slice& prefix, size_t* count) {
    *count = 0;
    std::unique_ptr<Iterator> it(db_->NewIterator(ReadOptions(), by_email()));
    for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix); it->Next()) ++*count;
    return it->status();
  }

 private:
  static std::string Id(uint32_t id) {
    id = htobe32(id);
    return std::string(reinterpret_cast<const char*>(&id), sizeof(id));
  }

  ColumnFamilyHandle* by_email() { return families_[1]; }

  std::unique_ptr<DB> db_;
  std::vector<ColumnFamilyHandle*> families_;
};

int main(int argc, char** argv) {
  Users users;
  Check(Users::Open(argc > 1 ? argv[1] : "/tmp/rocksdb-secondary-index", &users));
  Check(users.SetEmail(1, "ada@example.org"));
  Check(users.SetEmail(2, "grace@example.org"));
  Check(users.SetEmail(1, "lovelace@example.org"));
  for (const char* email : {"ada@example.org", "grace@example.org", "lovelace@example.org"}) {
    std::optional<uint32_t> id;
    Check(users.Find(email, &id));
    std::cout << email << ": " << (id ? std::to_string(*id) : "none") << "\n";
  }
  size_t with_l;
  Check(users.CountPrefix("l", &with_l));
  std::cout << with_l << " address begins with l\n";
  Check(users.Close());
}
