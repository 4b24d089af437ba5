"""SecretAggregate: keys of several Secrets in one."""
