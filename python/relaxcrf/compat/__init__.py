"""Drop-in replacements of packages that no longer install: `pydensecrf` and `simplecrf`."""
