"""Strategies: numbers and texts that people and programs get wrong, damage to bytes, files of every kind."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from PIL import Image

NUMBERS = st.one_of(
    st.integers(-(10**25), 10**25),
    st.integers(-3, 30),
    st.floats(),
    st.sampled_from([2**31, 2**63 - 1, 2**63, 2**64, 10**400, 1e308, -0.0, float("nan"), float("inf")]),
)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", " ", "nan", "inf", "1e999", "true", "None", "[]", "{}", "=1+1", "-", "--", "%", "40%", "..", "/"]
    ),
    st.sampled_from(
        ["9" * 5000, "a" * 5000, "\u202e", "\x00", "\ud800", "é" * 300, "../../etc/passwd", "a:b", ":", "?", "x?y"]
    ),
)
VALUES = st.recursive(
    st.one_of(NUMBERS, TEXTS, st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def as_flag(value: object) -> str:
    """A value as an argument of a command, which can hold no NUL and no lone surrogate."""
    return str(value).replace("\x00", "").encode("utf-8", "replace").decode()


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """Bytes with a few bits flipped, a part cut, zeroed, doubled or replaced."""
    found = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        if not found:
            break
        place = draw(st.integers(0, len(found) - 1))
        end = min(len(found), place + draw(st.integers(1, 64)))
        match draw(st.sampled_from(["flip", "cut", "zero", "double", "replace", "end"])):
            case "flip":
                found[place] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del found[place:end]
            case "zero":
                found[place:end] = bytes(end - place)
            case "double":
                found[place:place] = found[place:end]
            case "replace":
                found[place:end] = draw(st.binary(max_size=64))
            case "end":
                del found[place:]
    return bytes(found)


def picture(size: int = 4) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (size, size), (9, 9, 9)).save(stream, "PNG")
    return stream.getvalue()


@st.composite
def columns(draw, rows: int = 6) -> pa.Array:
    kind = draw(
        st.sampled_from(["whole", "number", "text", "truth", "bytes", "image", "list", "struct", "null", "date"])
    )
    own = {
        "whole": st.integers(-2, 3),
        "number": st.floats(),
        "text": st.sampled_from(["cat", "dog", "", "=1", "é"]),
        "truth": st.booleans(),
        "bytes": st.binary(max_size=8),
        "image": st.just(picture()),
        "list": st.lists(st.floats(width=32), max_size=3),
        "struct": st.fixed_dictionaries(
            {"bytes": st.none() | st.just(picture()), "path": st.sampled_from(["a.png", "../b", "/etc/passwd"])}
        ),
        "null": st.none(),
        "date": st.dates(),
    }[kind]
    return pa.array(draw(st.lists(own | st.none() if draw(st.booleans()) else own, min_size=rows, max_size=rows)))


NAMES = st.sampled_from(["label", "labels", "target", "id", "score", "kept", "image", "x", "y", "", "decision", "text"])


@st.composite
def tables(draw, rows: int = 6) -> pa.Table:
    names = draw(st.lists(NAMES, min_size=1, max_size=4))
    return pa.Table.from_arrays([draw(columns(rows)) for _ in names], names)


@st.composite
def parquet_files(draw, rows: int = 6) -> bytes:
    stream = io.BytesIO()
    pq.write_table(draw(tables(rows)), stream)
    content = stream.getvalue()
    return draw(damaged(content)) if draw(st.booleans()) else content


@st.composite
def array_files(draw) -> bytes:
    shape = tuple(draw(st.lists(st.integers(0, 7), max_size=3)))
    stream = io.BytesIO()
    if draw(st.booleans()):
        np.save(stream, np.zeros(shape, draw(st.sampled_from(["i8", "f4", "?", "U3", "M8[D]", "c8", "V4", "u1"]))))
    else:
        claimed = tuple(draw(st.lists(st.integers(0, 10**16), max_size=2)))
        np.lib.format.write_array_header_1_0(stream, {"descr": "<i8", "fortran_order": False, "shape": claimed})
        stream.write(draw(st.binary(max_size=64)))
    content = stream.getvalue()
    return draw(damaged(content)) if draw(st.booleans()) else content


LINES = st.lists(
    st.lists(st.one_of(TEXTS, st.integers(-2, 9).map(str), NAMES), max_size=4).map(",".join), max_size=8
).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass"))
TABLE_FILES = st.one_of(
    st.tuples(st.just(".csv"), LINES),
    st.tuples(st.just(".txt"), LINES),
    st.tuples(st.just(".csv"), st.binary(max_size=60)),
    st.tuples(st.just(".parquet"), parquet_files()),
    st.tuples(st.just(".npy"), array_files()),
    st.tuples(st.just(".npz"), array_files()),
    st.tuples(st.just(".tsv"), LINES),
)
