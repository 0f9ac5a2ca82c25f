"""What the API says and takes, as pydantic models: one module per resource."""
