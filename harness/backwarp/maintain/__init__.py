"""For maintainers: checks of a puzzle, scripts that regenerate committed results, benchmarks."""
