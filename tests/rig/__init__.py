"""The rig of the race, crash and repetition tests: clients, their histories, faults, and checkers that trust nobody.

`runner` starts many clients at once, `history` is what they wrote down, `faults` kills what the rig started, `checkers`
reads tables and histories afterwards, `databases` opens them without the product, `sabotage` takes single guards away
for control tests, `world` makes a lab to fight over.
"""
