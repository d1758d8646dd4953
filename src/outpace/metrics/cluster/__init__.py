"""What hosts are compared by: clocks, programs, workers, collectives."""
