"""Work behind the main screen: the list kept up to date, exchanges read again, exports."""
