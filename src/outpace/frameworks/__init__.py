# SPDX-License-Identifier: Apache-2.0
"""The private names of TensorFlow, Keras and JAX that Outpace uses, each in one place, and which of
them an installed version lacks.

Training processes import this early: standard library only, and nothing of a framework is imported.
"""
