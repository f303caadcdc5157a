"""Audits of a user's script, traces of a user's model, and the suites written from both."""
