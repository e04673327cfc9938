"""The answers, a module each that `kinspect.analysis.names` names, and what they are made of."""
