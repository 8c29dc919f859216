"""Writes the points of an HDF5 file to standard output as a .npy file.

    hdf5_to_npy.py FILE NAME

NAME is that of a table of numbers in the file. If it is empty, `train` is taken, as ann-benchmarks calls its
points, or else the only table of two dimensions. The program ends with 3 where Python has no h5py. It ends with
1 and a line on standard error if it cannot take the file. It is a program of its own because the HDF5 library
can crash on a damaged file.
"""

import os
import sys

MODULE_MISSING = 3

try:
    import h5py
    import numpy
except ImportError:
    sys.exit(MODULE_MISSING)


def main(path, wanted):
    with h5py.File(path, "r") as file:
        tables = {}

        def visit(name, item):
            if isinstance(item, h5py.Dataset) and item.ndim in (1, 2) and item.dtype.kind in "fiub":
                tables[name] = item

        file.visititems(visit)
        if not wanted:
            rectangular = [name for name, item in tables.items() if item.ndim == 2]
            wanted = "train" if "train" in tables else rectangular[0] if len(rectangular) == 1 else ""
        if wanted not in tables:
            names = ", ".join(sorted(tables)) or "none"
            sys.exit(f"no table '{wanted}'; the tables of numbers are: {names}" if wanted else
                     f"several tables of numbers or none: {names}; name one, as in FILE.hdf5#NAME")
        table = tables[wanted]
        kind = table.dtype.newbyteorder("<")
        shape = table.shape
        out = sys.stdout.buffer
        numpy.lib.format.write_array_header_1_0(
            out, {"descr": numpy.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape})
        if table.size * kind.itemsize > os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
            sys.exit(f"{wanted} has {table.size * kind.itemsize} bytes, more than the memory that is free")
        width = max(1, int(numpy.prod(shape[1:])) * kind.itemsize)
        rows = max(1, (64 << 20) // width)
        for first in range(0, shape[0], rows):
            out.write(numpy.ascontiguousarray(table[first:first + rows], dtype=kind).tobytes())
        out.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2])
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        sys.exit(" ".join(str(error).split()))
