# SPDX-License-Identifier: Apache-2.0
"""`Table`: named NumPy columns with units and meanings, which implement the Arrow protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace.model.arrays import Column, Indices
from outpace.model.units import Unit

_ABBREVIATIONS = {word.lower(): word for word in ("CPU", "FLOPs", "GPU", "HLO", "ID", "JAX", "SM", "TF", "TPU", "XLA")}
Row = dict[str, Any]
"""Values of a row of a table, by column name."""


@dataclass(frozen=True)
class Field:
    """Description of one column.

    name, unit: of the column.
    meaning: what a number in it means, one sentence.
    title: heading, where it is not the name.
    key: whether the column, together with the table's other key columns, identifies a row.
    additive: whether the sum over any rows of one run is the value of all of them together, because
        nothing counts in two rows; a fraction adds up within its whole.
    apart: whether a true value marks a row that is not one of the listed things, such as idle time
        among ops; such rows are last in every order.
    """

    name: str
    unit: Unit
    meaning: str
    title: str = ""
    key: bool = field(default=False, kw_only=True)
    additive: bool = field(default=False, kw_only=True)
    apart: bool = field(default=False, kw_only=True)

    @property
    def label(self) -> str:
        """Heading for people: the title, or the name in sentence case with the usual spelling of
        abbreviations.
        """
        words = [_ABBREVIATIONS.get(word, word) for word in self.name.removesuffix("_ps").split("_")]
        return self.title or " ".join((words[0][:1].upper() + words[0][1:], *words[1:]))


def parse_schema(text: str, *shared: Field) -> tuple[Field, ...]:
    """Return the fields that a text describes, one per line: `name | unit | meaning`, with
    `| title` where the heading is not the name.

    A mark before the name sets a property: `*` key, `+` additive, `-` apart. A line that is only a
    name, with a mark or not, stands for the field of that name in `shared`, and `...` for all of
    them. Raises ValueError for an unknown unit, KeyError for a name that is not in `shared`.

    >>> parse_schema("* op | text | name of the op")[0].key
    True
    """
    by_name = {spec.name: spec for spec in shared}
    fields: list[Field] = []
    for line in text.strip().splitlines():
        marked, *rest = [" ".join(cell.split()) for cell in line.split("|")]
        name, mark = marked.lstrip("*+- "), marked[0]
        if rest:
            fields.append(Field(name, Unit(rest[0]), *rest[1:], key=mark == "*", additive=mark == "+", apart=mark == "-"))
            continue
        for spec in shared if name == "..." else (by_name[name],):
            key, additive, apart = spec.key or mark == "*", spec.additive or mark == "+", spec.apart or mark == "-"
            fields.append(replace(spec, key=key, additive=additive, apart=apart) if mark in "*+-" else spec)
    return tuple(fields)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of one kind, stored as columns.

    name, title: of the table.
    fields: `fields[i]` describes `columns[i]`.
    columns: one-dimensional arrays of equal length. Text columns are object arrays of `str`;
        missing values are NaN in float columns and None in object columns.

    Raises ValueError where the lengths differ.
    """

    name: str
    title: str
    fields: tuple[Field, ...]
    columns: tuple[Column, ...] = field(repr=False)
    _places: dict[str, dict[Any, Indices]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.fields) != len(self.columns):
            raise ValueError(f"table {self.name}: {len(self.fields)} fields but {len(self.columns)} columns")
        if len({len(c) for c in self.columns}) > 1:
            raise ValueError(f"table {self.name}: columns differ in length")

    @classmethod
    def build(cls, name: str, title: str, fields: Sequence[Field], data: Mapping[str, Any]) -> Table:
        """Return a table from a mapping of column name to values. Raises ValueError unless its keys
        are the names of the fields.
        """
        if set(data) != {f.name for f in fields}:
            raise ValueError(f"table {name}: columns {sorted(set(data) ^ {f.name for f in fields})} do not match")
        return cls(name, title, tuple(fields), tuple(_as_column(data[f.name], f.unit) for f in fields))

    @classmethod
    def from_rows(cls, name: str, title: str, fields: Sequence[Field], rows: Sequence[Sequence[Any]]) -> Table:
        """Return a table from rows whose values are in the order of the fields. Tools of other
        distributions call this; Outpace names the values of a row (`TableType.row`).
        """
        columns = list(zip(*rows, strict=True)) if rows else [() for _ in fields]
        return cls.build(name, title, fields, {f.name: list(c) for f, c in zip(fields, columns, strict=True)})

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def __getitem__(self, name: str) -> Column:
        for spec, column in zip(self.fields, self.columns, strict=True):
            if spec.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name!r}")

    def __contains__(self, name: object) -> bool:
        return any(f.name == name for f in self.fields)

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the columns that together identify a row; empty where only its position does, as
        in a log of events.
        """
        return tuple(f.name for f in self.fields if f.key)

    def field(self, name: str) -> Field:
        """Return the description of column `name`. Raises KeyError for an unknown one."""
        for spec in self.fields:
            if spec.name == name:
                return spec
        raise KeyError(f"table {self.name} has no column {name!r}")

    def take(self, rows: Any) -> Table:
        """Return the table with only `rows` (indices, slice or boolean mask), in that order."""
        return Table(self.name, self.title, self.fields, tuple(c[rows] for c in self.columns))

    def filter_by(self, column: str, *values: object) -> Table:
        """Return the rows in which `column` has one of the values. The rows of every value are
        cached on the first call.
        """
        if column not in self._places:
            places: dict[Any, list[int]] = {}
            for row, cell in enumerate(self[column].tolist()):
                places.setdefault(cell, []).append(row)
            self._places[column] = {cell: np.array(rows, np.int64) for cell, rows in places.items()}
        rows = [self._places[column][value] for value in dict.fromkeys(values) if value in self._places[column]]
        if sum(map(len, rows)) == len(self):
            return self
        return self.take(np.sort(np.concatenate([np.zeros(0, np.int64), *rows])))

    def sort_by(self, name: str, *, descending: bool = True) -> Table:
        """Return the table sorted by column `name`, of any type. Ties keep their order, missing
        values are last, and rows that are set apart (`Field.apart`) follow all others.
        """
        order = _order(self[name], descending)
        for spec, column in zip(self.fields, self.columns, strict=True):
            if spec.apart:
                order = order[np.argsort(column[order].astype(bool), kind="stable")]
        return self.take(order)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield rows as tuples of plain Python values; missing floats are None."""
        return zip(*(_plain(c) for c in self.columns), strict=True)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield rows as dictionaries of plain Python values."""
        names = [f.name for f in self.fields]
        return (dict(zip(names, row, strict=True)) for row in self.rows())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return an Arrow PyCapsule stream, which Polars, pandas 3, DuckDB and pyarrow read."""
        from outpace.model.arrow import build_arrow_stream

        return build_arrow_stream(self, requested_schema)


