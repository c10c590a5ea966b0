"""The sensor's eye on a GPU host: reads the cards, decides nothing.

Standard library and nvidia-ml-py only, Python 3.9 or newer. ``reading`` is the contract with the server, ``nvml`` and
``procfs`` are the two edges, ``reader`` is the long-lived child that looks, ``supervisor`` asks it with a deadline.
"""
