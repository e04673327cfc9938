"""The live view: how a live capture goes on, on the whole terminal. Rich draws it; there is no Textual in it."""
