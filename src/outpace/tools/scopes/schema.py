# SPDX-License-Identifier: Apache-2.0
"""Columns of the scope tables."""

from outpace.model import TableType

SCOPES = TableType("scopes", "Scopes").columns("""
    * id              | text     | side and full name of the scope; '/' separates levels | Scope
      parent          | text     | id of the scope around it; empty at the top
      scope           | text     | last part of the name | Last part
      keras           | text     | the Keras layer, model, optimizer or metric that opened the scope, by its own name, and its class; empty \
                                   where the capture did not note it | Keras layer
      source          | text     | the line that made it
      side            | text     | Host (threads) or Device (accelerators)
      depth           | count    | levels above it
      total_ps        | ps       | self time of all ops in the scope and the scopes below it
      fraction        | fraction | the same as a share of all op time of its side | Of ops
    + self_ps         | ps       | self time of the ops directly in it, and of scopes below the depth limit | Self
      occurrences     | count    | executions of ops in it and below | Count
      ops             | count    | distinct ops in it and below
      allocated_bytes | bytes    | bytes that its ops allocated in the capture, freed ones included; missing when none were \
                                   recorded | Allocated
""")

OPS = TableType("scope_ops", "Ops by scope").columns("""
    * scope           | text  | full name of the scope
    * side            | text  | Host or Device
    * type            | text  | type of op
    + occurrences     | count | executions in the capture | Count
    + self_ps         | ps    | self time of these ops | Self
    + allocated_bytes | bytes | bytes that these ops allocated in the capture; missing when none were recorded | Allocated
""")

LINES = TableType("lines", "Time by source line").columns("""
    * source      | text  | source line, or Python function with the line where it begins
    * what        | text  | ops of a device or of the CPU that were compiled from the line, or calls of the Python function
    + occurrences | count | executions in the capture | Count
      total_ps    | ps    | time in them, what they call included
    + self_ps     | ps    | time in themselves | Self
""")

LAYERS = TableType("layers", "Layers").columns("""
    * id          | text     | path of the layer in the model
      parent      | text     | path of the layer around it; empty for the model
      layer       | text     | name of the layer
      type        | text     | class of the layer
      depth       | count    | levels above it
      output      | text     | shape of its output
      parameters  | count    | all weights, those of inner layers included
      trainable   | count    | weights that training changes
      flops       | count    | floating-point operations of one example's forward pass, a multiply-add as two; missing where not \
                               known | FLOPs
      forward_ps  | ps       | self time of its forward ops in the capture; missing without a profile | Forward
      backward_ps | ps       | self time of its gradient ops in the capture; missing without a profile | Backward
      share       | fraction | forward and backward as a share of the layers' time; missing without a profile | Of layers
""")
