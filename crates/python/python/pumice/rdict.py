"""A database as a dict of Python values, for users of rocksdict.

Keys and values are ``bytes``, ``str``, ``int``, ``float`` or ``bool``; values may be anything else
that ``pickle`` takes, if the dict was opened with ``pickles=True``: a pickle that somebody else has
written runs their code when it is read.

On disk a key or value is a tag byte and its bytes. Keys of one type are in the order of Python:

=====  =====  ==============================================================================
tag    type   bytes
=====  =====  ==============================================================================
0x01   bytes  as they are
0x02   str    UTF-8
0x03   int    0x80 plus the number of bytes, and the bytes, big-endian; a negative number has
              0x80 minus the number of bytes of its absolute value, and these bytes inverted
0x04   float  IEEE 754, big-endian; the sign bit flipped, all bits for a negative number
0x05   bool   0x00 or 0x01
0x06   other  a pickle (values only)
=====  =====  ==============================================================================

>>> import tempfile
>>> directory = tempfile.TemporaryDirectory()
>>> with Rdict(directory.name + "/db") as numbers:
...     numbers[10] = "ten"
...     numbers[-3] = 2.5
...     numbers["name"] = True
...     list(numbers.items())
[('name', True), (-3, 2.5), (10, 'ten')]
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from os import PathLike
from typing import Any

from ._pumice import DB

_BYTES, _STR, _INT, _FLOAT, _BOOL, _PICKLE = 1, 2, 3, 4, 5, 6
_LONGEST_INT = 127


def _encode_int(number: int) -> bytes:
    size = (abs(number).bit_length() + 7) // 8
    if size > _LONGEST_INT:
        raise ValueError(f"an int of more than {_LONGEST_INT} bytes")
    digits = abs(number).to_bytes(size, "big")
    if number < 0:
        return bytes([_INT, 0x80 - size]) + bytes(255 - digit for digit in digits)
    return bytes([_INT, 0x80 + size]) + digits


def _encode_float(number: float) -> bytes:
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    bits ^= (1 << 64) - 1 if bits >> 63 else 1 << 63
    return bytes([_FLOAT]) + struct.pack(">Q", bits)


def encode(value: Any, pickles: bool = False) -> bytes:
    """The bytes of a key or value."""
    # bool is an int.
    if isinstance(value, bool):
        return bytes([_BOOL, value])
    if isinstance(value, bytes):
        return bytes([_BYTES]) + value
    if isinstance(value, str):
        return bytes([_STR]) + value.encode()
    if isinstance(value, int):
        return _encode_int(value)
    if isinstance(value, float):
        return _encode_float(value)
    if pickles:
        return bytes([_PICKLE]) + pickle.dumps(value)
    raise TypeError(f"{type(value).__name__} needs a dict with pickles=True, and is no key")


def decode(data: bytes, pickles: bool = False) -> Any:
    """The key or value that the bytes stand for."""
    tag, rest = data[:1], data[1:]
    if tag == b"\x01":
        return rest
    if tag == b"\x02":
        return rest.decode()
    if tag == b"\x03" and rest:
        size, digits = rest[0] - 0x80, rest[1:]
        if size < 0:
            digits = bytes(255 - digit for digit in digits)
        if len(digits) == abs(size):
            number = int.from_bytes(digits, "big")
            return -number if size < 0 else number
    if tag == b"\x04" and len(rest) == 8:
        (bits,) = struct.unpack(">Q", rest)
        bits ^= 1 << 63 if bits >> 63 else (1 << 64) - 1
        return struct.unpack(">d", struct.pack(">Q", bits))[0]
    if tag == b"\x05" and rest in (b"\x00", b"\x01"):
        return rest == b"\x01"
    if tag == b"\x06":
        if pickles:
            return pickle.loads(rest)
        raise ValueError("a pickle: open the dict with pickles=True if you trust who wrote it")
    raise ValueError(f"not written by Rdict: {data[:16]!r}")


class Rdict:
    """A persistent dict; see the module for what it holds."""

    def __init__(
        self,
        path: str | PathLike[str],
        options: dict[str, Any] | None = None,
        *,
        pickles: bool = False,
        **modes: Any,
    ) -> None:
        self.db = DB(path, options, **modes)
        self._pickles = pickles

    def __getitem__(self, key: Any) -> Any:
        value = self.db.get(encode(key))
        if value is None:
            raise KeyError(key)
        return decode(value, self._pickles)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.db.put(encode(key), encode(value, self._pickles))

    def __delitem__(self, key: Any) -> None:
        self.db.delete(encode(key))

    def __contains__(self, key: Any) -> bool:
        return encode(key) in self.db

    def __iter__(self) -> Iterator[Any]:
        return self.keys()

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        value = self.db.get(encode(key))
        return default if value is None else decode(value, self._pickles)

    def keys(self, from_key: Any = None, backwards: bool = False) -> Iterator[Any]:
        """The keys, from ``from_key`` on; backwards down to it."""
        for key in self.db.keys(self._start(from_key), reverse=backwards):
            yield decode(key)

    def values(self, from_key: Any = None, backwards: bool = False) -> Iterator[Any]:
        """The values, see ``keys``."""
        for value in self.db.values(self._start(from_key), reverse=backwards):
            yield decode(value, self._pickles)

    def items(self, from_key: Any = None, backwards: bool = False) -> Iterator[tuple[Any, Any]]:
        """The entries, see ``keys``."""
        for key, value in self.db.items(self._start(from_key), reverse=backwards):
            yield decode(key), decode(value, self._pickles)

    @staticmethod
    def _start(key: Any) -> bytes | None:
        return None if key is None else encode(key)

    def flush(self) -> None:
        """Writes everything from memory into table files."""
        self.db.flush()

    def close(self) -> None:
        """Closes the database; later writes fail."""
        self.db.close()

    def __enter__(self) -> Rdict:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
