"""Keeping the choice that a search made: which plans are to be banned, found by processes that search and log."""
