# SPDX-License-Identifier: Apache-2.0
"""Tables that pages show; no other metric is computed from them."""
