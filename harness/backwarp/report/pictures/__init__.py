"""Pictures drawn from real runs, one module per kind; `kinds` lists them."""
