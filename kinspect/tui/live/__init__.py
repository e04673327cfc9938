"""The live view: the state of a live capture, on the whole terminal. Rich draws it; there is no Textual in it."""
