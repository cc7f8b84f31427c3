"""WHERE it runs: site profiles as dated data. A site is a TOML file, never an `if`."""
