"""Coverage-guided fuzzing: `targets` says what may never happen, whatever the bytes; CONTRIBUTING.md how to run it."""
