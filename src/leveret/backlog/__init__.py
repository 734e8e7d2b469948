"""The waiting messages of a queue: lanes, pages, deadlines, leases. The only package that changes a lane."""
