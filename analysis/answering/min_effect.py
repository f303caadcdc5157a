"""The smallest relative difference that counts where a user names no other: the default of every question."""

MIN_EFFECT = 0.03  # smaller steady differences do not survive a change of driver
