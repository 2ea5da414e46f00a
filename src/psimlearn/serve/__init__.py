"""Live rows: how they are read, and a server that answers them, keeps them and shows them."""
