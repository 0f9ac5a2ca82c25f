"""Requests and answers of the API, as pydantic models: one module per resource."""