@dataclass(frozen=True)
class TableType:
    """What all tables of one name share.

    name, title: of the tables.
    schema: descriptions of the columns, in their order, or a text that describes them (see
        `parse_schema`), which is parsed when the first table is built.
    shared: descriptions that several table types share; the text refers to them by name.
    """

    name: str
    title: str
    schema: str | tuple[Field, ...] = ()
    shared: tuple[Field, ...] | TableType = field(default=(), kw_only=True)

    @once
    def fields(self) -> tuple[Field, ...]:
        """Descriptions of the columns, in their order."""
        if not isinstance(self.schema, str):
            return self.schema
        return parse_schema(self.schema, *(self.shared.fields if isinstance(self.shared, TableType) else self.shared))

    @once
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(f.name for f in self.fields)

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the columns that together identify a row."""
        return tuple(f.name for f in self.fields if f.key)

    def columns(self, schema: str) -> TableType:
        """Return the type with the columns that a text describes."""
        return TableType(self.name, self.title, schema, shared=self.shared)

    def row(self, record: object = None, /, **values: Any) -> Row:
        """Return a row from values by column name. A column that is not named has the value that
        `record` has under its name, as an item or as an attribute.

        >>> TableType("ops", "Ops").columns("op | text | its name").row({"op": "add", "time": 1})
        {'op': 'add'}
        """
        if record is not None:
            read = record.__getitem__ if isinstance(record, Mapping) else partial(getattr, record)
            values.update({name: read(name) for name in self.names if name not in values})
        return values

    def build(self, rows: Iterable[Mapping[str, Any]]) -> Table:
        """Return a table from rows by column name. Raises ValueError unless the names of each are
        those of the columns.
        """
        names, rows = set(self.names), list(rows)
        for row in rows:
            if row.keys() != names:
                raise ValueError(f"table {self.name}: the columns {sorted(row.keys() ^ names)} do not match")
        return self.from_columns({name: [row[name] for row in rows] for name in names})

    def from_columns(self, *parts: Mapping[str, Any]) -> Table:
        """Return a table from columns by name; the columns of several parts are joined. Raises
        ValueError like `Table.build`.
        """
        names = self.names
        data = parts[0] if len(parts) == 1 else {n: np.concatenate([p[n] for p in parts]) if parts else () for n in names}
        return Table.build(self.name, self.title, self.fields, data)

    def sum_rows(self, rows: Iterable[Row]) -> list[Row]:
        """Return one row for all rows that have the same key; its other columns are the sums of
        theirs.
        """
        key = self.key
        sums: dict[tuple[Any, ...], Row] = {}
        for row in rows:
            row_key = tuple(row[name] for name in key)
            if (total := sums.setdefault(row_key, row)) is not row:
                total.update({name: total[name] + row[name] for name in total if name not in key})
        return list(sums.values())


def _as_column(values: Any, unit: Unit) -> Column:
    if unit is Unit.TEXT:
        column = np.empty(len(values), dtype=object)
        column[:] = list(values)
        return column
    return np.asarray(values)


def _order(column: Column, descending: bool) -> Indices:
    """Return the indices that sort a column; missing values are last. Only floats are negated for
    the descending order: unsigned integers would wrap, booleans and texts have no negative.
    """
    if column.dtype.kind == "O":
        values = column.tolist()
        indices = sorted((i for i, v in enumerate(values) if v is not None), key=values.__getitem__, reverse=descending)
        return np.array([*indices, *(i for i, v in enumerate(values) if v is None)], np.int64)
    if column.dtype.kind == "f":
        return np.argsort(-column if descending else column, kind="stable")
    if not descending:
        return np.argsort(column, kind="stable")
    return len(column) - 1 - np.argsort(column[::-1], kind="stable")[::-1]


def _plain(column: Column) -> list[Any]:
    values = column.tolist()
    if column.dtype.kind == "f":
        return [None if v != v else v for v in values]  # NaN is the one value that differs from itself
    return list(values)
