"""What people write into the columns of a table of series: times, numbers, and the days that the rows are at."""
