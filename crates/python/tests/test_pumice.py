"""The package from outside: as a dict, as RocksDB, from threads, and its documents."""

import ast
import doctest
import pathlib
import threading

import pumice
import pytest
from pumice import rdict


@pytest.fixture
def db(tmp_path):
    with pumice.DB(tmp_path / "db") as db:
        yield db


def test_a_dict(db):
    db[b"a"] = b"1"
    db[bytearray(b"b")] = memoryview(b"2")
    assert db[b"a"] == b"1" and db[memoryview(b"b")] == b"2"
    assert b"a" in db and b"c" not in db and list(db) == [b"a", b"b"]
    assert dict(db.items()) == {b"a": b"1", b"b": b"2"}
    del db[b"a"]
    for missing in (lambda: db[b"a"], lambda: db.__delitem__(b"a")):
        with pytest.raises(KeyError) as error:
            missing()
        assert error.value.args == (b"a",)
    assert db.get(b"a") is None and db.get(b"a", 7) == 7


def test_arguments_are_bytes(db):
    for call in (lambda: db.get("a"), lambda: db.put(b"a", 1), lambda: db.items(start=5)):
        with pytest.raises(TypeError, match="are bytes, not"):
            call()


def test_bytes_come_back_as_they_were(db):
    every = bytes(range(256)) * 300
    db[b""] = b""
    db[every[:1000]] = every
    assert db[b""] == b"" and db[every[:1000]] == every


def test_scans(db):
    keys = [b"%04d" % i for i in range(1000)]
    for key in reversed(keys):
        db[key] = key[::-1]
    assert list(db.keys()) == keys
    assert list(db.keys(reverse=True)) == keys[::-1]
    assert list(db.keys(b"0100", b"0200")) == keys[100:200]
    assert list(db.keys(b"0100", b"0200", reverse=True)) == keys[100:200][::-1]
    assert list(db.values(prefix=b"00")) == [key[::-1] for key in keys[:100]]
    with pytest.raises(ValueError, match="prefix goes without bounds"):
        db.items(b"a", prefix=b"b")
    # A scan sees the state in which it began.
    scan = db.items()
    db.delete_range(b"0", b"1")
    assert sum(1 for _ in scan) == 1000 and list(db) == []


def test_multi_get_is_in_order(db):
    db[b"a"], db[b"c"] = b"1", b"3"
    assert db.multi_get([b"c", b"b", b"a"]) == [b"3", None, b"1"]


def test_batches_and_families(db):
    users = db.create_column_family("users", {"write_buffer_size": 1 << 20})
    batch = pumice.WriteBatch()
    batch.put(b"k", b"v")
    batch.put(b"k", b"u", users)
    batch.delete(b"gone")
    assert len(batch) == 3
    db.write(batch, sync=True)
    assert db[b"k"] == b"v" and users[b"k"] == b"u" and users.name == "users"
    batch.clear()
    assert len(batch) == 0
    with pytest.raises(KeyError):
        db.column_family("nobody")
    db.drop_column_family(users)
    with pytest.raises((pumice.Error, KeyError)):
        db.column_family("users")[b"k"]


def test_snapshots_are_only_read(db):
    db[b"a"] = b"1"
    before = db.snapshot()
    db[b"a"] = b"2"
    assert before[b"a"] == b"1" and before.multi_get([b"a"]) == [b"1"]
    assert list(before.items()) == [(b"a", b"1")] and db[b"a"] == b"2"
    assert before.sequence_number < db.latest_sequence_number()
    with pytest.raises(TypeError, match="only read"):
        before[b"a"] = b"3"


def test_it_is_there_after_closing(tmp_path):
    with pumice.DB(tmp_path / "db", {"compression": "kZSTD", "max_open_files": 100}) as db:
        db.create_column_family("other")[b"k"] = b"v"
        db.flush()
        db.checkpoint(tmp_path / "copy")
    # Reads answer from the last state; writes fail.
    assert db.get(b"k") is None
    with pytest.raises(pumice.Error, match="[Ss]hutdown"):
        db[b"k"] = b"v"
    assert pumice.DB.list_column_families(tmp_path / "db") == ["default", "other"]
    with pumice.DB(tmp_path / "copy", read_only=True) as copy:
        assert copy.column_family("other")[b"k"] == b"v"
        with pytest.raises(pumice.Error):
            copy[b"k"] = b"v"
    pumice.DB.destroy(tmp_path / "db")
    with pytest.raises((pumice.Error, ValueError)):
        pumice.DB(tmp_path / "db", create_if_missing=False)


