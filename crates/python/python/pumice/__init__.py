"""An embedded ordered key-value store with RocksDB's files.

A database is a mapping from bytes to bytes in the order of the keys:

>>> import pumice, tempfile
>>> directory = tempfile.TemporaryDirectory()
>>> db = pumice.DB(directory.name + "/db", {"write_buffer_size": "8MB"})
>>> db[b"apple"] = b"green"
>>> db[b"banana"] = b"yellow"
>>> db[b"apple"]
b'green'
>>> b"cherry" in db, db.get(b"cherry"), db.get(b"cherry", b"none")
(False, None, b'none')
>>> list(db.items(b"a", b"c"))
[(b'apple', b'green'), (b'banana', b'yellow')]

Several updates that take effect together, and a view that later writes do not change:

>>> before = db.snapshot()
>>> batch = pumice.WriteBatch()
>>> batch.put(b"cherry", b"red")
>>> batch.delete(b"apple")
>>> db.write(batch, sync=True)
>>> list(db.keys(reverse=True)), list(before)
([b'cherry', b'banana'], [b'apple', b'banana'])

Column families, checkpoints, and closing:

>>> users = db.create_column_family("users")
>>> users[b"1"] = b"Ada"
>>> db.checkpoint(directory.name + "/copy")
>>> pumice.DB.list_column_families(directory.name + "/copy")
['default', 'users']
>>> db.close()
>>> with pumice.DB(directory.name + "/copy", read_only=True) as copy:
...     copy.column_family("users")[b"1"]
b'Ada'

Options have RocksDB's names. Keys and values are ``bytes`` or anything with a buffer; ``Rdict``
takes other Python values. Calls that may wait release the GIL.
"""

from ._pumice import (
    DB,
    ColumnFamily,
    Corruption,
    Error,
    Scan,
    Snapshot,
    Store,
    WriteBatch,
    __version__,
)
from .rdict import Rdict

__all__ = [
    "DB",
    "ColumnFamily",
    "Corruption",
    "Error",
    "Rdict",
    "Scan",
    "Snapshot",
    "Store",
    "WriteBatch",
    "__version__",
]
