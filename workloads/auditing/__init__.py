"""Audits a user's script in its own process. Torch is not imported before the script does."""
