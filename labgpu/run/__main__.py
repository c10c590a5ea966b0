"""The entry of `python -m labgpu.run`. Kept so plain that an old Python reaches the sentence and not a syntax error."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (this very line is for the others)
    sys.exit("labgpu: this is Python {}.{}, LabGPU needs 3.11 or newer: install it and start again.".format(*sys.version_info))

from labgpu.run.command import main

sys.exit(main())
