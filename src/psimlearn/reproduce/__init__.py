"""The paper's experiments, from a TOML file each to results, tables and figures: `psimlearn reproduce`."""
