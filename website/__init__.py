"""What builds the documentation site out of `docs/`, the README and the package itself."""
