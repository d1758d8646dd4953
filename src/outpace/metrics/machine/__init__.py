"""What the machine gives: cores and how busy they are, devices, their kinds of time, and copies to them."""
