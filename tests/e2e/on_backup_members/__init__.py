"""A MariaDB of three members whose changes are archived while members come and go."""
