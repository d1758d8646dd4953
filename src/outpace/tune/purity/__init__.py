"""Why what a pipeline gives may be kept, for later epochs or in another place: whether it is the same whenever its input is.

From the outside in: `stages` asks that of a stage, `traced` of its traced function, `reading` of a Python function behind it (`body`, `site`,
`values`, `text` and `sources` are what it reads with), and `evidence` runs what the code showed nothing against twice.
"""
