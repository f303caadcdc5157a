"""The audit inside the process of a user's script. Nothing here imports torch before the script does."""
