"""What a kernel costs: counts, times, and what the hardware could do."""
