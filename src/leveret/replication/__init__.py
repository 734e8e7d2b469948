"""The replicated log of a cell: records, leader epochs, the window of appends, and which records count."""
