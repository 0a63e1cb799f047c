"""The arrays of an export: an npz whose members lie uncompressed, at offsets that are told.

NumPy reads the file by name. A program without a zip reader seeks to an array's offset and reads its values as they
are: little-endian, in C order, at a multiple of 64 bytes, so that a mapped file needs no copy either.
"""

import hashlib
import io
import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ALIGNMENT = 64
ALIGNING_FIELD = 0xD935  # the id that zip tools use for padding
LOCAL_HEADER = 30
DATE = (1980, 1, 1, 0, 0, 0)


@dataclass
class Archive:
    """Arrays by name; equal arrays share one name. `table` tells dtype, shape and offset once written."""

    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    table: dict[str, dict[str, Any]] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)

    def add(self, values: npt.NDArray[Any]) -> str:
        """The name under which the array is kept."""
        values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        digest = hashlib.sha256(f"{values.dtype} {values.shape} ".encode())
        digest.update(values.data)
        name = self._names.setdefault(digest.digest(), f"a{len(self._names)}")
        self.arrays.setdefault(name, values)
        return name

    def write(self, path: Path) -> None:
        """Write the npz; the same arrays give the same bytes."""
        with path.open("wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, values in self.arrays.items():
                self.table[name] = _member(archive, file.tell(), name, values)


def _member(
    archive: zipfile.ZipFile, start: int, name: str, values: npt.NDArray[Any]
) -> dict[str, Any]:
    """Write one array at `start` so that its values begin at a multiple of 64 bytes."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, values, version=(1, 0), allow_pickle=False)
    header = buffer.tell() - values.nbytes
    info = zipfile.ZipInfo(f"{name}.npy", DATE)
    before = start + LOCAL_HEADER + len(info.filename) + 4 + header
    padding = -before % ALIGNMENT
    info.extra = struct.pack("<HH", ALIGNING_FIELD, padding) + bytes(padding)
    archive.writestr(info, buffer.getvalue())
    return {
        "dtype": values.dtype.name,
        "shape": list(values.shape),
        "offset": before + padding,
    }
