"""The smallest relative difference that counts as an effect; the default in every question."""

MIN_EFFECT = 0.03  # smaller steady differences do not survive a change of driver
