"""Users of other identity providers: Apache with its modules beside Keystone, and Shibboleth's daemon."""
