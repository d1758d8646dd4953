# SPDX-License-Identifier: Apache-2.0
"""Names of TensorFlow's data types, as XProf prints them.

Sources: tensorflow/core/framework/types.proto (the enum), xprof/utils/tensorflow_utils.cc (the
names).
"""

from __future__ import annotations

_NAMES = (  # in the order of the enum, from 0
    "",  # no data type was recorded; XProf prints INVALID
    "float",
    "double",
    "int32",
    "uint8",
    "int16",
    "int8",
    "string",
    "complex64",
    "int64",
    "bool",
    "qint8",
    "quint8",
    "qint32",
    "bfloat16",
    "qint16",
    "quint16",
    "uint16",
    "complex128",
    "half",
    "resource",
    "variant",
    "uint32",
    "uint64",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2fnuz",
    "int4",
    "uint4",
)
_REF = 100  # offset of the obsolete reference types from the type that they refer to


def data_type_name(number: int) -> str:
    """Return the name of a value of the enum `DataType`; a value without a name is shown as its
    number.

    >>> data_type_name(1)
    'float'
    """
    if _REF < number < _REF + len(_NAMES):
        return f"{_NAMES[number - _REF]}_ref"
    return _NAMES[number] if 0 <= number < len(_NAMES) else f"unknown dtype enum ({number})"
