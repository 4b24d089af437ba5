"""MariaDB: the SQL server in which every service keeps its state."""
