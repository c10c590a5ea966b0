"""What keeps LabGPU from starting, said to the person who started it."""


class Trouble(Exception):
    """One sentence that names the trouble and says what to do. Printed without a traceback; the exit code is 2."""
