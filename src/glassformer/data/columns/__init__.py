"""Reads the columns of a table of series: times, numbers and calendars."""
