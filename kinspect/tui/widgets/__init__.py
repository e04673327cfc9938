"""What the explorer's screens are made of. Each draws only the lines that are to be seen, as `Text`: nothing that a
capture holds is read as markup, or reaches the terminal unescaped."""
