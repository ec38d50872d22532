"""For those who change the course: checks of a puzzle, scripts that regenerate committed results, benchmarks."""
