"""Tables that pipelines write and read: Delta and Iceberg through their Python packages, and PostgreSQL."""
