"""Who calls, what they may do, and what is kept of calls that were denied."""
