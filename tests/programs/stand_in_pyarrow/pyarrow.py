"""No pyarrow: it reads files that test_arrow.py has pickled, by the calls that datasets/arrow_to_npy.py makes of
the real one. It shows what that program does with what it is given, and not that pyarrow gives it so."""

import pickle
from types import SimpleNamespace

import numpy


class ArrowInvalid(ValueError):
    pass


class Type:
    """Numbers of a NumPy type, or lists of them: of `size`, or of any length if it is None."""

    def __init__(self, element, form="scalar", size=None):
        self.element, self.form, self.list_size = element, form, size

    @property
    def value_type(self):
        return Type(self.element)

    def to_pandas_dtype(self):
        return numpy.dtype(self.element).type

    def __str__(self):
        return self.element if self.form == "scalar" else f"list<{self.element}>"


class Array:
    def __init__(self, kind, values):
        self.type, self.values = kind, values
        self.null_count = sum(value is None for value in values)

    def __len__(self):
        return len(self.values)

    @property
    def offsets(self):
        return Array(Type("int32"), [0, *numpy.cumsum([len(value) for value in self.values])])

    def flatten(self):
        return Array(self.type.value_type, [number for value in self.values for number in value])

    def to_numpy(self, zero_copy_only=True):
        assert not zero_copy_only or self.type.element != "bool", "booleans are bits"
        return numpy.array(self.values, dtype=self.type.element)


class Batch:
    def __init__(self, columns, rows):
        self.columns = {name: Array(kind, values[rows]) for name, (kind, values) in columns.items()}
        self.num_rows = len(next(iter(self.columns.values())))

    def column(self, name):
        return self.columns[name]


class Table:
    def __init__(self, columns):
        self.columns = {name: (Type(*kind), values) for name, (kind, values) in columns.items()}
        self.num_rows = max((len(values) for _, values in self.columns.values()), default=0)
        self.schema = SimpleNamespace(
            names=list(columns), field=lambda name: SimpleNamespace(type=self.columns[name][0]))

    def select(self, names):
        return SimpleNamespace(to_batches=lambda: self.batches(names))

    def batches(self, names):
        """An empty one, and then of a hundred rows each."""
        for rows in (slice(0, 0), *(slice(first, first + 100) for first in range(0, self.num_rows, 100))):
            yield Batch({name: self.columns[name] for name in names}, rows)


def load(source, form):
    try:
        stored = pickle.load(source)
    except pickle.UnpicklingError as error:
        raise ArrowInvalid("no file of test_arrow.py") from error
    if stored["form"] != form:
        raise ArrowInvalid(f"no {form}")
    return Table(stored["columns"])


class ParquetFile:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.table = load(file, "parquet")
        self.schema_arrow = self.table.schema
        self.metadata = SimpleNamespace(num_rows=self.table.num_rows)

    def iter_batches(self, columns):
        return self.table.batches(columns)


def memory_map(path):
    return open(path, "rb")


def reader(form):
    def opened(source):
        table = load(source, form)
        return SimpleNamespace(read_all=lambda: table)
    return opened


parquet = SimpleNamespace(ParquetFile=ParquetFile)
ipc = SimpleNamespace(open_file=reader("file"), open_stream=reader("stream"))
types = SimpleNamespace(
    is_list=lambda kind: kind.form == "list", is_large_list=lambda kind: False,
    is_fixed_size_list=lambda kind: kind.form == "fixed",
    is_integer=lambda kind: kind.form == "scalar" and "int" in kind.element,
    is_floating=lambda kind: kind.form == "scalar" and "float" in kind.element,
    is_boolean=lambda kind: kind.form == "scalar" and kind.element == "bool")
