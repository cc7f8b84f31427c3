"""The house rules of ARCHITECTURE.md, kept."""
