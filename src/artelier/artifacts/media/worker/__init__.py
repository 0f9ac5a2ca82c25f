"""The helper process that opens PDFs."""
