"""English as this site writes it: the day first, a clock of 24 hours with seconds, and its zone."""

DATE_FORMAT = "j M Y"
TIME_FORMAT = "H:i:s"
DATETIME_FORMAT = "j M Y, H:i:s e"
