# SPDX-License-Identifier: Apache-2.0
"""Where profiles are stored: log directories in TensorBoard's layout, local or remote, and the
capture records next to the profiles.

Import from the modules (`outpace.store.logdir`, `outpace.store.record`): the package itself imports
nothing, because the record is also written inside the user's training process, which must stay as
it was.
"""
