"""Handwritten digits for LeNet: 28 x 28 pixels, a training part and a part that is never trained on.

`digits` comes with the course (digits.txt names the source). `mnist` is downloaded once, or read from a
folder: the four IDX files, plain or gzipped. Other data sets in the same format work too.
"""

from __future__ import annotations

import gzip
import math
import zlib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from ..devices.store import cache_root, session_directory
from ..errors import BackwarpError

SIDE, BOX = 28, 20  # pixels of an image, and of the box that a digit fills
NAMES = ("digits", "mnist")
MOST_IMAGES = 1_000_000  # a larger number in an IDX header is rejected

MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
# file without .gz: SHA-256 of the file with .gz
MNIST = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


class DataError(BackwarpError):
    """A data file is missing or invalid; the message names it and the remedy."""


@dataclass(frozen=True)
class Data:
    """Images (n, 1, 28, 28) float32 with mean 0 and deviation 1 over the training part; labels (n,) int32."""

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    @cached_property
    def background(self) -> np.float32:
        """The value of a background pixel."""
        return self.train_images.min()


def load(name: str = "digits", folder: Path | None = None) -> Data:
    """The data set `name`, from `folder` if one is given. Errors: DataError."""
    if name == "digits" and folder is None:
        return digits()
    if name not in NAMES or name == "digits":
        raise DataError(
            f"there is no data set {name!r}; there is {' and '.join(NAMES)}"
            if name not in NAMES
            else "--data-dir goes with --data mnist; the digits come with the course"
        )
    return mnist(folder)


# ---- digits ------------------------------------------------------------------------------------------


@cache
def digits() -> Data:
    """The 1,797 digits that come with the course; the arrays are read-only."""
    with np.load(Path(__file__).with_name("digits.npz")) as stored:
        small, labels, held_out = stored["images"], stored["labels"], stored["held_out"]
    images = np.stack([centred(image) for image in small])
    data = standardised("digits", images[~held_out], labels[~held_out], images[held_out], labels[held_out])
    for array in (data.train_images, data.train_labels, data.test_images, data.test_labels):
        array.flags.writeable = False
    return data


def centred(image: np.ndarray) -> np.ndarray:
    """An image prepared like MNIST's: the ink scaled to 20 x 20, its centre of mass in the middle of 28 x 28.

    The result has the range of the input, float64.
    """
    rows, columns = np.flatnonzero(image.any(1)), np.flatnonzero(image.any(0))
    if not rows.size:
        return np.zeros((SIDE, SIDE))
    ink = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].astype(np.float64)
    scale = BOX / max(ink.shape)
    height, width = (max(1, round(n * scale)) for n in ink.shape)
    ink = interpolation(ink.shape[0], height) @ ink @ interpolation(ink.shape[1], width).T
    top, left = (placed(ink.sum(1 - axis), SIDE) for axis in (0, 1))
    out = np.zeros((SIDE, SIDE))
    out[top : top + height, left : left + width] = ink
    return out


@cache  # for only a few sizes
def interpolation(n: int, m: int) -> np.ndarray:
    """The matrix (m, n) that stretches n pixels to m, linearly between their centres."""
    at = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
    return np.maximum(0, 1 - np.abs(at[:, np.newaxis] - np.arange(n)))


def placed(mass: np.ndarray, side: int) -> int:
    """Where a line of pixels with this mass must start for its centre of mass to be in the middle of
    `side`."""
    middle = np.arange(len(mass)) @ mass / mass.sum()
    return min(max(round((side - 1) / 2 - middle), 0), side - len(mass))


def standardised(name, train_images, train_labels, test_images, test_labels) -> Data:
    """Images float32 (N, 1, H, W), with mean 0 and deviation 1 over the training ones; labels int32."""
    mean, deviation = train_images.mean(dtype=np.float64), train_images.std(dtype=np.float64) or 1.0

    def images(pixels):
        return ((pixels - mean) / deviation).astype(np.float32)[:, np.newaxis]

    return Data(
        name,
        images(train_images),
        train_labels.astype(np.int32),
        images(test_images),
        test_labels.astype(np.int32),
    )


# ---- MNIST -------------------------------------------------------------------------------------------


