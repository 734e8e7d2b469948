"""Exchange types and bindings, and the walk from an exchange to queue names."""
