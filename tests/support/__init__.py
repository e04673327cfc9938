"""What several test packages share: captures built from a script, and the manifests of real ones."""
