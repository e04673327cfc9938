"""The answers, a module each that `kinspect.analysis.answernames` names, and what they are made of."""
