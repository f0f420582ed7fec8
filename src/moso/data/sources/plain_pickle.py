"""Read a pickle of plain containers and numpy arrays without executing it.

A pickle is a program. This reader gives it no function to call: the globals that numpy writes for an array are replaced
by stand-ins that only store their arguments, and any other global is refused by name.

Hand-made, although mirrors of CIFAR in Parquet exist: the official archive is what people have, and it needs no
network.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from moso import errors
from moso.errors import MosoError


class _Token:
    """Stands for a class that is passed as an argument; it has no attribute that a pickle could set."""

    __slots__ = ()


class _Type:
    """Stands for `numpy.dtype(...)`."""

    __slots__ = ("code",)

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else str(code)

    def __setstate__(self, state: Any) -> None:
        # Byte order and fields, which the allowed types do not need.
        pass


class _Array:
    """Stands for an array under construction."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: np.ndarray[Any, Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, content = state
        self.value = _from_bytes(content, kind, shape, "F" if fortran else "C")


_PLAIN_TYPES = {"u1", "i1", "i4", "i8", "f4", "f8", "b1"}


def _from_bytes(content: Any, kind: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    if not isinstance(kind, _Type) or kind.code not in _PLAIN_TYPES:
        raise ValueError("an array of other things than numbers")
    return np.frombuffer(bytes(content), dtype=f"<{kind.code}").reshape(shape, order=order)


class _Blank:
    """Stands for numpy's `_reconstruct`, which makes an empty array whose state is set later."""

    __slots__ = ()

    def __call__(self, *_: Any) -> _Array:
        return _Array()


class _FromBuffer:
    """Stands for numpy's `_frombuffer`, which newer pickles use."""

    __slots__ = ()

    def __call__(self, content: Any, kind: Any, shape: Any, order: Any) -> _Array:
        array = _Array()
        array.value = _from_bytes(content, kind, shape, order)
        return array


class _MakeType:
    __slots__ = ()

    def __call__(self, code: Any, *rest: Any) -> _Type:
        return _Type(code, *rest)


class _Latin1:
    """Stands for `_codecs.encode`, with which Python 3 writes bytes for Python 2."""

    __slots__ = ()

    def __call__(self, text: Any, encoding: Any = "latin1") -> bytes:
        return str(text).encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Token(),
    ("numpy", "dtype"): _MakeType(),
    ("_codecs", "encode"): _Latin1(),
    **{(f"{core}.multiarray", "_reconstruct"): _Blank() for core in ("numpy.core", "numpy._core")},
    **{(f"{core}.numeric", "_frombuffer"): _FromBuffer() for core in ("numpy.core", "numpy._core")},
}


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, path: Path, stream: Any) -> None:
        super().__init__(stream, encoding="bytes")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise errors.FileUnsafe(
                f"{self._path} asks for {module}.{name}, which no data file needs; it was not run, "
                "and the file should not be trusted"
            ) from None


def read_plain_pickle(path: Path) -> Any:
    """Read the containers and arrays of a pickle; byte strings of Python 2 stay bytes, including dictionary keys.

    Raises:
        FileUnsafe: The pickle asks for a global other than those of numpy arrays.
        FileUnreadable: The file cannot be read, is cut off or is not a pickle of plain data.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "batch"
        >>> _ = path.write_bytes(pickle.dumps({b"labels": [3, 5], b"data": np.zeros((2, 4), dtype=np.uint8)}))
        >>> read_plain_pickle(path)[b"data"].shape
        (2, 4)
    """
    try:
        with path.open("rb") as stream:
            loaded = _PlainUnpickler(path, stream).load()
        return _arrays(loaded)
    except MosoError:
        raise
    except OSError as problem:
        raise errors.FileUnreadable(f"{path} cannot be read: {problem.strerror or problem}") from problem
    except Exception as problem:
        # The unpickler may raise any exception for wrong bytes.
        raise errors.FileUnreadable(f"{path} is cut off or is not a pickle of plain data ({problem})") from problem


def _arrays(value: Any, done: dict[int, Any] | None = None) -> Any:
    """Return the same containers with arrays in place of their stand-ins.

    Args:
        value: What was unpickled, which must outlive the call.
        done: What each container became, so that one that occurs many times is taken once; None while it is taken.
    """
    done = {} if done is None else done
    if isinstance(value, _Array):
        if value.value is None:
            raise ValueError("an array without content")
        return value.value
    if not isinstance(value, dict | list | tuple):
        return value
    if id(value) in done:
        if done[id(value)] is None:
            raise ValueError("a container that holds itself")
        return done[id(value)]
    done[id(value)] = None
    found: Any
    if isinstance(value, dict):
        found = {_arrays(name, done): _arrays(part, done) for name, part in value.items()}
    else:
        found = type(value)(_arrays(part, done) for part in value)
    done[id(value)] = found
    return found
