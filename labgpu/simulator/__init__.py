"""Plays scenarios to the unchanged agent, for tests and the demo: cards without a driver, processes without a kernel.

Nothing of the product imports it. It knows cards and processes only, no bookings and no verdicts, and every reading
that it causes says ``simulated``.
"""
