"""A cloud that lets in users of another identity provider."""
