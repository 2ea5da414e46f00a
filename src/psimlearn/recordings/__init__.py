"""What came in: recordings in any form, checked once, and all arithmetic on their time."""
