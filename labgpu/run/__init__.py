"""`python -m labgpu.run`: all parts of LabGPU as children of one supervisor, started and stopped together.

`plan` reads and checks the environment, `parts` says how each part is started, `supervisor` keeps them running,
`command` puts them together, `environment` makes the virtual environment that all of this runs in.
"""
