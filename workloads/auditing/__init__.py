"""What watches a user's own script from inside its process. Nothing here imports torch before the script does."""
