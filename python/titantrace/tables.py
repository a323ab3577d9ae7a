"""The records of a run as tables, in Parquet, Arrow, SQLite or JSON Lines: a table for each kind of record, with the
fields that `titan-analyze fields` describes."""
import io
import itertools
import json
import os
import re
import sqlite3
from typing import IO, Any, Dict, Iterator, List, NamedTuple, Tuple, Type

from . import private_file
from .analyzer import Analyzer, Row, Unusable, package

_ROWS_AT_ONCE = 50_000
_LARGEST_INTEGER = 2**63 - 1
_MAY_BE_TOO_LARGE = re.compile(r"9[2-9]\d{17}|\d{20}")
_TORCH_CALLS = "torch_calls"  # listed among the calls, as `show` does
_ONLY_IN_TORCH_CALLS = "time_created_ns"


class Table(NamedTuple):
    """A kind of record."""
    name: str
    option: str        # of titan-analyze show
    fields: List[Row]  # key, type, unit, meaning


def tables_of(fields: List[Row]) -> List[Table]:
    """The table of fields, by kind of record."""
    tables: Dict[str, Table] = {}
    for field in fields:
        tables.setdefault(field["table"], Table(field["table"], field["option"], [])).fields.append(field)
    return list(tables.values())


def _batches(lines: Iterator[str]) -> Iterator[List[str]]:
    while True:
        batch = list(itertools.islice(lines, _ROWS_AT_ONCE))
        if not batch:
            return
        yield batch


def _is_real(field: Row) -> bool:
    """Readings and metrics; every other number is an integer."""
    return bool(field["type"].startswith("real"))


def _cell(field: Row, value: Any) -> Any:
    kind = field["type"]
    if _is_real(field):
        return float(value)  # "NaN", "Infinity"
    if kind.startswith("list"):
        return json.dumps(value)
    if kind.startswith("number") and not -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
        return None  # of a damaged record
    return value


class _Rows:
    """Rows of a table, with a value for each field."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._keys = [field["key"] for field in table.fields]
        # Most values are stored as they are.
        self._special = [(place, field) for place, field in enumerate(table.fields)
                         if _is_real(field) or field["type"].startswith("list")]

    def of(self, lines: List[str]) -> Iterator[List[Any]]:
        """The rows in these lines. Whole numbers that fit in no 64 bits are None."""
        every = list(enumerate(self._table.fields))
        for line in lines:
            row = json.loads(line)
            cells = list(map(row.get, self._keys))
            for place, field in every if _MAY_BE_TOO_LARGE.search(line) else self._special:
                if cells[place] is not None:
                    cells[place] = _cell(field, cells[place])
            yield cells


class _Sink:
    """The destination of tables."""

    def __init__(self, place: str) -> None:
        self.place = place

    def write(self, table: Table, batches: Iterator[List[str]]) -> int:
        """Returns how many rows were written; a table without any is left out."""
        raise NotImplementedError

    def finish(self) -> None:
        """What is left to do when all tables are written."""


class _JsonLines(_Sink):
    """DIR/calls.jsonl and so on, as titan-analyze lists them."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        os.makedirs(directory, exist_ok=True)

    def write(self, table: Table, batches: Iterator[List[str]]) -> int:
        count = 0
        file = None
        for batch in batches:
            if file is None:
                file = os.fdopen(private_file.create(os.path.join(self.place, f"{table.name}.jsonl")), "w",
                                 encoding="utf-8")
            file.writelines(batch)
            count += len(batch)
        if file is not None:
            file.close()
        return count


