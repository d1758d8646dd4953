# SPDX-License-Identifier: Apache-2.0
"""A Keras training that is about to begin: what edits of it are drawn from."""
