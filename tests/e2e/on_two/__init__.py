"""Two compute nodes, and who decides which of them a server is for."""