class _Arrow(_Sink):
    """DIR/calls.arrow and so on: Arrow's IPC files, compressed by zstd; units and meanings are the fields' metadata."""

    suffix = "arrow"

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self._arrow = package("pyarrow", "pyarrow")
        self._json = package("pyarrow.json", "pyarrow")
        os.makedirs(directory, exist_ok=True)

    def _writer(self, file: IO[bytes], schema: Any) -> Any:
        options = self._arrow.ipc.IpcWriteOptions(compression="zstd")
        return self._arrow.ipc.new_file(file, schema, options=options)

    def _schema(self, table: Table) -> Any:
        arrow = self._arrow
        types = {"boolean": arrow.bool_(), "number": arrow.int64()}
        return arrow.schema([
            arrow.field(field["key"], arrow.float64() if _is_real(field) else
                        types.get(field["type"].split()[0], arrow.string()),
                        metadata={"unit": field["unit"], "meaning": field["meaning"]}) for field in table.fields])

    def write(self, table: Table, batches: Iterator[List[str]]) -> int:
        count, writer, file = 0, None, None
        schema = self._schema(table)
        for batch in batches:
            if writer is None:
                file = os.fdopen(private_file.create(os.path.join(self.place, f"{table.name}.{self.suffix}")), "wb")
                writer = self._writer(file, schema)
            writer.write_table(self._table_of(table, schema, batch))
            count += len(batch)
        if writer is not None and file is not None:
            writer.close()
            file.close()
        return count

    def _table_of(self, table: Table, schema: Any, batch: List[str]) -> Any:
        if not any(_is_real(field) for field in table.fields):
            options = self._json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            try:  # several times as fast, but it takes neither lists for texts nor numbers of more than 64 bits
                read = self._json.read_json(io.BytesIO("".join(batch).encode()), parse_options=options)
                return read.select(schema.names).cast(schema)
            except self._arrow.ArrowInvalid:
                pass
        rows = list(_Rows(table).of(batch))
        return self._arrow.table([self._arrow.array([row[place] for row in rows], field.type)
                                  for place, field in enumerate(schema)], schema=schema)


class _Parquet(_Arrow):
    """Likewise DIR/calls.parquet and so on."""

    suffix = "parquet"

    def _writer(self, file: IO[bytes], schema: Any) -> Any:
        return package("pyarrow.parquet", "pyarrow").ParquetWriter(file, schema, compression="zstd")


class _Sqlite(_Sink):
    """Tables calls and so on in one file, and a table `fields` that says what they mean."""

    _TYPES = {"boolean": "INTEGER", "number": "INTEGER"}

    def __init__(self, path: str) -> None:
        super().__init__(path)
        os.close(private_file.create(path))
        self._base = sqlite3.connect(path)
        self._base.execute("PRAGMA journal_mode = OFF")  # a file that was not finished is of no use
        self._base.execute("PRAGMA synchronous = OFF")
        self._base.execute('CREATE TABLE fields ("table" TEXT, "key" TEXT, type TEXT, unit TEXT, meaning TEXT)')

    def write(self, table: Table, batches: Iterator[List[str]]) -> int:
        count = 0
        columns = ", ".join(f'"{field["key"]}" {self._type(field)}' for field in table.fields)
        places = ", ".join("?" for _ in table.fields)
        for batch in batches:
            if count == 0:
                self._base.execute(f'CREATE TABLE "{table.name}" ({columns})')
                self._base.executemany("INSERT INTO fields VALUES (?, ?, ?, ?, ?)",
                                       [(table.name, field["key"], field["type"], field["unit"], field["meaning"])
                                        for field in table.fields])
            self._base.executemany(f'INSERT INTO "{table.name}" VALUES ({places})', _Rows(table).of(batch))
            count += len(batch)
        return count

    def _type(self, field: Row) -> str:
        return "REAL" if _is_real(field) else self._TYPES.get(field["type"].split()[0], "TEXT")

    def finish(self) -> None:
        self._base.commit()
        self._base.close()


class _Calls:
    """What `show` lists without an option: calls as we record them, and those of PyTorch's files."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._has_torch_calls = True

    def lines(self, table: Table) -> Iterator[str]:
        """The rows of one of the two tables; our calls come first."""
        is_of_torch = table.name == _TORCH_CALLS
        if is_of_torch and not self._has_torch_calls:
            return
        self._has_torch_calls = False
        for line in self._analyzer.lines("show"):
            found = f'"{_ONLY_IN_TORCH_CALLS}":' in line
            self._has_torch_calls = self._has_torch_calls or found
            if found == is_of_torch:
                yield line


FORMATS: Dict[str, Type[_Sink]] = {"parquet": _Parquet, "arrow": _Arrow, "sqlite": _Sqlite, "jsonl": _JsonLines}


def write_tables(analyzer: Analyzer, format_name: str, place: str) -> List[Tuple[str, int]]:
    """Writes all records of the run. Returns the tables that have some, and how many."""
    written = []
    try:
        sink = FORMATS[format_name](place)
        calls = _Calls(analyzer)
        for table in tables_of(analyzer.fields()):
            lines = analyzer.lines("show", table.option) if table.option else calls.lines(table)
            count = sink.write(table, _batches(lines))
            if count != 0:
                written.append((table.name, count))
        sink.finish()
    except FileExistsError as error:
        raise Unusable(f"{error.filename} exists already: nothing is overwritten") from error
    except (OSError, sqlite3.Error) as error:
        raise Unusable(f"{place}: {error}") from error
    return written
