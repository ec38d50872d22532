"""The data of LeNet: the digits of the course, IDX files that are right and wrong, the download."""

from __future__ import annotations

import gzip
import hashlib

import numpy as np
import pooch
import pytest

from backwarp.lenet import data
from backwarp.lenet.data import BOX, MNIST, SIDE, DataError, load, read_idx

IMAGES = np.random.default_rng(0).integers(0, 256, (12, SIDE, SIDE), np.uint8)
LABELS = np.arange(12, dtype=np.uint8) % 10


def idx(array, count=None, magic=None):
    """An IDX file's bytes; count, magic: what the header says instead."""
    shape = (len(array) if count is None else count, *array.shape[1:])
    head = bytes((0, 0, 8, array.ndim)) if magic is None else magic
    return head + b"".join(n.to_bytes(4, "big") for n in shape) + array.tobytes()


@pytest.fixture
def folder(tmp_path):
    """The four files, two of them packed."""
    for i, name in enumerate(MNIST):
        raw = idx(IMAGES if "images" in name else LABELS)
        if i % 2:
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(raw))
        else:
            (tmp_path / name).write_bytes(raw)
    return tmp_path


HELD_OUT = "729dd643d4070f78"  # of the SHA-256 of its labels


# ---- digits ------------------------------------------------------------------------------------------------


def test_the_digits_and_the_fifth_that_is_held_out():
    digits = load()
    assert digits.train_images.shape == (1438, 1, SIDE, SIDE) and digits.test_images.shape == (
        359,
        1,
        SIDE,
        SIDE,
    )
    assert digits.train_images.dtype == digits.test_images.dtype == np.float32
    assert set(np.bincount(digits.test_labels)) <= {35, 36, 37} and digits.train_labels.dtype == np.int32
    assert abs(digits.train_images.mean()) < 1e-5 and digits.train_images.std() == pytest.approx(1, abs=1e-5)
    seen = {image.tobytes() for image in digits.train_images}
    assert not any(image.tobytes() in seen for image in digits.test_images)
    held_out = hashlib.sha256(digits.test_labels.astype("<i4").tobytes()).hexdigest()
    assert held_out.startswith(HELD_OUT), (
        "the held-out fifth is another one: figures are no longer comparable"
    )


def test_digits_are_placed_as_in_mnist():
    digits = load()
    ink = digits.test_images[:, 0] - digits.background
    extents = []
    for axis in (1, 2):
        mass = ink.sum(axis=3 - axis)
        centre = mass @ np.arange(SIDE) / mass.sum(1)
        assert np.abs(centre - (SIDE - 1) / 2).max() <= 0.5 + 1e-5
        lines = ink.any(axis=3 - axis)
        extents.append(SIDE - lines.argmax(1) - lines[:, ::-1].argmax(1))
    assert (np.maximum(*extents) == BOX).all()


def test_ink_is_centred_by_hand():
    image = np.zeros((4, 4))
    image[0, 0], image[1, 0] = 3, 1  # two rows, one column: 20 x 10 after scaling
    out = data.centred(image)
    rows, columns = np.flatnonzero(out.any(1)), np.flatnonzero(out.any(0))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (6, 25, 9, 18)  # the centre of mass is at row 13.5
    assert (out[6:11, 9:19] == 3).all() and (out[21:26, 9:19] == 1).all() and out.max() == 3
    assert not data.centred(np.zeros((8, 8))).any()


# ---- files -------------------------------------------------------------------------------------------------


def test_a_folder_of_idx_files(folder):
    found = load("mnist", folder)
    assert found.name == "mnist" and found.train_images.shape == (12, 1, SIDE, SIDE)
    expected = (IMAGES - IMAGES.mean()) / IMAGES.std()
    np.testing.assert_allclose(found.test_images[:, 0], expected, atol=1e-5)
    assert np.array_equal(found.train_labels, LABELS)


