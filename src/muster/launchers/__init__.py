"""How tasks start inside an allocation: one short file per launcher. Runs nothing."""
