"""One file in every build and order, weighed: a Verdict. Nothing here prints."""
