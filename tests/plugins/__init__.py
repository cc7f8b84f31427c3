"""What pytest is taught here."""
