"""Pictures drawn from real runs, one module per kind; `kinds` is the table of them."""
