"""One short file per verb. Words, colours and exit statuses live only here."""
