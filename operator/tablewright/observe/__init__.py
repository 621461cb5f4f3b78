"""What is there: catalogs, tables and Jobs, read and turned into values. Reads only."""
