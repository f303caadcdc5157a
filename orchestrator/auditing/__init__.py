"""An audit of the user's own script: the process that runs it, and what is written from its findings."""
