// What every program has in the place of Rust's `?`: an error ends it.
#pragma once

#include <cstdlib>
#include <iostream>

#include "rocksdb/status.h"

inline void Check(const rocksdb::Status& status) {
  if (!status.ok()) {
    std::cerr << status.ToString() << "\n";
    std::exit(1);
  }
}
