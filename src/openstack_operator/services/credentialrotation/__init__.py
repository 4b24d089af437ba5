"""CredentialRotation: orders services to replace credentials."""
