"""The files of the older format, read strictly."""
