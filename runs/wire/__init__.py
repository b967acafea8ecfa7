"""What travels between a trial's attendant and its sandbox. Standard library only: both sides run this code."""
