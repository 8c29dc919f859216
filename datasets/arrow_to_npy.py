"""Writes the points of a Parquet or Arrow file to standard output as a .npy file.

    arrow_to_npy.py FILE COLUMNS

A row of the file is a point. Its features are the numbers of the named columns, `a,b,c`, or of all of them if no
name is given; a column of lists, all of one length, gives as many features. Nothing is left out in silence: a
column of anything else and a missing value are refused. The program ends with 3 where Python has no pyarrow, and
with 1 and a line on standard error if it cannot take the file.
"""

import os
import sys

MODULE_MISSING = 3

try:
    import numpy
    import pyarrow
    from pyarrow import ipc, parquet, types
except ImportError:
    sys.exit(MODULE_MISSING)


def open_file(path):
    """Schema, number of rows, and what gives the batches of some columns."""
    if path.lower().endswith(".parquet"):
        file = parquet.ParquetFile(path)
        return file.schema_arrow, file.metadata.num_rows, lambda names: file.iter_batches(columns=names)
    source = pyarrow.memory_map(path)
    try:
        reader = ipc.open_file(source)  # Feather files are of this kind
    except pyarrow.ArrowInvalid:
        source.seek(0)
        reader = ipc.open_stream(source)
    table = reader.read_all()
    return table.schema, table.num_rows, lambda names: table.select(names).to_batches()


def is_list(kind):
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def element_type(name, kind):
    """The type of a column's numbers, as NumPy has it."""
    element = kind.value_type if is_list(kind) else kind
    if not (types.is_integer(element) or types.is_floating(element) or types.is_boolean(element)):
        sys.exit(f"column '{name}' holds {kind} and no numbers; name those that do, as in FILE.parquet#a,b")
    return numpy.dtype(element.to_pandas_dtype())


def block(name, column, kind):
    """[rows, features] of a batch's column."""
    rows, values, width = len(column), column, 1
    if is_list(column.type) and column.null_count == 0:
        if types.is_fixed_size_list(column.type):
            width = column.type.list_size
        else:
            lengths = numpy.diff(column.offsets.to_numpy())
            width = int(lengths[0]) if rows else 0
            if (lengths != width).any():
                sys.exit(f"column '{name}' has lists of {lengths.min()} to {lengths.max()} numbers")
        values = column.flatten()
    if column.null_count + values.null_count > 0:
        sys.exit(f"column '{name}': a value is missing")
    numbers = values.to_numpy(zero_copy_only=False)
    converted = numbers.astype(kind)
    if numbers.dtype != kind and numbers.dtype.kind in "iu":
        with numpy.errstate(invalid="ignore"):
            if (converted.astype(numbers.dtype) != numbers).any():
                sys.exit(f"column '{name}' has whole numbers that {kind} does not hold exactly")
    return converted.reshape(rows, width)


def main(path, wanted):
    schema, n, batches_of = open_file(path)
    names = wanted.split(",") if wanted else list(schema.names)
    for name in names:
        found = schema.names.count(name)
        if found != 1:
            sys.exit(f"{found or 'no'} columns '{name}' among: {', '.join(schema.names)}")
    if not names or n == 0:
        sys.exit("no rows" if names else "no columns")
    kind = numpy.result_type(*[element_type(name, schema.field(name).type) for name in names])
    out, d = sys.stdout.buffer, None
    for batch in batches_of(names):
        if batch.num_rows == 0:
            continue
        rows = numpy.hstack([block(name, batch.column(name), kind) for name in names])
        if d is None:
            d = rows.shape[1]
            size = n * d * kind.itemsize
            if size > os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
                sys.exit(f"the points have {size} bytes, more than the memory that is free")
            numpy.lib.format.write_array_header_1_0(
                out, {"descr": numpy.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (n, d)})
        if rows.shape[1] != d:
            sys.exit(f"rows of {d} and of {rows.shape[1]} numbers")
        out.write(rows.tobytes())
    out.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2])
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, NotImplementedError) as error:
        sys.exit(" ".join(str(error).split()))
