"""Widgets of the explorer's screens. Each draws only its visible lines, as `Text`: nothing from a capture is read as
markup, or reaches the terminal unescaped."""
