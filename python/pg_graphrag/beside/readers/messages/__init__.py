"""Messages, dates and addresses: e-mail, iCalendar, vCard; and subtitles."""
