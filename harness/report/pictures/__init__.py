"""Pictures drawn from real runs, a module a kind."""
