"""CredentialRotation: has credentials of services replaced."""
