"""Talk with the API server: requests, their errors, and the kinds it serves."""
