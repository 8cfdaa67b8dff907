"""What people see: a line or more while a run goes on, tables in the end, comparisons in words."""