def mnist(folder: Path | None = None) -> Data:
    """MNIST from `folder`, or downloaded into the cache. Errors: DataError."""
    parts = []
    for name in MNIST:
        path = found(folder, name) if folder else downloaded(name)
        parts.append(read_idx(path, axes=3 if "images" in name else 1))
    for images, labels, files in ((*parts[:2], "train-*"), (*parts[2:], "t10k-*")):
        where = f"{folder or 'the cache'}, {files}"
        if len(images) != len(labels):
            raise DataError(
                f"{where}: {len(images)} images, but {len(labels)} labels; they belong to different sets"
            )
        if labels.max() > 9:
            raise DataError(f"{where}: label {labels.max()}; LeNet has the classes 0 to 9")
    return standardised("mnist", *parts)


def found(folder: Path, name: str) -> Path:
    """The file `name` in `folder`, with or without .gz."""
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder; it should hold {', '.join(MNIST)}, as they are or with .gz"
        )
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise DataError(f"{folder} has no {name} and no {name}.gz")


def downloaded(name: str) -> Path:
    """The file `name` in the cache; on first use fetched from the first mirror that has it."""
    import pooch  # slow to import, and needed once

    pooch.get_logger().setLevel("ERROR")
    folder, problems = (cache_root() or session_directory()) / "mnist", []
    for mirror in MIRRORS:
        try:
            return Path(
                pooch.retrieve(
                    f"{mirror}{name}.gz",
                    known_hash=f"sha256:{MNIST[name]}",
                    fname=f"{name}.gz",
                    path=folder,
                    downloader=pooch.HTTPDownloader(timeout=30),
                )
            )
        except (OSError, ValueError) as e:  # no network, no such file; another checksum
            cause = " ".join(str(e).split()).rpartition("Caused by ")[2]
            problems.append(f"  {mirror}: {cause[:120]}")
    raise DataError(
        "\n".join(
            [
                f"{name}.gz cannot be downloaded:",
                *problems,
                f"Fetch {', '.join(MNIST)} (.gz is fine) elsewhere, and give their folder with --data-dir.",
            ]
        )
    )


def read_idx(path: Path, axes: int) -> np.ndarray:
    """An IDX file of bytes with that many axes: 3 for images of 28 x 28, 1 for labels. Errors: DataError.

    The format: two zero bytes, 8 for bytes, the number of axes, the size of each axis (32 bits, big end
    first), the bytes. A .gz file is unpacked only as far as its header says.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            shape = read_header(path, file.read(4 + 4 * axes), axes)
            size = math.prod(shape)
            data = file.read(size + 1)
    except EOFError:
        raise DataError(f"{path} is truncated; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error) as e:
        raise DataError(f"{path} is not a gzip file, or damaged ({e}); fetch it again") from None
    except OSError as e:
        raise DataError(f"{path} cannot be read: {e.strerror or e}") from None
    if len(data) < size:
        raise DataError(f"{path} is truncated: it has {len(data)} of {size} bytes; fetch it again")
    if len(data) > size:
        raise DataError(
            f"{path} continues past the {shape[0]} items that its header announces; fetch it again"
        )
    return np.frombuffer(data, np.uint8).reshape(shape)


def read_header(path: Path, header: bytes, axes: int) -> tuple[int, ...]:
    """The shape announced by the first bytes of an IDX file. Errors: DataError."""
    kind = "images" if axes == 3 else "labels"
    if len(header) < 4 + 4 * axes:
        raise DataError(f"{path} is truncated: its header has {len(header)} of {4 + 4 * axes} bytes")
    expected = bytes((0, 0, 8, axes))
    if header[:4] != expected:
        raise DataError(
            f"{path} is not an IDX file of {kind}: it starts with {header[:4].hex(' ')}, not {expected.hex(' ')}"
        )
    shape = tuple(int.from_bytes(header[i : i + 4], "big") for i in range(4, len(header), 4))
    if axes == 3 and shape[1:] != (SIDE, SIDE):
        raise DataError(f"{path} has images of {shape[1]} x {shape[2]} pixels; LeNet takes {SIDE} x {SIDE}")
    if not 0 < shape[0] <= MOST_IMAGES:
        raise DataError(f"{path} announces {shape[0]:,} {kind}; it must be from 1 to {MOST_IMAGES:,}")
    return shape
