"""The store on PostgreSQL: extra `artelier[postgres]`."""
