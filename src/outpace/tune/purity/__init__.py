# SPDX-License-Identifier: Apache-2.0
"""Why what a pipeline gives may be kept, for later epochs or in another place: whether it is the
same whenever its input is.

`evidence` asks that of a stage, `traced` of its traced function; the Python functions behind it
`evidence` runs twice.
"""
