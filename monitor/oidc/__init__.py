"""Login by OpenID Connect: the code flow with PKCE against one provider, and a role from its claims."""
