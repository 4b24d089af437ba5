"""Programs that back up and restore a cloud: they run in jobs, in the image of MariaDB."""
