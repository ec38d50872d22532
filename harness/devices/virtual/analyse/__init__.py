"""Facts about PTX. Nothing here changes it."""
