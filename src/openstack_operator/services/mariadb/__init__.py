"""MariaDB: the SQL server every service keeps its state in."""
