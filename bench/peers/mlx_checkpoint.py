"""Reads the tensors of an MLX checkpoint without MLX: mapped, so that a tensor may be larger than memory."""

import json
import mmap
import pathlib
from dataclasses import dataclass

import numpy

DTYPES = {"U32": numpy.uint32, "F32": numpy.float32, "F16": numpy.float16, "BF16": numpy.uint16}


@dataclass
class Tensor:
    dtype: str
    array: numpy.ndarray  # bf16 as its 16 bits

    def floats(self) -> numpy.ndarray:
        """The values as float32, exactly."""
        if self.dtype == "BF16":
            return (self.array.astype(numpy.uint32) << 16).view(numpy.float32)
        return self.array.astype(numpy.float32)


class Checkpoint:
    def __init__(self, directory: pathlib.Path):
        self.config = json.loads((directory / "config.json").read_text())
        self._tensors: dict[str, Tensor] = {}
        for path in sorted(directory.glob("*.safetensors")):
            self._open(path)

    def _open(self, path: pathlib.Path) -> None:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header_bytes = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8 : 8 + header_bytes]).items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            dtype = numpy.dtype(DTYPES[entry["dtype"]])
            array = numpy.frombuffer(data, dtype, (end - begin) // dtype.itemsize, 8 + header_bytes + begin)
            self._tensors[name] = Tensor(entry["dtype"], array.reshape(entry["shape"]))

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __contains__(self, name: str) -> bool:
        return name in self._tensors