def test_errors_name_what_is_wrong(tmp_path):
    with pytest.raises((pumice.Error, ValueError), match="nonsense"):
        pumice.DB(tmp_path / "db", {"nonsense": 1})
    with pumice.DB(tmp_path / "db") as db:
        with pytest.raises(pumice.Error, match="LOCK|lock"):
            pumice.DB(tmp_path / "db")
        assert db.property("rocksdb.nonsense") is None
        assert db.property("rocksdb.num-files-at-level0") == "0"


def test_damage_is_told(tmp_path):
    with pumice.DB(tmp_path / "db", {"compression": "kNoCompression"}) as db:
        db[b"k"] = b"v" * 10_000
        db.flush()
    (table,) = (tmp_path / "db").glob("*.sst")
    damaged = bytearray(table.read_bytes())
    damaged[5_000] ^= 1
    table.write_bytes(damaged)
    with pumice.DB(tmp_path / "db") as db, pytest.raises(pumice.Corruption, match="sst"):
        db[b"k"]
    with pytest.raises(pumice.Error):
        pumice.DB.repair(tmp_path / "nowhere")


def test_threads_write_together(db):
    def write(at):
        for i in range(500):
            db.put(b"%d-%d" % (at, i), b"x" * i, sync=False)

    threads = [threading.Thread(target=write, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(1 for _ in db) == 4000


def test_threads_share_an_iterator(db):
    for i in range(2000):
        db[b"%05d" % i] = b""
    scan, taken, lock = db.keys(), [], threading.Lock()

    def take():
        mine = list(scan)
        with lock:
            taken.extend(mine)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [b"%05d" % i for i in range(2000)]


def test_the_gil_is_released(tmp_path):
    """A thread that waits for the database lets another Python thread run: the writer of a batch is
    held up by nothing but the other thread's progress."""
    with pumice.DB(tmp_path / "db") as db:
        reached = threading.Event()
        seen = []

        def other():
            reached.wait()
            seen.append(db.get(b"k"))

        thread = threading.Thread(target=other)
        thread.start()
        db[b"k"] = b"v"
        reached.set()
        while not seen:
            db.sync_wal()
        thread.join()
        assert seen == [b"v"]


ORDERED = [
    [-(1 << 1000), -65536, -257, -256, -255, -1, 0, 1, 127, 128, 255, 256, 65535, 1 << 1000],
    [float("-inf"), -1.5, -1e-300, 0.0, 1e-300, 2.5, float("inf")],
    ["", "a", "a\0", "b", "\u00e9", "\U0001f600"],
    [b"", b"\0", b"a", b"\xff"],
    [False, True],
]


@pytest.mark.parametrize("values", ORDERED)
def test_encoded_keys_are_in_order(values):
    encoded = [rdict.encode(value) for value in values]
    assert sorted(encoded) == encoded and len(set(encoded)) == len(encoded)
    assert [rdict.decode(data) for data in encoded] == values
    assert [type(rdict.decode(data)) for data in encoded] == [type(value) for value in values]


def test_rdict_holds_python_values(tmp_path):
    with pumice.Rdict(tmp_path / "db", pickles=True) as values:
        values["x"], values[3], values[2.5] = {"a": [1]}, None, True
        assert values["x"] == {"a": [1]} and values[3] is None and values[2.5] is True
        assert list(values.keys()) == ["x", 3, 2.5]
        assert list(values.keys(3, backwards=True)) == [2.5, 3]
        assert values.get("y", 5) == 5 and "y" not in values
    with pumice.Rdict(tmp_path / "db") as values:
        with pytest.raises(ValueError, match="if you trust"):
            values["x"]
        with pytest.raises(TypeError, match="pickles=True"):
            values["z"] = [1]
        del values["x"]
        assert "x" not in values


@pytest.mark.parametrize("data", [b"", b"\x03", b"\x03\x82\x01", b"\x04\x00", b"\x05\x02", b"\x09a"])
def test_foreign_bytes_are_refused(data):
    with pytest.raises(ValueError):
        rdict.decode(data)


@pytest.mark.parametrize("module", [pumice, rdict])
def test_the_documents_hold(module):
    failed, tried = doctest.testmod(module)
    assert failed == 0 and tried > 0


def test_the_stubs_name_everything():
    stub = pathlib.Path(pumice.__file__).with_name("_pumice.pyi")
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ClassDef) and hasattr(pumice, node.name):
            kind = getattr(pumice, node.name)
            stubbed = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            own = {name for name in vars(kind) if not name.startswith("__")}
            assert own <= stubbed, (node.name, own - stubbed)
            assert all(hasattr(kind, name) for name in stubbed)
