"""Programs in Keystone's pods."""
