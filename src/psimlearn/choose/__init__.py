"""Which settings: split, try, race, train on everything, calibrate, summarise."""
