"""The tool `http_json`."""