WRONG = {
    "cut in the header": (3, lambda a: idx(a)[:9], r"is truncated: its header has 9 of 16 bytes"),
    "empty": (3, lambda a: b"", r"is truncated: its header has 0 of 16 bytes"),
    "cut in the data": (3, lambda a: idx(a)[:-1], r"is truncated: it has 9407 of 9408 bytes; fetch it again"),
    "a byte too many": (
        3,
        lambda a: idx(a) + b"\0",
        r"continues past the 12 items that its header announces",
    ),
    "more promised than there is": (
        3,
        lambda a: idx(a, count=13),
        r"is truncated: it has 9408 of 10192 bytes",
    ),
    "less promised than there is": (3, lambda a: idx(a, count=11), r"continues past the 11 items"),
    "nothing promised": (3, lambda a: idx(a, count=0), r"announces 0 images; it must be from 1 to 1,000,000"),
    "too much promised": (3, lambda a: idx(a, count=2**32 - 1), r"announces 4,294,967,295 images"),
    "labels for images": (
        3,
        lambda a: idx(LABELS),
        r"not an IDX file of images: it starts with 00 00 08 01, not 00 00 08 03",
    ),
    "images for labels": (1, lambda a: idx(IMAGES), r"not an IDX file of labels: it starts with 00 00 08 03"),
    "32-bit numbers": (3, lambda a: idx(a, magic=b"\0\0\x0c\3"), r"it starts with 00 00 0c 03"),
    "a web page": (
        3,
        lambda a: b"<!DOCTYPE html><html>404</html>",
        r"it starts with 3c 21 44 4f, not 00 00 08 03",
    ),
    "other images": (3, lambda a: idx(a[:, :27]), r"has images of 27 x 28 pixels; LeNet takes 28 x 28"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize(("axes", "content", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_refused_in_a_sentence(tmp_path, axes, content, says, packed):
    raw = content(IMAGES)
    path = tmp_path / ("file.gz" if packed else "file")
    path.write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.raises(DataError, match=says):
        read_idx(path, axes)


def packed_zeros(count):
    """A packed file that promises one image, and unpacks to `count` of zeros."""
    return gzip.compress(idx(np.zeros((1, SIDE, SIDE), np.uint8)) + bytes(count * SIDE * SIDE))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (gzip.compress(idx(IMAGES))[:-9], "is truncated; fetch it again"),
        (gzip.compress(idx(IMAGES))[:200], "is truncated; fetch it again"),
        (idx(IMAGES), "is not a gzip file, or damaged"),
        (gzip.compress(idx(IMAGES))[:300] + b"\xff" * 300, "is not a gzip file, or damaged|is truncated"),
        (packed_zeros(20_000), "continues past the 1 items"),
    ],
)
def test_a_packed_file_that_is_damaged(tmp_path, content, says):
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=says):
        read_idx(path, 3)


def test_files_that_are_missing_or_no_files(folder, tmp_path):
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_idx(folder, 3)
    with pytest.raises(DataError, match="nowhere is not a folder; it should hold train-images-idx3-ubyte, "):
        load("mnist", tmp_path / "nowhere")
    name = next(iter(MNIST))
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"has no {name} and no {name}.gz"):
        load("mnist", folder)


def test_images_and_labels_of_two_sets(folder):
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS[:11])))
    with pytest.raises(DataError, match=r"train-\*: 12 images, but 11 labels; they belong to different sets"):
        load("mnist", folder)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS + 17)))
    with pytest.raises(DataError, match="label 26; LeNet has the classes 0 to 9"):
        load("mnist", folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cifar", "no data set 'cifar'; there is digits and mnist"),
        ("digits", "--data-dir goes with --data mnist"),
    ],
)
def test_names_and_folders_that_do_not_fit(folder, name, says):
    with pytest.raises(DataError, match=says):
        load(name, folder)


# ---- download ----------------------------------------------------------------------------------------------


@pytest.fixture
def mirrors(folder, monkeypatch, tmp_path_factory):
    """Two mirrors that are folders of this machine, called `good` and `bad`; `bad` is asked first."""
    for name in MNIST:
        packed = folder / f"{name}.gz"
        if not packed.exists():
            packed.write_bytes(gzip.compress((folder / name).read_bytes()))
        monkeypatch.setitem(MNIST, name, hashlib.sha256(packed.read_bytes()).hexdigest())
    monkeypatch.setattr(data, "MIRRORS", ("bad:", "good:"))
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path_factory.mktemp("cache")))
    asked, bad = [], {"does": OSError("no route to host")}

    class Fetch:
        def __init__(self, **_):
            pass

        def __call__(self, url, output, _):
            asked.append(url)
            if url.startswith("bad:") and isinstance(bad["does"], Exception):
                raise bad["does"]
            raw = (folder / url.split(":")[1]).read_bytes()
            with open(output, "wb") as file:
                file.write(bad["does"] if url.startswith("bad:") else raw)

    monkeypatch.setattr(pooch, "HTTPDownloader", Fetch)
    return asked, bad


@pytest.mark.parametrize(
    "does",
    [OSError("no route to host"), ValueError("404"), b"a page that says: log in first"],
    ids=["no network", "not found", "another file"],
)
def test_what_one_mirror_does_not_have_comes_from_the_next_and_is_kept(mirrors, does):
    asked, bad = mirrors
    bad["does"] = does
    found = load("mnist")
    assert np.array_equal(found.test_labels, LABELS) and len(asked) == 8
    asked.clear()
    assert np.array_equal(load("mnist").train_images, found.train_images) and not asked


def test_no_mirror_has_it(mirrors, monkeypatch):
    monkeypatch.setattr(data, "MIRRORS", ("bad:", "bad:again/"))
    with pytest.raises(DataError) as told:
        load("mnist")
    lines = str(told.value).splitlines()
    assert lines[0] == "train-images-idx3-ubyte.gz cannot be downloaded:" and len(lines) == 4
    assert "no route to host" in lines[1] and "--data-dir" in lines[-1]
