"""What every test may use."""

pytest_plugins = ["plugins.required_parts", "plugins.slurm_versions"]
