"""Smallest relative difference that is an effect. It is the default in all questions."""

MIN_EFFECT = 0.03  # smaller differences can vanish with another driver
